// replay_window: which numbers of a sequence have been seen, in memory that does not grow (RFC
// 6479, section 2.2, as IPsec and DTLS do): a number is taken once; one that lies further behind
// the highest than the window is wide is not taken, since it can no longer be checked. Pure; a
// value, owned by one loop. All zero: nothing was seen.
#ifndef CULVERT_TUNNEL_WIRE_REPLAY_WINDOW_H
#define CULVERT_TUNNEL_WIRE_REPLAY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { REPLAY_WINDOW_NUMBERS = 4096 };

struct replay_window {
    uint64_t highest;
    uint64_t seen[REPLAY_WINDOW_NUMBERS / 64]; // of number n: bit n % 64 of word n / 64 % words
};

// True: the number, above 0, is new. It is seen from now on.
bool replay_window_take(struct replay_window *window, uint64_t number);

#endif
