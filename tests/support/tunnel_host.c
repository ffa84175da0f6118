// culvert-tunnel-host: a tunnel broker on two loops with a made-up authority behind it, for trying an agent by hand and
// for tests of the agent alone. Commands on standard input, answers as lines on standard output:
//   sessions                      lists them
//   get NODE PATH                 a GET through the tunnel, made on that loop: "head 200", "data ...", "end" or "fail
//   ..." upload NODE PATH BYTES        a POST with a body of so many bytes bench NODE PATH CALLS AT_ONCE GETs, several
//   at once: "bench calls=... failed=... seconds=... bytes=..." revoke | drain | quit
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/token.h"
#include "tunnel/broker.h"
#include "tunnel/wire/proof.h"

enum { NODES = 2, CHUNK_BYTES = 32 * 1024 };

#define ACCOUNT "0123456789abcdef01234567"

struct host {
    struct loop *loops[NODES];
    struct tunnel_node *nodes[NODES];
    struct tunnel_broker *broker;
    const char *token, *runtime;
    atomic_uint_fast64_t epoch;
    atomic_uint drained;
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    flockfile(stdout);
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
    va_end(args);
}

// ---- the authority -------------------------------------------------------------------------------------------

static enum error_code host_authenticate(void *ctx, struct tunnel_node *node,
                                         const struct tunnel_credential *credential, struct tunnel_identity *out,
                                         struct error *err)
{
    (void)node;
    struct host *host = ctx;
    struct token token, said;
    enum error_code code = token_parse(str_c(host->token), &token, err);
    if (!code && credential->binding)
        code = wire_proof_unseal(credential->token, token.secret_sha256, credential->binding, &said, err);
    else if (!code)
        code = token_parse(credential->token, &said, err);
    if (code || memcmp(&said, &token, sizeof(said)) != 0) return error_set(err, ERROR_UNAUTHENTICATED, "unknown token");
    snprintf(out->account_id, sizeof(out->account_id), "%s", ACCOUNT);
    snprintf(out->runtime, sizeof(out->runtime), "%s", host->runtime);
    snprintf(out->token_id, sizeof(out->token_id), "%s", token.id);
    memcpy(out->token_sha256, token.secret_sha256, sizeof(out->token_sha256));
    return ERROR_NONE;
}

struct opening {
    struct host *host;
    struct tunnel_node *node;
    struct tunnel_session_ref ref;
};

static void host_answer_opening(void *arg)
{
    struct opening *opening = arg;
    tunnel_session_opened(opening->node, opening->ref, atomic_fetch_add(&opening->host->epoch, 1) + 1);
    mem_free(opening);
}

static void host_on_opening(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    struct opening *opening = mem_alloc(sizeof(*opening));
    *opening = (struct opening){.host = ctx, .node = node, .ref = session->ref};
    loop_post(tunnel_node_loop(node), host_answer_opening, opening);
}

static void host_on_open(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    (void)ctx;
    (void)node;
    say("open node=%u session=%llu epoch=%llu instance=%s", session->ref.node, (unsigned long long)session->ref.id,
        (unsigned long long)session->epoch, session->instance_id);
}

static void host_on_closed(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                           const char *reason)
{
    (void)ctx;
    (void)node;
    say("closed node=%u session=%llu epoch=%llu reason=%s", session->ref.node, (unsigned long long)session->ref.id,
        (unsigned long long)session->epoch, reason);
}

static bool host_on_report(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                           const struct wire_report *report)
{
    (void)ctx;
    say("report type=%d sequence=%llu kind=%.*s name=%.*s/%.*s bytes=%zu", (int)report->type,
        (unsigned long long)report->sequence, STR_ARG(report->ref.kind), STR_ARG(report->ref.ns),
        STR_ARG(report->ref.name), report->manifest.len);
    tunnel_reports_ack(node, session->ref, &(struct wire_ack){.type = WIRE_ACK, .sequence = report->sequence});
    return true;
}

// ---- calls ---------------------------------------------------------------------------------------------------

struct run {
    struct host *host;
    struct tunnel_node *node;
    char path[1024];
    uint64_t upload_bytes;
    bool quiet;
    unsigned left, under_way, failed, done;
    uint64_t bytes, started_us;
};

