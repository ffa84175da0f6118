// report_application: what an Argo CD Application (argoproj.io/v1alpha1) says, as columns.
#include <inttypes.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "culvert_statements.h"
#include "modules/applications/applications.h"
#include "storage/reports/argo_status.h"
#include "storage/reports/report_plan.h"

enum {
    TEXT_MAX = 4096,
    PATTERN_MAX = 1024,
    JSON_MAX = 64 * 1024,
    VALUE_MAX = 1024,
    SOURCES_MAX = 100,
    HISTORY_MAX = 1000,
    RESOURCES_MAX = 500,
    ERRORS_MAX = 100,
    UID_MAX = 128,
    NAME_MAX_BYTES = 253,
};

static bool is_application(const struct report *report)
{
    return report->type != REPORT_KUBERNETES_EVENT && object_ref_is_application(&report->ref);
}

static void copy_member(json_t *to, const char *to_key, const json_t *from, const char *from_key)
{
    json_t *value = json_object_get(from, from_key);
    if (json_is_string(value) && json_string_length(value) <= TEXT_MAX) json_object_set(to, to_key, value);
}

// ---- spec ----------------------------------------------------------------------------------------------------------

static json_t *source_of(const json_t *from)
{
    json_t *source = json_object();
    copy_member(source, "path", from, "path");
    copy_member(source, "repoURL", from, "repoURL");
    copy_member(source, "targetRevision", from, "targetRevision");
    copy_member(source, "chart", from, "chart");
    copy_member(source, "ref", from, "ref");
    if (!json_object_get(source, "repoURL")) json_object_set_new(source, "repoURL", json_string(""));
    return source;
}

// Every source of a spec, a history entry or a sync result: `sources` where given, else `source`.
static json_t *sources_of(const json_t *from)
{
    json_t *list = json_array();
    const json_t *many = json_get_array(from, "sources");
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)many, i, each)
    {
        if (i < SOURCES_MAX && json_is_object(each)) json_array_append_new(list, source_of(each));
    }
    const json_t *one = json_get_object(from, "source");
    if (json_array_size(list) == 0 && one) json_array_append_new(list, source_of(one));
    return list;
}

static const char *sync_policy_of(const json_t *spec)
{
    if (!spec) return "Unknown";
    const json_t *automated = json_path(spec, "syncPolicy", "automated", NULL);
    return json_is_object(automated) && json_get_bool(automated, "enabled", true) ? "Automated" : "Manual";
}

static void plan_spec(struct report_plan *plan, struct sql_application_upsert *row, const json_t *manifest)
{
    const json_t *spec = json_get_object(manifest, "spec");
    const json_t *destination = json_get_object(spec, "destination");
    const json_t *labels = json_path(manifest, "metadata", "labels", NULL);
    json_t *sources = sources_of(spec);
    const json_t *first = json_array_get(sources, 0);
    const json_t *directory = json_path(spec, "source", "directory", NULL);
    row->project = value_cut(plan, json_get_str(spec, "project"), TEXT_MAX);
    row->destination_server = value_cut(plan, json_get_str(destination, "server"), TEXT_MAX);
    row->destination_name = value_cut(plan, json_get_str(destination, "name"), TEXT_MAX);
    row->destination_namespace = value_cut(plan, json_get_str(destination, "namespace"), TEXT_MAX);
    row->repo_url = value_cut(plan, json_get_str(first, "repoURL"), TEXT_MAX);
    row->path = value_cut(plan, json_get_str(first, "path"), TEXT_MAX);
    row->target_revision = value_cut(plan, json_get_str(first, "targetRevision"), TEXT_MAX);
    row->chart = value_cut(plan, json_get_str(first, "chart"), TEXT_MAX);
    row->sources = value_json(plan, sources, JSON_MAX, "[]");
    row->is_multi_source = value_bool(json_array_size(json_get_array(spec, "sources")) > 0);
    row->is_git_source = value_bool(str_eq(json_get_str(labels, "codefresh.io/entity"), STR("git-source")));
    row->include_pattern = value_cut(plan, json_get_str(directory, "include"), PATTERN_MAX);
    row->exclude_pattern = value_cut(plan, json_get_str(directory, "exclude"), PATTERN_MAX);
    row->sync_policy = pg_text(str_c(sync_policy_of(spec)));
    json_decref(sources);
}

// ---- status --------------------------------------------------------------------------------------------------------

