// overflow: what is done about objects that found no room. While some are left out nothing may be
// concluded from digests and snapshots, which do not have them; now and then all is listed again,
// because others may have gone meanwhile. Pure: the clock and the counts are given.
#ifndef CULVERT_AGENT_OVERFLOW_H
#define CULVERT_AGENT_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

struct overflow {
    uint64_t before;                // left out before the lists that are held now
    uint64_t since_ms, again_at_ms; // 0: nothing is left out
};

enum overflow_step {
    OVERFLOW_WAIT,
    OVERFLOW_NOTICED, // for the log
    OVERFLOW_LIST_AGAIN,
};

// left_out: how many objects ever found no room.
bool overflow_is_over(const struct overflow *overflow, uint64_t left_out);
// are_complete: the lists that are held now. retry_ms: between a overflow and the next lists.
enum overflow_step overflow_look(struct overflow *overflow, uint64_t left_out, bool are_complete, uint64_t now_ms,
                                 uint64_t retry_ms);

#endif
