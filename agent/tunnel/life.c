#include "agent/tunnel/life.h"

enum {
    SOON_MS = 3000,
    SOON_WITH_WORDS_MS = 500, // the platform sends its keepalive at about the time of every third one of ours
};

void agent_life_init(struct agent_life *life, uint64_t now_ms)
{
    *life = (struct agent_life){.in_ms = now_ms, .out_ms = now_ms};
}

void agent_life_heard(struct agent_life *life, uint64_t now_ms)
{
    life->in_ms = now_ms;
}

void agent_life_heard_word(struct agent_life *life)
{
    life->hears_words = true;
}

void agent_life_said(struct agent_life *life, uint64_t now_ms)
{
    life->out_ms = now_ms;
}

void agent_life_asked(struct agent_life *life, uint64_t now_ms)
{
    life->out_ms = life->asked_ms = now_ms;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_ms(const struct agent_life *life, bool asked, uint64_t now_ms)
{
    uint64_t next = earlier(life->in_ms + AGENT_LIFE_ASK_AFTER_MS, life->out_ms + AGENT_LIFE_SAY_AFTER_MS);
    uint64_t answer = life->asked_ms + AGENT_LIFE_DEAD_AFTER_MS, taken = life->out_ms + AGENT_LIFE_DEAD_AFTER_MS;
    if (asked) next = earlier(life->out_ms + AGENT_LIFE_SAY_AFTER_MS, answer);
    if (taken > now_ms) next = earlier(next, taken);
    return next > now_ms ? next : now_ms + AGENT_LIFE_DEAD_AFTER_MS;
}

enum agent_life_step agent_life_look(struct agent_life *life, const struct agent_life_socket *socket, uint64_t now_ms,
                                     uint64_t *out_next_ms)
{
    enum agent_life_step step = AGENT_LIFE_WAIT;
    // An answer behind a long backlog comes late.
    bool flow = socket->backlog && socket->taken_bytes > life->taken_bytes;
    bool asked = life->asked_ms > life->in_ms;
    bool waits = socket->taken_bytes < socket->sent_bytes;
    uint64_t silent_ms = now_ms - life->in_ms, quiet_ms = now_ms - life->out_ms;
    life->taken_bytes = socket->taken_bytes;
    if (asked && now_ms - life->asked_ms >= AGENT_LIFE_DEAD_AFTER_MS && !flow) return AGENT_LIFE_SILENT;
    // With a backlog it may be the other end that has no room: then its answer decides.
    if (waits && !socket->backlog && silent_ms >= AGENT_LIFE_DEAD_AFTER_MS && quiet_ms >= AGENT_LIFE_DEAD_AFTER_MS)
        return AGENT_LIFE_CUT;
    bool say = quiet_ms >= AGENT_LIFE_SAY_AFTER_MS;
    // A question is a word, too: one that is due soon is not asked beside it.
    uint64_t soon_ms = life->hears_words ? SOON_WITH_WORDS_MS : SOON_MS;
    bool measure = say && now_ms - life->asked_ms >= AGENT_LIFE_MEASURE_AFTER_MS;
    if (!asked && (measure || silent_ms + (say ? soon_ms : 0) >= AGENT_LIFE_ASK_AFTER_MS)) {
        agent_life_asked(life, now_ms);
        asked = true;
        step = AGENT_LIFE_ASK;
    } else if (say) {
        agent_life_said(life, now_ms);
        step = AGENT_LIFE_SAY;
    }
    *out_next_ms = next_ms(life, asked, now_ms);
    return step;
}
