#include "modules/images/image_use_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"
#include "storage/sql/store_filter.h"

static void submit_list(struct pg *pg, const char *account_id, struct store_filter *filter,
                        const struct store_window *window, store_slice_done on_done, void *arg)
{
    const struct sql_image_use_list values = {
        .account_id = pg_text(str_c(account_id)),
        .low_1 = pg_text(window->low[0]),
        .high_1 = pg_text(window->high[0]),
        .name = store_filter_text(filter, "name"),
        .runtime = store_filter_text(filter, "runtime"),
        .cluster = store_filter_text(filter, "cluster"),
        .namespace = store_filter_text(filter, "namespace"),
        .application_name = store_filter_text(filter, "applicationName"),
        .limit = store_filter_limit(filter, window->limit),
    };
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add_list(batch, image_use_list, window->is_back, &values);
    store_submit_slice(batch, window, on_done, arg);
}

void image_use_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                          store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct store_filter filter = {0};
    struct error err;
    enum error_code code = store_window_init(&window, page, 1, &err);
    if (code == ERROR_NONE) code = store_filter_open(&filter, filter_json, &err);
    if (code == ERROR_NONE)
        submit_list(pg, account_id, &filter, &window, on_done, arg);
    else
        store_fail_slice(pg, &err, on_done, arg);
    store_filter_close(&filter);
}
