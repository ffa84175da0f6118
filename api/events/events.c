#include "api/events/events.h"

#include "api/events/event_document.h"
#include "api/events/event_errors.h"
#include "api/events/event_manifest.h"
#include "api/events/event_object.h"
#include "api/events/event_source.h"
#include "api/events/event_versions.h"
#include "base/clock.h"
#include "base/json/json_region.h"

static const int64_t ahead_ms_max = 24 * 3600 * INT64_C(1000);

// ---- identity ------------------------------------------------------------------------------------------------------

static enum error_code check_identity(struct str value, const char *field, struct error *err)
{
    if (value.len > EVENTS_IDENTITY_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes, the limit is %d", field, value.len,
                         EVENTS_IDENTITY_BYTES_MAX);
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.at[i] < 0x20 || value.at[i] == 0x7f)
            return error_set(err, ERROR_INVALID, "%s: contains a control character", field);
    return ERROR_NONE;
}

static enum error_code take_identity(struct report *report, const json_t *object, struct error *err)
{
    const json_t *metadata = json_get_object(object, "metadata");
    struct str api_version = json_get_str(object, "apiVersion");
    bool has_group = str_has_byte(api_version, '/');
    object_ref_set_api_version(&report->ref, api_version);
    report->ref.kind = json_get_str(object, "kind");
    report->ref.ns = json_get_str(metadata, "namespace");
    report->ref.name = json_get_str(metadata, "name");
    report->ref.uid = json_get_str(metadata, "uid");
    report->resource_version = str_first(json_get_str(metadata, "resourceVersion"), EVENTS_IDENTITY_BYTES_MAX);
    report->created_at = str_first(json_get_str(metadata, "creationTimestamp"), EVENTS_IDENTITY_BYTES_MAX);
    if (api_version.len == 0) return error_set(err, ERROR_INVALID, "data.object.apiVersion: missing");
    if (report->ref.version.len == 0 || str_has_byte(report->ref.version, '/') ||
        (has_group && report->ref.group.len == 0))
        return error_set(err, ERROR_INVALID, "data.object.apiVersion: must be <group>/<version> or <version>");
    if (report->ref.kind.len == 0) return error_set(err, ERROR_INVALID, "data.object.kind: missing");
    if (report->ref.name.len == 0) return error_set(err, ERROR_INVALID, "data.object.metadata.name: missing");
    return ERROR_NONE;
}

static bool is_application(const struct report *report)
{
    return object_ref_is_application(&report->ref);
}

