#include "server/chores/enrollments.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/access/enrollment_store.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/listener.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "base/rate_limiter.h"
#include "base/runtime_key.h"
#include "tunnel/wire/proof.h"

enum { BURST_SECONDS = 10, HASH_CHARS = ID_SHA256_HEX_BYTES - 1 };

// One attempt: under way, or refused a moment ago.
struct attempt {
    char runtime_token_id[TOKEN_ID_BYTES], token_id[TOKEN_ID_BYTES]; // empty: a free place
    bool is_under_way;
    uint64_t ended_ms;
    struct error refusal;
};

struct enrollments {
    struct enrollments_options options;
    struct rate_limiter *tokens, *addresses;
    struct metric_family *count;
    pthread_mutex_t mutex;
    struct attempt attempts[ENROLLMENTS_AT_ONCE_MAX];
};

// On its way through the database; wiped at its end.
struct request {
    struct enrollments *enrollments;
    struct pg *pg;
    char token[TOKEN_TEXT_BYTES], runtime_token[TOKEN_TEXT_BYTES]; // as presented
    char token_id[TOKEN_ID_BYTES], runtime_token_id[TOKEN_ID_BYTES];
    uint8_t hash[ID_SHA256_BYTES]; // of the runtime token's secret; covered until it was verified
    uint8_t binding[WIRE_BINDING_BYTES];
    bool is_sealed;
    char runtime[RUNTIME_NAME_BYTES_MAX + 1], remote[64];
};

struct enrollments *enrollments_create(const struct enrollments_options *options)
{
    struct enrollments *enrollments = mem_zalloc(sizeof *enrollments);
    enrollments->options = *options;
    if (!options->now_ms) enrollments->options.now_ms = clock_mono_ms;
    enrollments->tokens = rate_limiter_create(options->per_second, BURST_SECONDS);
    enrollments->addresses = rate_limiter_create(options->per_second, BURST_SECONDS);
    enrollments->count =
        metrics_counter("culvert_enrollments_total",
                        "Attempts of agents to create their runtime with an enrollment token.", "result", NULL);
    pthread_mutex_init(&enrollments->mutex, NULL);
    return enrollments;
}

void enrollments_destroy(struct enrollments *enrollments)
{
    if (!enrollments) return;
    rate_limiter_destroy(enrollments->tokens);
    rate_limiter_destroy(enrollments->addresses);
    pthread_mutex_destroy(&enrollments->mutex);
    mem_free(enrollments);
}

static void count(struct enrollments *enrollments, const char *result)
{
    metric_add(metric_with(enrollments->count, result), 1);
}

// ---- the table (mutex held) ---------------------------------------------------------------------

static bool attempt_is_over(const struct enrollments *enrollments, const struct attempt *attempt)
{
    if (!attempt->runtime_token_id[0]) return true;
    return !attempt->is_under_way && enrollments->options.now_ms() - attempt->ended_ms >= ENROLLMENTS_KEPT_MS;
}

static struct attempt *attempt_find(struct enrollments *enrollments, const struct request *request)
{
    for (size_t i = 0; i < ENROLLMENTS_AT_ONCE_MAX; i++) {
        struct attempt *attempt = &enrollments->attempts[i];
        if (strcmp(attempt->runtime_token_id, request->runtime_token_id) == 0 &&
            strcmp(attempt->token_id, request->token_id) == 0 && !attempt_is_over(enrollments, attempt))
            return attempt;
    }
    return NULL;
}

// A free place, else that of the refusal that is kept longest; NULL: all are under way.
static struct attempt *attempt_place(struct enrollments *enrollments)
{
    struct attempt *oldest = NULL;
    for (size_t i = 0; i < ENROLLMENTS_AT_ONCE_MAX; i++) {
        struct attempt *attempt = &enrollments->attempts[i];
        if (attempt_is_over(enrollments, attempt)) return attempt;
        if (!attempt->is_under_way && (!oldest || attempt->ended_ms < oldest->ended_ms)) oldest = attempt;
    }
    return oldest;
}