static const char *const phases[] = {"Error", "Failed", "Running", "Succeeded", "Terminating", NULL};
static const char *const result_codes[] = {"Synced", "SyncFailed", "Pruned", "PruneSkipped", NULL};
static const char *const sync_phases[] = {"PreSync", "Sync", "PostSync", "SyncFail", NULL};
static const char *const hook_types[] = {"PreSync", "Sync", "PostSync", "Skip", "SyncFail", NULL};

// The word if Argo CD knows it, else empty: clients have enums for these.
static struct str word_among(struct str word, const char *const *known)
{
    for (; *known; known++)
        if (str_eq(word, str_c(*known))) return word;
    return STR_EMPTY;
}

static json_t *result_resource(const json_t *from)
{
    static const char *const names[] = {"group", "version", "kind", "name"};
    const struct {
        const char *key;
        const char *const *known;
    } words[] = {{"status", result_codes}, {"syncPhase", sync_phases}, {"hookPhase", phases}, {"hookType", hook_types}};
    json_t *one = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set_new(one, names[i], json_new_str(report_cut(json_get_str(from, names[i]), VALUE_MAX)));
    copy_member(one, "namespace", from, "namespace");
    copy_member(one, "message", from, "message");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct str word = word_among(json_get_str(from, words[i].key), words[i].known);
        if (word.len) json_object_set_new(one, words[i].key, json_new_str(word));
    }
    return one;
}

// Of a sync that was asked for: some of the application's resources only.
static bool is_partial(const json_t *sync)
{
    return json_array_size(json_get_array(sync, "resources")) > 0;
}

static void plan_operation(struct report_plan *plan, struct sql_application_upsert *row, const json_t *state)
{
    json_t *operation = NULL, *resources = NULL;
    if (state) {
        operation = json_object();
        const json_t *asked = json_get_object(state, "operation"), *sync = json_get_object(asked, "sync");
        copy_member(operation, "initiator", json_get_object(asked, "initiatedBy"), "username");
        json_object_set_new(operation, "automated",
                            json_boolean(json_get_bool(json_get_object(asked, "initiatedBy"), "automated", false)));
        copy_member(operation, "revision", sync, "revision");
        json_object_set_new(operation, "prune", json_boolean(json_get_bool(sync, "prune", false)));
        json_object_set_new(operation, "dryRun", json_boolean(json_get_bool(sync, "dryRun", false)));
        json_object_set_new(operation, "partial", json_boolean(is_partial(sync)));
        resources = json_array();
        size_t i;
        json_t *each;
        json_array_foreach(json_path(state, "syncResult", "resources", NULL), i, each)
        {
            if (i >= RESOURCES_MAX) break;
            json_t *one = result_resource(each);
            json_array_append_new(resources, one);
        }
    }
    row->operation_phase = value_text_or_null(plan, word_among(json_get_str(state, "phase"), phases));
    row->operation_message = value_cut(plan, json_get_str(state, "message"), TEXT_MAX);
    row->operation_started_at = value_time_or_null(plan, json_get_str(state, "startedAt"));
    row->operation_finished_at = value_time_or_null(plan, json_get_str(state, "finishedAt"));
    row->operation_revision = value_cut(plan, json_get_str(json_get_object(state, "syncResult"), "revision"), TEXT_MAX);
    row->operation_retry_count = value_int_or_null(plan, json_object_get(state, "retryCount"));
    row->operation = value_json(plan, operation, JSON_MAX, NULL);
    row->operation_resources = value_json(plan, resources, JSON_MAX * 4, NULL);
    json_decref(operation);
    json_decref(resources);
}

// Texts only.
static json_t *revisions_of(const json_t *many, const json_t *one)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(many) && i < SOURCES_MAX; i++) {
        json_t *each = json_array_get(many, i);
        if (json_is_string(each) && json_string_length(each) <= TEXT_MAX) json_array_append(list, each);
    }
    bool is_text = json_is_string(one) && json_string_length(one) > 0 && json_string_length(one) <= TEXT_MAX;
    if (json_array_size(list) == 0 && is_text) json_array_append(list, (json_t *)(uintptr_t)one);
    if (json_array_size(list)) return list;
    json_decref(list);
    return NULL;
}

