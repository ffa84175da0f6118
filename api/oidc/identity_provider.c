#include "api/oidc/identity_provider.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

// One that has failed is not asked again at once.
enum { PAUSE_AFTER_FAILURE_MS = 1000 };

struct counted_addresses {
    struct provider_addresses addresses; // its first member
    atomic_uint references;
};

struct identity_provider {
    struct identity_provider_options options;
    pthread_mutex_t mutex; // guards what follows
    struct counted_addresses *addresses;
    struct jwk_set *keys;
    uint64_t addresses_at_ms, keys_at_ms; // read; 0: never
    uint64_t failed_at_ms;                // 0: the last read succeeded
    unsigned under_way;
};

struct identity_provider *identity_provider_create(const struct identity_provider_options *options)
{
    struct identity_provider *provider = mem_zalloc(sizeof *provider);
    provider->options = *options;
    pthread_mutex_init(&provider->mutex, NULL);
    return provider;
}

void identity_provider_destroy(struct identity_provider *provider)
{
    if (!provider) return;
    if (provider->addresses) provider_addresses_unref(&provider->addresses->addresses);
    jwk_set_unref(provider->keys);
    pthread_mutex_destroy(&provider->mutex);
    mem_free(provider);
}

const struct identity_provider_options *identity_provider_options(const struct identity_provider *provider)
{
    return &provider->options;
}

// ---- what is known ------------------------------------------------------------------------------

struct provider_addresses *identity_provider_addresses(struct identity_provider *provider)
{
    pthread_mutex_lock(&provider->mutex);
    struct counted_addresses *found = provider->addresses;
    if (found) atomic_fetch_add(&found->references, 1);
    pthread_mutex_unlock(&provider->mutex);
    return found ? &found->addresses : NULL;
}

void provider_addresses_unref(struct provider_addresses *addresses)
{
    struct counted_addresses *counted = (struct counted_addresses *)addresses;
    if (!counted || atomic_fetch_sub(&counted->references, 1) > 1) return;
    mem_free(addresses->authorization);
    mem_free(addresses->token);
    mem_free(addresses->keys);
    mem_free(counted);
}

struct jwk_set *identity_provider_keys(struct identity_provider *provider)
{
    pthread_mutex_lock(&provider->mutex);
    struct jwk_set *found = provider->keys ? jwk_set_ref(provider->keys) : NULL;
    pthread_mutex_unlock(&provider->mutex);
    return found;
}

// ---- requests -----------------------------------------------------------------------------------

struct provider_request {
    struct identity_provider *provider;
    const char *what;
    web_done on_done;
    void *arg;
};

static void count(const struct identity_provider *provider, const char *what, const char *result)
{
    struct metric_family *requests =
        metrics_counter("culvert_identity_provider_requests_total", "Requests to identity providers.", "provider",
                        "what", "result", NULL);
    metric_add(metric_with(requests, provider->options.settings->id, what, result), 1);
}

static void on_answer(void *arg, const struct error *err, int status, struct str body)
{
    struct provider_request *request = arg;
    struct identity_provider *provider = request->provider;
    pthread_mutex_lock(&provider->mutex);
    provider->under_way--;
    pthread_mutex_unlock(&provider->mutex);
    count(provider, request->what, err ? "failed" : status == 200 ? "answered" : "refused");
    request->on_done(request->arg, err, status, body);
    mem_free(request);
}

enum error_code identity_provider_send(struct identity_provider *provider, struct loop *loop, const char *what,
                                       const struct web_request *request, web_done on_done, void *arg,
                                       struct error *err)
{
    pthread_mutex_lock(&provider->mutex);
    bool is_full = provider->under_way >= provider->options.requests_max;
    if (!is_full) provider->under_way++;
    pthread_mutex_unlock(&provider->mutex);
    if (is_full) {
        count(provider, what, "limited");
        return error_set(err, ERROR_LIMITED, "too many requests to provider %s are under way",
                         provider->options.settings->id);
    }
    struct provider_request *mine = mem_alloc(sizeof *mine);
    *mine = (struct provider_request){provider, what, on_done, arg};
    enum error_code code = web_client_send(provider->options.client, loop, request, on_answer, mine, err);
    if (code == ERROR_NONE) return code;
    pthread_mutex_lock(&provider->mutex);
    provider->under_way--;
    pthread_mutex_unlock(&provider->mutex);
    count(provider, what, "limited");
    mem_free(mine);
    return code;
}

