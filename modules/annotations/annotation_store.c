#include "modules/annotations/annotation_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void annotation_store_put(struct pg *pg, const char *account_id, const struct annotation *annotation,
                          store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, annotation_put, .account_id = pg_text(str_c(account_id)),
           .entity_type = pg_text(annotation->entity_type), .entity_id = pg_text(annotation->entity_id),
           .type = pg_text(annotation->type), .key = pg_text(annotation->key),
           .classic_id = pg_text_or_null(annotation->classic_id), .value = pg_text(annotation->value),
           .runtime = pg_text(annotation->runtime));
    store_submit_count(batch, 0, on_done, arg);
}
