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

static enum error_code set_filters(struct sql_deployment_list *values, struct store_filter *filter, struct error *err)
{
    const json_t *number = json_object_get(filter->object, "historyId");
    struct str history_id = STR("");
    if (json_is_integer(number))
        history_id = str_c(arena_printf(filter->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(number)));
    struct str kind = json_get_str(filter->object, "kind"), group = json_get_str(filter->object, "group");
    if ((kind.len && !str_eq(kind, STR("Application"))) || (group.len && !str_eq(group, STR("argoproj.io"))))
        filter->matches_nothing = true;
    values->runtime = store_filter_text(filter, "runtime");
    values->name = store_filter_text(filter, "name");
    values->namespace = store_filter_text(filter, "namespace");
    values->history_id = pg_text(history_id);
    enum error_code code = either_time(filter, "startDate", "syncStartDateFrom", &values->from_time, err);
    if (code == ERROR_NONE) code = either_time(filter, "endDate", "syncStartDateTo", &values->until_time, err);
    values->committers = store_filter_list(filter, "committers", "committer");
    store_filter_without(filter, unknown);
    return code;
}

void deployment_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                           bool is_ascending, store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct store_newest newest;
    struct store_filter filter = {0};
    struct error err;
    struct sql_deployment_list values = {.account_id = pg_text(str_c(account_id))};
    enum error_code code = store_window_init(&window, page, 2, &err);
    if (code == ERROR_NONE) code = store_window_newest_first(&window, &newest, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE) code = set_filters(&values, &filter, &err);
    if (code == ERROR_NONE) {
        // Oldest first: what comes after a cursor is above it.
        const struct store_bound *below = is_ascending ? &newest.before : &newest.after;
        const struct store_bound *above = is_ascending ? &newest.after : &newest.before;
        values.below_time = below->time;
        values.below_key = below->key;
        values.above_time = above->time;
        values.above_key = above->key;
        values.limit = store_filter_limit(&filter, window.limit);
        struct pg_batch *batch = pg_batch_create(pg, account_id);
        pg_add_list(batch, deployment_list, window.is_back != is_ascending, &values);
        store_submit_slice(batch, &window, on_done, arg);
    } else {
        store_fail_slice(pg, &err, on_done, arg);
    }
    store_filter_close(&filter);
}

// ---- housekeeping -------------------------------------------------------------------------------

static struct pg_param number_text(char memory[16], unsigned number)
{
    return pg_text(str_of(memory, (size_t)snprintf(memory, 16, "%u", number)));
}

void deployment_store_settle(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, deployment_settle, .limit = number_text(rows, limit));
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_partitions(struct pg *pg, store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_deployment_partitions, NULL);
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_sweep(struct pg *pg, const char *kind, unsigned default_days, unsigned limit,
                            store_count_done on_done, void *arg)
{
    char days[16], rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, deployment_sweep, .kind = pg_text(str_c(kind)), .default_days = number_text(days, default_days),
           .limit = number_text(rows, limit));
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}
