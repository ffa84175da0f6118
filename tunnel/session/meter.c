#include "tunnel/session/meter.h"

#include <stddef.h>

#include "base/hash.h"

void tunnel_meter_init(struct tunnel_meter *m)
{
    struct metric_family *family = metrics_gauge("culvert_tunnels", "Sessions of agents.", "state", NULL);
    m->sessions_standby = metric_with(family, "standby");
    m->sessions_opening = metric_with(family, "opening");
    m->sessions_open = metric_with(family, "open");
    m->sessions_closing = metric_with(family, "closing");
    m->handshakes = metrics_counter("culvert_tunnel_handshakes_total", "Upgrade requests by answer.", "result", NULL);
    family = metrics_counter("culvert_tunnel_refused_total", "Sessions refused by a limit.", "cap", NULL);
    m->refused_process = metric_with(family, "process");
    m->refused_address = metric_with(family, "address");
    m->epoch_changes =
        metrics_counter("culvert_tunnel_epoch_changes_total", "Sessions that took over.", "reason", NULL);
    m->flaps = metric_with(metrics_counter(
        "culvert_tunnel_flaps_total", "Sessions put on standby because agents replace each other repeatedly.", NULL));
    m->session_ends = metrics_counter("culvert_tunnel_session_ends_total", "Sessions that ended.", "reason", NULL);
    m->streams =
        metrics_counter("culvert_tunnel_streams_total", "Calls by route, and status or cause.", "route", "code", NULL);
    m->resets = metrics_counter("culvert_tunnel_resets_total", "Streams that were reset.", "code", "side", NULL);
    m->rtt = metric_with(metrics_histogram("culvert_tunnel_rtt_seconds", "Round-trip time of PING.", NULL));
    family =
        metrics_histogram("culvert_tunnel_ttfb_seconds", "Time from opening a call to its response head.", "hop", NULL);
    m->ttfb[TUNNEL_HOP_NONE] = metric_with(family, "none");
    m->ttfb[TUNNEL_HOP_LOOP] = metric_with(family, "loop");
    m->ttfb[TUNNEL_HOP_REPLICA] = metric_with(family, "replica");
    m->drain = metric_with(
        metrics_histogram("culvert_tunnel_drain_seconds", "Time from DRAIN to the end of the session.", NULL));
    static const char *const urgencies[WIRE_URGENCIES] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    static const bool used[WIRE_URGENCIES] = {[WIRE_URGENCY_CONTROL] = true,
                                              [WIRE_URGENCY_INTERACTIVE] = true,
                                              [WIRE_URGENCY_DEFAULT] = true,
                                              [WIRE_URGENCY_BULK] = true};
    family = metrics_histogram("culvert_tunnel_scheduler_wait_seconds",
                               "Time that request data waits for its turn, by urgency (RFC 9218).", "urgency", NULL);
    for (unsigned i = 0; i < WIRE_URGENCIES; i++)
        m->scheduler_wait[i] = used[i] ? metric_with(family, urgencies[i]) : NULL;
    m->streams_open = metric_with(metrics_gauge("culvert_tunnel_streams_open", "Calls in flight.", NULL));
    family = metrics_gauge("culvert_tunnel_buffered_bytes", "Bytes received and not yet consumed.", "scope", NULL);
    m->buffered_bytes = metric_with(family, "streams");
    m->buffered_reports = metric_with(family, "reports");
    family =
        metrics_counter("culvert_tunnel_stream_stalled_total", "Streams reset for lack of progress.", "side", NULL);
    m->stalled_platform = metric_with(family, "platform");
    m->stalled_agent = metric_with(family, "agent");
    m->kept_bytes = metric_with(
        metrics_gauge("culvert_tunnel_kept_bytes", "Bytes of request heads kept for a possible retry.", NULL));
    family = metrics_counter("culvert_tunnel_reopened_total",
                             "Calls routed again because nothing had reached the agent.", "result", NULL);
    m->opened_again = metric_with(family, "opened");
    m->given_up = metric_with(family, "given_up");
    m->account_denied = metric_with(
        metrics_counter("culvert_tunnel_account_denied_total", "Calls refused by the limit of their account.", NULL));
    m->budget_denied = metric_with(
        metrics_counter("culvert_tunnel_budget_denied_total", "Calls refused by a memory or stream limit.", NULL));
    m->pings_missed = metric_with(
        metrics_counter("culvert_tunnel_pings_missed_total", "Sessions ended because the agent was silent.", NULL));
    m->reports = metric_with(metrics_counter("culvert_tunnel_reports_total", "Report records received.", NULL));
    family = metrics_counter("culvert_tunnel_bytes_total", "Bytes of HTTP/2 frames.", "dir", NULL);
    m->bytes_in = metric_with(family, "in");
    m->bytes_out = metric_with(family, "out");
}

struct metric *tunnel_meter_streams(const struct tunnel_meter *meter, struct tunnel_meter_cache *cache,
                                    const char *route, const char *code)
{
    uint64_t hash = hash_end(hash_part(hash_part(HASH_BEGIN, str_c(route)), str_c(code)));
    size_t at = (size_t)hash % TUNNEL_METER_CACHE;
    if (cache->series[at].hash != hash || !cache->series[at].metric) {
        cache->series[at].hash = hash;
        cache->series[at].metric = metric_with(meter->streams, route, code);
    }
    return cache->series[at].metric;
}