// status.sync as Argo CD says it, then status.operationState: that a sync runs is the operation's to say.
static void plan_status(struct report_plan *plan, struct sql_application_upsert *row, const struct report *report,
                        const json_t *status)
{
    const json_t *sync = json_get_object(status, "sync"), *health = json_get_object(status, "health");
    const json_t *state = json_get_object(status, "operationState");
    struct str word = json_get_str(sync, "status");
    struct str sync_status = argo_sync_status(word.len ? word : report->sync_status);
    word = json_get_str(health, "status");
    row->sync_status = value_text(plan, sync_status.len ? sync_status : STR("UNKNOWN"));
    row->health_status = value_text_or_null(plan, argo_health_status(word.len ? word : report->health_status));
    word = json_get_str(health, "message");
    row->health_message = value_cut(plan, word.len ? word : report->health_message, TEXT_MAX);
    row->sync_revision = value_cut(plan, json_get_str(sync, "revision"), TEXT_MAX);
    json_t *revisions = revisions_of(json_get_array(sync, "revisions"), NULL);
    row->sync_revisions = value_json(plan, revisions, JSON_MAX, NULL);
    json_decref(revisions);
    plan_operation(plan, row, state);
}

static void append_error(json_t *errors, const char *type, const char *level, struct str title, struct str message,
                         struct str at)
{
    if (json_array_size(errors) >= ERRORS_MAX) return;
    bool is_invalid = str_eq(title, STR("InvalidSpecError"));
    json_array_append_new(errors, json_pack("{s:s, s:s, s:o, s:o, s:n, s:n, s:s, s:o}", "__typename", type, "level",
                                            level, "title", json_new_str(title), "message",
                                            json_new_str(report_cut(message, TEXT_MAX)), "suggestion", "object", "code",
                                            is_invalid ? "INVALID_SPEC" : "UNKNOWN", "lastSeen", json_new_str(at)));
}

// Conditions that are errors or warnings, and a sync that failed.
static json_t *errors_of(const json_t *status)
{
    json_t *errors = json_array();
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(status, "conditions"), i, each)
    {
        struct str type = json_get_str(each, "type");
        bool is_error = str_ends(type, STR("Error"));
        if (!is_error && !str_ends(type, STR("Warning"))) continue;
        append_error(errors, "SyncError", is_error ? "ERROR" : "WARNING", type, json_get_str(each, "message"),
                     json_get_str(each, "lastTransitionTime"));
    }
    const json_t *state = json_get_object(status, "operationState");
    struct str phase = json_get_str(state, "phase");
    if (str_eq(phase, STR("Failed")) || str_eq(phase, STR("Error")))
        append_error(errors, "SyncError", "ERROR", STR("The last sync failed"), json_get_str(state, "message"),
                     json_get_str(state, "finishedAt"));
    return errors;
}

// Its agent adds this annotation where it does not read the resources (application_notes.h).
static void append_unread(json_t *errors, const struct report *report, const json_t *metadata)
{
    json_t *unread = NULL;
    struct str text = json_get_str(json_get_object(metadata, "annotations"), "culvert.dev/resources-not-read");
    if (report->source == REPORT_FROM_HTTP || !text.len) return;
    if (json_decode(text, NULL, &unread, NULL) != ERROR_NONE) return;
    char at[CLOCK_RFC3339_BYTES];
    struct str message = json_get_str(unread, "message"), suggestion = json_get_str(unread, "suggestion");
    clock_format_rfc3339(report->observed_at_ms, at);
    if (message.len) {
        append_error(errors, "SyncError", "WARNING", STR("ResourcesNotRead"), message, str_c(at));
        json_t *last = json_array_get(errors, json_array_size(errors) - 1);
        json_object_set_new(last, "suggestion", json_new_str(report_cut(suggestion, TEXT_MAX)));
    }
    json_decref(unread);
}

// ---- history -------------------------------------------------------------------------------------------------------

static bool is_time(struct str text)
{
    int64_t ignored;
    return clock_parse_rfc3339(text, &ignored, NULL) == ERROR_NONE;
}

// As PostgreSQL reads it: of zones it knows fewer.
static void copy_time(json_t *to, const char *to_key, const json_t *from, const char *from_key)
{
    int64_t wall_ms;
    char text[CLOCK_RFC3339_BYTES];
    if (clock_parse_rfc3339(json_get_str(from, from_key), &wall_ms, NULL) != ERROR_NONE) return;
    clock_format_rfc3339(wall_ms, text);
    json_object_set_new(to, to_key, json_string(text));
}

