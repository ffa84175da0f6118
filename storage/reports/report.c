#include "storage/reports/report.h"

#include <string.h>

// The views of a report, so that they can be counted and moved without naming each one twice.
static const size_t views[] = {
    offsetof(struct report, account_id),       offsetof(struct report, runtime),
    offsetof(struct report, ref.group),        offsetof(struct report, ref.version),
    offsetof(struct report, ref.kind),         offsetof(struct report, ref.ns),
    offsetof(struct report, ref.name),         offsetof(struct report, ref.uid),
    offsetof(struct report, cluster),          offsetof(struct report, resource_version),
    offsetof(struct report, created_at),       offsetof(struct report, application_ns),
    offsetof(struct report, application_name), offsetof(struct report, sync_status),
    offsetof(struct report, health_status),    offsetof(struct report, health_message),
    offsetof(struct report, health_source),    offsetof(struct report, presence),
    offsetof(struct report, api_resource),     offsetof(struct report, marks),
    offsetof(struct report, manifest),         offsetof(struct report, packed_manifest),
    offsetof(struct report, desired_manifest), offsetof(struct report, git_manifest),
    offsetof(struct report, repo_url),         offsetof(struct report, path),
    offsetof(struct report, revision),         offsetof(struct report, commit_message),
    offsetof(struct report, commit_author),    offsetof(struct report, commit_date),
    offsetof(struct report, errors),           offsetof(struct report, app_versions),
    offsetof(struct report, unread),
};

size_t report_text_bytes(const struct report *report)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        bytes += ((const struct str *)(const void *)((const char *)report + views[i]))->len;
    return bytes;
}

char *report_copy_into(struct report *out, const struct report *report, char *to)
{
    *out = *report;
    out->is_kept = false;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct str *view = (struct str *)(void *)((char *)out + views[i]);
        if (view->len) memcpy(to, view->at, view->len);
        *view = view->len ? str_of(to, view->len) : STR_EMPTY;
        to += view->len;
    }
    return to;
}
