#include "modules/clusters/cluster_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

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
    const struct sql_cluster_list values = {
        .account_id = pg_text(str_c(account_id)),
        .runtime = pg_text(runtime),
        .low_1 = pg_text(window.low[0]),
        .low_2 = pg_text(window.low[1]),
        .high_1 = pg_text(window.high[0]),
        .high_2 = pg_text(window.high[1]),
        .limit = pg_text(str_c(window.limit)),
    };
    pg_add_list(batch, cluster_list, window.is_back, &values);
    store_submit_slice(batch, &window, on_done, arg);
}
