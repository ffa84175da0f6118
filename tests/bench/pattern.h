// pattern: what the bodies of big transfers consist of. A byte depends on its offset, with a period that is a prime, so
// that a piece which is missing, doubled or in the wrong place does not go unnoticed by pattern_matches().
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_PERIOD_BYTES = 1048573, PATTERN_PIECE_BYTES_MAX = 256 * 1024 };

struct pattern {
    unsigned char bytes[PATTERN_PERIOD_BYTES + PATTERN_PIECE_BYTES_MAX];
};

void pattern_init(struct pattern *pattern);

// PATTERN_PIECE_BYTES_MAX bytes of a body from `offset` on.
const void *pattern_at(const struct pattern *pattern, uint64_t offset);

bool pattern_matches(const struct pattern *pattern, uint64_t offset, const void *data, size_t bytes);

#endif
