#include "tests/unit/tunnel/broker_fixture.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "tunnel/wire/proof.h"

enum { CHUNK_BYTES = 10000 };

// ---- the authority -------------------------------------------------------------------------------------------

// The known token that was sealed for this connection, or what was sent.
static struct str fixture_unsealed(const struct tunnel_credential *credential)
{
    static const char *const known[] = {FIXTURE_TOKEN, FIXTURE_TOKEN_OTHER, FIXTURE_TOKEN_FOREIGN};
    for (size_t i = 0; credential->binding && i < sizeof(known) / sizeof(known[0]); i++) {
        struct token token, said;
        if (token_parse(str_c(known[i]), &token, NULL) == ERROR_NONE &&
            wire_proof_unseal(credential->token, token.secret_sha256, credential->binding, &said, NULL) == ERROR_NONE &&
            memcmp(&said, &token, sizeof(said)) == 0)
            return str_c(known[i]);
    }
    return credential->token;
}

static enum error_code on_authenticate(void *ctx, struct tunnel_node *node, const struct tunnel_credential *credential,
                                       struct tunnel_identity *out, struct error *err)
{
    struct str text = fixture_unsealed(credential);
    struct fixture *fixture = ctx;
    (void)node;
    struct token token;
    if (str_eq(text, STR("later"))) return error_set(err, ERROR_UNAVAILABLE, "not known yet");
    if (str_eq(text, STR("forbidden"))) return error_set(err, ERROR_FORBIDDEN, "not this one");
    bool other = str_eq(text, STR(FIXTURE_TOKEN_OTHER)), foreign = str_eq(text, STR(FIXTURE_TOKEN_FOREIGN));
    if ((!other && !foreign && !str_eq(text, STR(FIXTURE_TOKEN))) || token_parse(text, &token, err))
        return error_set(err, ERROR_UNAUTHENTICATED, "unknown token");
    snprintf(out->account_id, sizeof(out->account_id), "%s", foreign ? FIXTURE_ACCOUNT_FOREIGN : FIXTURE_ACCOUNT);
    snprintf(out->runtime, sizeof(out->runtime), "%s", other ? "other" : "demo");
    snprintf(out->token_id, sizeof(out->token_id), "%s", token.id);
    memcpy(out->token_sha256, token.secret_sha256, sizeof(out->token_sha256));
    if (atomic_load(&fixture->revoke_on_entry)) { // before anybody could find the session
        atomic_store(&fixture->revoked, true);
        tunnel_broker_revoke(fixture->broker, out->account_id, out->runtime, out->token_id, "told too early");
    }
    return ERROR_NONE;
}

static bool on_is_valid(void *ctx, const struct tunnel_identity *identity)
{
    struct fixture *fixture = ctx;
    assert(identity->token_id[0]);
    return !atomic_load(&fixture->revoked);
}

struct opening {
    struct fixture *fixture;
    struct tunnel_node *node;
    struct tunnel_session_ref ref;
};

static void answer_opening(void *arg)
{
    struct opening *opening = arg;
    if (atomic_load(&opening->fixture->stand_by)) {
        tunnel_session_stands_by(opening->node, opening->ref);
        mem_free(opening);
        return;
    }
    uint64_t epoch = atomic_fetch_add(&opening->fixture->epoch, 1) + 1;
    if (atomic_load(&opening->fixture->stale_epochs)) epoch = 1000 - epoch;
    tunnel_session_opened(opening->node, opening->ref, epoch);
    mem_free(opening);
}

static void post_opening(struct fixture *fixture, struct tunnel_session_ref ref)
{
    struct opening *opening = mem_alloc(sizeof(*opening));
    *opening = (struct opening){.fixture = fixture, .node = fixture->nodes[ref.node], .ref = ref};
    loop_post(fixture->loops[ref.node], answer_opening, opening);
}

static void on_opening(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    struct fixture *fixture = ctx;
    if (atomic_load(&fixture->hold_opening)) {
        pthread_mutex_lock(&fixture->mutex);
        fixture->held = session->ref;
        pthread_mutex_unlock(&fixture->mutex);
    } else {
        post_opening(fixture, session->ref);
    }
    (void)node;
    atomic_fetch_add(&fixture->openings, 1);
}

void fixture_answer_held(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->mutex);
    struct tunnel_session_ref ref = fixture->held;
    pthread_mutex_unlock(&fixture->mutex);
    post_opening(fixture, ref);
}

static void on_open(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    struct fixture *fixture = ctx;
    pthread_mutex_lock(&fixture->mutex);
    fixture->last = session->ref;
    pthread_mutex_unlock(&fixture->mutex);
    atomic_store(&fixture->opened_node, tunnel_node_index(node));
    atomic_fetch_add(&fixture->opened, 1);
}