static enum error_code check_identities(const struct report *report, struct error *err)
{
    const struct {
        struct str value;
        const char *field;
    } all[] = {
        {report->ref.group, "data.object.apiVersion"},
        {report->ref.version, "data.object.apiVersion"},
        {report->ref.kind, "data.object.kind"},
        {report->ref.ns, "data.object.metadata.namespace"},
        {report->ref.name, "data.object.metadata.name"},
        {report->ref.uid, "data.object.metadata.uid"},
        {report->cluster, "data.source.cluster"},
        {report->application_ns, "data.source.appNamespace"},
        {report->application_name, "data.source.appName"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        enum error_code code = check_identity(all[i].value, all[i].field, err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

// ---- state ---------------------------------------------------------------------------------------------------------

static struct str status_text(const json_t *object, const char *part, const char *key)
{
    return event_document_text(json_path(object, "status", part, NULL), key, EVENT_SOURCE_TEXT_BYTES_MAX);
}

static void take_source(struct report *report, const struct event_source *source, const json_t *object)
{
    bool is_root = is_application(report) && source->application_name.len == 0;
    bool is_local = is_root || event_source_is_in_cluster(source->cluster);
    report->cluster = is_local ? STR("in-cluster") : source->cluster;
    report->application_ns = source->application_name.len ? source->application_ns : STR_EMPTY;
    report->application_name = source->application_name;
    report->sync_status = source->sync_status;
    report->health_status = source->health_status;
    report->health_message = source->health_message;
    if (!source->is_present && is_application(report)) {
        report->sync_status = status_text(object, "sync", "status");
        report->health_status = status_text(object, "health", "status");
        report->health_message = status_text(object, "health", "message");
    }
    report->repo_url = source->repo_url;
    report->path = source->path;
    report->revision = source->revision;
    report->commit_message = source->commit_message;
    report->commit_author = source->commit_author;
    report->commit_date = source->commit_date;
}

static enum error_code take_time(struct report *report, const json_t *payload, int64_t received_at_ms,
                                 struct error *err)
{
    struct str text = json_get_str(payload, "timestamp");
    report->observed_at_ms = received_at_ms;
    if (text.len == 0 || str_starts(text, STR("0001-01-01T00:00:00"))) return ERROR_NONE; // Go's word for no time
    int64_t sent_ms;
    if (clock_parse_rfc3339(text, &sent_ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "data.timestamp: must be an RFC 3339 time");
    if (sent_ms < 1) sent_ms = 1; // a clock that was never set is no word about now
    if (sent_ms <= received_at_ms + ahead_ms_max) report->observed_at_ms = sent_ms;
    return ERROR_NONE;
}

// ---- manifests -----------------------------------------------------------------------------------------------------

// Keys are shared by accounts, digests are not.
static struct event_filter filter_of(const struct report *report, const struct redaction *redaction,
                                     struct arena *arena)
{
    const char *owner = arena_printf(arena, "%.*s/%.*s", STR_ARG(report->account_id), STR_ARG(report->runtime));
    return (struct event_filter){redaction, {str_c(owner), report->ref}};
}

// One text of an object, before and after it was redacted.
struct redacted {
    struct str before, after;
};

static enum error_code take_live_manifest(struct report *report, const struct event_filter *filter,
                                          const struct event_source *source, const struct event_object *object,
                                          struct redacted *live, struct arena *arena, struct error *err)
{
    const char *place = source->actual_manifest ? source->actual_place : "data.object";
    json_t *value = source->actual_manifest ? source->actual_manifest : object->json;
    struct str text = source->actual_manifest ? json_str(source->actual_manifest) : object->text;
    live->before = text;
    // Most send the object twice; that it is canonical is known then.
    enum error_code code = object->text.len && str_eq(text, object->text)
                               ? event_manifest_redact(filter, text, place, arena, &report->manifest, err)
                               : event_manifest_take(filter, value, place, arena, &report->manifest, err);
    live->after = report->manifest;
    return code;
}

// Most of what is desired is what is there, and what is in Git is what is desired: each text is
// redacted once.
static enum error_code take_other_manifests(struct report *report, const struct event_filter *filter,
                                            const struct event_source *source, const struct redacted *live,
                                            struct arena *arena, struct error *err)
{
    struct str desired = json_str(source->desired_manifest), git = source->git_manifest;
    enum error_code code = ERROR_NONE;
    if (desired.len && str_eq(desired, live->before))
        report->desired_manifest = live->after;
    else
        code = event_manifest_desired(filter, source->desired_manifest, source->desired_place, arena,
                                      &report->desired_manifest, err);
    if (code != ERROR_NONE) return code;
    if (git.len && str_eq(git, desired) && report->desired_manifest.len) {
        report->git_manifest = report->desired_manifest;
        return ERROR_NONE;
    }
    return event_manifest_git(filter, git, "data.source.gitManifest", arena, &report->git_manifest, err);
}

static enum error_code take_manifests(struct report *report, const struct redaction *redaction,
                                      const struct event_source *source, const struct event_object *object,
                                      struct arena *arena, struct error *err)
{
    if (report->type != REPORT_OBJECT) return ERROR_NONE;
    const struct event_filter filter = filter_of(report, redaction, arena);
    struct redacted live;
    enum error_code code = take_live_manifest(report, &filter, source, object, &live, arena, err);
    return code == ERROR_NONE ? take_other_manifests(report, &filter, source, &live, arena, err) : code;
}

// ---- the whole -----------------------------------------------------------------------------------------------------

// Everything that still points into the JSON, or belongs to the caller, moves into the arena.
static void settle(struct report *report, struct arena *arena)
{
    struct str *views[] = {
        &report->account_id,       &report->runtime,       &report->ref.group,      &report->ref.version,
        &report->ref.kind,         &report->ref.ns,        &report->ref.name,       &report->ref.uid,
        &report->resource_version, &report->created_at,    &report->application_ns, &report->application_name,
        &report->sync_status,      &report->health_status, &report->revision,
    };
    // Texts and addresses that a person or a program wrote.
    struct str *texts[] = {&report->cluster,        &report->health_message, &report->repo_url,   &report->path,
                           &report->commit_message, &report->commit_author,  &report->commit_date};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = event_manifest_scrub(*texts[i], arena);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        *views[i] = views[i]->len ? arena_str(arena, *views[i]) : STR_EMPTY;
}

static enum error_code read_payload(struct report *report, const struct redaction *redaction, const json_t *payload,
                                    const struct event_source *source, const struct event_object *object,
                                    int64_t received_at_ms, struct arena *arena, struct error *err)
{
    enum error_code code = take_identity(report, object->json, err);
    if (code == ERROR_NONE) {
        take_source(report, source, object->json);
        code = check_identities(report, err);
    }
    if (code == ERROR_NONE) code = take_time(report, payload, received_at_ms, err);
    if (code != ERROR_NONE) return code;
    bool is_going = json_str(json_path(object->json, "metadata", "deletionTimestamp", NULL)).len > 0;
    bool is_deleted = source->has_manifests ? source->is_deleted : is_going;
    report->type = is_deleted ? REPORT_DELETED : REPORT_OBJECT;
    report->errors = event_errors_text(payload, arena);
    if (is_application(report)) report->app_versions = event_versions_text(payload, arena);
    code = take_manifests(report, redaction, source, object, arena, err);
    if (code == ERROR_NONE) settle(report, arena);
    return code;
}

// `value` says what it is about. Only without a source the object itself is asked how it is.
static enum error_code read_object(struct report *report, const struct redaction *redaction, const json_t *payload,
                                   const struct event_source *source, json_t *value, const char *place,
                                   int64_t received_at_ms, struct arena *arena, struct error *err)
{
    struct event_object object;
    enum error_code code = event_object_read(value, place, !source->is_present, arena, &object, err);
    if (code == ERROR_NONE)
        code = read_payload(report, redaction, payload, source, &object, received_at_ms, arena, err);
    event_object_finish(&object);
    return code;
}

static enum error_code read_wrapped(struct report *report, const struct redaction *redaction, const json_t *body,
                                    int64_t received_at_ms, struct arena *arena, struct error *err)
{
    json_t *payload = NULL;
    struct event_source source;
    enum error_code code = event_document_unwrap(json_object_get(body, "data"), "data", &payload, err);
    if (code != ERROR_NONE) return code;
    event_source_read(payload, &source);
    code = read_object(report, redaction, payload, &source, json_object_get(payload, "object"), "data.object",
                       received_at_ms, arena, err);
    json_decref(payload);
    return code;
}

// The body is the payload, and the manifest that is there says what it is about.
static enum error_code read_draft(struct report *report, const struct redaction *redaction, const json_t *body,
                                  int64_t received_at_ms, struct arena *arena, struct error *err)
{
    struct event_source source;
    event_source_read_draft(body, &source);
    json_t *value = source.actual_manifest ? source.actual_manifest : source.desired_manifest;
    const char *place = source.actual_manifest ? "actualManifest" : "desiredManifest";
    return read_object(report, redaction, body, &source, value, place, received_at_ms, arena, err);
}

enum error_code events_parse(enum events_form form, const struct redaction *redaction, struct str json,
                             struct str account_id, struct str runtime, int64_t received_at_ms, struct arena *arena,
                             struct report *out, struct error *err)
{
    struct report report = {.source = REPORT_FROM_HTTP, .account_id = account_id, .runtime = runtime};
    json_t *body = NULL;
    json_region_begin();
    enum error_code code = event_document_decode(json, "body", &body, err);
    if (code == ERROR_NONE)
        code = form == EVENTS_DRAFT ? read_draft(&report, redaction, body, received_at_ms, arena, err)
                                    : read_wrapped(&report, redaction, body, received_at_ms, arena, err);
    json_decref(body);
    json_region_end();
    if (code == ERROR_NONE) *out = report;
    return code;
}
