#include "agent/reports/shortage.h"

bool shortage_is_over(const struct shortage *shortage, uint64_t left_out)
{
    return left_out == shortage->before;
}

enum shortage_step shortage_look(struct shortage *shortage, uint64_t left_out, bool are_complete, uint64_t now_ms,
                                 uint64_t retry_ms)
{
    if (shortage_is_over(shortage, left_out)) {
        if (are_complete) shortage->since_ms = 0;
        return SHORTAGE_WAIT;
    }
    if (!shortage->since_ms || !shortage->again_at_ms) {
        if (!shortage->since_ms) shortage->since_ms = now_ms;
        shortage->again_at_ms = now_ms + retry_ms;
        return SHORTAGE_NOTICED;
    }
    if (now_ms < shortage->again_at_ms) return SHORTAGE_WAIT;
    shortage->before = left_out;
    shortage->again_at_ms = 0;
    return SHORTAGE_LIST_AGAIN;
}
