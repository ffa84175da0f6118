#include "modules/workflows/workflow_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_filter.h"
#include "storage/sql/store_manifests.h"

// Nobody keeps these of workflows.
static const char *const unknown[] = {"repositories", "branches",     "eventTypes", "appNames",
                                      "products",     "environments", NULL};

static enum error_code add_filters(struct store_filter *filter, struct pg_param *params, size_t *out_count,
                                   struct error *err)
{
    size_t count = 0;
    params[count++] = store_filter_text(filter, "project");
    params[count++] = store_filter_text(filter, "runtime");
    params[count++] = store_filter_text(filter, "namespace");
    params[count++] = store_filter_text(filter, "cluster");
    params[count++] = store_filter_text(filter, "workflowTemplate");
    params[count++] = store_filter_list(filter, "statuses", NULL);
    params[count++] = store_filter_list(filter, "initiators", NULL);
    enum error_code code = store_filter_time(filter, "startDateFrom", &params[count++], err);
    if (code == ERROR_NONE) code = store_filter_time(filter, "startDateTo", &params[count++], err);
    params[count++] = store_filter_bool(filter, "workflowTemplateClusterScope");
    params[count++] = store_filter_list(filter, "versions", NULL);
    store_filter_must_have(filter, "groups", STR("argoproj.io"));
    store_filter_without(filter, unknown);
    *out_count = count;
    return code;
}

void workflow_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                         store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct store_filter filter = {0};
    struct error err;
    struct pg_param params[20] = {pg_text(str_c(account_id))};
    size_t count = 0;
    enum error_code code = store_window_init(&window, page, 2, &err);
    if (code == ERROR_NONE) code = store_window_newest_first(&window, params + 1, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE) code = add_filters(&filter, params + 5, &count, &err);
    if (code == ERROR_NONE) {
        params[5 + count] = store_filter_limit(&filter, window.limit);
        struct pg_batch *batch = pg_batch_create(pg, account_id);
        pg_batch_add(batch, window.is_back ? &statement_workflow_list_back : &statement_workflow_list, 6 + count,
                     params);
        store_submit_slice(batch, &window, on_done, arg);
    } else {
        store_fail_slice(pg, &err, on_done, arg);
    }
    store_filter_close(&filter);
}

void workflow_store_get(struct pg *pg, const char *account_id, struct str uid, store_node_done on_done, void *arg)
{
    static const char *const manifests[] = {"actualManifest", NULL};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_workflow_get, 2, (struct pg_param[]){pg_text(str_c(account_id)), pg_text(uid)});
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}
