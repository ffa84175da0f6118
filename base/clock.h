// clock: the two times. Monotonic for intervals, wall for what people and databases see. Any thread.
#ifndef CULVERT_BASE_CLOCK_H
#define CULVERT_BASE_CLOCK_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);
int64_t clock_wall_ms(void); // since 1970-01-01T00:00:00Z

enum { CLOCK_RFC3339_BYTES = 32 };
// "2026-01-02T03:04:05.678Z"; out has CLOCK_RFC3339_BYTES.
void clock_format_rfc3339(int64_t wall_ms, char *out);
// RFC 3339 with or without fraction, Z or +hh:mm, years 1970-9999.
MUST_CHECK enum error_code clock_parse_rfc3339(struct str s, int64_t *out_wall_ms, struct error *err);

#endif
