// identity_provider: an OpenID Connect provider as it is known at the moment: its addresses by
// discovery (OpenID Connect Discovery 1.0) and its keys, both kept for a while, for all loops
// behind a mutex. Requests go out by oidc's web client, at most so many to one provider at once.
#ifndef CULVERT_API_OIDC_IDENTITY_PROVIDER_H
#define CULVERT_API_OIDC_IDENTITY_PROVIDER_H

#include "api/oidc/jwk_set.h"
#include "api/oidc/provider_settings.h"
#include "api/oidc/web_client.h"

struct identity_provider;

struct identity_provider_options {
    const struct provider_settings *settings; // outlives it
    struct web_client *client;                // the same
    uint64_t keys_life_ms, keys_interval_ms;
    unsigned requests_max;
    int64_t clock_skew_s;
};

// Counted, immutable.
struct provider_addresses {
    char *authorization, *token, *keys;
    bool sends_issuer; // its answers have iss (RFC 9207)
};

struct identity_provider *identity_provider_create(const struct identity_provider_options *options);
void identity_provider_destroy(struct identity_provider *provider);
const struct identity_provider_options *identity_provider_options(const struct identity_provider *provider);

// err: ERROR_UNAVAILABLE, ERROR_TIMEOUT, ERROR_TOO_LARGE, ERROR_LIMITED, ERROR_PROTOCOL (its answer
// is not what it must be).
typedef void (*provider_done)(void *arg, const struct error *err);
enum provider_part {
    PROVIDER_ADDRESSES,
    PROVIDER_KEYS,
    PROVIDER_NEWER_KEYS, // than those that are known; ERROR_LIMITED: they were read just now
};
// Reads what is not known or too old; done before it returns where nothing is to be read. What is
// old stays in use while the provider cannot be read.
void identity_provider_read(struct identity_provider *provider, struct loop *loop, enum provider_part part,
                            provider_done on_done, void *arg);

// As they were read last, references for the caller; NULL: not yet.
struct provider_addresses *identity_provider_addresses(struct identity_provider *provider);
void provider_addresses_unref(struct provider_addresses *addresses); // NULL is fine
struct jwk_set *identity_provider_keys(struct identity_provider *provider);

// Counts and bounds; what: "addresses", "keys" or "token", of the metric.
MUST_CHECK enum error_code identity_provider_send(struct identity_provider *provider, struct loop *loop,
                                                  const char *what, const struct web_request *request, web_done on_done,
                                                  void *arg, struct error *err);

#endif