static json_t *history_entry(const json_t *from)
{
    const json_t *initiator = json_get_object(from, "initiatedBy");
    json_t *entry = json_object();
    json_object_set(entry, "id", json_object_get(from, "id"));
    copy_member(entry, "revision", from, "revision");
    if (json_get_array(from, "revisions")) json_object_set(entry, "revisions", json_object_get(from, "revisions"));
    copy_time(entry, "deployed_at", from, "deployedAt");
    copy_time(entry, "deploy_started_at", from, "deployStartedAt");
    copy_member(entry, "initiator", initiator, "username");
    if (initiator) json_object_set_new(entry, "automated", json_boolean(json_get_bool(initiator, "automated", false)));
    json_object_set_new(entry, "sources", sources_of(from));
    return entry;
}

// The entries of status.history with an id, each once; *out_first and *out_last are the smallest and greatest id.
static json_t *history_of(const json_t *status, json_t **out_first, json_t **out_last)
{
    json_t *list = json_array();
    *out_first = *out_last = NULL;
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(status, "history"), i, each)
    {
        json_t *id = json_object_get(each, "id");
        if (!json_is_integer(id) || i >= HISTORY_MAX) continue;
        json_array_append_new(list, history_entry(each));
        if (!*out_first || json_integer_value(id) < json_integer_value(*out_first)) *out_first = id;
        if (!*out_last || json_integer_value(id) > json_integer_value(*out_last)) *out_last = id;
    }
    return list;
}

static void plan_history(struct report_plan *plan, const struct report *report, struct str uid, const json_t *history)
{
    if (json_array_size(history) == 0) return;
    struct strbuf ids;
    strbuf_init(&ids, HISTORY_MAX * 24);
    strbuf_add_byte(&ids, '{');
    for (size_t i = 0; i < json_array_size(history); i++)
        strbuf_addf(&ids, "%s%" PRId64, i ? "," : "",
                    (int64_t)json_integer_value(json_object_get(json_array_get(history, i), "id")));
    strbuf_add_byte(&ids, '}');
    const struct sql_deployment_add row = {
        ROW_KEY(plan, report),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .uid = value_text(plan, uid),
        .history = value_json(plan, history, MANIFEST_BYTES_MAX, "[]"),
        .history_ids = value_text(plan, strbuf_str(&ids)),
    };
    report_plan_add_late(plan, STR("deployment"), deployment_add, &row); // it writes sets of manifests
    strbuf_finish(&ids);
}

// What distinguishes operations that begin in the same second. No redaction changes these fields.
static json_t *request_of(const json_t *state)
{
    static const char *const fields[] = {"revision", "revisions", "prune", "dryRun", "resources"};
    const json_t *asked = json_get_object(state, "operation"), *sync = json_get_object(asked, "sync");
    json_t *request = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        json_object_set(request, fields[i], json_object_get(sync, fields[i]));
    json_object_set(request, "initiatedBy", json_object_get(asked, "initiatedBy"));
    return request;
}

static void plan_operation_row(struct report_plan *plan, const struct report *report, struct str uid,
                               const json_t *status)
{
    const json_t *state = json_get_object(status, "operationState");
    if (!is_time(json_get_str(state, "startedAt"))) return;
    const json_t *initiator = json_path(state, "operation", "initiatedBy", NULL);
    const json_t *sync = json_path(state, "operation", "sync", NULL);
    size_t len;
    json_t *request = request_of(state);
    char *text = json_canonical(request, &len);
    const struct sql_application_operation_upsert row = {
        ROW_KEY(plan, report),
        ROW_ORDER(plan, report),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .uid = value_text(plan, uid),
        .started_at = value_time_or_null(plan, json_get_str(state, "startedAt")),
        .finished_at = value_time_or_null(plan, json_get_str(state, "finishedAt")),
        .phase = value_text(plan, word_among(json_get_str(state, "phase"), phases)),
        .message = value_cut(plan, json_get_str(state, "message"), TEXT_MAX),
        .revision = value_cut(plan, json_get_str(json_get_object(state, "syncResult"), "revision"), TEXT_MAX),
        .initiator = value_cut(plan, json_get_str(initiator, "username"), VALUE_MAX),
        .is_automated = value_bool(json_get_bool(initiator, "automated", false)),
        .request = value_text(plan, str_of(text, len)),
        .is_dry_run = value_bool(json_get_bool(sync, "dryRun", false)),
        .is_partial = value_bool(is_partial(sync)),
    };
    mem_free(text);
    json_decref(request);
    report_plan_add(plan, application_operation_upsert, &row);
}

// ---- the row -------------------------------------------------------------------------------------------------------

