// A session's life: whether its agent is still there, and how far away it is.
#include "base/clock.h"
#include "tunnel/session.h"

enum {
    BUSY_PING_MS = 5000,    // a tunnel that carries calls is measured, too: windows go by the round trip
    QUIET_PING_MS = 120000, // and others now and then: agents that speak first are never silent here
};

void tunnel_session_take_pong(struct tunnel_session *session, uint64_t sent_us)
{
    if (!session->ping_sent_us || sent_us != session->ping_sent_us) return; // not ours: of no meaning
    uint64_t rtt_us = clock_mono_us() - sent_us;
    session->ping_sent_us = 0;
    wire_rtt_measured(&session->rtt, rtt_us, session->ping_quiet && session->stream_count == 0);
    if (session->entry) atomic_store_explicit(&session->entry->rtt_us, session->rtt.smooth_us, memory_order_relaxed);
    metric_observe(session->node->broker->meter.rtt, (double)rtt_us / 1e6);
}

void tunnel_session_ping(struct tunnel_session *session, uint64_t now_ms)
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
bool tunnel_session_tick_life(struct tunnel_session *session, uint64_t now_ms)
{
    const struct tunnel_options *options = &session->node->broker->options;
    now_ms += session->node->tick_ms - 1;
    if (now_ms - session->received_at_ms >= options->ping_after_ms) session_hear_words(session);
    uint64_t silent_ms = now_ms - session->received_at_ms;
    if (silent_ms >= options->ping_after_ms + options->dead_after_ms && session->ping_sent_us &&
        now_ms - session->ping_at_ms >= options->dead_after_ms) {
        metric_add(session->node->broker->meter.pings_missed, 1);
        tunnel_session_end(session, TUNNEL_ENDING_SILENT, "silent");
        return false;
    }
    uint64_t pinged_ms = now_ms - session->ping_at_ms;
    bool due = pinged_ms >= (session->stream_count ? BUSY_PING_MS : QUIET_PING_MS);
    if (!session->ping_sent_us && (due || silent_ms >= options->ping_after_ms))
        tunnel_session_ping(session, now_ms - (session->node->tick_ms - 1));
    return true;
}

uint64_t tunnel_session_life_due_ms(const struct tunnel_session *session)
{
    const struct tunnel_options *options = &session->node->broker->options;
    uint64_t ping_ms = session->received_at_ms + options->ping_after_ms;
    uint64_t quiet_ms = session->ping_at_ms + QUIET_PING_MS;
    if (session->ping_sent_us) return session->ping_at_ms + options->dead_after_ms;
    return ping_ms < quiet_ms ? ping_ms : quiet_ms;
}
