#include "histogram.h"

#include <stdlib.h>
#include <time.h>

enum { BUCKETS = 2 * 1000 * 1000 };

void histogram_init(struct histogram *histogram)
{
    *histogram = (struct histogram){.buckets = calloc(BUCKETS, sizeof(*histogram->buckets))};
    if (histogram->buckets == NULL) abort();
}

void histogram_finish(struct histogram *histogram)
{
    free(histogram->buckets);
    histogram->buckets = NULL;
}

void histogram_add(struct histogram *histogram, uint64_t us)
{
    histogram->buckets[us < BUCKETS ? us : BUCKETS - 1]++;
    histogram->count++;
}

unsigned histogram_percentile_us(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * share), seen = 0;
    for (unsigned i = 0; i < BUCKETS && histogram->count > 0; i++) {
        seen += histogram->buckets[i];
        if (seen > wanted) return i;
    }
    return histogram->count > 0 ? BUCKETS - 1 : 0;
}

uint64_t histogram_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