// ---- reading ------------------------------------------------------------------------------------

struct reading {
    struct identity_provider *provider;
    struct loop *loop;
    enum provider_part part;
    provider_done on_done;
    void *arg;
};

static void finish(struct reading *reading, const struct error *err)
{
    if (err) {
        const char *id = reading->provider->options.settings->id;
        log_limited(LOG_WARN, "sign_in", "provider_unreadable", str_c(id), STR_EMPTY, log_c("provider", id),
                    log_err(err));
    }
    reading->on_done(reading->arg, err);
    mem_free(reading);
}

// What is known already serves on.
static void fail(struct reading *reading, const struct error *err)
{
    struct identity_provider *provider = reading->provider;
    pthread_mutex_lock(&provider->mutex);
    provider->failed_at_ms = clock_mono_ms();
    bool serves = (reading->part == PROVIDER_ADDRESSES && provider->addresses) ||
                  (reading->part == PROVIDER_KEYS && provider->keys && provider->addresses);
    pthread_mutex_unlock(&provider->mutex);
    finish(reading, serves ? NULL : err);
}

static enum error_code check_status(const struct error *err, int status, struct error *out)
{
    if (err) {
        *out = *err;
        return err->code;
    }
    if (status == 200) return ERROR_NONE;
    return error_set(out, status >= 500 ? ERROR_UNAVAILABLE : ERROR_PROTOCOL, "the provider answered with status %d",
                     status);
}

static void on_keys(void *arg, const struct error *err, int status, struct str body)
{
    struct reading *reading = arg;
    struct identity_provider *provider = reading->provider;
    struct jwk_set *keys = NULL;
    struct error bad;
    if (check_status(err, status, &bad) == ERROR_NONE && jwk_set_parse(body, &keys, &bad) != ERROR_NONE)
        bad.code = ERROR_PROTOCOL;
    if (!keys) {
        error_prefix(&bad, "reading its keys");
        fail(reading, &bad);
        return;
    }
    pthread_mutex_lock(&provider->mutex);
    struct jwk_set *old = provider->keys;
    provider->keys = keys;
    provider->keys_at_ms = clock_mono_ms();
    provider->failed_at_ms = 0;
    pthread_mutex_unlock(&provider->mutex);
    jwk_set_unref(old);
    finish(reading, NULL);
}

static enum error_code take_address(const json_t *metadata, const char *name, char **out, struct error *err)
{
    struct str text = json_get_str(metadata, name);
    if (web_url_check(text, err) != ERROR_NONE) {
        error_prefix(err, name);
        return err->code = ERROR_PROTOCOL;
    }
    *out = mem_strndup(text.at, text.len);
    return ERROR_NONE;
}

static enum error_code parse_metadata(struct str text, const struct provider_settings *settings,
                                      struct counted_addresses **out, struct error *err)
{
    const struct json_limits limits = {.depth_max = 8};
    json_t *metadata = NULL;
    if (json_decode(text, &limits, &metadata, err) != ERROR_NONE) return err->code = ERROR_PROTOCOL;
    struct counted_addresses *found = mem_zalloc(sizeof *found);
    atomic_init(&found->references, 1);
    struct provider_addresses *addresses = &found->addresses;
    enum error_code code = ERROR_NONE;
    // OpenID Connect Discovery section 4.3.
    if (!str_eq(json_get_str(metadata, "issuer"), str_c(settings->issuer)))
        code = error_set(err, ERROR_PROTOCOL, "issuer: not the one of the settings, %s", settings->issuer);
    // An issuer of CI tokens has keys alone.
    bool signs_in = *settings->client_id;
    if (code == ERROR_NONE && signs_in)
        code = take_address(metadata, "authorization_endpoint", &addresses->authorization, err);
    if (code == ERROR_NONE && signs_in) code = take_address(metadata, "token_endpoint", &addresses->token, err);
    if (code == ERROR_NONE) code = take_address(metadata, "jwks_uri", &addresses->keys, err);
    addresses->sends_issuer = json_get_bool(metadata, "authorization_response_iss_parameter_supported", false);
    json_decref(metadata);
    if (code == ERROR_NONE)
        *out = found;
    else
        provider_addresses_unref(addresses);
    return code;
}

