// life: when a session asks whether its agent lives, when it gives it up, and when it sends a
// keepalive itself. Pure: the clock and what is known of the agent are given. A question costs an
// exchange for which the platform wakes; with thousands of idle tunnels that is nearly all that
// they cost. So agents send a keepalive before they would be asked, and the platform sends one
// before they would ask, many in one tick and without waking for an answer. Private to tunnel/.
#ifndef CULVERT_TUNNEL_SESSION_LIFE_H
#define CULVERT_TUNNEL_SESSION_LIFE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TUNNEL_LIFE_BUSY_ASK_MS = 5000,    // a tunnel that carries calls is measured: windows go by the round trip
    TUNNEL_LIFE_QUIET_ASK_MS = 300000, // and others now and then: agents that speak first are never silent here
};

struct tunnel_life_rules {
    uint64_t ping_after_ms, dead_after_ms;
    uint64_t say_after_ms; // since the platform's last byte
    uint64_t tick_ms;      // from one look to the next
};

struct tunnel_life {
    uint64_t heard_ms; // the agent's last byte, as far as it is known
    uint64_t asked_ms; // the last question
    bool waits;        // it has not been answered
};

struct tunnel_life_agent {
    bool busy;        // calls are open
    bool says_words;  // it sends keepalives, and receives them
    bool looked;      // its socket has just been looked at, and is at hand
    uint64_t said_ms; // the platform's last byte to it
};

enum tunnel_life_step {
    TUNNEL_LIFE_WAIT,
    TUNNEL_LIFE_ASK,
    TUNNEL_LIFE_SAY,
    TUNNEL_LIFE_DEAD,
};

// What is due now. What would be due before the next look is due already: users see a dead agent
// within the time that was promised, and an agent that asks at the same interval gets ours first
// and is spared its own question.
enum tunnel_life_step tunnel_life_look(const struct tunnel_life *life, const struct tunnel_life_rules *rules,
                                       const struct tunnel_life_agent *agent, uint64_t now_ms);
// True: the agent has been silent for so long that it is worth asking the kernel whether it was
// (tunnel/listener/ws.h).
bool tunnel_life_doubts(const struct tunnel_life *life, const struct tunnel_life_rules *rules, uint64_t now_ms);
// When to look again if nothing happens before. Bytes that arrive meanwhile put it off, which is
// seen then.
uint64_t tunnel_life_due_ms(const struct tunnel_life *life, const struct tunnel_life_rules *rules,
                            const struct tunnel_life_agent *agent);

#endif
