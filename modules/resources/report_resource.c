// report_resource: any Kubernetes object but an Application: its identity, owners, labels, images and what Argo CD says
// about it.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/applications/argo_status.h"
#include "storage/reports/report_entity.h"
#include "storage/reports/report_plan.h"

enum {
    TEXT_MAX = 4096,
    VALUE_MAX = 1024,
    JSON_MAX = 64 * 1024,
    OWNERS_MAX = 32,
    IMAGES_MAX = 100,
    UID_MAX = 128,
    NAME_MAX_BYTES = 253
};

static void resource_key(struct report_params *p, const struct report *report)
{
    params_key(p, report);
    params_text(p, report->cluster.len ? report->cluster : STR("in-cluster"));
    params_text(p, report->group);
    params_text(p, report->kind);
    params_text(p, report->ns);
    params_text(p, report->name);
}

static json_t *owners_of(const json_t *metadata)
{
    static const char *const members[] = {"apiVersion", "kind", "name", "uid"};
    json_t *list = json_array();
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(metadata, "ownerReferences"), i, each)
    {
        if (i >= OWNERS_MAX) break;
        json_t *owner = json_object();
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            json_t *value = json_object_get(each, members[m]);
            if (json_is_string(value)) json_object_set(owner, members[m], value);
        }
        json_object_set_new(owner, "controller", json_boolean(json_get_bool(each, "controller", false)));
        json_array_append_new(list, owner);
    }
    return list;
}

static void append_images(json_t *list, const json_t *containers)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)containers, i, each)
    {
        json_t *image = json_object_get(each, "image");
        if (!json_is_string(image) || json_string_length(image) > VALUE_MAX) continue;
        size_t k = 0;
        while (k < json_array_size(list) && !json_equal(json_array_get(list, k), image))
            k++;
        if (k == json_array_size(list) && k < IMAGES_MAX) json_array_append(list, image);
    }
}

// Of a pod, or of what makes pods.
static json_t *images_of(const json_t *manifest)
{
    json_t *list = json_array();
    const json_t *spec = json_get_object(manifest, "spec");
    const json_t *template = json_path(spec, "template", "spec", NULL);
    const json_t *job = json_path(spec, "jobTemplate", "spec", "template", "spec", NULL);
    const json_t *pod = json_is_object(template) ? template : json_is_object(job) ? job : spec;
    // What a pod runs its kubelet says; a webhook may have made it something else than its template.
    const json_t *status = json_get_object(manifest, "status");
    append_images(list, json_get_array(status, "initContainerStatuses"));
    append_images(list, json_get_array(status, "containerStatuses"));
    if (json_array_size(list)) return list;
    append_images(list, json_get_array(pod, "initContainers"));
    append_images(list, json_get_array(pod, "containers"));
    return list;
}

static void plan_contents(struct report_params *p, const json_t *manifest)
{
    const json_t *metadata = json_get_object(manifest, "metadata");
    json_t *owners = owners_of(metadata), *images = images_of(manifest);
    json_t *labels = report_string_map(json_get_object(metadata, "labels"), VALUE_MAX);
    params_json(p, owners, JSON_MAX, "[]");
    params_json(p, labels, JSON_MAX, "{}");
    params_json(p, images, JSON_MAX * 2, "[]");
    params_time_or_null(p, json_get_str(metadata, "creationTimestamp"));
    json_decref(owners);
    json_decref(images);
    json_decref(labels);
}

static void plan_enrichment(struct report_plan *plan, const struct report *report)
{
    struct report_params p = {.plan = plan};
    resource_key(&p, report);
    report_enrich_params(&p, report);
    struct report_params order = {.plan = plan};
    params_order(&order, report);
    p.list[p.count++] = order.list[2]; // observed_at
    params_stored(&p);
    report_plan_add(plan, &statement_resource_enrich, &p);
}

static const char *const health_sources[] = {"AGENT", "ARGOCD_STATUS", "ARGOCD_TREE", NULL};
static const char *const presences[] = {"MISSING", "UNREADABLE", "UNKNOWN_KIND", NULL};

// The word if it is one of these, else empty: clients have enums for them.
static struct str word_among(struct str word, const char *const *known)
{
    for (; *known; known++)
        if (str_eq(word, str_c(*known))) return word;
    return STR_EMPTY;
}

