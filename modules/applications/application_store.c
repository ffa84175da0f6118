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

static size_t filter_params(struct store_filter *filter, struct pg_param *out)
{
    size_t count = 0;
    out[count++] = store_filter_text(filter, "project");
    out[count++] = store_filter_list(filter, "runtimes", "runtime");
    out[count++] = store_filter_list(filter, "applications", NULL);
    out[count++] = store_filter_text(filter, "applicationName");
    out[count++] = store_filter_list(filter, "statuses", NULL);
    out[count++] = store_filter_list(filter, "healthStatuses", NULL);
    out[count++] = store_filter_list(filter, "namespaces", "namespace");
    out[count++] = store_filter_list(filter, "clusterUrls", "clusterUrl");
    out[count++] = store_filter_list(filter, "labels", NULL);
    out[count++] = store_filter_list(filter, "versions", NULL);
    out[count++] = store_filter_bool(filter, "includeComponents");
    out[count++] = store_filter_bool(filter, "excludeGitSources");
    return count;
}

static void submit_list(struct pg *pg, const char *account_id, struct store_filter *filter, struct store_window *window,
                        store_slice_done on_done, void *arg)
{
    struct pg_param params[20] = {pg_text(str_c(account_id))};
    size_t count = 1;
    for (size_t i = 0; i < 3; i++)
        params[count++] = pg_text(window->low[i]);
    for (size_t i = 0; i < 3; i++)
        params[count++] = pg_text(window->high[i]);
    count += filter_params(filter, params + count);
    check_impossible(filter);
    params[count++] = store_filter_limit(filter, window->limit);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window->is_back ? &statement_application_list_back : &statement_application_list, count,
                 params);
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

void cluster_store_list(struct pg *pg, const char *account_id, struct str runtime, const struct store_page *page,
                        store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct error err;
    if (store_window_init(&window, page, 2, &err) != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window.is_back ? &statement_cluster_list_back : &statement_cluster_list, 7,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(window.low[0]),
                                     pg_text(window.low[1]), pg_text(window.high[0]), pg_text(window.high[1]),
                                     pg_text(str_c(window.limit))});
    store_submit_slice(batch, &window, on_done, arg);
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
    struct pg_param params[3 + 2 * KEYS] = {pg_text(str_c(account_id)), pg_text(runtime)};
    for (size_t i = 0; i < KEYS; i++) {
        params[2 + i] = pg_text(window.low[i]);
        params[2 + KEYS + i] = pg_text(window.high[i]);
    }
    params[2 + 2 * KEYS] = pg_text(str_c(window.limit));
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window.is_back ? &statement_application_set_list_back : &statement_application_set_list,
                 3 + 2 * KEYS, params);
    store_submit_slice(batch, &window, on_done, arg);
}

// ---- one application -----------------------------------------------------------------------------------------------

void application_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                           store_node_done on_done, void *arg)
{
    static const char *const manifests[] = {"actualManifest", "desiredManifest", NULL};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_application_get, 4,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(name), pg_text(ns)});
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}
