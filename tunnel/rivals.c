#include "tunnel/rivals.h"

#include <string.h>

bool tunnel_rivals_took_over(struct tunnel_rivals *rivals, uint64_t now_ms)
{
    bool were = now_ms < rivals->until_ms;
    uint64_t *oldest = &rivals->took_over_ms[rivals->count % TUNNEL_RIVALS_TIMES];
    *oldest = now_ms;
    rivals->count++;
    uint64_t first_ms = rivals->took_over_ms[rivals->count % TUNNEL_RIVALS_TIMES];
    if (!were && (rivals->count < TUNNEL_RIVALS_TIMES || now_ms - first_ms > TUNNEL_RIVALS_WITHIN_MS)) return false;
    rivals->until_ms = now_ms + TUNNEL_RIVALS_FOR_MS;
    return !were;
}

bool tunnel_rivals_stands_by(struct tunnel_rivals *rivals, const char *instance_id, const char *serving_id,
                             uint64_t now_ms)
{
    if (now_ms >= rivals->until_ms || strcmp(instance_id, serving_id) <= 0) return false;
    rivals->until_ms = now_ms + TUNNEL_RIVALS_FOR_MS;
    return true;
}
