#include "agent/tunnel/redial.h"

#include "base/id.h"

enum {
    RETRY_BASE_MS = 500,
    RETRY_CAP_MS = 30 * 1000,
    REFUSED_BASE_MS = 5 * 1000, // 401 and 403: an operator has to act
    REFUSED_CAP_MS = 5 * 60 * 1000,
    TAKEOVER_WAIT_MS = 5 * 1000,
};

void redial_init(struct redial *redial)
{
    backoff_init(&redial->retry, RETRY_BASE_MS, RETRY_CAP_MS);
    backoff_init(&redial->refused, REFUSED_BASE_MS, REFUSED_CAP_MS);
}

uint64_t redial_after_failure(struct redial *redial, int status, int64_t retry_after_ms)
{
    if (status == 401 || status == 403) {
        uint64_t wait_ms = REFUSED_BASE_MS / 2 + backoff_next_ms(&redial->refused);
        return wait_ms < REFUSED_CAP_MS ? wait_ms : REFUSED_CAP_MS;
    }
    if ((status == 503 || status == 429) && retry_after_ms >= 0) {
        uint64_t asked_ms = (uint64_t)retry_after_ms;
        if (asked_ms > REDIAL_RETRY_AFTER_MS_MAX) asked_ms = REDIAL_RETRY_AFTER_MS_MAX;
        return asked_ms + id_random_below(asked_ms / 2 + RETRY_BASE_MS);
    }
    return backoff_next_ms(&redial->retry);
}

void redial_forget_failures(struct redial *redial)
{
    backoff_reset(&redial->retry);
    backoff_reset(&redial->refused);
}

void redial_lived(struct redial *redial, uint64_t served_ms)
{
    if (served_ms >= REDIAL_GOOD_LIFE_MS) redial_forget_failures(redial);
}

uint64_t redial_after_drain(uint64_t spread_ms)
{
    return id_random_below((spread_ms < REDIAL_SPREAD_MS_MAX ? spread_ms : REDIAL_SPREAD_MS_MAX) + 1);
}

uint64_t redial_after_takeover(void)
{
    return TAKEOVER_WAIT_MS + id_random_below(TAKEOVER_WAIT_MS);
}
