#include "storage/redis/redis_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct redis_settings, field)

static const struct config_entry entries[] = {
    {.name = "redis.url",
     .type = CONFIG_STRING,
     .offset = AT(url),
     .def = "",
     .secret = true,
     .help = "rediss://[user:password@]host:port[/db], redis://... or unix:///path; empty: Redis is not used."},
    {.name = "redis.password_file",
     .type = CONFIG_PATH,
     .offset = AT(password_file),
     .def = "",
     .help = "File with the password, if Redis requires one."},
    {.name = "redis.allow_plaintext",
     .type = CONFIG_BOOL,
     .offset = AT(allow_plaintext),
     .def = "false",
     .help = "Allow redis:// to hosts other than the loopback: the password can be read on the network."},
    {.name = "redis.tls.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_ca_file),
     .def = "",
     .help = "CA of the certificate of Redis (rediss); empty: the CAs of the system."},
    {.name = "redis.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) that culvertd presents to Redis, if Redis requires one."},
    {.name = "redis.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "redis.timeout",
     .type = CONFIG_DURATION,
     .offset = AT(timeout_ms),
     .def = "1s",
     .min = 10,
     .max = MINUTE,
     .help = "Time limit of a command; a Redis that exceeds it is treated as unavailable."},
    {.name = "cache.answer_bytes_max",
     .type = CONFIG_BYTES,
     .offset = AT(cache_answer_bytes_max),
     .def = "512KiB",
     .max = 1000 * 1000,
     .help = "GraphQL answers up to this size may be cached in Redis and are reused as long as they are exact; 0: no "
             "cache."},
    {.name = "cache.slower_than",
     .type = CONFIG_DURATION,
     .offset = AT(cache_slower_than_ms),
     .def = "3ms",
     .min = 1,
     .max = MINUTE,
     .help = "Only answers that took longer than this are cached."},
    {.name = "cache.ttl",
     .type = CONFIG_DURATION,
     .offset = AT(cache_ttl_ms),
     .def = "1m",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "How long Redis keeps an answer."},
    {.name = "cache.patience",
     .type = CONFIG_DURATION,
     .offset = AT(cache_patience_ms),
     .def = "50ms",
     .min = 1,
     .max = 10 * SECOND,
     .help = "How long a lookup in Redis may take before PostgreSQL is queried."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct redis_settings *redis = redis_settings_of(config);
    config_check_pair("redis.tls", redis->tls_certificate_file, redis->tls_key_file, problems);
}

const struct config_section redis_settings_section = {
    .size = sizeof(struct redis_settings),
    .title = "Redis (optional: live updates and a copy of the tunnel directory)",
    CONFIG_ENTRIES(entries),
    .check = check};
