#include "agent/reports/reporter_metrics.h"

#include "agent/reports/collector.h"
#include "agent/reports/outbox.h"

void reporter_metrics_init(struct reporter_metrics *metrics)
{
    *metrics = (struct reporter_metrics){0};
    metrics->objects = metric_with(metrics_gauge("culvert_agent_outbox_objects", "Objects in the outbox.", NULL));
    metrics->bytes = metric_with(
        metrics_gauge("culvert_agent_outbox_bytes", "Bytes of compressed manifests that wait to be sent.", NULL));
    metrics->restarts = metric_with(metrics_counter("culvert_agent_watch_restarts_total",
                                                    "Lists and watches that failed and were restarted.", NULL));
    struct metric_family *resyncs = metrics_counter(
        "culvert_agent_resyncs_total", "Comparisons of the inventory with the platform, by result.", "result", NULL);
    metrics->unchanged = metric_with(resyncs, "unchanged");
    metrics->differences = metric_with(resyncs, "differences");
    metrics->full = metric_with(resyncs, "full");
    metrics->left_out = metric_with(metrics_counter(
        "culvert_agent_objects_left_out_total",
        "Objects beyond reporter.objects_max; inventories are not compared while there are any.", NULL));
    metrics->no_room =
        metric_with(metrics_counter("culvert_agent_reports_without_room_total",
                                    "Records that the platform refused because a storage quota is used up.", NULL));
    struct metric_family *values = metrics_counter("culvert_agent_redacted_values_total",
                                                   "Values of manifests that redaction replaced, by how.", "how", NULL);
    metrics->digested = metric_with(values, "digested");
    metrics->scrubbed = metric_with(values, "scrubbed");
    metrics->slowed = metric_with(metrics_counter("culvert_agent_changes_slowed_total",
                                                  "Changes that were delayed because their object is flapping.", NULL));
    metrics->coalesced = metric_with(metrics_counter(
        "culvert_agent_changes_coalesced_total", "States that a newer one replaced before they were reported.", NULL));
    metrics->lag = metric_with(metrics_gauge("culvert_agent_report_lag_seconds",
                                             "Seconds by which the platform may be behind the cluster.", NULL));
}

static void add_new(struct metric *metric, uint64_t count, uint64_t *counted)
{
    if (count > *counted) metric_add(metric, count - *counted);
    *counted = count;
}

void reporter_metrics_show(struct reporter_metrics *metrics, const struct outbox *outbox,
                           const struct collector *collector, uint64_t left_out, uint64_t lag_ms)
{
    metric_set(metrics->objects, (int64_t)outbox_count(outbox));
    metric_set(metrics->bytes, (int64_t)outbox_bytes(outbox));
    metric_set(metrics->lag, (int64_t)(lag_ms / 1000));
    add_new(metrics->slowed, outbox_slowed(outbox), &metrics->slowed_counted);
    add_new(metrics->coalesced, outbox_coalesced(outbox), &metrics->coalesced_counted);
    add_new(metrics->restarts, collector ? collector_restarts(collector) : 0, &metrics->restarts_counted);
    add_new(metrics->left_out, left_out, &metrics->left_out_counted);
}
