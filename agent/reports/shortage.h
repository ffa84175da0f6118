// shortage: what is done about objects that found no room. While some are left out nothing may be concluded from
// digests and snapshots, which do not have them; now and then all is listed again, because others may have gone
// meanwhile. Pure: the clock and the counts are given.
#ifndef CULVERT_AGENT_SHORTAGE_H
#define CULVERT_AGENT_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

struct shortage {
    uint64_t before;                // left out before the lists that are held now
    uint64_t since_ms, again_at_ms; // 0: nothing is left out
};

enum shortage_step {
    SHORTAGE_WAIT,
    SHORTAGE_NOTICED, // for the log
    SHORTAGE_LIST_AGAIN,
};

// left_out: how many objects ever found no room.
bool shortage_is_over(const struct shortage *shortage, uint64_t left_out);
// are_complete: the lists that are held now. retry_ms: between a shortage and the next lists.
enum shortage_step shortage_look(struct shortage *shortage, uint64_t left_out, bool are_complete, uint64_t now_ms,
                                 uint64_t retry_ms);

#endif
