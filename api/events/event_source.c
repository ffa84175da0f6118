#include "api/events/event_source.h"

#include "api/events/event_document.h"

static struct str text_of(const json_t *source, const char *key)
{
    return event_document_text(source, key, EVENT_SOURCE_TEXT_BYTES_MAX);
}

static bool is_empty_string(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) == 0;
}

static json_t *manifest_or_null(json_t *value)
{
    return is_empty_string(value) || json_is_null(value) ? NULL : value;
}

// What both forms call the same.
static void read_common(const json_t *source, struct event_source *out)
{
    out->application_ns = json_get_str(source, "appNamespace");
    out->application_name = json_get_str(source, "appName");
    out->sync_status = text_of(source, "syncStatus");
    out->repo_url = text_of(source, "repoURL");
    out->commit_message = text_of(source, "commitMessage");
    out->commit_author = text_of(source, "commitAuthor");
    out->commit_date = text_of(source, "commitDate");
}

void event_source_read(const json_t *payload, struct event_source *out)
{
    const json_t *source = json_get_object(payload, "source");
    json_t *actual = json_object_get(source, "actualManifest"), *desired = json_object_get(source, "desiredManifest");
    *out = (struct event_source){
        .is_present = source != NULL,
        .has_manifests = source != NULL,
        // Only what says so is a deletion: a reporter that leaves the members out has not.
        .is_deleted = is_empty_string(actual) && is_empty_string(desired),
        .actual_manifest = manifest_or_null(actual),
        .desired_manifest = desired,
        .actual_place = "data.source.actualManifest",
        .desired_place = "data.source.desiredManifest",
        .git_manifest = json_get_str(source, "gitManifest"),
        .cluster = json_get_str(source, "cluster"),
        .health_status = text_of(source, "healthStatus"),
        .health_message = text_of(source, "healthMessage"),
        .path = text_of(source, "path"),
        .revision = text_of(source, "revision"),
    };
    read_common(source, out);
}

void event_source_read_draft(const json_t *payload, struct event_source *out)
{
    const json_t *source = json_get_object(payload, "source"), *health = json_get_object(source, "healthStatus");
    *out = (struct event_source){
        .is_present = source != NULL,
        .actual_manifest = manifest_or_null(json_object_get(payload, "actualManifest")),
        .desired_manifest = json_object_get(payload, "desiredManifest"),
        .actual_place = "actualManifest",
        .desired_place = "desiredManifest",
        .cluster = json_get_str(source, "clusterServer"),
        .health_status = text_of(health, "status"),
        .health_message = text_of(health, "message"),
        .revision = json_str(json_array_get(json_get_array(source, "revisions"), 0)),
    };
    if (!out->revision.len) out->revision = text_of(source, "targetRevision");
    if (out->revision.len > EVENT_SOURCE_TEXT_BYTES_MAX) out->revision = STR_EMPTY;
    read_common(source, out);
}

bool event_source_is_in_cluster(struct str server)
{
    if (str_ends(server, STR("/"))) server.len--;
    return server.len == 0 || str_eq(server, STR("in-cluster")) ||
           str_eq(server, STR("https://kubernetes.default.svc")) ||
           str_eq(server, STR("https://kubernetes.default.svc:443")) ||
           str_eq(server, STR("https://kubernetes.default.svc.cluster.local"));
}
