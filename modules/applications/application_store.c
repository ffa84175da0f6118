#include "modules/applications/application_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

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
