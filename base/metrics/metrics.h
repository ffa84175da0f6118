// metrics: counters, gauges and histograms of the process, in Prometheus text. Process-wide and thread-safe
// (atomics); families are made at start, series on first use, at most METRICS_SERIES_MAX a family (the rest
// lands in a series whose labels are "other"). Format: Prometheus text 0.0.4 and OpenMetrics 1.0.
#ifndef CULVERT_BASE_METRICS_METRICS_H
#define CULVERT_BASE_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

enum { METRICS_SERIES_MAX = 512, METRICS_LABELS_MAX = 4, METRICS_AGES_SHOWN = 10 };

struct metric_family;
struct metric; // one series; lives for the process

// name is full ("culvert_tunnel_bytes_total"); labels: NULL-terminated names. Same name again gives the same family.
struct metric_family *metrics_counter(const char *name, const char *help, ...) __attribute__((sentinel));
struct metric_family *metrics_gauge(const char *name, const char *help, ...) __attribute__((sentinel));
struct metric_family *metrics_histogram(const char *name, const char *help, ...) __attribute__((sentinel)); // seconds

// Values in the order of the label names, as many as those. Keep the pointer on hot paths.
struct metric *metric_with(struct metric_family *family, ...); // const char * each
void metric_add(struct metric *metric, uint64_t n);
void metric_set(struct metric *metric, int64_t value);
void metric_move(struct metric *metric, int64_t by);        // gauges
void metric_observe(struct metric *metric, double seconds); // histograms
int64_t metric_value(const struct metric *metric);          // for tests and admin pages

// A gauge of seconds for things that are too many to have a series each: any number of ages is kept, the
// METRICS_AGES_SHOWN oldest are shown, and under name + "_count" how many there are.
struct metric_family *metrics_ages(const char *name, const char *help, ...) __attribute__((sentinel));
// key names the thing; since_ms (monotonic) is when its age began, 0: it has none any more. Labels as metric_with(),
// needed only with an age.
void metric_age_set(struct metric_family *family, uint64_t key, uint64_t since_ms, ...);

void metrics_render(struct strbuf *out, bool open_metrics);

#endif
