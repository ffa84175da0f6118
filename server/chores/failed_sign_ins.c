#include "server/chores/failed_sign_ins.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/connection_limiter.h"
#include "base/failure_sketch.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { LOG_INTERVAL_MS = 60 * 1000, WAYS = 4, GOOD_BYTES = 16 };

// A credential that was good: half of its secret's hash, and when, in an order of ours. 0: the
// place is free.
struct good {
    uint64_t at;
    uint8_t digest[GOOD_BYTES];
};

struct failed_sign_ins {
    struct failed_sign_ins_options options;
    struct failure_sketch *addresses, *keys; // NULL: no limit
    struct metric *failures, *limited_address, *limited_key;
    pthread_mutex_t mutex; // guards the rest: what is not logged yet, and what was good
    uint64_t logged_ms, failed, limited;
    uint64_t good_count;
    struct good good[FAILED_SIGN_INS_GOOD];
};

struct failed_sign_ins *failed_sign_ins_create(const struct failed_sign_ins_options *options)
{
    struct failed_sign_ins *failed = mem_zalloc(sizeof *failed);
    failed->options = *options;
    if (options->per_address) failed->addresses = failure_sketch_create(options->per_address);
    if (options->per_key) failed->keys = failure_sketch_create(options->per_key);
    failed->failures = metric_with(
        metrics_counter("culvert_authentication_failures_total", "Invalid credentials that were presented.", NULL));
    struct metric_family *limited =
        metrics_counter("culvert_authentication_limited_total",
                        "Credentials that were not checked after too many failures.", "by", NULL);
    failed->limited_address = metric_with(limited, "address");
    failed->limited_key = metric_with(limited, "key");
    pthread_mutex_init(&failed->mutex, NULL);
    return failed;
}

void failed_sign_ins_destroy(struct failed_sign_ins *failed)
{
    if (!failed) return;
    failure_sketch_destroy(failed->addresses);
    failure_sketch_destroy(failed->keys);
    pthread_mutex_destroy(&failed->mutex);
    mem_free(failed);
}

// One line a minute, however many there are; remote is an example.
static void tell(struct failed_sign_ins *failed, struct str remote, bool is_limited)
{
    uint64_t now_ms = clock_mono_ms(), count_failed = 0, count_limited = 0;
    pthread_mutex_lock(&failed->mutex);
    *(is_limited ? &failed->limited : &failed->failed) += 1;
    if (!failed->logged_ms || now_ms - failed->logged_ms >= LOG_INTERVAL_MS) {
        count_failed = failed->failed;
        count_limited = failed->limited;
        failed->failed = failed->limited = 0;
        failed->logged_ms = now_ms;
    }
    pthread_mutex_unlock(&failed->mutex);
    if (count_failed + count_limited)
        log_warn("authentication", "failures", log_uint("failed", count_failed), log_uint("limited", count_limited),
                 log_str("last_remote", remote));
}

// Without a port: "192.0.2.1:80" and "[2001:db8::1]:80", as listeners write a peer, or the address
// alone.
static struct str address_of(struct str remote)
{
    struct str rest = remote, address;
    if (remote.len && remote.at[0] == '[') {
        rest = str_of(remote.at + 1, remote.len - 1);
        return str_cut(&rest, ']', &address) ? address : STR_EMPTY;
    }
    return str_cut(&rest, ':', &address) && !str_has_byte(rest, ':') ? address : remote;
}

// The name of an address among the counts: an IPv6 one with its /64. Empty: it is not counted.
static struct str network_of(const struct failed_sign_ins *failed, struct str remote, char memory[INET6_ADDRSTRLEN])
{
    char text[INET6_ADDRSTRLEN];
    struct str address = address_of(remote);
    if (!failed->addresses || !address.len) return STR_EMPTY;
    if (failed->options.is_proxy && failed->options.is_proxy(failed->options.ctx, address)) return STR_EMPTY;
    snprintf(text, sizeof text, "%.*s", STR_ARG(address));
    connection_limiter_network(text, memory);
    return str_c(memory);
}

// ---- what was good -------------------------------------------------------------------------------------------------

// Four places in a row, by the hash of its secret.
static struct good *set_of(struct failed_sign_ins *failed, const struct token *token)
{
    uint32_t number;
    memcpy(&number, token->secret_sha256 + GOOD_BYTES, sizeof number);
    return &failed->good[number % (FAILED_SIGN_INS_GOOD / WAYS) * WAYS];
}

static bool was_good(struct failed_sign_ins *failed, const struct token *token)
{
    bool found = false;
    pthread_mutex_lock(&failed->mutex);
    const struct good *set = set_of(failed, token);
    for (size_t i = 0; i < WAYS; i++)
        found = found || (set[i].at && memcmp(set[i].digest, token->secret_sha256, GOOD_BYTES) == 0);
    pthread_mutex_unlock(&failed->mutex);
    return found;
}

void failed_sign_ins_note_good(struct failed_sign_ins *failed, const struct token *token)
{
    pthread_mutex_lock(&failed->mutex);
    struct good *set = set_of(failed, token), *place = set;
    for (size_t i = 0; i < WAYS; i++) {
        bool is_same = set[i].at && memcmp(set[i].digest, token->secret_sha256, GOOD_BYTES) == 0;
        if (is_same || set[i].at < place->at) place = &set[i];
        if (is_same) break;
    }
    place->at = ++failed->good_count;
    memcpy(place->digest, token->secret_sha256, GOOD_BYTES);
    pthread_mutex_unlock(&failed->mutex);
}

// ---- failures ------------------------------------------------------------------------------------------------------

enum error_code failed_sign_ins_check(struct failed_sign_ins *failed, struct str remote, const struct token *token,
                                      struct error *err)
{
    char memory[INET6_ADDRSTRLEN];
    uint64_t now_ms = clock_mono_ms();
    struct str network = network_of(failed, remote, memory);
    unsigned by_address = network.len ? failure_sketch_wait_s(failed->addresses, network, now_ms) : 0;
    unsigned by_key = failed->keys && token ? failure_sketch_wait_s(failed->keys, str_c(token->id), now_ms) : 0;
    if ((!by_address && !by_key) || (token && was_good(failed, token))) return ERROR_NONE;
    metric_add(by_address ? failed->limited_address : failed->limited_key, 1);
    tell(failed, remote, true);
    return error_set(err, ERROR_LIMITED, "too many invalid credentials from this address or for this key");
}

void failed_sign_ins_note(struct failed_sign_ins *failed, struct str remote, struct str key_id)
{
    char memory[INET6_ADDRSTRLEN];
    uint64_t now_ms = clock_mono_ms();
    struct str network = network_of(failed, remote, memory);
    if (network.len) failure_sketch_add(failed->addresses, network, now_ms);
    if (failed->keys && key_id.len) failure_sketch_add(failed->keys, key_id, now_ms);
    metric_add(failed->failures, 1);
    tell(failed, remote, false);
}