struct visit {
    struct run *run;
    struct tunnel_call *call;
    uint64_t upload_left;
};

static void visit_start(struct run *run);

static void visit_over(struct visit *visit, bool failed)
{
    struct run *run = visit->run;
    mem_free(visit);
    run->under_way--;
    run->done++;
    run->failed += failed;
    if (run->left) {
        visit_start(run);
    } else if (run->under_way == 0) {
        if (run->quiet)
            say("bench calls=%u failed=%u seconds=%.3f bytes=%llu", run->done, run->failed,
                (double)(clock_mono_us() - run->started_us) / 1e6, (unsigned long long)run->bytes);
        mem_free(run);
    }
}

static void visit_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct visit *visit = arg;
    if (visit->run->quiet) return;
    say("head %d", status);
    for (size_t i = 0; i < count; i++)
        say("header %.*s: %.*s", STR_ARG(headers[i].name), STR_ARG(headers[i].value));
}

static void visit_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct visit *visit = arg;
    visit->run->bytes += len;
    if (!visit->run->quiet) say("data %zu %.*s", len, (int)(len < 4096 ? len : 4096), (const char *)at);
    tunnel_call_consumed(visit->call, len);
}

static void visit_upload(void *arg)
{
    static const char chunk[CHUNK_BYTES];
    struct visit *visit = arg;
    bool room = true;
    while (visit->upload_left && room) {
        size_t len = visit->upload_left < sizeof(chunk) ? (size_t)visit->upload_left : sizeof(chunk);
        visit->upload_left -= len;
        room = tunnel_call_write(visit->call, chunk, len);
    }
    if (visit->upload_left == 0) tunnel_call_end(visit->call);
}

static void visit_on_end(void *arg)
{
    struct visit *visit = arg;
    if (!visit->run->quiet) say("end");
    visit_over(visit, false);
}

static void visit_on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct visit *visit = arg;
    if (!visit->run->quiet || !visit->run->failed) say("fail %s %s", tunnel_cause_name(cause), detail);
    visit_over(visit, true);
}

static void visit_start(struct run *run)
{
    static const struct exchange_events events = {.on_head = visit_on_head,
                                                  .on_data = visit_on_data,
                                                  .on_end = visit_on_end,
                                                  .on_room = visit_upload,
                                                  .on_fail = visit_on_fail};
    struct visit *visit = mem_zalloc(sizeof(*visit));
    const struct tunnel_request request = {.account_id = STR(ACCOUNT),
                                           .runtime = str_c(run->host->runtime),
                                           .method = run->upload_bytes ? STR("POST") : STR("GET"),
                                           .path = str_c(run->path),
                                           .end_stream = run->upload_bytes == 0,
                                           .user_id = "user-1",
                                           .user_name = "Somebody"};
    run->left--;
    run->under_way++;
    visit->run = run;
    visit->upload_left = run->upload_bytes;
    visit->call = tunnel_call_open(run->node, &request, &events, visit);
    if (run->upload_bytes) visit_upload(visit);
}

static void run_on_loop(void *arg)
{
    struct run *run = arg;
    run->started_us = clock_mono_us();
    unsigned at_once = run->under_way;
    run->under_way = 0;
    for (unsigned i = 0; i < at_once && run->left; i++)
        visit_start(run);
}

static void host_run(struct host *host, unsigned node, const char *path, uint64_t upload_bytes, unsigned calls,
                     unsigned at_once)
{
    struct run *run = mem_zalloc(sizeof(*run));
    run->host = host;
    run->node = host->nodes[node % NODES];
    snprintf(run->path, sizeof(run->path), "%s", path);
    run->upload_bytes = upload_bytes;
    run->left = calls;
    run->under_way = at_once;
    run->quiet = calls > 1;
    loop_post(host->loops[node % NODES], run_on_loop, run);
}

// ---- commands ------------------------------------------------------------------------------------------------

static void host_on_each(void *arg, const struct tunnel_session_info *session)
{
    (void)arg;
    say("session node=%u session=%llu epoch=%llu instance=%s version=%s rtt_us=%llu in=%llu out=%llu streams=%u",
        session->ref.node, (unsigned long long)session->ref.id, (unsigned long long)session->epoch,
        session->instance_id, session->agent_version, (unsigned long long)session->rtt_us,
        (unsigned long long)session->bytes_in, (unsigned long long)session->bytes_out, session->streams_open);
}

