// meter: the tunnel's metrics, looked up once a broker. Metrics are process-wide and thread-safe (base/metrics.h).
#ifndef CULVERT_TUNNEL_METER_H
#define CULVERT_TUNNEL_METER_H

#include "base/metrics.h"
#include "tunnel/wire/scheduler.h"

struct tunnel_meter {
    struct metric *sessions_standby, *sessions_opening, *sessions_open, *sessions_closing; // gauges
    struct metric_family *handshakes;                                                      // result: a status
    struct metric_family *epoch_changes;                                                   // reason
    struct metric_family *session_ends;                                                    // reason
    struct metric_family *streams;                                                         // code: a status or a cause
    struct metric_family *resets;                                                          // code, side
    struct metric *rtt, *ttfb, *drain;                                                     // seconds
    struct metric *scheduler_wait[WIRE_URGENCIES];                                         // seconds
    struct metric *streams_open, *buffered_bytes, *buffered_reports;                       // gauges
    struct metric *stalled_platform, *stalled_agent;
    struct metric *flaps;
    struct metric *budget_denied, *pings_missed, *reports;
    struct metric *bytes_in, *bytes_out;
};

void tunnel_meter_init(struct tunnel_meter *meter);

#endif
