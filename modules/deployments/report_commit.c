// report_commit: the commits that reports name: the one behind a resource (over HTTP), and of an
// application those in its annotation app.meta.revisions-metadata,
// {"syncRevisions":[{"revision","metadata":{"author","date","message"}}], "changeRevisions":[...]},
// one a source, and "historyRevisions", which have their "repoURL".
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/deployments/deployments.h"
#include "storage/reports/report_plan.h"

enum { TEXT_MAX = 4096, REVISION_MAX = 256, REPO_MAX = 1024, SOURCES_MAX = 100 };

static void plan_commit(struct report_plan *plan, const struct report *report, struct str repo_url, struct str revision,
                        struct str author, struct str message, struct str date)
{
    // What is longer than this is no revision, and would not fit into the key.
    if (!revision.len || revision.len > REVISION_MAX || repo_url.len > REPO_MAX) return;
    if (!author.len && !message.len && !date.len) return;
    // The resources of an application come one after the other, all of one commit.
    if (str_eq(plan->commit_revision, revision) && str_eq(plan->commit_repo_url, repo_url)) return;
    plan->commit_revision = arena_str(plan->arena, revision);
    plan->commit_repo_url = repo_url.len ? arena_str(plan->arena, repo_url) : STR_EMPTY;
    const struct sql_commit_put row = {
        .account_id = value_text(plan, report->account_id),
        .revision = value_text(plan, revision),
        .repo_url = value_text(plan, repo_url),
        .author = value_cut(plan, author, TEXT_MAX),
        .message = value_cut(plan, message, TEXT_MAX),
        .commit_date = value_cut(plan, date, TEXT_MAX),
    };
    const char *place = arena_printf(plan->arena, "commit %.*s %.*s", STR_ARG(revision), STR_ARG(repo_url));
    report_plan_add_late(plan, str_c(place), commit_put, &row);
}

static struct str repo_of(const json_t *manifest, size_t index)
{
    const json_t *spec = json_get_object(manifest, "spec"), *sources = json_get_array(spec, "sources");
    const json_t *source = json_array_size(sources) ? json_array_get(sources, index) : json_get_object(spec, "source");
    return json_get_str(source, "repoURL");
}

static void plan_revisions(struct report_plan *plan, const struct report *report, const json_t *manifest,
                           const json_t *list)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        if (i >= SOURCES_MAX) break;
        const json_t *metadata = json_get_object(each, "metadata");
        struct str repo_url = json_get_str(each, "repoURL");
        plan_commit(plan, report, repo_url.len ? repo_url : repo_of(manifest, i), json_get_str(each, "revision"),
                    json_get_str(metadata, "author"), json_get_str(metadata, "message"),
                    json_get_str(metadata, "date"));
    }
}

void report_commit_plan(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    (void)manifest;
    plan_commit(plan, report, report->repo_url, report->revision, report->commit_author, report->commit_message,
                report->commit_date);
}

void report_commit_plan_application(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    const json_t *metadata = json_get_object(manifest, "metadata"), *labels = json_get_object(metadata, "labels");
    struct str revision = json_str(json_path(manifest, "status", "sync", "revision", NULL));
    // An agent's labels are those of the object in the cluster, which are no report of a commit.
    if (report->source == REPORT_FROM_HTTP)
        plan_commit(plan, report, repo_of(manifest, 0), revision, json_get_str(labels, "app.meta.commit-author"),
                    json_get_str(labels, "app.meta.commit-message"), json_get_str(labels, "app.meta.commit-date"));
    struct str text = json_get_str(json_get_object(metadata, "annotations"), "app.meta.revisions-metadata");
    json_t *revisions = NULL;
    if (!text.len || json_decode(text, NULL, &revisions, NULL) != ERROR_NONE) return;
    plan_revisions(plan, report, manifest, json_get_array(revisions, "syncRevisions"));
    plan_revisions(plan, report, manifest, json_get_array(revisions, "changeRevisions"));
    plan_revisions(plan, report, manifest, json_get_array(revisions, "historyRevisions"));
    json_decref(revisions);
}