// ERROR_NONE: begun. ERROR_AGAIN: under way, or no place; others: the refusal that is kept.
static enum error_code attempt_begin(struct enrollments *enrollments, const struct request *request, struct error *err)
{
    struct attempt *attempt = attempt_find(enrollments, request);
    if (attempt && !attempt->is_under_way) {
        *err = attempt->refusal;
        return err->code;
    }
    if (attempt) return error_set(err, ERROR_AGAIN, "the runtime is being enrolled");
    attempt = attempt_place(enrollments);
    if (!attempt) return error_set(err, ERROR_AGAIN, "too many runtimes are being enrolled");
    *attempt = (struct attempt){.is_under_way = true};
    memcpy(attempt->runtime_token_id, request->runtime_token_id, sizeof attempt->runtime_token_id);
    memcpy(attempt->token_id, request->token_id, sizeof attempt->token_id);
    return ERROR_NONE;
}

static bool is_refusal(const struct error *err)
{
    return err && (err->code == ERROR_UNAUTHENTICATED || err->code == ERROR_FORBIDDEN);
}

static void attempt_end(struct enrollments *enrollments, const struct request *request, const struct error *err)
{
    struct attempt *attempt = attempt_find(enrollments, request);
    if (!attempt) return;
    if (is_refusal(err)) {
        attempt->is_under_way = false;
        attempt->ended_ms = enrollments->options.now_ms();
        attempt->refusal = *err;
    } else {
        *attempt = (struct attempt){0};
    }
}

// ---- one attempt --------------------------------------------------------------------------------

static void request_end(struct request *request, const struct error *err)
{
    struct enrollments *enrollments = request->enrollments;
    struct pg *pg = request->pg;
    pthread_mutex_lock(&enrollments->mutex);
    attempt_end(enrollments, request, err);
    pthread_mutex_unlock(&enrollments->mutex);
    if (err && err->code == ERROR_UNAUTHENTICATED)
        failed_sign_ins_note(enrollments->options.failed, str_c(request->remote), str_c(request->token_id));
    count(enrollments, is_refusal(err) ? "refused" : err ? "failed" : "accepted");
    if (err)
        log_limited(LOG_WARN, "enrollment", "enrollment_refused", str_c(request->remote), str_c(err->text),
                    log_c("runtime", request->runtime), log_c("enrollment_token_id", request->token_id),
                    log_c("remote", request->remote), log_err(err));
    else
        log_info("enrollment", "runtime_enrolled", log_c("runtime", request->runtime),
                 log_c("enrollment_token_id", request->token_id), log_c("token_id", request->runtime_token_id),
                 log_c("remote", request->remote));
    if (!err) enrollments->options.on_enrolled(enrollments->options.ctx);
    mem_free_secret(request, sizeof *request);
    pg_release(pg);
}

static void on_enrolled(void *arg, const struct error *err)
{
    request_end(arg, err);
}

static bool is_same(const uint8_t a[ID_SHA256_BYTES], const uint8_t b[ID_SHA256_BYTES])
{
    return str_eq_secret(str_of((const char *)a, ID_SHA256_BYTES), str_of((const char *)b, ID_SHA256_BYTES));
}

// A token as it was presented, against the hash that it should have.
static bool has_hash(const struct request *request, const char *text, const uint8_t hash[ID_SHA256_BYTES],
                     struct token *out)
{
    enum error_code code = request->is_sealed ? wire_proof_unseal(str_c(text), hash, request->binding, out, NULL)
                                              : token_parse(str_c(text), out, NULL);
    return code == ERROR_NONE && is_same(out->secret_sha256, hash);
}

static void on_found(void *arg, const struct error *err, const struct enrollment_token_found *found)
{
    struct request *request = arg;
    struct error wrong;
    struct token token = {0}, runtime_token = {0};
    if (!err && !has_hash(request, request->token, found->stored_sha256, &token)) {
        error_set(&wrong, ERROR_UNAUTHENTICATED, "the enrollment token is unknown or wrong");
        err = &wrong;
    }
    if (!err && request->is_sealed) wire_proof_cover(request->hash, found->stored_sha256, request->binding);
    if (!err && !has_hash(request, request->runtime_token, request->hash, &runtime_token)) {
        error_set(&wrong, ERROR_UNAUTHENTICATED, "the runtime token does not have the hash that came with it");
        err = &wrong;
    }
    if (err) {
        request_end(request, err);
        return;
    }
    const struct enrollment enrollment = {.account_id = found->account_id,
                                          .token_id = str_c(token.id),
                                          .token_name = found->name,
                                          .runtime = str_c(request->runtime),
                                          .runtime_token = &runtime_token,
                                          .remote = str_c(request->remote)};
    enrollment_store_enroll(request->pg, &enrollment, on_enrolled, request);
    explicit_bzero(&runtime_token, sizeof runtime_token);
}

