// report_cluster: a cluster that the runtime's Argo CD manages, and whether it is reached:
// {"name","server","serverVersion","connectionState":{"status","message","attemptedAt"},"namespaces","labels",
//  "cacheInfo":{"resourcesCount","apisCount","lastCacheSyncTime"},"apiVersions",
//  "findings":[{"code","level","message","suggestion"}]}: what keeps the agent from reading it.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/clusters/clusters.h"
#include "storage/reports/report_plan.h"

enum { FINDINGS_MAX = 30, FINDING_TEXT_MAX = 2048, FINDINGS_JSON_MAX = 256 * 1024 };
enum { NAME_MAX_BYTES = 253, SERVER_MAX = 1024, TEXT_MAX = 4096, VALUE_MAX = 1024, JSON_MAX = 64 * 1024 };

// Gone: REPORT_DELETED of kind Cluster, which is no kind of Kubernetes' own.
static bool is_cluster(const struct report *report)
{
    return report->type == REPORT_CLUSTER ||
           (report->type == REPORT_DELETED && str_eq(report->ref.kind, STR("Cluster")) &&
            (!report->ref.group.len || str_eq(report->ref.group, STR("argoproj.io"))));
}

static struct str status_of(const json_t *state)
{
    struct str status = json_get_str(state, "status");
    bool is_known = str_eq(status, STR("Successful")) || str_eq(status, STR("Failed"));
    return is_known ? status : STR("Unknown");
}

static void plan_state(struct report_plan *plan, struct sql_cluster_upsert *row, const json_t *manifest)
{
    // Argo CD nests what it found out in "info"; the agent does not.
    const json_t *info = json_get_object(manifest, "info");
    if (!info) info = manifest;
    const json_t *state = json_get_object(info, "connectionState"), *cache = json_get_object(info, "cacheInfo");
    json_t *labels = report_string_map(json_get_object(manifest, "labels"), VALUE_MAX);
    row->server_version = value_cut(plan, json_get_str(info, "serverVersion"), 256);
    row->connection_status = value_text(plan, status_of(state));
    row->connection_message = value_cut(plan, json_get_str(state, "message"), TEXT_MAX);
    row->connection_attempted_at = value_time_or_null(plan, json_get_str(state, "attemptedAt"));
    row->resources_count = value_int_or_null(plan, json_object_get(cache, "resourcesCount"));
    row->apis_count = value_int_or_null(plan, json_object_get(cache, "apisCount"));
    row->last_cache_sync_at = value_time_or_null(plan, json_get_str(cache, "lastCacheSyncTime"));
    row->api_versions = value_json(plan, json_get_array(info, "apiVersions"), JSON_MAX, NULL);
    row->namespaces = value_json(plan, json_get_array(manifest, "namespaces"), JSON_MAX, "[]");
    row->labels = value_json(plan, labels, JSON_MAX, "{}");
    json_decref(labels);
}

static json_t *text_of(const json_t *finding, const char *name)
{
    struct str text = json_get_str(finding, name);
    if (text.len > FINDING_TEXT_MAX) {
        text.len = FINDING_TEXT_MAX;
        while (text.len && ((unsigned char)text.at[text.len] & 0xc0) == 0x80)
            text.len--;
    }
    return json_new_str(text);
}

// As the agent reports them, bounded, and nothing but their four texts.
static json_t *findings_of(const json_t *manifest)
{
    json_t *findings = json_array();
    size_t i;
    const json_t *given;
    json_array_foreach(json_get_array(manifest, "findings"), i, given)
    {
        static const char *const members[] = {"code", "message", "suggestion"};
        if (i == FINDINGS_MAX) break;
        json_t *finding = json_object();
        for (size_t k = 0; k < sizeof members / sizeof members[0]; k++)
            json_object_set_new(finding, members[k], text_of(given, members[k]));
        bool is_error = str_eq(json_get_str(given, "level"), STR("ERROR"));
        json_object_set_new(finding, "level", json_string(is_error ? "ERROR" : "WARNING"));
        json_array_append_new(findings, finding);
    }
    return findings;
}

// The agent's own cluster brings the names of all that its Argo CD manages, where it could read them to the end: what
// is not among them has been removed there.
static void plan_trim(struct report_plan *plan, const struct report *report, struct str name, const json_t *names)
{
    if (!names) return;
    const struct sql_cluster_trim row = {
        ROW_KEY(plan, report),
        ROW_ORDER(plan, report),
        .name = value_text(plan, name),
        .names = value_json(plan, names, JSON_MAX, NULL),
    };
    report_plan_add(plan, cluster_trim, &row);
}

static enum error_code plan_report(struct report_plan *plan, const struct report *report, int *out_deciding,
                                   struct error *err)
{
    if (report->type == REPORT_DELETED) {
        const struct sql_cluster_tombstone row = {
            ROW_KEY(plan, report),
            ROW_ORDER(plan, report),
            .name = value_text(plan, report->ref.name.len ? report->ref.name : report->cluster),
        };
        *out_deciding = report_plan_add(plan, cluster_tombstone, &row);
        return ERROR_NONE;
    }
    json_t *manifest = NULL;
    enum error_code code = report_decode_whole(report, &manifest, err);
    if (code != ERROR_NONE) return code;
    struct str name = json_get_str(manifest, "name"), server = json_get_str(manifest, "server");
    if (!name.len) name = report->ref.name.len ? report->ref.name : report->cluster;
    if (!server.len) server = name;
    if (!manifest || !name.len || name.len > NAME_MAX_BYTES || server.len > SERVER_MAX) {
        json_decref(manifest);
        return error_set(err, ERROR_INVALID, "cluster: manifest, name and server are required");
    }
    json_t *findings = findings_of(report->source == REPORT_FROM_TUNNEL ? manifest : NULL);
    struct sql_cluster_upsert row = {
        ROW_KEY(plan, report),
        ROW_ORDER(plan, report),
        .name = value_text(plan, name),
        .server = value_text(plan, server),
        .findings = value_json(plan, findings, FINDINGS_JSON_MAX, "[]"),
    };
    json_decref(findings);
    plan_state(plan, &row, manifest);
    *out_deciding = report_plan_add(plan, cluster_upsert, &row);
    if (report->source == REPORT_FROM_TUNNEL) plan_trim(plan, report, name, json_get_array(manifest, "clusters"));
    json_decref(manifest);
    return ERROR_NONE;
}

static void add_held(struct pg_batch *batch, const struct report *report)
{
    struct str name = report->ref.name.len ? report->ref.name : report->cluster;
    pg_add(batch, storage_of_cluster, .account_id = pg_text(report->account_id), .runtime = pg_text(report->runtime),
           .name = pg_text(name.len ? name : STR("in-cluster")));
}

const struct report_kind report_kind_cluster = {.matches = is_cluster, .plan = plan_report, .add_held = add_held};