static void on_retired(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    struct fixture *fixture = ctx;
    (void)node;
    assert(session->epoch && session->ending == TUNNEL_ENDING_CLOSED);
    atomic_fetch_add(&fixture->retired, 1);
}

static void on_closed(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const char *reason)
{
    (void)node;
    (void)session;
    struct fixture *fixture = ctx;
    pthread_mutex_lock(&fixture->mutex);
    snprintf(fixture->close_reason, sizeof(fixture->close_reason), "%s", reason);
    pthread_mutex_unlock(&fixture->mutex);
    atomic_fetch_add(&fixture->closed, 1);
}

static bool on_report(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct wire_report *report)
{
    struct fixture *fixture = ctx;
    unsigned count = atomic_fetch_add(&fixture->reports, 1) + 1;
    if (report->sequence != count) atomic_fetch_add(&fixture->report_errors, 1);
    tunnel_reports_ack(node, session->ref, &(struct wire_ack){.type = WIRE_ACK, .sequence = report->sequence});
    unsigned every = atomic_load(&fixture->reports_pause_every);
    return every == 0 || count % every != 0;
}

// ---- start and stop ------------------------------------------------------------------------------------------

static void make_certificate(struct fixture *fixture)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const uint8_t *)"localhost", -1,
                               -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    FILE *certificate_file = fopen(fixture->certificate, "w");
    FILE *key_file = fopen(fixture->key, "w");
    if (!X509_sign(certificate, key, EVP_sha256()) || !certificate_file || !key_file ||
        !PEM_write_X509(certificate_file, certificate) ||
        !PEM_write_PrivateKey(key_file, key, NULL, NULL, 0, NULL, NULL))
        abort();
    fclose(certificate_file);
    fclose(key_file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static int free_port(void)
{
    for (;;) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int port = 20000 + (int)id_random_below(12000);
        address.sin_port = htons((uint16_t)port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
        close(fd);
        if (!failed) return port;
    }
}

void fixture_start(struct fixture *fixture, void (*tune)(struct tunnel_options *options))
{
    memset(fixture, 0, sizeof(*fixture));
    signal(SIGPIPE, SIG_IGN); // as the programs do: either end may write to a connection that is gone
    pthread_mutex_init(&fixture->mutex, NULL);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/culvert-broker-XXXXXX");
    if (!mkdtemp(fixture->folder)) abort();
    snprintf(fixture->certificate, sizeof(fixture->certificate), "%s/cert.pem", fixture->folder);
    snprintf(fixture->key, sizeof(fixture->key), "%s/key.pem", fixture->folder);
    make_certificate(fixture);
    fixture->port = free_port();
    char listen[32];
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", fixture->port);
    struct tunnel_options options = {.listen = listen,
                                     .tls_certificate_file = fixture->certificate,
                                     .tls_key_file = fixture->key,
                                     .sessions_max = 100,
                                     .streams_max = 100,
                                     .ping_after_ms = 10000,
                                     .dead_after_ms = 5000,
                                     .head_timeout_ms = 60000,
                                     .buffered_bytes_max = 8 * 1024 * 1024,
                                     .node_buffered_bytes_max = 64 * 1024 * 1024,
                                     .handshakes_per_second = 1000,
                                     .ctx = fixture,
                                     .authenticate = on_authenticate,
                                     .is_valid = on_is_valid,
                                     .on_session_opening = on_opening,
                                     .on_session_open = on_open,
                                     .on_session_retired = on_retired,
                                     .on_session_closed = on_closed,
                                     .on_report = on_report};
    if (tune) tune(&options);
    struct error err;
    log_set_level(LOG_ERROR);
    fixture->broker = tunnel_broker_create(&options, &err);
    if (!fixture->broker) abort();
    for (unsigned i = 0; i < FIXTURE_NODES; i++) {
        fixture->loops[i] = loop_create("loop", i);
        fixture->nodes[i] = tunnel_node_create(fixture->broker, fixture->loops[i], &err);
        if (!fixture->nodes[i] || loop_start(fixture->loops[i], &err)) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }
}

struct order {
    struct fixture *fixture;
    unsigned node;
    uint64_t value;
};

static void post(struct fixture *fixture, unsigned node, uint64_t value, loop_fn fn)
{
    struct order *order = mem_alloc(sizeof(*order));
    *order = (struct order){.fixture = fixture, .node = node, .value = value};
    loop_post(fixture->loops[node], fn, order);
}

static void destroy_node(void *arg)
{
    struct order *order = arg;
    tunnel_node_destroy(order->fixture->nodes[order->node]);
    loop_stop(order->fixture->loops[order->node]);
    mem_free(order);
}

void fixture_stop(struct fixture *fixture)
{
    for (unsigned i = 0; i < FIXTURE_NODES; i++)
        post(fixture, i, 0, destroy_node);
    for (unsigned i = 0; i < FIXTURE_NODES; i++)
        loop_join(fixture->loops[i]);
    tunnel_broker_destroy(fixture->broker);
    for (unsigned i = 0; i < FIXTURE_NODES; i++)
        loop_destroy(fixture->loops[i]);
    unlink(fixture->certificate);
    unlink(fixture->key);
    rmdir(fixture->folder);
    pthread_mutex_destroy(&fixture->mutex);
}

struct fake_agent *fixture_agent(struct fixture *fixture, const struct fake_agent_options *options)
{
    struct fake_agent_options filled = *options;
    filled.port = fixture->port;
    if (!filled.token) filled.token = FIXTURE_TOKEN;
    if (!filled.runtime) filled.runtime = "demo";
    if (!filled.instance_id) filled.instance_id = "pod-1";
    return fake_agent_start(&filled);
}

struct fixture_wait fixture_wait_begin(void)
{
    return (struct fixture_wait){.until_ms = clock_mono_ms() + FIXTURE_WAIT_MS};
}

bool fixture_wait_more(struct fixture_wait *wait)
{
    struct timespec pause = {.tv_nsec = 1000 * 1000};
    nanosleep(&pause, NULL); // between two looks at the condition
    return clock_mono_ms() < wait->until_ms;
}

struct fake_agent *fixture_agent_up(struct fixture *fixture)
{
    return fixture_agent_up_as(fixture, "pod-1");
}

struct fake_agent *fixture_agent_up_as(struct fixture *fixture, const char *instance_id)
{
    unsigned before = atomic_load(&fixture->opened);
    struct fake_agent *agent = fixture_agent(fixture, &(struct fake_agent_options){.instance_id = instance_id});
    struct fixture_wait wait = fixture_wait_begin();
    while (atomic_load(&fixture->opened) == before || atomic_load(&fake_agent_seen(agent)->epoch) == 0)
        if (!fixture_wait_more(&wait)) abort();
    return agent;
}

static struct tunnel_session_ref fixture_last(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->mutex);
    struct tunnel_session_ref ref = fixture->last;
    pthread_mutex_unlock(&fixture->mutex);
    return ref;
}

