#include "modules/images/image_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

static const char foreign[] = "this was first reported by others than this runtime, which cannot change it";

void image_store_put(struct pg *pg, const char *account_id, struct str runtime, struct str image_id, struct str fields,
                     store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, image_put, .account_id = pg_text(str_c(account_id)), .image_id = pg_text(image_id),
           .fields = pg_text(fields), .runtime = pg_text(runtime));
    store_submit_node(batch, 0, ERROR_FORBIDDEN, foreign, on_done, arg);
}

void image_store_patch(struct pg *pg, const char *account_id, struct str runtime, struct str image_id,
                       struct str image_name, struct str fields, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, image_patch, .account_id = pg_text(str_c(account_id)), .image_id = pg_text(image_id),
           .image_name = pg_text(image_name), .fields = pg_text(fields), .runtime = pg_text(runtime));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void image_store_put_layers(struct pg *pg, const char *account_id, struct str runtime, struct str image,
                            struct str layer_digests, struct str layers, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, image_layers_put, .account_id = pg_text(str_c(account_id)), .image = pg_text(image),
           .layer_digests = pg_text_or_null(layer_digests), .runtime = pg_text(runtime), .layers = pg_text(layers));
    store_submit_node(batch, 0, ERROR_FORBIDDEN, foreign, on_done, arg);
}

void image_store_put_registry(struct pg *pg, const char *account_id, struct str runtime, struct str image_id,
                              struct str fields, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, image_registry_put, .account_id = pg_text(str_c(account_id)), .image_id = pg_text(image_id),
           .fields = pg_text(fields), .runtime = pg_text(runtime));
    store_submit_node(batch, 0, ERROR_FORBIDDEN, foreign, on_done, arg);
}
