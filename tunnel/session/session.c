#include "tunnel/session/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/call/stream.h"
#include "tunnel/session/reports.h"

static struct metric *session_gauge(const struct tunnel_session *session)
{
    const struct tunnel_meter *meter = &session->node->broker->meter;
    switch (session->state) {
    case TUNNEL_SESSION_STANDBY: return meter->sessions_standby;
    case TUNNEL_SESSION_OPENING: return meter->sessions_opening;
    case TUNNEL_SESSION_OPEN: return meter->sessions_open;
    default: return meter->sessions_closing;
    }
}

void tunnel_session_set_state(struct tunnel_session *session, enum tunnel_session_state state)
{
    // clang-format off
    static const unsigned allowed[] = {
        [TUNNEL_SESSION_OPENING] = 1u << TUNNEL_SESSION_STANDBY | 1u << TUNNEL_SESSION_OPEN |
                                   1u << TUNNEL_SESSION_CLOSING | 1u << TUNNEL_SESSION_ENDED,
        [TUNNEL_SESSION_STANDBY] = 1u << TUNNEL_SESSION_OPEN | 1u << TUNNEL_SESSION_CLOSING |
                                   1u << TUNNEL_SESSION_ENDED,
        [TUNNEL_SESSION_OPEN] = 1u << TUNNEL_SESSION_CLOSING | 1u << TUNNEL_SESSION_ENDED,
        [TUNNEL_SESSION_CLOSING] = 1u << TUNNEL_SESSION_ENDED,
        [TUNNEL_SESSION_ENDED] = 0,
    };
    // clang-format on
    assert(allowed[session->state] & 1u << state);
    metric_move(session_gauge(session), -1);
    session->state = state;
    if (state != TUNNEL_SESSION_ENDED) metric_move(session_gauge(session), 1);
}

void tunnel_session_wants_write(struct tunnel_session *session)
{
    // Asking for nothing would cost two system calls and a callback each time.
    if (session->ws && (session->unsent_len || session->scheduler.waiting || nghttp2_session_want_write(session->h2)))
        tunnel_ws_want_write(session->ws);
}

void tunnel_session_wake(struct tunnel_session *session)
{
    if (session->state != TUNNEL_SESSION_ENDED) deadline_table_set(&session->node->deadlines, session, 0);
}