// ---- asking -------------------------------------------------------------------------------------

static enum error_code request_fill(struct request *request, const struct tunnel_credential *credential,
                                    struct error *err)
{
    struct token token, runtime_token;
    enum error_code code = token_parse(credential->token, &runtime_token, err);
    if (code == ERROR_NONE) code = token_parse(credential->enrollment, &token, err);
    if (code != ERROR_NONE) {
        err->code = ERROR_UNAUTHENTICATED;
        return err->code;
    }
    if (credential->enrollment_hash.len != HASH_CHARS ||
        parse_hex(credential->enrollment_hash, request->hash, ID_SHA256_BYTES, err) != ERROR_NONE)
        return error_set(err, ERROR_UNAUTHENTICATED, "the hash of the runtime token must consist of 64 hex digits");
    if (!runtime_name_is_valid(credential->runtime))
        return error_set(err, ERROR_FORBIDDEN,
                         "runtime.name must have 1 to %d of a-z, 0-9 and -, and neither begin nor end with -",
                         RUNTIME_NAME_BYTES_MAX);
    request->is_sealed = credential->binding != NULL;
    if (request->is_sealed) memcpy(request->binding, credential->binding, sizeof request->binding);
    snprintf(request->token, sizeof request->token, "%.*s", STR_ARG(credential->enrollment));
    snprintf(request->runtime_token, sizeof request->runtime_token, "%.*s", STR_ARG(credential->token));
    snprintf(request->runtime, sizeof request->runtime, "%.*s", STR_ARG(credential->runtime));
    snprintf(request->remote, sizeof request->remote, "%s", credential->remote ? credential->remote : "");
    memcpy(request->token_id, token.id, sizeof request->token_id);
    memcpy(request->runtime_token_id, runtime_token.id, sizeof request->runtime_token_id);
    return ERROR_NONE;
}

static enum error_code check_rates(struct enrollments *enrollments, const struct request *request, struct error *err)
{
    const struct enrollments_options *options = &enrollments->options;
    char network[INET6_ADDRSTRLEN];
    uint64_t now_ms = options->now_ms();
    enum error_code code = failed_sign_ins_check(options->failed, str_c(request->remote), NULL, err);
    if (code != ERROR_NONE) return code;
    listener_network(request->remote, network);
    bool is_many = options->is_proxy && options->is_proxy(options->ctx, str_c(network));
    if (!is_many && rate_limiter_take(enrollments->addresses, str_c(network), now_ms))
        return error_set(err, ERROR_LIMITED, "this address enrolls too many runtimes");
    if (rate_limiter_take(enrollments->tokens, str_c(request->token_id), now_ms))
        return error_set(err, ERROR_LIMITED, "the enrollment token enrolls too many runtimes at once");
    return ERROR_NONE;
}

enum error_code enrollments_ask(struct enrollments *enrollments, struct pg *pg,
                                const struct tunnel_credential *credential, struct error *err)
{
    struct request *request = mem_zalloc(sizeof *request);
    request->enrollments = enrollments;
    request->pg = pg;
    enum error_code code = request_fill(request, credential, err);
    pthread_mutex_lock(&enrollments->mutex);
    bool is_new = code == ERROR_NONE && !attempt_find(enrollments, request);
    pthread_mutex_unlock(&enrollments->mutex);
    if (is_new) {
        code = check_rates(enrollments, request, err);
        if (code == ERROR_LIMITED) count(enrollments, "limited");
    }
    if (code == ERROR_NONE) {
        pthread_mutex_lock(&enrollments->mutex);
        code = attempt_begin(enrollments, request, err);
        pthread_mutex_unlock(&enrollments->mutex);
    }
    if (code != ERROR_NONE) {
        mem_free_secret(request, sizeof *request);
        return code;
    }
    pg_hold(pg);
    enrollment_store_find(pg, str_c(request->token_id), on_found, request);
    return error_set(err, ERROR_AGAIN, "the runtime is being enrolled");
}
