// window: how much a peer may send on one stream before its consumer has taken it, the same rule on
// both ends of a tunnel (HTTP/2 flow control, RFC 9113 section 5.2). Pure: the clock is passed in.
// One a stream, on its loop's thread.
//
// A window is worth its memory only while it is what limits the stream. A round is the time in
// which a whole window was consumed; a stream whose window is the limit has rounds as long as the
// round trip, and shorter ones do not exist. So:
// - A round within WIRE_WINDOW_ROUND_US or two of the shortest round trips ever measured doubles the window, unless the
//   consumer held more than half of it back. Longer ones show that the path, the peer or the
// consumer is the limit, and
//   more credit would only stand in some buffer in front of everybody else's bytes.
// - A round longer than four times that halves it: the stream has got a smaller share of the path since it grew.
// So what stands in buffers is a few round trips' worth of bytes, whatever the speed of the path,
// and a stream alone on a long path gets all of it.
//
// The shortest round trip must not be one measured behind the stream's own bytes, else windows
// would grow by the queues they make: wire_rtt below.
#ifndef CULVERT_TUNNEL_WIRE_WINDOW_H
#define CULVERT_TUNNEL_WIRE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_WINDOW_BYTES = 64 * 1024,     // the first one, in SETTINGS_INITIAL_WINDOW_SIZE
    WIRE_WINDOW_BYTES_MIN = 16 * 1024, // stays with every stream whatever the budgets are
    WIRE_WINDOW_BYTES_MAX = 4 * 1024 * 1024,
    WIRE_WINDOW_STEP_BYTES_MAX = 256 * 1024, // credit goes back by half windows, and at least so often
    WIRE_WINDOW_ROUND_US = 500,              // what both ends' loops take for a turn when they are busy
};

struct wire_window {
    uint32_t bytes;       // what the peer may send unconsumed
    int64_t owed_bytes;   // consumed and not credited; negative: the window shrank, so much is to be withheld
    uint64_t round_bytes; // consumed since round_at_us
    uint64_t round_at_us;
    bool lagged; // the consumer held much back in this round
};

void wire_window_init(struct wire_window *window, uint64_t now_us);
// Bytes arrived; so many are with the consumer now.
static inline void wire_window_received(struct wire_window *window, uint64_t unconsumed)
{
    if (unconsumed > window->bytes / 2) window->lagged = true;
}
// The consumer took len. Returns the credit to give now (a WINDOW_UPDATE's increment; 0: none yet).
// rtt_us: the connection's shortest, 0: not known. bytes_max: what the budgets allow this window;
// it does not grow over it, and shrinks to it (not below WIRE_WINDOW_BYTES_MIN).
uint32_t wire_window_consumed(struct wire_window *window, size_t len, uint64_t now_us, uint64_t rtt_us,
                              uint64_t bytes_max);

// The round trip of a connection by its PINGs. Those sent and answered while it carried nothing
// show how long the path is, and follow it when it changes; others, which have waited behind data,
// can only show that it is shorter than thought.
struct wire_rtt {
    uint64_t smooth_us;   // what people are shown; 0: not known
    uint64_t shortest_us; // what windows go by; 0: not known
};
void wire_rtt_measured(struct wire_rtt *rtt, uint64_t sample_us, bool quiet);

#endif
