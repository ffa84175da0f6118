// report_check: what a report must be before anything of it may reach SQL: bounded text in UTF-8 without NUL, an
// identity that fits into index entries, numbers in range.
#include "storage/reports/report_plan.h"
#include "storage/reports/report_store.h"

enum { NAME_BYTES_MAX = 253, KIND_BYTES_MAX = 128, UID_BYTES_MAX = 128, CLUSTER_BYTES_MAX = 512 };

static enum error_code check_text(struct str s, size_t bytes_max, const char *what, struct error *err)
{
    if (s.len > bytes_max)
        return error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes, the limit is %zu", what, s.len, bytes_max);
    if (!str_is_utf8(s)) return error_set(err, ERROR_INVALID, "%s: not UTF-8, or a NUL byte inside", what);
    return ERROR_NONE;
}

enum error_code report_check_identity(const struct report *report, struct error *err)
{
    const struct {
        struct str text;
        size_t bytes_max;
        const char *what;
    } table[] = {
        {report->runtime, UID_BYTES_MAX, "runtime"},
        {report->ref.group, NAME_BYTES_MAX, "group"},
        {report->ref.version, NAME_BYTES_MAX, "version"},
        {report->ref.kind, KIND_BYTES_MAX, "kind"},
        {report->ref.ns, NAME_BYTES_MAX, "namespace"},
        {report->ref.name, NAME_BYTES_MAX, "name"},
        {report->ref.uid, UID_BYTES_MAX, "uid"},
        {report->cluster, CLUSTER_BYTES_MAX, "cluster"},
        {report->application_ns, NAME_BYTES_MAX, "application namespace"},
        {report->application_name, NAME_BYTES_MAX, "application name"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        enum error_code code = check_text(table[i].text, table[i].bytes_max, table[i].what, err);
        if (code != ERROR_NONE) return code;
    }
    bool has_object =
        report->type == REPORT_OBJECT || report->type == REPORT_DELETED || report->type == REPORT_KUBERNETES_EVENT;
    if (has_object && (!report->ref.kind.len || !report->ref.name.len))
        return error_set(err, ERROR_INVALID, "object without a kind or a name");
    if (report->epoch > INT64_MAX || report->sequence > INT64_MAX || report->count > INT64_MAX)
        return error_set(err, ERROR_INVALID, "epoch, sequence or count is out of range");
    if (report->source == REPORT_FROM_TUNNEL && (report->epoch == 0 || report->sequence == 0))
        return error_set(err, ERROR_INVALID, "report from a tunnel without epoch or sequence");
    if (report->source == REPORT_FROM_HTTP &&
        (report->type == REPORT_SNAPSHOT_BEGIN || report->type == REPORT_SNAPSHOT_END))
        return error_set(err, ERROR_INVALID, "snapshots are accepted through tunnels only");
    return ERROR_NONE;
}

enum error_code report_check_contents(const struct report *report, struct error *err)
{
    const struct {
        struct str text;
        size_t bytes_max;
        const char *what;
    } table[] = {
        {report->manifest, MANIFEST_BYTES_MAX, "manifest"},
        {report->desired_manifest, MANIFEST_BYTES_MAX, "desired manifest"},
        {report->git_manifest, MANIFEST_BYTES_MAX, "manifest in Git"},
        {report->sync_status, UID_BYTES_MAX, "sync status"},
        {report->health_status, UID_BYTES_MAX, "health status"},
        {report->health_message, MANIFEST_BYTES_MAX, "health message"},
        {report->health_source, UID_BYTES_MAX, "health source"},
        {report->presence, UID_BYTES_MAX, "presence"},
        {report->api_resource, UID_BYTES_MAX, "resource of the API"},
        {report->marks, UID_BYTES_MAX, "marks"},
        {report->repo_url, MANIFEST_BYTES_MAX, "repository"},
        {report->path, MANIFEST_BYTES_MAX, "path"},
        {report->revision, MANIFEST_BYTES_MAX, "revision"},
        {report->commit_message, MANIFEST_BYTES_MAX, "commit message"},
        {report->commit_author, MANIFEST_BYTES_MAX, "commit author"},
        {report->commit_date, MANIFEST_BYTES_MAX, "commit date"},
        {report->errors, MANIFEST_BYTES_MAX, "errors"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        enum error_code code = check_text(table[i].text, table[i].bytes_max, table[i].what, err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

enum error_code report_store_check(const struct report *report, struct error *err)
{
    enum error_code code = report_check_identity(report, err);
    return code == ERROR_NONE ? report_check_contents(report, err) : code;
}
