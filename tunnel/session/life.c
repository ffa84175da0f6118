#include "tunnel/session/life.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// What was noted meanwhile may be later than when the look began.
static uint64_t since(uint64_t then_ms, uint64_t now_ms)
{
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

bool tunnel_life_doubts(const struct tunnel_life *life, const struct tunnel_life_rules *rules, uint64_t now_ms)
{
    return since(life->heard_ms, now_ms + rules->tick_ms - 1) >= rules->ping_after_ms;
}

enum tunnel_life_step tunnel_life_look(const struct tunnel_life *life, const struct tunnel_life_rules *rules,
                                       const struct tunnel_life_agent *agent, uint64_t now_ms)
{
    now_ms += rules->tick_ms - 1;
    uint64_t silent_ms = since(life->heard_ms, now_ms), asked_ms = since(life->asked_ms, now_ms);
    bool measure = asked_ms >= (agent->busy ? TUNNEL_LIFE_BUSY_ASK_MS : TUNNEL_LIFE_QUIET_ASK_MS);
    if (life->waits && silent_ms >= rules->ping_after_ms + rules->dead_after_ms && asked_ms >= rules->dead_after_ms)
        return TUNNEL_LIFE_DEAD;
    if (!life->waits && (measure || silent_ms >= rules->ping_after_ms)) return TUNNEL_LIFE_ASK;
    if (!agent->says_words || agent->busy) return TUNNEL_LIFE_WAIT;
    // Most of what a keepalive costs is that the session has to be fetched into the cache: none is
    // sent at a time of its own that would be due soon after another reason to look.
    uint64_t after_ms = agent->looked ? rules->say_after_ms / 5 * 4 : rules->say_after_ms;
    return since(agent->said_ms, now_ms) >= after_ms ? TUNNEL_LIFE_SAY : TUNNEL_LIFE_WAIT;
}

uint64_t tunnel_life_due_ms(const struct tunnel_life *life, const struct tunnel_life_rules *rules,
                            const struct tunnel_life_agent *agent)
{
    uint64_t due_ms = earlier(life->heard_ms + rules->ping_after_ms, life->asked_ms + TUNNEL_LIFE_QUIET_ASK_MS);
    if (life->waits) due_ms = life->asked_ms + rules->dead_after_ms;
    if (agent->says_words) due_ms = earlier(due_ms, agent->said_ms + rules->say_after_ms);
    return due_ms - (rules->tick_ms - 1);
}
