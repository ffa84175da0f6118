// redial: how long an agent waits before it dials again. Pure: time comes from the caller. Owned by
// the tunnel client; one thread.
//
// Full jitter, rand(0, min(30 s, 0.5 s * 2^n)); Retry-After of a platform is obeyed; a refused
// token waits up to five minutes. A minute of good life forgets all failures.
//
// Two agents of one runtime replace each other each time they dial, until the platform puts one of
// them on standby (WIRE_CONTROL_STANDBY).
#ifndef CULVERT_AGENT_REDIAL_H
#define CULVERT_AGENT_REDIAL_H

#include <stdint.h>

#include "base/backoff.h"

enum {
    REDIAL_GOOD_LIFE_MS = 60 * 1000,
    REDIAL_SPREAD_MS_MAX = 5 * 60 * 1000, // what a platform may ask for
    REDIAL_RETRY_AFTER_MS_MAX = 10 * 60 * 1000,
};

struct redial {
    struct backoff retry, refused;
};

void redial_init(struct redial *redial);
// A tunnel did not open or did not last. status: of the refused upgrade, else 0; retry_after_ms:
// with it, -1: not given.
uint64_t redial_after_failure(struct redial *redial, int status, int64_t retry_after_ms);
// A tunnel that served for so long has ended, whyever.
void redial_lived(struct redial *redial, uint64_t served_ms);
// The platform asks to move.
uint64_t redial_after_drain(uint64_t spread_ms);
// Another agent took over.
uint64_t redial_after_takeover(void);
void redial_forget_failures(struct redial *redial); // the settings changed

#endif
