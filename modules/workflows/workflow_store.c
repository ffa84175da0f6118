#include "modules/workflows/workflow_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_filter.h"
#include "storage/sql/store_manifests.h"

// Nobody keeps these of workflows.
static const char *const unknown[] = {"repositories", "branches",     "eventTypes", "appNames",
                                      "products",     "environments", NULL};

static enum error_code set_filters(struct sql_workflow_list *values, struct store_filter *filter, struct error *err)
{
    values->project = store_filter_text(filter, "project");
    values->runtime = store_filter_text(filter, "runtime");
    values->namespace = store_filter_text(filter, "namespace");
    values->cluster = store_filter_text(filter, "cluster");
    values->template_name = store_filter_text(filter, "workflowTemplate");
    values->phases = store_filter_list(filter, "statuses", NULL);
    values->initiators = store_filter_list(filter, "initiators", NULL);
    enum error_code code = store_filter_time(filter, "startDateFrom", &values->from_time, err);
    if (code == ERROR_NONE) code = store_filter_time(filter, "startDateTo", &values->until_time, err);
    values->cluster_templates_only = store_filter_bool(filter, "workflowTemplateClusterScope");
    values->versions = store_filter_list(filter, "versions", NULL);
    store_filter_must_have(filter, "groups", STR("argoproj.io"));
    store_filter_without(filter, unknown);
    return code;
}

void workflow_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                         store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct store_newest newest;
    struct store_filter filter = {0};
    struct error err;
    struct sql_workflow_list values = {.account_id = pg_text(str_c(account_id))};
    enum error_code code = store_window_init(&window, page, 2, &err);
    if (code == ERROR_NONE) code = store_window_newest_first(&window, &newest, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE) code = set_filters(&values, &filter, &err);
    if (code == ERROR_NONE) {
        values.below_time = newest.after.time;
        values.below_key = newest.after.key;
        values.above_time = newest.before.time;
        values.above_key = newest.before.key;
        values.limit = store_filter_limit(&filter, window.limit);
        struct pg_batch *batch = pg_batch_create(pg, account_id);
        pg_add_list(batch, workflow_list, window.is_back, &values);
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
    pg_add(batch, workflow_get, .account_id = pg_text(str_c(account_id)), .uid = pg_text(uid));
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}
