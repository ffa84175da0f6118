// clock: the two times. Monotonic for intervals, wall for what people and databases see. Any
// thread. A test program may replace both by a simulated clock, which moves only when it is
// advanced, for all of its process.
#ifndef CULVERT_BASE_CLOCK_H
#define CULVERT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);
int64_t clock_wall_ms(void); // since 1970-01-01T00:00:00Z

// From here on both clocks stand at these times (mono_us > 0) until they are advanced. Timers
// (base/loop/timer.h) that are initialized from then on run on the simulated clock. Before any
// thread is started; for tests.
void clock_simulate(uint64_t mono_us, int64_t wall_ms);
void clock_advance_us(uint64_t us);
void clock_simulate_end(void); // the system's clocks again
bool clock_is_simulated(void);

enum { CLOCK_RFC3339_BYTES = 32 };
// "2026-01-02T03:04:05.678Z"; out has CLOCK_RFC3339_BYTES.
void clock_format_rfc3339(int64_t wall_ms, char *out);
// RFC 3339 with or without fraction, Z or +hh:mm, years 1970-9999.
MUST_CHECK enum error_code clock_parse_rfc3339(struct str s, int64_t *out_wall_ms, struct error *err);

#endif
