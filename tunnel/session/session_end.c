// A session's end: what makes it close, what becomes of its calls meanwhile, and the drain of its
// replica.
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/call/stream.h"
#include "tunnel/session/reports.h"
#include "tunnel/session/session.h"

enum {
    SUPERSEDED_GRACE_MS = 10000, // for calls in flight on a tunnel that a newer one took over from
    GOAWAY_GRACE_MS = 60000,     // for calls in flight when the agent goes
    DRAIN_SETTLE_MS = 500,       // after the agent's part of the spread, before an unused tunnel is closed
};

// ---- closing -------------------------------------------------------------------------------------------------

// No calls come here any more. A standby for this session is asked to serve.
static void session_retire(struct tunnel_session *session)
{
    struct tunnel_broker *broker = session->node->broker;
    const struct tunnel_identity *identity = &session->entry->info.identity;
    bool served = tunnel_directory_retire(broker->directory, session->entry);
    if (served && !session->superseded)
        tunnel_broker_wake_standbys(broker,
                                    &(struct runtime_key){str_c(identity->account_id), str_c(identity->runtime)});
}

// No new calls; those in flight may finish for grace_ms. Safe inside nghttp2's callbacks.
static void session_begin_close(struct tunnel_session *session, uint64_t grace_ms)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (!session->superseded && options->on_session_retired) {
        struct tunnel_session_info info;
        tunnel_entry_snapshot(session->entry, &info);
        info.ending = TUNNEL_ENDING_CLOSED;
        info.silent_ms = clock_mono_ms() - session->life.heard_ms;
        options->on_session_retired(options->ctx, session->node, &info);
        explicit_bzero(&info, sizeof(info));
    }
    session_retire(session);
    session->close_at_ms = clock_mono_ms() + grace_ms;
    tunnel_session_wake(session);
    tunnel_session_set_state(session, TUNNEL_SESSION_CLOSING);
    tunnel_session_check_finish(session);
}

void tunnel_session_supersede(struct tunnel_session *session, uint64_t newer_epoch)
{
    if (session->state == TUNNEL_SESSION_ENDED || session->state == TUNNEL_SESSION_CLOSING) return;
    uint64_t epoch = session->entry->info.epoch;
    if (epoch >= newer_epoch && session->state == TUNNEL_SESSION_OPEN) return;
    log_info("tunnel", "session_superseded", log_c("account", session->entry->info.identity.account_id),
             log_c("runtime", session->entry->info.identity.runtime), log_uint("epoch", epoch),
             log_uint("newer_epoch", newer_epoch), log_uint("calls", session->stream_count));
    metric_add(metric_with(session->node->broker->meter.epoch_changes, "superseded"), 1);
    tunnel_session_send_control(session, &(struct wire_control){.type = WIRE_CONTROL_SUPERSEDED,
                                                                .epoch = newer_epoch,
                                                                .reason = STR("a newer session took over")});
    session->superseded = true;
    // Records of the older epoch must not come any more; calls in flight may finish.
    tunnel_reports_destroy(session->reports);
    session->reports = NULL;
    nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    tunnel_session_wants_write(session);
    session_begin_close(session, SUPERSEDED_GRACE_MS);
}

void tunnel_session_check_finish(struct tunnel_session *session)
{
    if (session->state == TUNNEL_SESSION_ENDED) return;
    // The agent's GOAWAY: it opens another tunnel and ends this one when it is idle.
    bool leaving = !nghttp2_session_check_request_allowed(session->h2);
    if (session->state == TUNNEL_SESSION_OPEN && leaving) session_begin_close(session, GOAWAY_GRACE_MS);
    if (session->broken[0] || (session->state == TUNNEL_SESSION_CLOSING && (leaving || session->stream_count == 0)))
        turn_add(&session->node->turn, &session->finish);
}

// The agent takes no new calls. HEADERS that have not left would be dropped by nghttp2 when their
// turn came; a socket that is full must not keep their calls from going elsewhere until then.
static void session_drop_unsent(struct tunnel_session *session)
{
    for (struct tunnel_stream *stream = session->streams, *next; stream; stream = next) {
        next = stream->next; // the callback may cancel other streams, which frees none
        if (stream->events && !stream->is_reports && !stream->head_left) tunnel_stream_lose(stream);
    }
}

// At the end of a turn, outside of every callback of this session.
void tunnel_session_on_finish(struct turn_item *item)
{
    struct tunnel_session *session = (struct tunnel_session *)((char *)item - offsetof(struct tunnel_session, finish));
    if (!session->broken[0] && !nghttp2_session_check_request_allowed(session->h2)) session_drop_unsent(session);
    if (session->broken[0])
        tunnel_session_end(session, TUNNEL_ENDING_PROTOCOL, session->broken);
    else if (session->state == TUNNEL_SESSION_CLOSING && session->stream_count == 0)
        tunnel_session_end_closed(session, "closed");
}

// ---- the end -------------------------------------------------------------------------------------------------

static void session_unlist(struct tunnel_session *session)
{
    struct tunnel_node *node = session->node;
    *session->link = session->next;
    if (session->next) session->next->link = session->link;
    node->session_count--;
    id_map_remove(&node->sessions, session->id);
    deadline_table_remove(&node->deadlines, session);
    turn_remove(&node->turn, &session->finish);
}