static void plan_enrichment(struct report_plan *plan, const struct report *report)
{
    const struct report_enrichment more = report_enrichment_of(plan, report);
    const struct sql_application_enrich row = {
        ROW_KEY(plan, report),
        ROW_SOURCE(plan, report),
        ROW_STORED(plan),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .desired_sha256 = more.desired_sha256,
        .git_sha256 = more.git_sha256,
        .source_errors = more.source_errors,
        .observed_at = value_observed_at(plan, report),
        .app_versions = value_text_or_null(plan, report->app_versions),
    };
    report_plan_add(plan, application_enrich, &row);
}

static void plan_metadata(struct report_plan *plan, struct sql_application_upsert *row, const json_t *metadata,
                          const json_t *errors)
{
    json_t *labels = report_string_map(json_get_object(metadata, "labels"), VALUE_MAX);
    json_t *annotations = report_string_map(json_get_object(metadata, "annotations"), VALUE_MAX);
    row->labels = value_json(plan, labels, JSON_MAX, "{}");
    row->annotations = value_json(plan, annotations, JSON_MAX, "{}");
    row->errors = value_json(plan, errors, JSON_MAX * 4, "[]");
    row->application_created_at = value_time_or_null(plan, json_get_str(metadata, "creationTimestamp"));
    json_decref(labels);
    json_decref(annotations);
}

// The application that it belongs to, as Argo CD tracks it: "[<namespace>_]<name>:<group>/<kind>:<namespace>/<name>",
// or the label of old. A name alone is of the same namespace.
static void plan_parent(struct report_plan *plan, struct sql_application_upsert *row, const struct report *report,
                        const json_t *metadata)
{
    struct str parent = report->application_name,
               ns = report->application_ns.len ? report->application_ns : report->ref.ns;
    struct str rest = json_get_str(json_get_object(metadata, "annotations"), "argocd.argoproj.io/tracking-id");
    if (!parent.len && rest.len && str_cut(&rest, ':', &parent)) {
        struct str name = parent, head;
        if (str_cut(&name, '_', &head)) ns = head, parent = name;
    } else if (!parent.len) {
        parent = json_get_str(json_get_object(metadata, "labels"), "app.kubernetes.io/instance");
    }
    bool is_itself = str_eq(parent, report->ref.name) && str_eq(ns, report->ref.ns);
    bool is_name = parent.len && parent.len <= NAME_MAX_BYTES && ns.len <= NAME_MAX_BYTES && !is_itself;
    row->parent_namespace = value_text(plan, is_name ? ns : STR_EMPTY);
    row->parent_name = value_text(plan, is_name ? parent : STR_EMPTY);
}

// The ApplicationSet that made it.
static void plan_application_set(struct report_plan *plan, struct sql_application_upsert *row, const json_t *metadata)
{
    const json_t *owners = json_get_array(metadata, "ownerReferences"), *owner = NULL;
    for (size_t i = 0; i < json_array_size(owners) && !owner; i++)
        if (str_eq(json_get_str(json_array_get(owners, i), "kind"), STR("ApplicationSet")))
            owner = json_array_get(owners, i);
    row->application_set = value_cut(plan, json_get_str(owner, "name"), NAME_MAX_BYTES);
    row->application_set_uid = value_cut(plan, json_get_str(owner, "uid"), UID_MAX);
}

// Of the last operation: what it synced, and what changed the application, which some distributions of Argo CD tell.
static void plan_revisions(struct report_plan *plan, struct sql_application_upsert *row, const json_t *state)
{
    const json_t *result = json_get_object(state, "syncResult"), *sync = json_path(state, "operation", "sync", NULL);
    const json_t *from =
        json_object_get(result, "changeRevision") || json_object_get(result, "changeRevisions") ? result : sync;
    json_t *synced = revisions_of(json_get_array(result, "revisions"), NULL),
           *changed = revisions_of(json_get_array(from, "changeRevisions"), json_object_get(from, "changeRevision"));
    row->operation_revisions = value_json(plan, synced, JSON_MAX, NULL);
    row->change_revisions = value_json(plan, changed, JSON_MAX, NULL);
    json_decref(synced);
    json_decref(changed);
}

