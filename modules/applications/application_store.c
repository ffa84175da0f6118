#include "modules/applications/application_store.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_filter.h"
#include "storage/sql/store_manifests.h"

// ---- lists ---------------------------------------------------------------------------------------------------------

// Favourites and application groups are kept by nobody yet: what asks for them finds nothing.
static void check_impossible(struct store_filter *filter)
{
    static const char *const unknown[] = {"favorite", "hasAppGroups", "appGroups", NULL};
    store_filter_without(filter, unknown);
    store_filter_must_have(filter, "kinds", STR("Application"));
    store_filter_must_have(filter, "groups", STR("argoproj.io"));
}

static void set_filters(struct sql_application_list *values, struct store_filter *filter)
{
    values->project = store_filter_text(filter, "project");
    values->runtimes = store_filter_list(filter, "runtimes", "runtime");
    values->applications = store_filter_list(filter, "applications", NULL);
    values->application_name = store_filter_text(filter, "applicationName");
    values->statuses = store_filter_list(filter, "statuses", NULL);
    values->health_statuses = store_filter_list(filter, "healthStatuses", NULL);
    values->namespaces = store_filter_list(filter, "namespaces", "namespace");
    values->cluster_urls = store_filter_list(filter, "clusterUrls", "clusterUrl");
    values->labels = store_filter_list(filter, "labels", NULL);
    values->versions = store_filter_list(filter, "versions", NULL);
    values->include_components = store_filter_bool(filter, "includeComponents");
    values->exclude_git_sources = store_filter_bool(filter, "excludeGitSources");
}

static void submit_list(struct pg *pg, const char *account_id, struct store_filter *filter, struct store_window *window,
                        store_slice_done on_done, void *arg)
{
    struct sql_application_list values = {
        .account_id = pg_text(str_c(account_id)),
        .low_1 = pg_text(window->low[0]),
        .low_2 = pg_text(window->low[1]),
        .low_3 = pg_text(window->low[2]),
        .high_1 = pg_text(window->high[0]),
        .high_2 = pg_text(window->high[1]),
        .high_3 = pg_text(window->high[2]),
    };
    set_filters(&values, filter);
    check_impossible(filter);
    values.limit = store_filter_limit(filter, window->limit);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add_list(batch, application_list, window->is_back, &values);
    store_submit_slice(batch, window, on_done, arg);
}

void application_store_list(struct pg *pg, const char *account_id, struct str filter_json,
                            const struct store_page *page, store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct error err;
    struct store_filter filter = {0};
    enum error_code code = store_window_init(&window, page, 3, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    submit_list(pg, account_id, &filter, &window, on_done, arg);
    store_filter_close(&filter);
}

void application_set_store_list(struct pg *pg, const char *account_id, struct str runtime,
                                const struct store_page *page, store_slice_done on_done, void *arg)
{
    enum { KEYS = 4 };
    struct store_window window;
    struct error err;
    if (store_window_init(&window, page, KEYS, &err) != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    const struct sql_application_set_list values = {
        .account_id = pg_text(str_c(account_id)),
        .runtime = pg_text(runtime),
        .low_1 = pg_text(window.low[0]),
        .low_2 = pg_text(window.low[1]),
        .low_3 = pg_text(window.low[2]),
        .low_4 = pg_text(window.low[3]),
        .high_1 = pg_text(window.high[0]),
        .high_2 = pg_text(window.high[1]),
        .high_3 = pg_text(window.high[2]),
        .high_4 = pg_text(window.high[3]),
        .limit = pg_text(str_c(window.limit)),
    };
    pg_add_list(batch, application_set_list, window.is_back, &values);
    store_submit_slice(batch, &window, on_done, arg);
}

// ---- one application -----------------------------------------------------------------------------------------------

void application_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                           store_node_done on_done, void *arg)
{
    static const char *const manifests[] = {"actualManifest", "desiredManifest", NULL};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, application_get, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .name = pg_text(name), .namespace = pg_text(ns));
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}
