// report_resource: any Kubernetes object but an Application: its identity, owners, labels, images and what Argo CD says
// about it.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/resources/resources.h"
#include "storage/reports/argo_status.h"

enum {
    TEXT_MAX = 4096,
    VALUE_MAX = 1024,
    JSON_MAX = 64 * 1024,
    OWNERS_MAX = 32,
    IMAGES_MAX = 100,
    UID_MAX = 128,
    NAME_MAX_BYTES = 253
};

#define RESOURCE_KEY(plan, report)                                                                                     \
    ROW_KEY(plan, report), .cluster = value_cluster(plan, report), .api_group = value_text(plan, (report)->ref.group), \
                           .kind = value_text(plan, (report)->ref.kind),                                               \
                           .namespace = value_text(plan, (report)->ref.ns),                                            \
                           .name = value_text(plan, (report)->ref.name)

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

static void append_running(json_t *list, const json_t *statuses)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)statuses, i, each)
    {
        json_t *image = json_object_get(each, "image"), *id = json_object_get(each, "imageID");
        bool is_text = json_is_string(image) && json_is_string(id);
        if (!is_text || json_string_length(image) > VALUE_MAX || json_string_length(id) > VALUE_MAX) continue;
        if (!json_get_object(json_get_object(each, "state"), "running")) continue;
        json_t *running = json_pack("{s:O, s:O}", "image", image, "imageID", id);
        size_t k = 0;
        while (k < json_array_size(list) && !json_equal(json_array_get(list, k), running))
            k++;
        if (k == json_array_size(list) && k < IMAGES_MAX) json_array_append(list, running);
        json_decref(running);
    }
}

// Of a Pod: the images of its containers that run, each with the imageID that its kubelet resolved
// it to. An init container that runs is a sidecar, or the Pod is starting.
static struct pg_param running_of(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    if (!str_eq(report->ref.kind, STR("Pod")) || report->ref.group.len) return pg_null();
    json_t *list = json_array();
    const json_t *status = json_get_object(manifest, "status");
    append_running(list, json_get_array(status, "initContainerStatuses"));
    append_running(list, json_get_array(status, "containerStatuses"));
    struct pg_param value = value_json(plan, list, JSON_MAX * 4, "[]");
    json_decref(list);
    return value;
}

static void plan_contents(struct report_plan *plan, struct sql_resource_upsert *row, const json_t *manifest)
{
    const json_t *metadata = json_get_object(manifest, "metadata");
    json_t *owners = owners_of(metadata), *images = images_of(manifest);
    json_t *labels = report_string_map(json_get_object(metadata, "labels"), VALUE_MAX);
    row->owners = value_json(plan, owners, JSON_MAX, "[]");
    row->labels = value_json(plan, labels, JSON_MAX, "{}");
    row->images = value_json(plan, images, JSON_MAX * 2, "[]");
    row->resource_created_at = value_time_or_null(plan, json_get_str(metadata, "creationTimestamp"));
    json_decref(owners);
    json_decref(images);
    json_decref(labels);
}

