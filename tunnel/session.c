#include "tunnel/session.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tunnel/reports.h"
#include "tunnel/stream.h"

enum {
    SUPERSEDED_GRACE_MS = 10000, // for calls in flight on a tunnel that a newer one took over from
    GOAWAY_GRACE_MS = 60000,     // for calls in flight when the agent goes
    BUSY_PING_MS = 5000,         // a tunnel that carries calls is measured, too: windows go by the round trip
    QUIET_PING_MS = 120000,      // and others now and then: agents that speak first are never silent here
    SPARE_ASK_MS = 3000,         // a spare asks for an epoch after one to two of these,
    SPARE_SOON_MS = 100,         // and when who served has gone after this, twice, four times... it:
    SPARE_ASKS_SOON = 6,         // PostgreSQL may not have been told yet
    DRAIN_SETTLE_MS = 500,       // after the agent's part of the spread, before an unused tunnel is closed
};

static struct tunnel_meter *session_meter(const struct tunnel_session *session)
{
    return &session->node->broker->meter;
}

static struct metric *session_gauge(const struct tunnel_session *session)
{
    struct tunnel_meter *meter = session_meter(session);
    switch (session->state) {
    case TUNNEL_SESSION_STANDBY: return meter->sessions_standby;
    case TUNNEL_SESSION_OPENING: return meter->sessions_opening;
    case TUNNEL_SESSION_OPEN: return meter->sessions_open;
    default: return meter->sessions_closing;
    }
}

static void session_set_state(struct tunnel_session *session, enum tunnel_session_state state)
{
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
    if (session->state != TUNNEL_SESSION_ENDED) timetable_set(&session->node->timetable, session, 0);
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

static void session_ping(struct tunnel_session *session, uint64_t now_ms);

// Of a session that takes no calls any more.
static enum tunnel_ending session_closing_ending(const struct tunnel_session *session)
{
    return session->superseded ? TUNNEL_ENDING_SUPERSEDED : TUNNEL_ENDING_CLOSED;
}

// ---- opening -------------------------------------------------------------------------------------------------

// The agent takes no new calls. HEADERS that have not left would be dropped by nghttp2 when their turn came; a socket
// that is full must not keep their calls from going elsewhere until then.
static void session_drop_unsent(struct tunnel_session *session)
{
    for (struct tunnel_stream *stream = session->streams, *next; stream; stream = next) {
        next = stream->next; // what is told may cancel other streams, which frees none
        if (stream->events && !stream->is_reports && !stream->head_left) tunnel_stream_lose(stream);
    }
}

// At the end of a turn, outside of every callback of this session.
static void session_on_finish(struct turn_item *item)
{
    struct tunnel_session *session = (struct tunnel_session *)((char *)item - offsetof(struct tunnel_session, finish));
    if (!session->broken[0] && !nghttp2_session_check_request_allowed(session->h2)) session_drop_unsent(session);
    if (session->broken[0])
        tunnel_session_end(session, TUNNEL_ENDING_PROTOCOL, session->broken);
    else if (session->state == TUNNEL_SESSION_CLOSING && session->stream_count == 0)
        tunnel_session_end(session, session_closing_ending(session), "closed");
}

static void session_ask_epoch(struct tunnel_session *session)
{
    const struct tunnel_options *options = &session->node->broker->options;
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    info.stands_by = session->state == TUNNEL_SESSION_STANDBY;
    options->on_session_opening(options->ctx, session->node, &info);
    explicit_bzero(&info, sizeof(info));
}

// ---- standing by ---------------------------------------------------------------------------------------------

static uint64_t session_spare_wait_ms(struct tunnel_session *session)
{
    if (!session->asks_soon) return SPARE_ASK_MS + id_random_below(SPARE_ASK_MS);
    return (uint64_t)SPARE_SOON_MS << (SPARE_ASKS_SOON - session->asks_soon--);
}

void tunnel_session_stand_by(struct tunnel_session *session)
{
    bool is_new = session->state == TUNNEL_SESSION_OPENING;
    if (!is_new && session->state != TUNNEL_SESSION_STANDBY) return;
    session->asking = false;
    session->ask_at_ms = clock_mono_ms() + session_spare_wait_ms(session);
    if (is_new) {
        session_set_state(session, TUNNEL_SESSION_STANDBY);
        tunnel_directory_stand_by(session->node->broker->directory, session->entry, true);
        metric_add(session_meter(session)->flaps, 1);
        log_warn(
            "tunnel", "session_stands_by", log_c("account", session->entry->info.identity.account_id),
            log_c("runtime", session->entry->info.identity.runtime),
            log_c("instance", session->entry->info.instance_id),
            log_c("hint", "agents with one token keep replacing each other: one serves, the others are its spares"));
        tunnel_session_send_control(
            session,
            &(struct wire_control){.type = WIRE_CONTROL_STANDBY, .reason = STR("another agent serves this runtime")});
    }
    tunnel_session_wake(session);
}

static void session_ask_again(struct tunnel_session *session)
{
    if (session->asking || session->node->draining) return;
    session->asking = true;
    session_ask_epoch(session);
}

void tunnel_session_wake_spare(struct tunnel_session *session)
{
    if (session->state != TUNNEL_SESSION_STANDBY) return;
    session->asks_soon = SPARE_ASKS_SOON;
    session_ask_again(session);
}

// No calls come here any more. Whoever stands by for this session is asked to serve.
static void session_retire(struct tunnel_session *session)
{
    struct tunnel_broker *broker = session->node->broker;
    const struct tunnel_identity *identity = &session->entry->info.identity;
    bool served = tunnel_directory_retire(broker->directory, session->entry);
    if (served && !session->superseded)
        tunnel_broker_wake_spares(broker, str_c(identity->account_id), str_c(identity->runtime));
}

// ---- opening -------------------------------------------------------------------------------------------------

// The token was valid when the agent was let in. Who revokes one looks for its sessions once: one that was not listed
// yet must look itself. It ends as the others do, with the next letter.
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
    session->finish.run = session_on_finish;
    session->opened_at_ms = session->received_at_ms = session->ping_at_ms = clock_mono_ms();
    copy.ref = (struct tunnel_session_ref){.node = node->index, .id = session->id};
    copy.connected_at_ms = clock_wall_ms();
    memcpy(session->identity_key, info->identity.token_sha256, sizeof(session->identity_key));
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
    timetable_add(&node->timetable, session);
    tunnel_ws_set_user(ws, session);
    tunnel_session_wants_write(session); // HTTP/2's preface
    explicit_bzero(&copy, sizeof(copy));
    if (session_is_revoked(session)) return;
    session_ask_epoch(session);
}