static void go_on(struct reading *reading);

static void on_metadata(void *arg, const struct error *err, int status, struct str body)
{
    struct reading *reading = arg;
    struct identity_provider *provider = reading->provider;
    struct counted_addresses *found = NULL;
    struct error bad;
    if (check_status(err, status, &bad) != ERROR_NONE ||
        parse_metadata(body, provider->options.settings, &found, &bad) != ERROR_NONE) {
        error_prefix(&bad, "reading its metadata");
        fail(reading, &bad);
        return;
    }
    pthread_mutex_lock(&provider->mutex);
    struct counted_addresses *old = provider->addresses;
    provider->addresses = found;
    provider->addresses_at_ms = clock_mono_ms();
    provider->failed_at_ms = 0;
    pthread_mutex_unlock(&provider->mutex);
    if (old) provider_addresses_unref(&old->addresses);
    go_on(reading);
}

static void ask(struct reading *reading, const char *what, const char *url, web_done on_done)
{
    struct error err;
    const struct web_request request = {.url = url};
    if (identity_provider_send(reading->provider, reading->loop, what, &request, on_done, reading, &err) != ERROR_NONE)
        finish(reading, &err);
}

static void ask_metadata(struct reading *reading)
{
    struct str issuer = str_c(reading->provider->options.settings->issuer);
    if (str_ends(issuer, STR("/"))) issuer.len--;
    AUTO_FREE char *url = mem_printf("%.*s/.well-known/openid-configuration", STR_ARG(issuer));
    ask(reading, "addresses", url, on_metadata);
}

static void ask_keys(struct reading *reading)
{
    struct provider_addresses *addresses = identity_provider_addresses(reading->provider);
    ask(reading, "keys", addresses->keys, on_keys);
    provider_addresses_unref(addresses);
}

static bool is_old(uint64_t at_ms, uint64_t life_ms)
{
    return !at_ms || clock_mono_ms() - at_ms >= life_ms;
}

static void go_on(struct reading *reading)
{
    struct identity_provider *provider = reading->provider;
    const struct identity_provider_options *options = &provider->options;
    struct error err;
    pthread_mutex_lock(&provider->mutex);
    bool pauses = provider->failed_at_ms && !is_old(provider->failed_at_ms, PAUSE_AFTER_FAILURE_MS);
    bool has_all = provider->addresses && (reading->part == PROVIDER_ADDRESSES || provider->keys);
    bool wants_addresses = is_old(provider->addresses_at_ms, options->keys_life_ms);
    bool wants_keys =
        reading->part == PROVIDER_NEWER_KEYS ||
        (reading->part == PROVIDER_KEYS && (!provider->keys || is_old(provider->keys_at_ms, options->keys_life_ms)));
    bool is_soon = provider->keys && !is_old(provider->keys_at_ms, options->keys_interval_ms);
    pthread_mutex_unlock(&provider->mutex);
    if (pauses && has_all && reading->part != PROVIDER_NEWER_KEYS) {
        finish(reading, NULL);
    } else if (pauses) {
        error_set(&err, ERROR_UNAVAILABLE, "the provider failed just now");
        finish(reading, &err);
    } else if (wants_addresses) {
        ask_metadata(reading);
    } else if (reading->part == PROVIDER_NEWER_KEYS && is_soon) {
        error_set(&err, ERROR_LIMITED, "its keys were read just now (sign_in.keys_interval)");
        finish(reading, &err);
    } else if (wants_keys) {
        ask_keys(reading);
    } else {
        finish(reading, NULL);
    }
}

void identity_provider_read(struct identity_provider *provider, struct loop *loop, enum provider_part part,
                            provider_done on_done, void *arg)
{
    struct reading *reading = mem_alloc(sizeof *reading);
    *reading = (struct reading){provider, loop, part, on_done, arg};
    go_on(reading);
}
