#include "modules/deployments/deployment_store.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"
#include "storage/sql/store_filter.h"

// ---- the ledger ----------------------------------------------------------------------------------------------------

// Nobody keeps these of deployments.
static const char *const unknown[] = {"issueKey",         "prKey",        "issueKeys", "prKeys",
                                      "jiraReportFilter", "appGroupName", NULL};

// The first of the two names that is given.
static enum error_code either_time(const struct store_filter *filter, const char *one, const char *other,
                                   struct pg_param *out, struct error *err)
{
    struct str text = json_get_str(filter->object, one);
    return store_filter_time(filter, text.len ? one : other, out, err);
}

static enum error_code add_filters(struct store_filter *filter, struct pg_param *params, size_t *out_count,
                                   struct error *err)
{
    size_t count = 0;
    const json_t *number = json_object_get(filter->object, "historyId");
    struct str history_id = STR("");
    if (json_is_integer(number))
        history_id = str_c(arena_printf(filter->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(number)));
    struct str kind = json_get_str(filter->object, "kind"), group = json_get_str(filter->object, "group");
    if ((kind.len && !str_eq(kind, STR("Application"))) || (group.len && !str_eq(group, STR("argoproj.io"))))
        filter->matches_nothing = true;
    params[count++] = store_filter_text(filter, "runtime");
    params[count++] = store_filter_text(filter, "name");
    params[count++] = store_filter_text(filter, "namespace");
    params[count++] = pg_text(history_id);
    enum error_code code = either_time(filter, "startDate", "syncStartDateFrom", &params[count++], err);
    if (code == ERROR_NONE) code = either_time(filter, "endDate", "syncStartDateTo", &params[count++], err);
    params[count++] = store_filter_list(filter, "committers", "committer");
    store_filter_without(filter, unknown);
    *out_count = count;
    return code;
}

// Oldest first: what comes after a cursor is above it.
static void swap_bounds(struct pg_param *bounds)
{
    for (size_t i = 0; i < 2; i++) {
        struct pg_param below = bounds[i];
        bounds[i] = bounds[i + 2];
        bounds[i + 2] = below;
    }
}

void deployment_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                           bool is_ascending, store_slice_done on_done, void *arg)
{
    enum { FIRST_FILTER = 1 + STORE_NEWEST_PARAMS };
    struct store_window window;
    struct store_filter filter = {0};
    struct error err;
    struct pg_param params[FIRST_FILTER + 12] = {pg_text(str_c(account_id))};
    size_t count = 0;
    enum error_code code = store_window_init(&window, page, 2, &err);
    if (code == ERROR_NONE) code = store_window_newest_first(&window, params + 1, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE) code = add_filters(&filter, params + FIRST_FILTER, &count, &err);
    if (code == ERROR_NONE) {
        if (is_ascending) swap_bounds(params + 1);
        params[FIRST_FILTER + count] = store_filter_limit(&filter, window.limit);
        struct pg_batch *batch = pg_batch_create(pg, account_id);
        pg_batch_add(batch,
                     window.is_back == is_ascending ? &statement_deployment_list : &statement_deployment_list_back,
                     FIRST_FILTER + count + 1, params);
        store_submit_slice(batch, &window, on_done, arg);
    } else {
        store_fail_slice(pg, &err, on_done, arg);
    }
    store_filter_close(&filter);
}

// ---- an account's setting ------------------------------------------------------------------------------------------

static struct pg_param number_text(char memory[16], unsigned number)
{
    return pg_text(str_of(memory, (size_t)snprintf(memory, 16, "%u", number)));
}

void deployment_store_set_keep(struct pg *pg, const char *account_id, unsigned keep_days, store_node_done on_done,
                               void *arg)
{
    char days[16];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_account_keep, 2,
                 (struct pg_param[]){pg_text(str_c(account_id)), number_text(days, keep_days)});
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "there is no such account", on_done, arg);
}

// ---- housekeeping --------------------------------------------------------------------------------------------------

const char *const deployment_store_kinds[] = {"deployments", "kept_deployments", "operations", "workflows",
                                              "commits",     "manifest_sets",    NULL};

void deployment_store_settle(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_deployment_settle, 1, (struct pg_param[]){number_text(rows, limit)});
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_partitions(struct pg *pg, store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_deployment_partitions, 0, NULL);
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_sweep(struct pg *pg, const char *kind, unsigned default_days, unsigned limit,
                            store_count_done on_done, void *arg)
{
    char days[16], rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_batch_add(batch, &statement_deployment_sweep, 3,
                 (struct pg_param[]){pg_text(str_c(kind)), number_text(days, default_days), number_text(rows, limit)});
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}