struct session_older {
    struct tunnel_broker *broker;
    uint64_t newer_epoch;
};

struct session_supersede_letter {
    uint64_t id, newer_epoch;
};

static void session_on_supersede_letter(struct tunnel_node *node, void *arg)
{
    struct session_supersede_letter *letter = arg;
    struct tunnel_session *session = node->closed ? NULL : id_map_get(&node->sessions, letter->id);
    if (session) tunnel_session_supersede(session, letter->newer_epoch);
    mem_free(letter);
}

static void session_on_older(void *arg, struct tunnel_session_ref ref)
{
    const struct session_older *older = arg;
    struct session_supersede_letter *letter = mem_alloc(sizeof(*letter));
    *letter = (struct session_supersede_letter){.id = ref.id, .newer_epoch = older->newer_epoch};
    if (!tunnel_node_post(older->broker, ref.node, session_on_supersede_letter, letter)) mem_free(letter);
}

void tunnel_session_accept(struct tunnel_session *session, uint64_t epoch)
{
    if (session->state != TUNNEL_SESSION_OPENING && !session->asking) return;
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
    session_set_state(session, TUNNEL_SESSION_OPEN);
    tunnel_session_send_control(session, &(struct wire_control){.type = WIRE_CONTROL_HELLO_ACK,
                                                                .session = session->id,
                                                                .epoch = epoch,
                                                                .ping_after_ms = broker->options.ping_after_ms,
                                                                .dead_after_ms = broker->options.dead_after_ms});
    session->reports = tunnel_reports_create(session);
    if (!session->ping_sent_us) session_ping(session, clock_mono_ms()); // windows grow by the round trip
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

// ---- closing -------------------------------------------------------------------------------------------------

// No new calls; those in flight may finish for grace_ms. Safe inside nghttp2's callbacks.
static void session_begin_close(struct tunnel_session *session, uint64_t grace_ms)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (!session->superseded && options->on_session_retired) {
        struct tunnel_session_info info;
        tunnel_entry_snapshot(session->entry, &info);
        info.ending = TUNNEL_ENDING_CLOSED;
        info.silent_ms = clock_mono_ms() - session->received_at_ms;
        options->on_session_retired(options->ctx, session->node, &info);
        explicit_bzero(&info, sizeof(info));
    }
    session_retire(session);
    session->close_at_ms = clock_mono_ms() + grace_ms;
    tunnel_session_wake(session);
    session_set_state(session, TUNNEL_SESSION_CLOSING);
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
    metric_add(metric_with(session_meter(session)->epoch_changes, "superseded"), 1);
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

static void session_unlist(struct tunnel_session *session)
{
    struct tunnel_node *node = session->node;
    *session->link = session->next;
    if (session->next) session->next->link = session->link;
    node->session_count--;
    id_map_remove(&node->sessions, session->id);
    timetable_remove(&node->timetable, session);
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

// How users read it, the label of the metric, and the status of the WebSocket's close (RFC 6455 section 7.4.1; 0: there
// is nobody to tell).
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
    session_set_state(session, TUNNEL_SESSION_ENDED);
    session_unlist(session);
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    info.ending = ending;
    info.silent_ms = clock_mono_ms() - session->received_at_ms;
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
        // Not nghttp2_session_terminate_session(): it drops the control messages that have not left yet.
        nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE, 0, code, NULL, 0);
        tunnel_ws_close(session->ws, ws_status, ws_status == 0);
    }
    broker->options.on_session_closed(broker->options.ctx, session->node, &info, reason);
    explicit_bzero(&info, sizeof(info));
}

