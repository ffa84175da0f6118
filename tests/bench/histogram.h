// histogram: how often each duration was seen, one bucket a microsecond; what is longer than two seconds counts as
// that. Value in memory you own (init/finish), one thread.
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H
#include <stdint.h>

struct histogram {
    uint32_t *buckets;
    uint64_t count;
};

void histogram_init(struct histogram *histogram);
void histogram_finish(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t us);

// The duration that `share` (0 to 1) of all stay below, microseconds; 0 when nothing was seen.
unsigned histogram_percentile_us(const struct histogram *histogram, double share);

// Nanoseconds of CLOCK_MONOTONIC: the same clock in every process of a machine.
uint64_t histogram_now_ns(void);

#endif
