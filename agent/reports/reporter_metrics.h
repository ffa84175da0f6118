// reporter_metrics: what a reporter tells of itself (docs/metrics.md). Outbox and collector count; what was added since
// the last look goes into the counters. One loop.
#ifndef CULVERT_AGENT_REPORTER_METRICS_H
#define CULVERT_AGENT_REPORTER_METRICS_H

#include <stdint.h>

#include "base/metrics/metrics.h"

struct collector;
struct outbox;

struct reporter_metrics {
    struct metric *objects, *bytes, *restarts, *lag, *unchanged, *differences, *full, *slowed, *coalesced, *left_out,
        *digested, *scrubbed, *no_room;
    uint64_t restarts_counted, slowed_counted, coalesced_counted, left_out_counted;
};

void reporter_metrics_init(struct reporter_metrics *metrics);
// collector: NULL while no cluster is watched; the next one begins to count anew, and so does left_out. lag_ms: the
// longer one of reporter_lag().
void reporter_metrics_show(struct reporter_metrics *metrics, const struct outbox *outbox,
                           const struct collector *collector, uint64_t left_out, uint64_t lag_ms);

#endif