static void resume_reports(void *arg)
{
    struct order *order = arg;
    tunnel_reports_resume(order->fixture->nodes[order->node], fixture_last(order->fixture));
    mem_free(order);
}

void fixture_resume_reports(struct fixture *fixture)
{
    post(fixture, fixture_last(fixture).node, 0, resume_reports);
}

static void acknowledge(void *arg)
{
    struct order *order = arg;
    tunnel_reports_ack(order->fixture->nodes[order->node], fixture_last(order->fixture),
                       &(struct wire_ack){.type = WIRE_ACK, .sequence = order->value});
    mem_free(order);
}

void fixture_acknowledge(struct fixture *fixture, uint64_t sequence)
{
    post(fixture, fixture_last(fixture).node, sequence, acknowledge);
}

static void reload_tls(void *arg)
{
    struct order *order = arg;
    struct error err;
    enum error_code code = tunnel_node_reload_tls(order->fixture->nodes[order->node], &err);
    atomic_fetch_add(code ? &order->fixture->reloads_failed : &order->fixture->reloads, 1);
    mem_free(order);
}

void fixture_reload_tls(struct fixture *fixture)
{
    post(fixture, 0, 0, reload_tls);
}

static void on_drained(void *arg)
{
    struct fixture *fixture = arg;
    atomic_fetch_add(&fixture->drained, 1);
}

static void drain(void *arg)
{
    struct order *order = arg;
    tunnel_node_drain(order->fixture->nodes[order->node], 10, order->value, on_drained, order->fixture);
    mem_free(order);
}

void fixture_drain(struct fixture *fixture, uint64_t deadline_ms)
{
    for (unsigned i = 0; i < FIXTURE_NODES; i++)
        post(fixture, i, deadline_ms, drain);
}

// ---- calls ---------------------------------------------------------------------------------------------------

static void call_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    (void)headers;
    (void)count;
    struct fixture_call *call = arg;
    atomic_store(&call->status, status);
    if (!call->cancels_on_head) return;
    tunnel_call_cancel(call->call);
    call->call = NULL;
    atomic_store(&call->done, true);
}

static void call_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct fixture_call *call = arg;
    for (size_t i = 0; i < len; i++)
        if (at[i] != 'x') atomic_store(&call->wrong_bytes, true);
    atomic_fetch_add(&call->received, len);
    if (call->cancels_on_data) {
        tunnel_call_cancel(call->call);
        call->call = NULL;
        atomic_store(&call->done, true);
    } else if (call->holds) {
        call->held += len;
    } else {
        tunnel_call_consumed(call->call, len);
    }
}

