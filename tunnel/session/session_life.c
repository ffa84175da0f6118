// A session's life: whether its agent is still there, and how far away it is. What is to be done
// when is decided by tunnel/session/life.h.
#include "base/clock.h"
#include "tunnel/session/session.h"

void tunnel_session_take_pong(struct tunnel_session *session, uint64_t sent_us)
{
    if (!session->life.waits || sent_us != session->ping_sent_us) return; // not ours: of no meaning
    uint64_t rtt_us = clock_mono_us() - sent_us;
    session->life.waits = false;
    wire_rtt_measured(&session->rtt, rtt_us, session->ping_quiet && session->stream_count == 0);
    if (session->entry) atomic_store_explicit(&session->entry->rtt_us, session->rtt.smooth_us, memory_order_relaxed);
    metric_observe(session->node->broker->meter.rtt, (double)rtt_us / 1e6);
}

void tunnel_session_ping(struct tunnel_session *session, uint64_t now_ms)
{
    uint8_t opaque[8];
    session->life.asked_ms = now_ms;
    session->life.waits = true;
    session->ping_sent_us = clock_mono_us();
    session->ping_quiet = session->stream_count == 0;
    memcpy(opaque, &session->ping_sent_us, sizeof(opaque));
    nghttp2_submit_ping(session->h2, NGHTTP2_FLAG_NONE, opaque);
    tunnel_session_wants_write(session);
}

// What was not read yet is life, too. False: there is nothing.
static bool session_hear_words(struct tunnel_session *session, uint64_t now_ms)
{
    uint64_t silent_ms = 0;
    if (!session->ws || !tunnel_ws_silent_ms(session->ws, &silent_ms) || silent_ms > now_ms) return false;
    if (now_ms - silent_ms <= session->life.heard_ms) return false;
    session->life.heard_ms = now_ms - silent_ms;
    return true;
}

// Keepalives are read when one is sent, in one go. That they are read now does not mean that they
// came now.
static void session_say_word(struct tunnel_session *session)
{
    uint64_t heard_ms = session->life.heard_ms;
    tunnel_ws_hear_words(session->ws);
    if (session->state == TUNNEL_SESSION_ENDED) return;
    session->life.heard_ms = heard_ms;
    tunnel_ws_say_word(session->ws);
}

static struct tunnel_life_agent session_agent(const struct tunnel_session *session)
{
    struct tunnel_life_agent agent = {.busy = session->stream_count > 0};
    agent.says_words = session->ws && tunnel_ws_says_words(session->ws, &agent.said_ms);
    return agent;
}

bool tunnel_session_tick_life(struct tunnel_session *session, uint64_t now_ms)
{
    const struct tunnel_life_rules *rules = &session->node->life;
    bool looked = tunnel_life_doubts(&session->life, rules, now_ms) && session_hear_words(session, now_ms);
    struct tunnel_life_agent agent = session_agent(session);
    agent.looked = looked;
    switch (tunnel_life_look(&session->life, rules, &agent, now_ms)) {
    case TUNNEL_LIFE_DEAD:
        metric_add(session->node->broker->meter.pings_missed, 1);
        tunnel_session_end(session, TUNNEL_ENDING_SILENT, "silent");
        return false;
    case TUNNEL_LIFE_ASK: tunnel_session_ping(session, now_ms); break;
    case TUNNEL_LIFE_SAY: session_say_word(session); break;
    case TUNNEL_LIFE_WAIT: break;
    }
    return session->state != TUNNEL_SESSION_ENDED;
}

uint64_t tunnel_session_life_due_ms(const struct tunnel_session *session)
{
    struct tunnel_life_agent agent = session_agent(session);
    return tunnel_life_due_ms(&session->life, &session->node->life, &agent);
}
