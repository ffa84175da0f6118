// report_kubernetes_event: a Kubernetes Event about a reported object, which is the report's own
// identity: {"uid","type","reason","message","component","count","firstAt","lastAt"}. Bounded and
// redacted by the agent; bounded here again.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/kubernetes_events/kubernetes_events.h"
#include "storage/reports/report_plan.h"

enum { EVENT_BYTES_MAX = 16 * 1024, UID_BYTES_MAX = 128, NAME_BYTES_MAX = 128, MESSAGE_BYTES_MAX = 1024 };

#define EVENT_OBJECT(plan, report)                                                                                     \
    ROW_KEY(plan, report), .cluster = value_cluster(plan, report), .api_group = value_text(plan, (report)->ref.group), \
                           .kind = value_text(plan, (report)->ref.kind),                                               \
                           .namespace = value_text(plan, (report)->ref.ns),                                            \
                           .name = value_text(plan, (report)->ref.name)

static bool is_event(const struct report *report)
{
    return report->type == REPORT_KUBERNETES_EVENT;
}

static int64_t count_of(const json_t *event)
{
    const json_t *count = json_object_get(event, "count");
    int64_t value = json_is_integer(count) ? json_integer_value(count) : 1;
    return value < 1 ? 1 : value > INT32_MAX ? INT32_MAX : value;
}

static int plan_put(struct report_plan *plan, const struct report *report, const json_t *event)
{
    bool is_warning = str_eq(json_get_str(event, "type"), STR("Warning"));
    const struct sql_kubernetes_event_put row = {
        EVENT_OBJECT(plan, report),
        .epoch = value_epoch(plan, report),
        .observed_at = value_observed_at(plan, report),
        .event_uid = value_text(plan, json_get_str(event, "uid")),
        .type = value_text(plan, is_warning ? STR("Warning") : STR("Normal")),
        .reason = value_cut(plan, json_get_str(event, "reason"), NAME_BYTES_MAX),
        .message = value_cut(plan, json_get_str(event, "message"), MESSAGE_BYTES_MAX),
        .component = value_cut(plan, json_get_str(event, "component"), NAME_BYTES_MAX),
        .count = value_int(plan, count_of(event)),
        .first_at = value_time_or_null(plan, json_get_str(event, "firstAt")),
        .last_at = value_time_or_null(plan, json_get_str(event, "lastAt")),
    };
    return report_plan_add(plan, kubernetes_event_put, &row);
}

static enum error_code plan_report(struct report_plan *plan, const struct report *report, int *out_deciding,
                                   struct error *err)
{
    if (report->manifest.len > EVENT_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "Kubernetes Event: %zu bytes, the limit is %d", report->manifest.len,
                         EVENT_BYTES_MAX);
    json_t *event = NULL;
    enum error_code code = report_decode_whole(report, &event, err);
    if (code != ERROR_NONE) return code;
    struct str uid = json_get_str(event, "uid");
    if (!uid.len || uid.len > UID_BYTES_MAX) {
        json_decref(event);
        return error_set(err, ERROR_INVALID, "Kubernetes Event: uid must have 1 to %d bytes", UID_BYTES_MAX);
    }
    *out_deciding = plan_put(plan, report, event);
    json_decref(event);
    const struct sql_kubernetes_event_trim_object row = {EVENT_OBJECT(plan, report)};
    report_plan_add(plan, kubernetes_event_trim_object, &row);
    return ERROR_NONE;
}

const struct report_kind report_kind_kubernetes_event = {.matches = is_event, .plan = plan_report};
