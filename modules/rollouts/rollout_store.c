#include "modules/rollouts/rollout_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_filter.h"
#include "storage/sql/store_manifests.h"

enum { KEYS = 4 };

static void submit_list(struct pg *pg, const char *account_id, struct store_filter *filter,
                        const struct store_window *window, store_slice_done on_done, void *arg)
{
    struct pg_param params[24] = {pg_text(str_c(account_id))};
    size_t count = 1;
    for (size_t i = 0; i < KEYS; i++)
        params[count++] = pg_text(window->low[i]);
    for (size_t i = 0; i < KEYS; i++)
        params[count++] = pg_text(window->high[i]);
    params[count++] = store_filter_text(filter, "project");
    params[count++] = store_filter_text(filter, "runtime");
    params[count++] = store_filter_text(filter, "cluster");
    params[count++] = store_filter_text(filter, "namespace");
    params[count++] = store_filter_text(filter, "name");
    params[count++] = store_filter_text(filter, "applicationName");
    params[count++] = store_filter_list(filter, "phases", NULL);
    params[count++] = store_filter_text(filter, "group");
    params[count++] = store_filter_text(filter, "version");
    params[count++] = store_filter_limit(filter, window->limit);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window->is_back ? &statement_rollout_list_back : &statement_rollout_list, count, params);
    store_submit_slice(batch, window, on_done, arg);
}

void rollout_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                        store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct store_filter filter = {0};
    struct error err;
    enum error_code code = store_window_init(&window, page, KEYS, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE)
        submit_list(pg, account_id, &filter, &window, on_done, arg);
    else
        store_fail_slice(pg, &err, on_done, arg);
    store_filter_close(&filter);
}

void rollout_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str cluster, struct str ns,
                       struct str name, store_node_done on_done, void *arg)
{
    static const char *const manifests[] = {"actualManifest", "desiredManifest", NULL};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_rollout_get, 5,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(name), pg_text(ns),
                                     pg_text(cluster)});
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}