static void session_log_end(const struct tunnel_session_info *info, const char *reason)
{
    log_info("tunnel", "session_closed", log_c("account", info->identity.account_id),
             log_c("runtime", info->identity.runtime), log_uint("epoch", info->epoch), log_c("reason", reason),
             log_int("lived_ms", clock_wall_ms() - info->connected_at_ms), log_uint("bytes_in", info->bytes_in),
             log_uint("bytes_out", info->bytes_out), log_uint("node", info->ref.node),
             log_uint("session", info->ref.id));
}

// How users read it, the label of the metric, and the status of the WebSocket's close (RFC 6455
// section 7.4.1; 0: there is no owner to notify).
static const struct session_ending {
    const char *name, *label;
    uint16_t ws_status;
} session_endings[] = {
    [TUNNEL_ENDING_LOST] = {"CONNECTION_LOST", "lost", 0},
    [TUNNEL_ENDING_SILENT] = {"PINGS_MISSED", "lost", 0},
    [TUNNEL_ENDING_CLOSED] = {"CLOSED_BY_AGENT", "closed", 1000},
    [TUNNEL_ENDING_DRAINED] = {"REPLICA_STOPPED", "drained", 1001},
    [TUNNEL_ENDING_PROTOCOL] = {"PROTOCOL_ERROR", "protocol", 1002},
    [TUNNEL_ENDING_REVOKED] = {"REVOKED", "refused", 1008},
    [TUNNEL_ENDING_SUPERSEDED] = {"SUPERSEDED", "closed", 1000},
};

const char *tunnel_ending_name(enum tunnel_ending ending)
{
    bool known = (size_t)ending < sizeof(session_endings) / sizeof(session_endings[0]);
    return known ? session_endings[ending].name : "UNKNOWN";
}

void tunnel_session_end(struct tunnel_session *session, enum tunnel_ending ending, const char *reason)
{
    if (session->state == TUNNEL_SESSION_ENDED) return;
    uint16_t ws_status = session_endings[ending].ws_status;
    struct tunnel_broker *broker = session->node->broker;
    tunnel_session_set_state(session, TUNNEL_SESSION_ENDED);
    session_unlist(session);
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    info.ending = ending;
    info.silent_ms = clock_mono_ms() - session->life.heard_ms;
    session_retire(session); // before a failed call is tried again
    while (session->streams)
        tunnel_stream_lose(session->streams);
    tunnel_reports_destroy(session->reports);
    session->reports = NULL;
    tunnel_directory_remove(broker->directory, session->entry);
    session->entry = NULL;
    tunnel_node_release(session->node, info.remote);
    explicit_bzero(session->identity_key, sizeof(session->identity_key));
    metric_add(metric_with(broker->meter.session_ends, session_endings[ending].label), 1);
    if (session->drained_at_ms)
        metric_observe(broker->meter.drain, (double)(clock_mono_ms() - session->drained_at_ms) / 1e3);
    session_log_end(&info, reason);
    if (session->ws) {
        uint32_t code = ending == TUNNEL_ENDING_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
        // Not nghttp2_session_terminate_session(): it drops the control messages that have not left
        // yet.
        nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE, 0, code, NULL, 0);
        tunnel_ws_close(session->ws, ws_status, ws_status == 0);
    }
    broker->options.on_session_closed(broker->options.ctx, session->node, &info, reason);
    explicit_bzero(&info, sizeof(info));
}

void tunnel_session_end_closed(struct tunnel_session *session, const char *reason)
{
    tunnel_session_end(session, session->superseded ? TUNNEL_ENDING_SUPERSEDED : TUNNEL_ENDING_CLOSED, reason);
}

// ---- drain ---------------------------------------------------------------------------------------------------

void tunnel_session_begin_drain(struct tunnel_session *session, uint64_t after_ms, uint64_t spread_ms)
{
    if (session->drain_at_ms) return;
    session->drain_at_ms = clock_mono_ms() + after_ms;
    session->drain_spread_ms = spread_ms;
    tunnel_session_wake(session);
}

void tunnel_session_tick_drain(struct tunnel_session *session, uint64_t now_ms)
{
    const struct tunnel_node *node = session->node;
    if (!session->drained_at_ms) {
        if (now_ms < session->drain_at_ms) return;
        session->drained_at_ms = now_ms;
        if (session->ws)
            tunnel_ws_speak_first(session->ws); // calls that are on their way when the agent's GOAWAY comes
        uint64_t left_ms = node->drain_deadline_ms > now_ms ? node->drain_deadline_ms - now_ms : 0;
        tunnel_session_send_control(session, &(struct wire_control){.type = WIRE_CONTROL_DRAIN,
                                                                    .deadline_ms = left_ms,
                                                                    .spread_ms = session->drain_spread_ms,
                                                                    .reason = STR("this replica stops")});
        return;
    }
    // The agent has had its time to open another tunnel; that one's supersedes this one, wherever
    // it is. Otherwise this one goes on carrying calls for as long as there are any.
    if (session->stream_count == 0 && now_ms >= session->drained_at_ms + session->drain_spread_ms + DRAIN_SETTLE_MS)
        tunnel_session_end(session, TUNNEL_ENDING_DRAINED, "drained");
}