// ---- drain ---------------------------------------------------------------------------------------------------

void tunnel_session_begin_drain(struct tunnel_session *session, uint64_t after_ms, uint64_t spread_ms)
{
    if (session->drain_at_ms) return;
    session->drain_at_ms = clock_mono_ms() + after_ms;
    session->drain_spread_ms = spread_ms;
    tunnel_session_wake(session);
}

static void session_tick_drain(struct tunnel_session *session, uint64_t now_ms)
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
    // The agent has had its time to open another tunnel; that one's supersedes this one, wherever it is. Otherwise
    // this one goes on carrying calls for as long as there are any.
    if (session->stream_count == 0 && now_ms >= session->drained_at_ms + session->drain_spread_ms + DRAIN_SETTLE_MS)
        tunnel_session_end(session, TUNNEL_ENDING_DRAINED, "drained");
}

// ---- liveness ------------------------------------------------------------------------------------------------

void tunnel_session_take_pong(struct tunnel_session *session, uint64_t sent_us)
{
    if (!session->ping_sent_us || sent_us != session->ping_sent_us) return; // not ours: of no meaning
    uint64_t rtt_us = clock_mono_us() - sent_us;
    session->ping_sent_us = 0;
    wire_rtt_measured(&session->rtt, rtt_us, session->ping_quiet && session->stream_count == 0);
    if (session->entry) atomic_store_explicit(&session->entry->rtt_us, session->rtt.smooth_us, memory_order_relaxed);
    metric_observe(session_meter(session)->rtt, (double)rtt_us / 1e6);
}

static void session_ping(struct tunnel_session *session, uint64_t now_ms)
{
    uint8_t opaque[8];
    session->ping_at_ms = now_ms;
    session->ping_sent_us = clock_mono_us();
    session->ping_quiet = session->stream_count == 0;
    memcpy(opaque, &session->ping_sent_us, sizeof(opaque));
    nghttp2_submit_ping(session->h2, NGHTTP2_FLAG_NONE, opaque);
    tunnel_session_wants_write(session);
}

// What was not read yet is life, too.
static void session_hear_words(struct tunnel_session *session)
{
    uint64_t silent_ms = 0, now_ms = clock_mono_ms();
    if (!session->ws || !tunnel_ws_silent_ms(session->ws, &silent_ms) || silent_ms > now_ms) return;
    if (now_ms - silent_ms > session->received_at_ms) session->received_at_ms = now_ms - silent_ms;
}

