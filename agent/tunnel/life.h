// life: when a link sends a keepalive, when it sends PING, and when it ends for silence. Pure:
// clock and socket state are parameters. A keepalive without an answer (RFC 6455 section 5.5.3, an
// unsolicited Pong) costs the platform half of an exchange, and with thousands of tunnels that is
// nearly all that idling costs. The state of the kernel replaces the answer: unacknowledged bytes
// are a broken path. One loop.
#ifndef CULVERT_AGENT_LIFE_H
#define CULVERT_AGENT_LIFE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    AGENT_LIFE_SAY_AFTER_MS = 9300,  // without a byte to the platform, which asks after 10 s
    AGENT_LIFE_ASK_AFTER_MS = 29000, // without a byte from the platform
    AGENT_LIFE_DEAD_AFTER_MS = 5000, // without an answer, or without an acknowledgement of anything
    // A platform that sends keepalives gets PING all the same now and then, for the round trip.
    AGENT_LIFE_MEASURE_AFTER_MS = 300000,
};

struct agent_life {
    uint64_t in_ms, out_ms; // when a byte came in, and when one was given to the socket
    uint64_t asked_ms;      // 0: never
    uint64_t taken_bytes;   // acknowledged at the last look
    bool hears_words;       // the platform sends keepalives, too
};

struct agent_life_socket {
    uint64_t sent_bytes;  // ever given to the socket
    uint64_t taken_bytes; // of them, acknowledged
    bool backlog;         // more than that waits, here or in the kernel
};

enum agent_life_step {
    AGENT_LIFE_WAIT,
    AGENT_LIFE_SAY,
    AGENT_LIFE_ASK,
    AGENT_LIFE_SILENT, // asked, and not a byte came: give up
    AGENT_LIFE_CUT,    // what was sent is not acknowledged: end
};

void agent_life_init(struct agent_life *life, uint64_t now_ms);
void agent_life_heard(struct agent_life *life, uint64_t now_ms);
void agent_life_heard_word(struct agent_life *life); // one that was no answer
void agent_life_said(struct agent_life *life, uint64_t now_ms);
void agent_life_asked(struct agent_life *life, uint64_t now_ms);
// What is due now; *out_next_ms: when to look again (after it was done, and if nothing happens
// before).
enum agent_life_step agent_life_look(struct agent_life *life, const struct agent_life_socket *socket, uint64_t now_ms,
                                     uint64_t *out_next_ms);

#endif
