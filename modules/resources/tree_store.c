#include "modules/resources/tree_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void tree_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                    store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_tree_get, 4,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(name), pg_text(ns)});
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}