static void plan_enrichment(struct report_plan *plan, const struct report *report)
{
    const struct report_enrichment more = report_enrichment_of(plan, report);
    const struct sql_resource_enrich row = {
        RESOURCE_KEY(plan, report),
        ROW_SOURCE(plan, report),
        ROW_STORED(plan),
        .desired_sha256 = more.desired_sha256,
        .git_sha256 = more.git_sha256,
        .source_errors = more.source_errors,
        .observed_at = value_observed_at(plan, report),
    };
    report_plan_add(plan, resource_enrich, &row);
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
    // The manifest of what is not at hand is but its name: nothing to show.
    bool is_absent = report->presence.len > 0;
    struct str sha256 = is_absent ? STR_EMPTY : report_plan_blob(plan, report->manifest, report->packed_manifest);
    struct str uid = report->ref.uid.len ? report->ref.uid : report_cut(json_get_str(metadata, "uid"), UID_MAX);
    struct sql_resource_upsert row = {
        RESOURCE_KEY(plan, report),
        ROW_ORDER(plan, report),
        ROW_STORED(plan),
        .version = value_text(plan, report->ref.version),
        .uid = value_text(plan, uid),
        .application_namespace = value_text(plan, report->application_ns),
        .application_name = value_text(plan, report->application_name),
        .sync_status = value_text_or_null(plan, argo_sync_status(report->sync_status)),
        .health_status = value_text_or_null(plan, argo_health_status(report->health_status)),
        .health_message = value_cut(plan, report->health_message, TEXT_MAX),
        .manifest_sha256 = value_bytes_or_null(sha256),
        .content_hash = value_content_hash(plan, report),
        .resource_version = value_resource_version(plan, report),
        .health_source = value_text_or_null(plan, word_among(report->health_source, health_sources)),
        .presence = value_text_or_null(plan, word_among(report->presence, presences)),
        .api_resource = value_cut(plan, report->api_resource, NAME_MAX_BYTES),
        .marks = value_cut(plan, report->marks, NAME_MAX_BYTES),
        .running_images = running_of(plan, report, manifest),
    };
    plan_contents(plan, &row, manifest);
    int deciding = report_plan_add(plan, resource_upsert, &row);
    if (!is_absent) report_kinds_plan_rows(plan, report, manifest, sha256, deciding);
    return deciding;
}

static enum error_code plan_report(struct report_plan *plan, const struct report *report, int *out_deciding,
                                   struct error *err)
{
    if (report->type == REPORT_DELETED) {
        const struct sql_resource_tombstone row = {
            RESOURCE_KEY(plan, report),
            ROW_ORDER(plan, report),
            ROW_STORED(plan),
            .version = value_text(plan, report->ref.version),
            .uid = value_text(plan, report->ref.uid),
            .resource_version = value_resource_version(plan, report),
            .resource_created_at = value_time_or_null(plan, report->created_at),
        };
        *out_deciding = report_plan_add(plan, resource_tombstone, &row);
        return ERROR_NONE;
    }
    json_t *manifest = NULL;
    enum error_code code = report_decode(report, &manifest, err);
    if (code != ERROR_NONE) return code;
    *out_deciding = plan_row(plan, report, manifest);
    if (report->source == REPORT_FROM_HTTP) {
        plan_enrichment(plan, report);
        report_kinds_plan_http(plan, report, manifest);
    }
    json_decref(manifest);
    return ERROR_NONE;
}

static void plan_refused(struct report_plan *plan, const struct report *report)
{
    const struct sql_resource_touch row = {
        RESOURCE_KEY(plan, report),
        ROW_ORDER(plan, report),
        ROW_STORED(plan),
        .version = value_text(plan, report->ref.version),
        .uid = value_text(plan, report->ref.uid),
        .content_hash = value_content_hash(plan, report),
    };
    report_plan_add(plan, resource_touch, &row);
}

static void plan_over_quota(struct report_plan *plan, const struct report *report)
{
    const struct sql_resource_keep row = {
        RESOURCE_KEY(plan, report),
        .epoch = value_int(plan, (int64_t)report->epoch),
        .sequence = value_int(plan, (int64_t)report->sequence),
    };
    report_plan_add(plan, resource_keep, &row);
}

static void plan_trim(struct report_plan *plan, const struct report *report)
{
    const struct sql_report_trim_resources row = {
        ROW_KEY(plan, report),
        .epoch = value_int(plan, (int64_t)report->epoch),
        .sequence = value_int(plan, (int64_t)report->sequence),
    };
    report_plan_add(plan, report_trim_resources, &row);
}

static void add_held(struct pg_batch *batch, const struct report *report)
{
    pg_add(batch, storage_of_resource, .account_id = pg_text(report->account_id), .runtime = pg_text(report->runtime),
           .cluster = pg_text(report->cluster.len ? report->cluster : STR("in-cluster")),
           .api_group = pg_text(report->ref.group), .kind = pg_text(report->ref.kind),
           .namespace = pg_text(report->ref.ns), .name = pg_text(report->ref.name));
}

// All objects that are of no other kind.
const struct report_kind report_kind_resource = {
    .plan = plan_report,
    .plan_refused = plan_refused,
    .plan_over_quota = plan_over_quota,
    .plan_trim = plan_trim,
    .add_held = add_held,
};