// Any byte is life: never dead while bytes flow. False: it was ended. A tick that comes before the time is taken for
// it when the next one would come after: users see a dead agent within the time that was promised, and an agent that
// pings at the same interval hears ours first and is spared its own.
static bool session_tick_liveness(struct tunnel_session *session, uint64_t now_ms)
{
    const struct tunnel_options *options = &session->node->broker->options;
    now_ms += session->node->tick_ms - 1;
    if (now_ms - session->received_at_ms >= options->ping_after_ms) session_hear_words(session);
    uint64_t silent_ms = now_ms - session->received_at_ms;
    if (silent_ms >= options->ping_after_ms + options->dead_after_ms && session->ping_sent_us &&
        now_ms - session->ping_at_ms >= options->dead_after_ms) {
        metric_add(session_meter(session)->pings_missed, 1);
        tunnel_session_end(session, TUNNEL_ENDING_SILENT, "silent");
        return false;
    }
    uint64_t pinged_ms = now_ms - session->ping_at_ms;
    bool due = pinged_ms >= (session->stream_count ? BUSY_PING_MS : QUIET_PING_MS);
    if (!session->ping_sent_us && (due || silent_ms >= options->ping_after_ms))
        session_ping(session, now_ms - (session->node->tick_ms - 1));
    return true;
}

// When a session without anything to do but living wants to be looked at next. Bytes that arrive meanwhile put it off,
// which is seen then: nothing is moved for each byte.
static uint64_t session_due_ms(const struct tunnel_session *session)
{
    const struct tunnel_options *options = &session->node->broker->options;
    bool is_spare = session->state == TUNNEL_SESSION_STANDBY;
    bool busy = (session->state != TUNNEL_SESSION_OPEN && !is_spare) || session->stream_count || session->drain_at_ms ||
                tunnel_reports_want_tick(session->reports);
    if (busy) return 0;
    uint64_t ping_ms = session->received_at_ms + options->ping_after_ms;
    uint64_t quiet_ms = session->ping_at_ms + QUIET_PING_MS;
    uint64_t due_ms = ping_ms < quiet_ms ? ping_ms : quiet_ms;
    if (session->ping_sent_us) due_ms = session->ping_at_ms + options->dead_after_ms;
    if (is_spare && !session->asking && session->ask_at_ms < due_ms) due_ms = session->ask_at_ms;
    return due_ms - (session->node->tick_ms - 1);
}

void tunnel_session_tick(struct tunnel_session *session, uint64_t now_ms)
{
    if (!session_tick_liveness(session, now_ms)) return;
    if (session->state == TUNNEL_SESSION_CLOSING && now_ms >= session->close_at_ms) {
        tunnel_session_end(session, session_closing_ending(session), "closed with calls in flight");
        return;
    }
    for (struct tunnel_stream *stream = session->streams, *next; stream; stream = next) {
        next = stream->next; // a stream's callback may end this one, and nothing but session_end frees another
        tunnel_stream_tick(stream, now_ms);
        if (session->state == TUNNEL_SESSION_ENDED) return;
    }
    if (session->state == TUNNEL_SESSION_STANDBY && now_ms >= session->ask_at_ms) session_ask_again(session);
    if (session->reports && session->state == TUNNEL_SESSION_OPEN) tunnel_reports_tick(session->reports, now_ms);
    if (session->drain_at_ms) session_tick_drain(session, now_ms);
    if (session->state != TUNNEL_SESSION_ENDED)
        timetable_set(&session->node->timetable, session, session_due_ms(session));
}

void tunnel_session_take_control(struct tunnel_session *session, const struct wire_control *control)
{
    bool open = session->state == TUNNEL_SESSION_OPEN || session->state == TUNNEL_SESSION_CLOSING;
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

// nghttp2 answers most violations by a GOAWAY of its own and hears nothing from then on.
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
    session->received_at_ms = clock_mono_ms();
    atomic_fetch_add_explicit(&session->entry->bytes_in, len, memory_order_relaxed);
    metric_add(session_meter(session)->bytes_in, len);
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
        metric_add(session_meter(session)->bytes_out, len);
    }
    return len;
}

void tunnel_session_on_closed(void *arg)
{
    struct tunnel_session *session = arg;
    session->ws = NULL;
    bool closing = session->state == TUNNEL_SESSION_CLOSING; // it had said goodbye
    tunnel_session_end(session, closing ? session_closing_ending(session) : TUNNEL_ENDING_LOST,
                       closing ? "closed" : "the agent's connection was lost");
    while (session->streams) // those that waited for nghttp2 to let them go
        tunnel_stream_lose(session->streams);
    turn_remove(&session->node->turn, &session->finish);
    tunnel_session_frames_finish(session);
    mem_free(session);
}