static int plan_row(struct report_plan *plan, const struct report *report, struct str uid, const json_t *manifest)
{
    const json_t *status = json_get_object(manifest, "status");
    json_t *first = NULL, *last = NULL;
    json_t *history = history_of(status, &first, &last);
    json_t *errors = errors_of(status);
    const json_t *metadata = json_get_object(manifest, "metadata");
    append_unread(errors, report, metadata);
    struct sql_application_upsert row = {
        ROW_KEY(plan, report),
        ROW_ORDER(plan, report),
        ROW_STORED(plan),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .cluster = value_cluster(plan, report),
        .version = value_text(plan, report->ref.version),
        .uid = value_text(plan, uid),
        .history_id = value_int_or_null(plan, last),
        .history_id_min = value_int_or_null(plan, first),
        .resources_count = value_int(plan, (int64_t)json_array_size(json_get_array(status, "resources"))),
        .manifest_sha256 = value_bytes_or_null(report_plan_blob(plan, report->manifest, report->packed_manifest)),
        .content_hash = value_content_hash(plan, report),
        .resource_version = value_resource_version(plan, report),
        .manifest_bytes = value_int(plan, (int64_t)report->manifest.len),
    };
    plan_status(plan, &row, report, status);
    plan_spec(plan, &row, manifest);
    plan_metadata(plan, &row, metadata, errors);
    plan_parent(plan, &row, report, metadata);
    plan_application_set(plan, &row, metadata);
    plan_revisions(plan, &row, json_get_object(status, "operationState"));
    int deciding = report_plan_add(plan, application_upsert, &row);
    plan_history(plan, report, uid, history);
    plan_operation_row(plan, report, uid, status);
    if (report->source == REPORT_FROM_HTTP) plan_enrichment(plan, report);
    report_kinds_plan_http(plan, report, manifest);
    json_decref(history);
    json_decref(errors);
    return deciding;
}

static enum error_code plan_report(struct report_plan *plan, const struct report *report, int *out_deciding,
                                   struct error *err)
{
    if (report->type == REPORT_DELETED) {
        const struct sql_application_tombstone row = {
            ROW_KEY(plan, report),
            ROW_ORDER(plan, report),
            ROW_STORED(plan),
            .namespace = value_text(plan, report->ref.ns),
            .name = value_text(plan, report->ref.name),
            .cluster = value_cluster(plan, report),
            .version = value_text(plan, report->ref.version),
            .uid = value_text(plan, report->ref.uid),
            .resource_version = value_resource_version(plan, report),
            .application_created_at = value_time_or_null(plan, report->created_at),
        };
        *out_deciding = report_plan_add(plan, application_tombstone, &row);
        return ERROR_NONE;
    }
    json_t *manifest = NULL;
    enum error_code code = report_decode(report, &manifest, err);
    if (code != ERROR_NONE) return code;
    if (!manifest) return error_set(err, ERROR_INVALID, "application without a manifest");
    struct str uid = report->ref.uid;
    if (!uid.len) uid = report_cut(json_get_str(json_get_object(manifest, "metadata"), "uid"), UID_MAX);
    *out_deciding = plan_row(plan, report, uid, manifest);
    json_decref(manifest);
    return ERROR_NONE;
}

static void plan_refused(struct report_plan *plan, const struct report *report)
{
    const struct sql_application_touch row = {
        ROW_KEY(plan, report),
        ROW_ORDER(plan, report),
        ROW_STORED(plan),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .cluster = value_cluster(plan, report),
        .version = value_text(plan, report->ref.version),
        .uid = value_text(plan, report->ref.uid),
        .content_hash = value_content_hash(plan, report),
    };
    report_plan_add(plan, application_touch, &row);
}

static void plan_over_quota(struct report_plan *plan, const struct report *report)
{
    const struct sql_application_keep row = {
        ROW_KEY(plan, report),
        .namespace = value_text(plan, report->ref.ns),
        .name = value_text(plan, report->ref.name),
        .epoch = value_int(plan, (int64_t)report->epoch),
        .sequence = value_int(plan, (int64_t)report->sequence),
    };
    report_plan_add(plan, application_keep, &row);
}

static void plan_trim(struct report_plan *plan, const struct report *report)
{
    const struct sql_report_trim_applications row = {
        ROW_KEY(plan, report),
        .epoch = value_int(plan, (int64_t)report->epoch),
        .sequence = value_int(plan, (int64_t)report->sequence),
    };
    report_plan_add(plan, report_trim_applications, &row);
}

static void add_held(struct pg_batch *batch, const struct report *report)
{
    pg_add(batch, storage_of_application, .account_id = pg_text(report->account_id),
           .runtime = pg_text(report->runtime), .namespace = pg_text(report->ref.ns),
           .name = pg_text(report->ref.name));
}

const struct report_kind report_kind_application = {
    .matches = is_application,
    .plan = plan_report,
    .plan_refused = plan_refused,
    .plan_over_quota = plan_over_quota,
    .plan_trim = plan_trim,
    .add_held = add_held,
};
