#include "server/server_broker.h"

#include "base/clock.h"
#include "server/chores/enrollments.h"
#include "server/intake/intake.h"
#include "server/listener_settings.h"
#include "server/operations/operation_sender.h"
#include "server/sessions/sessions.h"
#include "server/tls/tls_settings.h"
#include "server/worker.h"
#include "server/worker_peers.h"
#include "tunnel/tunnel_settings.h"

enum { TOKENS_WAIT_MS = 10 * 1000 }; // so long agents wait for the first reading of the tokens

static struct worker *worker_of(void *ctx, const struct tunnel_node *node)
{
    struct server *server = ctx;
    return server->workers[tunnel_node_index(node)];
}

static enum error_code authenticate(void *ctx, struct tunnel_node *node, const struct tunnel_credential *credential,
                                    struct tunnel_identity *out, struct error *err)
{
    struct server *server = ctx;
    struct error limit;
    struct str remote = str_c(credential->remote);
    enum error_code code = runtime_tokens_authenticate(server->tokens, credential, out, err);
    if ((code == ERROR_UNAUTHENTICATED || code == ERROR_UNAVAILABLE) && credential->enrollment.len)
        return enrollments_ask(server->enrollments, worker_of(ctx, node)->pg, credential, err);
    if (code != ERROR_UNAUTHENTICATED) return code;
    if (failed_sign_ins_check(server->failed_sign_ins, remote, NULL, &limit) != ERROR_NONE)
        return error_set(err, ERROR_LIMITED, "%s", limit.text);
    failed_sign_ins_note(server->failed_sign_ins, remote, STR_EMPTY);
    return code;
}

static void on_session_opening(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_opening(worker_of(ctx, node)->sessions, node, session);
}

static void on_session_open(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_open(worker_of(ctx, node)->sessions, session);
}

static void on_session_retired(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_retired(worker_of(ctx, node)->sessions, session);
}

static void on_session_closed(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                              const char *reason)
{
    struct worker *worker = worker_of(ctx, node);
    intake_forget_session(worker->intake, session->ref);
    sessions_on_closed(worker->sessions, session, reason);
}

static void on_session_lag(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                           uint64_t behind_ms, uint64_t blind_ms)
{
    sessions_on_lag(worker_of(ctx, node)->sessions, session, behind_ms, blind_ms);
}

static void on_session_operation(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                                 const struct wire_control *control)
{
    operation_sender_take(worker_of(ctx, node)->operations, session, control);
}

static bool on_report(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct wire_report *report)
{
    return intake_take_tunnel(worker_of(ctx, node)->intake, session, report);
}

// Agents that came back before their tokens were read would all be told to come again. A database
// that is away is not waited for: then they are told so.
static bool may_come(void *ctx)
{
    const struct server *server = ctx;
    return runtime_tokens_are_known(server->tokens) || clock_mono_ms() - server->started_ms >= TOKENS_WAIT_MS;
}

static bool is_proxy(void *ctx, struct str address)
{
    const struct server *server = ctx;
    return trusted_proxies_have(&server->proxies, address);
}

static bool is_valid(void *ctx, const struct tunnel_identity *identity)
{
    struct server *server = ctx;
    return runtime_tokens_has(server->tokens, identity);
}

enum error_code server_broker_start(struct server *server, struct error *err)
{
    const struct config *config = server->config;
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct tls_settings *tls = tls_settings_of(config);
    const struct tunnel_settings *tunnel = tunnel_settings_of(config);
    bool own = tls->tunnel_certificate_file[0] != '\0';
    struct tunnel_options options = {
        .listen = listeners->tunnel,
        .tls_certificate_file = own ? tls->tunnel_certificate_file : tls->certificate_file,
        .tls_key_file = own ? tls->tunnel_key_file : tls->key_file,
        .sessions_max = (unsigned)tunnel->sessions_max,
        .streams_max = (unsigned)tunnel->streams_max,
        .ping_after_ms = (uint64_t)tunnel->ping_after_ms,
        .dead_after_ms = (uint64_t)tunnel->dead_after_ms,
        .head_timeout_ms = (uint64_t)tunnel->head_timeout_ms,
        .buffered_bytes_max = (uint64_t)tunnel->buffered_bytes_max,
        .account_buffered_bytes_max = (uint64_t)tunnel->account_buffered_bytes_max,
        .node_buffered_bytes_max = (uint64_t)tunnel->node_buffered_bytes_max,
        .handshakes_per_second = (unsigned)tunnel->handshakes_per_second,
        .handshakes_per_address = (unsigned)tunnel->handshakes_per_address,
        .sessions_per_address = (unsigned)tunnel->sessions_per_address,
        .may_come = may_come,
        .is_proxy = is_proxy,
        .ctx = server,
        .authenticate = authenticate,
        .is_valid = is_valid,
        .on_session_opening = on_session_opening,
        .on_session_open = on_session_open,
        .on_session_retired = on_session_retired,
        .on_session_closed = on_session_closed,
        .on_session_lag = on_session_lag,
        .on_session_operation = on_session_operation,
        .on_report = on_report,
        .carrier = &worker_peers_carrier,
    };
    server->broker = tunnel_broker_create(&options, err);
    return server->broker ? ERROR_NONE : err->code;
}
