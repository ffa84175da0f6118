// rivals: two instances of one runtime that keep taking over from each other (two deployments with one token, a
// stateful set scaled to two). From the third take-over within a minute on they are rivals, and stay so for ten minutes
// after the last sign of it: the instance with the lower id serves, the others stand by. Pure; part of a route of the
// directory, guarded with it.
#ifndef CULVERT_TUNNEL_RIVALS_H
#define CULVERT_TUNNEL_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

enum { TUNNEL_RIVALS_TIMES = 3, TUNNEL_RIVALS_WITHIN_MS = 60 * 1000, TUNNEL_RIVALS_FOR_MS = 10 * 60 * 1000 };

struct tunnel_rivals { // zeroed: none
    uint64_t took_over_ms[TUNNEL_RIVALS_TIMES];
    unsigned count;
    uint64_t until_ms;
};

// An instance has taken over from another one that was alive. True: with that they are rivals, and were not before.
bool tunnel_rivals_took_over(struct tunnel_rivals *rivals, uint64_t now_ms);
// An instance comes while another one serves: does it have to stand by?
bool tunnel_rivals_stands_by(struct tunnel_rivals *rivals, const char *instance_id, const char *serving_id,
                             uint64_t now_ms);

#endif
