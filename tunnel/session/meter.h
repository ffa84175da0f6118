// meter: the tunnel's metrics, looked up once a broker. Metrics are process-wide and thread-safe
// (base/metrics/metrics.h).
#ifndef CULVERT_TUNNEL_SESSION_METER_H
#define CULVERT_TUNNEL_SESSION_METER_H

#include "base/metrics/metrics.h"
#include "tunnel/wire/scheduler.h"

// How far from the session a call was made.
enum tunnel_hop { TUNNEL_HOP_NONE, TUNNEL_HOP_LOOP, TUNNEL_HOP_REPLICA, TUNNEL_HOPS };

struct tunnel_meter {
    struct metric *refused_process, *refused_address; // sessions, for being too many
    struct metric *sessions_standby, *sessions_opening, *sessions_open, *sessions_closing; // gauges
    struct metric_family *handshakes;                                                      // result: a status
    struct metric_family *epoch_changes;                                                   // reason
    struct metric_family *session_ends;                                                    // reason
    struct metric_family *streams; // service; code: a status or a cause
    struct metric_family *resets;  // code, side
    struct metric *rtt, *drain;    // seconds
    struct metric *ttfb[TUNNEL_HOPS];
    struct metric *scheduler_wait[WIRE_URGENCIES];                   // seconds
    struct metric *streams_open, *buffered_bytes, *buffered_reports; // gauges
    struct metric *stalled_platform, *stalled_agent;
    struct metric *flaps;
    struct metric *kept_bytes;              // gauge
    struct metric *opened_again, *given_up; // calls of which nothing had reached an agent
    struct metric *budget_denied, *account_denied, *pings_missed, *reports;
    struct metric *bytes_in, *bytes_out;
};

void tunnel_meter_init(struct tunnel_meter *meter);

// The series of culvert_tunnel_streams_total that a node has used lately: looking one up takes a
// lock and a walk along a list, and this is done once a call. Zeroed is empty.
enum { TUNNEL_METER_CACHE = 64 };
struct tunnel_meter_cache {
    struct {
        uint64_t hash;
        struct metric *metric;
    } series[TUNNEL_METER_CACHE];
};
// route: of stream_request_route(), or "" for a call that no service answered.
struct metric *tunnel_meter_streams(const struct tunnel_meter *meter, struct tunnel_meter_cache *cache,
                                    const char *route, const char *code);

#endif
