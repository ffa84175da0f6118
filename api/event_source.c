#include "api/event_source.h"

#include "api/event_document.h"

static struct str text_of(const json_t *source, const char *key)
{
    return event_document_text(source, key, EVENT_SOURCE_TEXT_BYTES_MAX);
}

static bool is_empty_string(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) == 0;
}

void event_source_read(const json_t *payload, struct event_source *out)
{
    const json_t *source = json_get_object(payload, "source");
    json_t *actual = json_object_get(source, "actualManifest"), *desired = json_object_get(source, "desiredManifest");
    *out = (struct event_source){
        .is_present = source != NULL,
        // Only what says so is a deletion: a reporter that leaves the members out has not.
        .is_deleted = is_empty_string(actual) && is_empty_string(desired),
        .actual_manifest = is_empty_string(actual) || json_is_null(actual) ? NULL : actual,
        .desired_manifest = desired,
        .git_manifest = json_get_str(source, "gitManifest"),
        .cluster = json_get_str(source, "cluster"),
        .application_ns = json_get_str(source, "appNamespace"),
        .application_name = json_get_str(source, "appName"),
        .sync_status = text_of(source, "syncStatus"),
        .health_status = text_of(source, "healthStatus"),
        .health_message = text_of(source, "healthMessage"),
        .repo_url = text_of(source, "repoURL"),
        .path = text_of(source, "path"),
        .revision = text_of(source, "revision"),
        .commit_message = text_of(source, "commitMessage"),
        .commit_author = text_of(source, "commitAuthor"),
        .commit_date = text_of(source, "commitDate"),
    };
}

bool event_source_is_in_cluster(struct str server)
{
    if (str_ends(server, STR("/"))) server.len--;
    return server.len == 0 || str_eq(server, STR("in-cluster")) ||
           str_eq(server, STR("https://kubernetes.default.svc")) ||
           str_eq(server, STR("https://kubernetes.default.svc:443")) ||
           str_eq(server, STR("https://kubernetes.default.svc.cluster.local"));
}
