#include "modules/resources/tree_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void tree_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                    store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, tree_get, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .name = pg_text(name), .namespace = pg_text(ns));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}
