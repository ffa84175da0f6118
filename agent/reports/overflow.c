#include "agent/reports/overflow.h"

bool overflow_is_over(const struct overflow *overflow, uint64_t left_out)
{
    return left_out == overflow->before;
}

enum overflow_step overflow_look(struct overflow *overflow, uint64_t left_out, bool are_complete, uint64_t now_ms,
                                 uint64_t retry_ms)
{
    if (overflow_is_over(overflow, left_out)) {
        if (are_complete) overflow->since_ms = 0;
        return OVERFLOW_WAIT;
    }
    if (!overflow->since_ms || !overflow->again_at_ms) {
        if (!overflow->since_ms) overflow->since_ms = now_ms;
        overflow->again_at_ms = now_ms + retry_ms;
        return OVERFLOW_NOTICED;
    }
    if (now_ms < overflow->again_at_ms) return OVERFLOW_WAIT;
    overflow->before = left_out;
    overflow->again_at_ms = 0;
    return OVERFLOW_LIST_AGAIN;
}