void tunnel_session_break(struct tunnel_session *session, const char *format, ...)
{
    if (session->broken[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(session->broken, sizeof(session->broken), format, args);
    va_end(args);
    if (session->state != TUNNEL_SESSION_ENDED) turn_add(&session->node->turn, &session->finish);
}

// ---- opening -------------------------------------------------------------------------------------------------

// The token was valid when the agent was let in. Who revokes one looks for its sessions once: one
// that was not listed yet must look itself. It ends as the others do, with the next message.
static bool session_is_revoked(const struct tunnel_session *session)
{
    struct tunnel_broker *broker = session->node->broker;
    const struct tunnel_identity *identity = &session->entry->info.identity;
    if (!broker->options.is_valid || broker->options.is_valid(broker->options.ctx, identity)) return false;
    tunnel_broker_revoke(broker, identity->account_id, identity->runtime, identity->token_id,
                         "the runtime token was revoked");
    return true;
}

void tunnel_session_start(struct tunnel_node *node, const struct tunnel_session_info *info, struct tunnel_ws *ws)
{
    struct tunnel_session *session = mem_zalloc(sizeof(*session));
    struct tunnel_session_info copy = *info;
    session->node = node;
    session->id = ++node->last_session_id;
    session->ws = ws;
    session->finish.run = tunnel_session_on_finish;
    session->opened_at_ms = session->life.heard_ms = session->life.asked_ms = clock_mono_ms();
    copy.ref = (struct tunnel_session_ref){.node = node->index, .id = session->id};
    copy.connected_at_ms = clock_wall_ms();
    memcpy(session->identity_key, info->identity.token_sha256, sizeof(session->identity_key));
    session->tenant = tunnel_tenants_enter(&node->tenants, info->identity.account_id);
    session->entry = tunnel_directory_add(node->broker->directory, &copy);
    session->h2 = tunnel_session_frames_create(session);
    wire_scheduler_init(&session->scheduler);
    session->state = TUNNEL_SESSION_OPENING;
    metric_move(session_gauge(session), 1);
    session->next = node->session_list;
    session->link = &node->session_list;
    if (session->next) session->next->link = &session->next;
    node->session_list = session;
    node->session_count++;
    id_map_put(&node->sessions, session->id, session);
    deadline_table_add(&node->deadlines, session);
    tunnel_ws_set_user(ws, session);
    tunnel_session_wants_write(session); // HTTP/2's preface
    explicit_bzero(&copy, sizeof(copy));
    if (session_is_revoked(session)) return;
    tunnel_session_ask_epoch(session);
}

struct session_older {
    struct tunnel_broker *broker;
    uint64_t newer_epoch;
};

struct session_supersede_message {
    uint64_t id, newer_epoch;
};

static void session_on_supersede_message(struct tunnel_node *node, void *arg)
{
    struct session_supersede_message *message = arg;
    struct tunnel_session *session = node->closed ? NULL : id_map_get(&node->sessions, message->id);
    if (session) tunnel_session_supersede(session, message->newer_epoch);
    mem_free(message);
}

static void session_on_older(void *arg, struct tunnel_session_ref ref)
{
    const struct session_older *older = arg;
    struct session_supersede_message *message = mem_alloc(sizeof(*message));
    *message = (struct session_supersede_message){.id = ref.id, .newer_epoch = older->newer_epoch};
    if (!tunnel_node_post(older->broker, ref.node, session_on_supersede_message, message)) mem_free(message);
}

void tunnel_session_accept(struct tunnel_session *session, uint64_t epoch)
{
    bool is_expected =
        session->state == TUNNEL_SESSION_STANDBY ? session->asking : session->state == TUNNEL_SESSION_OPENING;
    if (!is_expected) return;
    if (session_is_revoked(session)) return;
    struct tunnel_broker *broker = session->node->broker;
    session->asking = false;
    tunnel_directory_stand_by(broker->directory, session->entry, false);
    struct session_older older = {.broker = broker, .newer_epoch = epoch};
    uint64_t newer = 0;
    if (tunnel_directory_open(broker->directory, session->entry, epoch, session_on_older, &older, &newer)) {
        tunnel_session_supersede(session, newer);
        return;
    }
    tunnel_session_set_state(session, TUNNEL_SESSION_OPEN);
    session->sent_time_ms = clock_wall_ms();
    session->sent_time_at_ms = clock_mono_ms();
    bool is_bound = session->entry->info.binds_identities;
    tunnel_session_send_control(session,
                                &(struct wire_control){.type = WIRE_CONTROL_HELLO_ACK,
                                                       .session = session->id,
                                                       .capabilities = is_bound ? WIRE_CAPABILITY_BOUND_IDENTITY : 0,
                                                       .time_ms = (uint64_t)session->sent_time_ms,
                                                       .epoch = epoch,
                                                       .ping_after_ms = broker->options.ping_after_ms,
                                                       .dead_after_ms = broker->options.dead_after_ms});
    session->reports = tunnel_reports_create(session);
    if (!session->life.waits) tunnel_session_ping(session, clock_mono_ms()); // windows grow by the round trip
    metric_add(metric_with(broker->meter.epoch_changes, session->entry->took_over ? "took_over" : "opened"), 1);
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    log_info("tunnel", "session_open", log_c("account", info.identity.account_id),
             log_c("runtime", info.identity.runtime), log_uint("epoch", epoch), log_c("instance", info.instance_id),
             log_c("boot", info.boot_id), log_c("agent_version", info.agent_version), log_c("remote", info.remote),
             log_uint("node", info.ref.node), log_uint("session", info.ref.id));
    broker->options.on_session_open(broker->options.ctx, session->node, &info);
    explicit_bzero(&info, sizeof(info));
}

// ---- time ----------------------------------------------------------------------------------------------------

// When a session without anything to do but living wants to be looked at next: nothing is moved for
// each byte.
static uint64_t session_due_ms(const struct tunnel_session *session)
{
    bool is_standby = session->state == TUNNEL_SESSION_STANDBY;
    bool busy = (session->state != TUNNEL_SESSION_OPEN && !is_standby) || session->stream_count ||
                session->drain_at_ms || tunnel_reports_want_tick(session->reports);
    if (busy) return 0;
    uint64_t due_ms = tunnel_session_life_due_ms(session);
    uint64_t early_ms = session->node->life.tick_ms - 1;
    bool asks = is_standby && !session->asking && session->ask_at_ms - early_ms < due_ms;
    return asks ? session->ask_at_ms - early_ms : due_ms;
}

void tunnel_session_fetch(const struct tunnel_session *session)
{
    if (session->ws) tunnel_ws_fetch(session->ws);
    __builtin_prefetch(session->reports);
}

void tunnel_session_tick(struct tunnel_session *session, uint64_t now_ms)
{
    if (!tunnel_session_tick_life(session, now_ms)) return;
    if (session->state == TUNNEL_SESSION_CLOSING && now_ms >= session->close_at_ms) {
        tunnel_session_end_closed(session, "closed with calls in flight");
        return;
    }
    for (struct tunnel_stream *stream = session->streams, *next; stream; stream = next) {
        next = stream->next; // a stream's callback may end this one, and nothing but session_end frees another
        tunnel_stream_tick(stream, now_ms);
        if (session->state == TUNNEL_SESSION_ENDED) return;
    }
    if (session->state == TUNNEL_SESSION_STANDBY && now_ms >= session->ask_at_ms) tunnel_session_ask_again(session);
    if (session->state == TUNNEL_SESSION_OPEN && tunnel_reports_want_tick(session->reports))
        tunnel_reports_tick(session->reports, now_ms);
    if (session->drain_at_ms) tunnel_session_tick_drain(session, now_ms);
    if (session->state != TUNNEL_SESSION_ENDED)
        deadline_table_set(&session->node->deadlines, session, session_due_ms(session));
}

// ---- messages of the agent ----------------------------------------------------------------------

static void session_report_operation(struct tunnel_session *session, const struct wire_control *control)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (!options->on_session_operation) return;
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    options->on_session_operation(options->ctx, session->node, &info, control);
    explicit_bzero(&info, sizeof(info));
}

void tunnel_session_operate(struct tunnel_session *session, const struct wire_control *operation)
{
    if (session->state != TUNNEL_SESSION_OPEN) return;
    if (!session->entry->info.takes_operations) {
        session_report_operation(session,
                                 &(struct wire_control){.type = WIRE_CONTROL_OPERATION_STATE,
                                                        .operation = operation->operation,
                                                        .attempt = operation->attempt,
                                                        .state = WIRE_OPERATION_FAILED,
                                                        .code = STR("NOT_SUPPORTED"),
                                                        .reason = STR("the agent is of a version without operations")});
        return;
    }
    if (tunnel_session_takes_control(session)) tunnel_session_send_control(session, operation);
}

void tunnel_session_take_control(struct tunnel_session *session, const struct wire_control *control)
{
    bool open = session->state == TUNNEL_SESSION_OPEN || session->state == TUNNEL_SESSION_CLOSING;
    if (control->type == WIRE_CONTROL_OPERATION_STATE && open) {
        session_report_operation(session, control);
        return;
    }
    if (control->type != WIRE_CONTROL_STATS || !open) {
        tunnel_session_break(session, "control message %s out of state", wire_control_name(control->type));
        return;
    }
    log_debug("tunnel", "agent_stats", log_c("runtime", session->entry->info.identity.runtime),
              log_uint("streams", control->streams_open), log_uint("outbox", control->outbox_depth),
              log_uint("rss_bytes", control->rss_bytes), log_uint("behind_ms", control->behind_ms),
              log_uint("blind_ms", control->blind_ms));
    const struct tunnel_options *options = &session->node->broker->options;
    if (session->state != TUNNEL_SESSION_OPEN || !options->on_session_lag) return;
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    options->on_session_lag(options->ctx, session->node, &info, control->behind_ms, control->blind_ms);
    explicit_bzero(&info, sizeof(info));
}

// ---- bytes ---------------------------------------------------------------------------------------------------

// nghttp2 answers most violations by a GOAWAY of its own and ignores its input from then on.
static void session_check_over(struct tunnel_session *session)
{
    if (!session->broken[0] && session->state < TUNNEL_SESSION_CLOSING && !nghttp2_session_want_read(session->h2) &&
        !nghttp2_session_want_write(session->h2))
        tunnel_session_break(session, "the HTTP/2 session ended");
}

void tunnel_session_on_bytes(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_session *session = arg;
    if (session->state == TUNNEL_SESSION_ENDED) return;
    session->life.heard_ms = clock_mono_ms();
    if (len == 0) return; // a sign of life
    atomic_fetch_add_explicit(&session->entry->bytes_in, len, memory_order_relaxed);
    metric_add(session->node->broker->meter.bytes_in, len);
    ssize_t n = nghttp2_session_mem_recv(session->h2, at, len);
    if (n < 0) tunnel_session_break(session, "HTTP/2: %s", nghttp2_strerror((int)n));
    session_check_over(session);
    if (session->broken[0])
        tunnel_session_end(session, TUNNEL_ENDING_PROTOCOL, session->broken);
    else
        tunnel_session_wants_write(session);
}

size_t tunnel_session_on_writable(void *arg, uint8_t *out, size_t cap)
{
    struct tunnel_session *session = arg;
    size_t len = tunnel_session_frames_take(session, out, cap);
    session_check_over(session);
    if (session->entry) {
        atomic_fetch_add_explicit(&session->entry->bytes_out, len, memory_order_relaxed);
        metric_add(session->node->broker->meter.bytes_out, len);
    }
    return len;
}

void tunnel_session_on_closed(void *arg)
{
    struct tunnel_session *session = arg;
    session->ws = NULL;
    if (session->state == TUNNEL_SESSION_CLOSING) // it had sent a close
        tunnel_session_end_closed(session, "closed");
    else
        tunnel_session_end(session, TUNNEL_ENDING_LOST, "the agent's connection was lost");
    while (session->streams) // those that waited for nghttp2 to let them go
        tunnel_stream_lose(session->streams);
    turn_remove(&session->node->turn, &session->finish);
    tunnel_session_frames_finish(session);
    tunnel_tenants_leave(&session->node->tenants, session->tenant);
    mem_free(session);
}
