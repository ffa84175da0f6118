#include "server/bus/amqp_topology.h"

#include <stdio.h>

// RabbitMQ counts returns for whatever was at work together with the message at fault, so that
// culvertd decides first; this is for a replica that ends before it can.
enum { BACKSTOP = 10 };

static amqp_table_entry_t text(const char *name, const char *value)
{
    return (amqp_table_entry_t){amqp_link_bytes(name),
                                {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_link_bytes(value)}};
}

static amqp_table_entry_t number(const char *name, uint64_t value)
{
    return (amqp_table_entry_t){amqp_link_bytes(name), {.kind = AMQP_FIELD_KIND_I64, .value.i64 = (int64_t)value}};
}

static amqp_table_entry_t truth(const char *name)
{
    return (amqp_table_entry_t){amqp_link_bytes(name), {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

void amqp_topology_exchange(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.reports", topology->prefix);
}

void amqp_topology_dead(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.reports.dead", topology->prefix);
}

void amqp_topology_queue(const struct amqp_topology *topology, unsigned shard, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.reports.%u", topology->prefix, shard);
}

unsigned amqp_topology_shard(const struct amqp_topology *topology, const struct runtime_key *key)
{
    // FNV-1a: the same in every replica and release, since it decides about order.
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key->account_id.len; i++)
        hash = (hash ^ (uint8_t)key->account_id.at[i]) * 16777619u;
    hash = (hash ^ 0) * 16777619u;
    for (size_t i = 0; i < key->runtime.len; i++)
        hash = (hash ^ (uint8_t)key->runtime.at[i]) * 16777619u;
    return (hash ^ hash >> 16) % topology->shards;
}

static enum error_code declare_exchange(struct amqp_link *link, amqp_channel_t channel, const char *name,
                                        const char *type, struct error *err)
{
    amqp_exchange_declare(link->connection, channel, amqp_link_bytes(name), amqp_link_bytes(type), 0, 1, 0, 0,
                          amqp_empty_table);
    return amqp_link_check(link, name, err);
}

static enum error_code declare_queue(struct amqp_link *link, amqp_channel_t channel, const char *name,
                                     const char *exchange, const char *key, amqp_table_t arguments, struct error *err)
{
    amqp_queue_declare(link->connection, channel, amqp_link_bytes(name), 0, 1, 0, 0, arguments);
    enum error_code code = amqp_link_check(link, name, err);
    if (code != ERROR_NONE) return code;
    amqp_queue_bind(link->connection, channel, amqp_link_bytes(name), amqp_link_bytes(exchange), amqp_link_bytes(key),
                    amqp_empty_table);
    return amqp_link_check(link, name, err);
}

static enum error_code declare_shards(const struct amqp_topology *topology, struct amqp_link *link,
                                      amqp_channel_t channel, const char *exchange, const char *dead, struct error *err)
{
    amqp_table_entry_t entries[] = {
        text("x-queue-type", "quorum"),
        truth("x-single-active-consumer"),
        number("x-delivery-limit", topology->delivery_limit * BACKSTOP),
        number("x-max-length-bytes", topology->queue_bytes_max),
        text("x-overflow", "reject-publish"),
        text("x-dead-letter-exchange", dead),
        text("x-dead-letter-strategy", "at-least-once"),
    };
    for (unsigned i = 0; i < topology->shards; i++) {
        char name[AMQP_NAME_BYTES], key[16];
        amqp_topology_queue(topology, i, name);
        snprintf(key, sizeof key, "%u", i);
        enum error_code code = declare_queue(link, channel, name, exchange, key,
                                             (amqp_table_t){sizeof entries / sizeof *entries, entries}, err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

enum error_code amqp_topology_declare(const struct amqp_topology *topology, struct amqp_link *link,
                                      amqp_channel_t channel, struct error *err)
{
    char exchange[AMQP_NAME_BYTES], dead[AMQP_NAME_BYTES];
    amqp_topology_exchange(topology, exchange);
    amqp_topology_dead(topology, dead);
    amqp_table_entry_t entries[] = {
        text("x-queue-type", "quorum"),
        number("x-max-length", topology->dead_letters_max),
        text("x-overflow", "drop-head"),
    };
    enum error_code code = declare_exchange(link, channel, dead, "fanout", err);
    if (code == ERROR_NONE)
        code = declare_queue(link, channel, dead, dead, "", (amqp_table_t){sizeof entries / sizeof *entries, entries},
                             err);
    if (code == ERROR_NONE) code = declare_exchange(link, channel, exchange, "direct", err);
    if (code == ERROR_NONE) code = declare_shards(topology, link, channel, exchange, dead, err);
    return code;
}
