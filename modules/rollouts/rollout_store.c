#include "modules/rollouts/rollout_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"
#include "storage/sql/store_filter.h"
#include "storage/sql/store_manifests.h"

enum { KEYS = 4 };

static void submit_list(struct pg *pg, const char *account_id, struct store_filter *filter,
                        const struct store_window *window, store_slice_done on_done, void *arg)
{
    struct sql_rollout_list values = {
        .account_id = pg_text(str_c(account_id)),
        .low_1 = pg_text(window->low[0]),
        .low_2 = pg_text(window->low[1]),
        .low_3 = pg_text(window->low[2]),
        .low_4 = pg_text(window->low[3]),
        .high_1 = pg_text(window->high[0]),
        .high_2 = pg_text(window->high[1]),
        .high_3 = pg_text(window->high[2]),
        .high_4 = pg_text(window->high[3]),
        .project = store_filter_text(filter, "project"),
        .runtime = store_filter_text(filter, "runtime"),
        .cluster = store_filter_text(filter, "cluster"),
        .namespace = store_filter_text(filter, "namespace"),
        .name = store_filter_text(filter, "name"),
        .application_name = store_filter_text(filter, "applicationName"),
        .phases = store_filter_list(filter, "phases", NULL),
        .api_group = store_filter_text(filter, "group"),
        .version = store_filter_text(filter, "version"),
    };
    values.limit = store_filter_limit(filter, window->limit);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add_list(batch, rollout_list, window->is_back, &values);
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
    pg_add(batch, rollout_get, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .name = pg_text(name), .namespace = pg_text(ns), .cluster = pg_text(cluster));
    store_submit_node_with_manifests(batch, 0, manifests, on_done, arg);
}

void rollout_store_step_status(struct pg *pg, const char *account_id, const struct rollout_place *place, int step,
                               store_node_done on_done, void *arg)
{
    char number[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, rollout_step_status, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(place->runtime),
           .cluster = pg_text(place->cluster), .namespace = pg_text(place->ns), .name = pg_text(place->name),
           .step = step < 0 ? pg_text(STR("")) : store_number((uint64_t)step, number));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}