static int plan_row(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    const json_t *metadata = json_get_object(manifest, "metadata");
    struct report_params p = {.plan = plan};
    resource_key(&p, report);
    params_text(&p, report->version);
    params_text(&p, report->uid.len ? report->uid : report_cut(json_get_str(metadata, "uid"), UID_MAX));
    params_text(&p, report->application_ns);
    params_text(&p, report->application_name);
    params_text_or_null(&p, argo_sync_status(report->sync_status));
    params_text_or_null(&p, argo_health_status(report->health_status));
    params_cut(&p, report->health_message, TEXT_MAX);
    plan_contents(&p, manifest);
    // The manifest of what is not at hand is but its name: nothing to show.
    bool is_absent = report->presence.len > 0;
    struct str sha256 = is_absent ? STR_EMPTY : report_plan_blob(plan, report->manifest, report->packed_manifest);
    params_bytes_or_null(&p, sha256);
    params_entry(&p, report);
    params_order(&p, report);
    params_version(&p, report);
    params_text_or_null(&p, word_among(report->health_source, health_sources));
    params_text_or_null(&p, word_among(report->presence, presences));
    params_cut(&p, report->api_resource, NAME_MAX_BYTES);
    params_cut(&p, report->marks, NAME_MAX_BYTES);
    params_stored(&p);
    int deciding = report_plan_add(plan, &statement_resource_upsert, &p);
    size_t beside = plan->step_count;
    if (!is_absent) report_entity_plan(plan, report, manifest, sha256);
    // A workflow's row outlives its object and is counted by itself.
    if (!str_eq(report->kind, STR("Workflow"))) report_plan_beside(plan, deciding, beside);
    return deciding;
}

enum error_code report_resource_plan(struct report_plan *plan, const struct report *report, int *out_deciding,
                                     struct error *err)
{
    if (report->type == REPORT_DELETED) {
        struct report_params p = {.plan = plan};
        resource_key(&p, report);
        params_text(&p, report->version);
        params_text(&p, report->uid);
        params_order(&p, report);
        params_version(&p, report);
        params_time_or_null(&p, report->created_at);
        params_stored(&p);
        *out_deciding = report_plan_add(plan, &statement_resource_tombstone, &p);
        return ERROR_NONE;
    }
    json_t *manifest = NULL;
    enum error_code code = report_decode(report, &manifest, err);
    if (code != ERROR_NONE) return code;
    *out_deciding = plan_row(plan, report, manifest);
    if (report->source == REPORT_FROM_HTTP) {
        plan_enrichment(plan, report);
        report_commit_plan(plan, report, manifest);
    }
    json_decref(manifest);
    return ERROR_NONE;
}

static void plan_snapshot_refused(struct report_plan *plan, const struct report *report)
{
    struct report_params p = {.plan = plan};
    params_key(&p, report);
    params_int(&p, (int64_t)report->epoch);
    params_int(&p, (int64_t)report->sequence);
    report_plan_add(plan, &statement_report_snapshot_refused, &p);
}

void report_over_quota_plan(struct report_plan *plan, const struct report *report)
{
    if (report->source != REPORT_FROM_TUNNEL || report->type != REPORT_OBJECT) return;
    plan_snapshot_refused(plan, report);
    struct report_params p = {.plan = plan};
    const bool is_application = report_is_application(report);
    if (is_application) {
        params_key(&p, report);
        params_text(&p, report->ns);
        params_text(&p, report->name);
    } else {
        resource_key(&p, report);
    }
    params_int(&p, (int64_t)report->epoch);
    params_int(&p, (int64_t)report->sequence);
    report_plan_add(plan, is_application ? &statement_application_keep : &statement_resource_keep, &p);
}

void report_refused_plan(struct report_plan *plan, const struct report *report)
{
    struct report_params p = {.plan = plan};
    plan_snapshot_refused(plan, report);
    const bool is_application = report_is_application(report);
    if (is_application) {
        params_key(&p, report);
        params_text(&p, report->ns);
        params_text(&p, report->name);
        params_text(&p, report->cluster.len ? report->cluster : STR("in-cluster"));
    } else {
        resource_key(&p, report);
    }
    params_text(&p, report->version);
    params_text(&p, report->uid);
    params_entry(&p, report);
    params_order(&p, report);
    params_stored(&p);
    report_plan_add(plan, is_application ? &statement_application_touch : &statement_resource_touch, &p);
}