static void host_on_drained(void *arg)
{
    struct host *host = arg;
    if (atomic_fetch_add(&host->drained, 1) + 1 == NODES) say("drained");
}

struct node_order {
    struct host *host;
    unsigned index;
};

static void host_drain_node(void *arg)
{
    struct node_order *order = arg;
    tunnel_node_drain(order->host->nodes[order->index], 100, 5000, host_on_drained, order->host);
    mem_free(order);
}

static void host_destroy_node(void *arg)
{
    struct node_order *order = arg;
    tunnel_node_destroy(order->host->nodes[order->index]);
    loop_stop(order->host->loops[order->index]);
    mem_free(order);
}

static void host_order(struct host *host, loop_fn fn)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct node_order *order = mem_alloc(sizeof(*order));
        *order = (struct node_order){.host = host, .index = i};
        loop_post(host->loops[i], fn, order);
    }
}

static bool host_command(struct host *host, const char *line)
{
    unsigned node = 0, calls = 0, at_once = 0;
    unsigned long long bytes = 0;
    char path[1024];
    if (sscanf(line, "get %u %1023s", &node, path) == 2)
        host_run(host, node, path, 0, 1, 1);
    else if (sscanf(line, "upload %u %1023s %llu", &node, path, &bytes) == 3)
        host_run(host, node, path, bytes, 1, 1);
    else if (sscanf(line, "bench %u %1023s %u %u", &node, path, &calls, &at_once) == 4)
        host_run(host, node, path, 0, calls, at_once);
    else if (!strncmp(line, "sessions", 8))
        tunnel_broker_each_session(host->broker, host_on_each, NULL);
    else if (!strncmp(line, "revoke", 6))
        tunnel_broker_revoke(host->broker, ACCOUNT, host->runtime, NULL, "revoked by hand");
    else if (!strncmp(line, "drain", 5))
        host_order(host, host_drain_node);
    else if (!strncmp(line, "quit", 4))
        return false;
    else
        say("unknown command");
    return true;
}

static bool host_start(struct host *host, char **argv)
{
    struct error err;
    const struct tunnel_options options = {.listen = argv[1],
                                           .tls_certificate_file = argv[2],
                                           .tls_key_file = argv[3],
                                           .sessions_max = 10000,
                                           .streams_max = 1000,
                                           .ping_after_ms = 10000,
                                           .dead_after_ms = 5000,
                                           .head_timeout_ms = 60000,
                                           .buffered_bytes_max = 8 * 1024 * 1024,
                                           .node_buffered_bytes_max = 256 * 1024 * 1024,
                                           .handshakes_per_second = 1000,
                                           .ctx = host,
                                           .authenticate = host_authenticate,
                                           .on_session_opening = host_on_opening,
                                           .on_session_open = host_on_open,
                                           .on_session_closed = host_on_closed,
                                           .on_report = host_on_report};
    host->broker = tunnel_broker_create(&options, &err);
    for (unsigned i = 0; host->broker && i < NODES; i++) {
        host->loops[i] = loop_create(i ? "loop-1" : "loop-0", i);
        host->nodes[i] = tunnel_node_create(host->broker, host->loops[i], &err);
        if (!host->nodes[i] || loop_start(host->loops[i], &err)) {
            log_error("tunnel_host", "not_started", log_err(&err));
            return false;
        }
    }
    if (!host->broker) log_error("tunnel_host", "not_started", log_err(&err));
    return host->broker != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s ADDRESS CERTIFICATE KEY TOKEN [RUNTIME]\n", argv[0]);
        return 2;
    }
    struct host host = {.token = argv[4], .runtime = argc > 5 ? argv[5] : "demo"};
    if (!host_start(&host, argv)) return 1;
    say("ready");
    char line[2048];
    while (fgets(line, sizeof(line), stdin) && host_command(&host, line))
        continue;
    host_order(&host, host_destroy_node);
    for (unsigned i = 0; i < NODES; i++)
        loop_join(host.loops[i]);
    tunnel_broker_destroy(host.broker);
    for (unsigned i = 0; i < NODES; i++)
        loop_destroy(host.loops[i]);
    say("bye");
    return 0;
}
