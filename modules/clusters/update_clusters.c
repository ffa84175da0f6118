// updateRuntimeClusters: what a runtime's own app-proxy knows of the clusters that its Argo CD
// manages, as reports over HTTP. Reports of an agent are newer than all of these.
#include "api/events/event_manifest.h"
#include "api/resolvers.h"
#include "base/clock.h"
#include "base/mem.h"
#include "modules/clusters/clusters.h"

enum { CLUSTERS_MAX = 500 };

static void on_reported(void *arg, const struct error *err, size_t refused, const char *detail)
{
    struct api_pending *pending = arg;
    struct error bad;
    if (!err && refused) {
        error_set(&bad, ERROR_INVALID, "clusters: %zu were refused: %s", refused, detail);
        err = &bad;
    }
    pending->on_resolved(pending->arg, err, NULL);
}

static enum error_code take_cluster(struct api_request *request, size_t i, const json_t *cluster, struct report *out,
                                    struct error *err)
{
    const char *own = request->principal.runtime;
    struct str name = json_get_str(cluster, "name");
    if (!str_eq(json_get_str(cluster, "runtime"), str_c(own)))
        return error_set(err, ERROR_FORBIDDEN, "clusters[%zu].runtime: must be the runtime of the token, \"%s\"", i,
                         own);
    if (!name.len) return error_set(err, ERROR_INVALID, "clusters[%zu].name: must not be empty", i);
    char *text = json_dumps(cluster, JSON_COMPACT);
    *out = (struct report){
        .type = REPORT_CLUSTER,
        .source = REPORT_FROM_HTTP,
        .account_id = str_c(request->principal.account_id),
        .runtime = str_c(own),
        .ref.name = arena_str(request->arena, name),
        .observed_at_ms = clock_wall_ms(),
        .manifest = event_manifest_scrub(arena_str(request->arena, str_c(text)), request->arena),
        .is_kept = true,
    };
    mem_free(text);
    return ERROR_NONE;
}

void clusters_resolve_update(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const struct api_options *options = &request->api->options;
    const json_t *list = json_get_array(arguments, "clusters");
    size_t count = json_array_size(list);
    struct error err;
    enum error_code code = ERROR_NONE;
    if (request->principal.kind != PRINCIPAL_RUNTIME)
        code = error_set(&err, ERROR_FORBIDDEN, "updateRuntimeClusters requires a runtime token");
    else if (count > CLUSTERS_MAX)
        code = error_set(&err, ERROR_INVALID, "clusters: %zu are given, the limit is %d", count, CLUSTERS_MAX);
    struct report *reports = arena_array(request->arena, count + 1, sizeof *reports);
    for (size_t i = 0; code == ERROR_NONE && i < count; i++)
        code = take_cluster(request, i, json_array_get(list, i), &reports[i], &err);
    if (code != ERROR_NONE || count == 0) {
        on_resolved(arg, code != ERROR_NONE ? &err : NULL, NULL);
        return;
    }
    options->submit_reports(options->ctx, reports, count, on_reported, api_pending_create(request, on_resolved, arg));
}