static void call_on_info(void *arg, int status)
{
    struct fixture_call *call = arg;
    if (status == 103 && !atomic_load(&call->status)) atomic_fetch_add(&call->infos, 1);
}

static void call_on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    (void)headers;
    struct fixture_call *call = arg;
    atomic_store(&call->trailers, count);
}

static void call_on_room(void *arg)
{
    char chunk[CHUNK_BYTES];
    memset(chunk, 'x', sizeof(chunk));
    struct fixture_call *call = arg;
    bool room = true;
    while (call->upload_left && room) {
        size_t len = call->upload_left < sizeof(chunk) ? (size_t)call->upload_left : sizeof(chunk);
        call->upload_left -= len;
        room = tunnel_call_write(call->call, chunk, len);
    }
    if (call->upload_left || call->later_bytes) return;
    static const struct http_header trailers[] = {{STR("x-checksum"), STR("abc")},
                                                  {STR("content-length"), STR("3")},
                                                  {STR("connection"), STR("close")},
                                                  {STR("Not-Lower"), STR("x")}};
    if (call->sends_trailers)
        tunnel_call_trailers(call->call, trailers, sizeof(trailers) / sizeof(trailers[0]));
    else
        tunnel_call_end(call->call);
}

static void call_on_taken(void *arg, size_t len)
{
    struct fixture_call *call = arg;
    atomic_fetch_add(&call->taken, len);
}

static void call_on_half_end(void *arg)
{
    struct fixture_call *call = arg;
    atomic_fetch_add(&call->remote_ends, 1);
    if (call->uploads_behind_end) call_on_room(call);
}

static void call_over(struct fixture_call *call, enum tunnel_cause cause)
{
    call->call = NULL;
    atomic_store(&call->cause, (int)cause);
    atomic_store(&call->done, true);
}

static void call_on_end(void *arg)
{
    call_over(arg, TUNNEL_CAUSE_NONE);
}

static void call_on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    (void)detail;
    call_over(arg, cause);
}

static void call_start(void *arg)
{
    static const struct exchange_events events = {.on_info = call_on_info,
                                                  .on_head = call_on_head,
                                                  .on_data = call_on_data,
                                                  .on_trailers = call_on_trailers,
                                                  .on_half_end = call_on_half_end,
                                                  .on_end = call_on_end,
                                                  .on_room = call_on_room,
                                                  .on_taken = call_on_taken,
                                                  .on_fail = call_on_fail};
    struct fixture_call *call = arg;
    const struct http_header headers[] = {{STR("x-request-id"), STR("r-1")}, {STR("connection"), STR("close")}};
    const struct tunnel_request request = {.account_id = str_c(call->account ? call->account : FIXTURE_ACCOUNT),
                                           .runtime = str_c(call->runtime ? call->runtime : "demo"),
                                           .method = str_c(call->method ? call->method : "GET"),
                                           .path = str_c(call->path),
                                           .protocol = str_c(call->protocol),
                                           .headers = headers,
                                           .header_count = 2,
                                           .end_stream = call->upload_bytes == 0 && !call->protocol,
                                           .user_id = "u-1",
                                           .user_name = "Somebody",
                                           .head_timeout_ms = call->head_timeout_ms,
                                           .epoch = call->epoch};
    call->upload_left = call->upload_bytes - call->later_bytes;
    call->call = tunnel_call_open(call->fixture->nodes[call->node], &request, &events, call);
    if (call->upload_bytes && !call->uploads_behind_end) call_on_room(call);
    if (!call->cancels_at_once) return;
    tunnel_call_cancel(call->call);
    call->call = NULL;
    atomic_store(&call->done, true);
}

void fixture_call_start(struct fixture_call *call)
{
    loop_post(call->fixture->loops[call->node], call_start, call);
}

static void call_release(void *arg)
{
    struct fixture_call *call = arg;
    call->holds = false;
    if (call->call) tunnel_call_consumed(call->call, call->held);
    call->held = 0;
}

void fixture_call_release(struct fixture_call *call)
{
    loop_post(call->fixture->loops[call->node], call_release, call);
}

static void call_cancel(void *arg)
{
    struct fixture_call *call = arg;
    if (call->call) tunnel_call_cancel(call->call);
    call->call = NULL;
    atomic_store(&call->done, true);
}

void fixture_call_cancel(struct fixture_call *call)
{
    loop_post(call->fixture->loops[call->node], call_cancel, call);
}

static void call_go_on(void *arg)
{
    struct fixture_call *call = arg;
    call->upload_left += call->later_bytes;
    call->later_bytes = 0;
    if (call->call) call_on_room(call);
}

void fixture_call_go_on(struct fixture_call *call)
{
    loop_post(call->fixture->loops[call->node], call_go_on, call);
}
