#include "modules/runtimes/runtime_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/access/token_seal.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void runtime_store_create(struct pg *pg, const char *account_id, const struct runtime_new *runtime,
                          store_node_done on_done, void *arg)
{
    char runtime_id[ID_UUID_BYTES];
    id_uuid7(runtime_id);
    struct pg_param account = pg_text(str_c(account_id)), name = pg_text(runtime->name);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_create, .account_id = account, .runtime = name, .runtime_id = pg_text(str_c(runtime_id)),
           .namespace = pg_text_or_null(runtime->ns), .cluster = pg_text_or_null(runtime->cluster),
           .installation_type = pg_text_or_null(runtime->installation_type),
           .git_provider = pg_text_or_null(runtime->git_provider),
           .runtime_version = pg_text_or_null(runtime->runtime_version),
           .chart_version = pg_text_or_null(runtime->chart_version),
           .component_names = pg_text_or_null(runtime->component_names),
           .ingress_host = pg_text_or_null(runtime->ingress_host),
           .internal_ingress_host = pg_text_or_null(runtime->internal_ingress_host),
           .ingress_class = pg_text_or_null(runtime->ingress_class),
           .ingress_controller = pg_text_or_null(runtime->ingress_controller),
           .gateway_name = pg_text_or_null(runtime->gateway_name),
           .gateway_namespace = pg_text_or_null(runtime->gateway_namespace), .repo = pg_text_or_null(runtime->repo),
           .access_mode = pg_text_or_null(runtime->access_mode), .is_managed = pg_bool(runtime->managed),
           .is_external_argo_cd = pg_bool(runtime->is_external_argo_cd), .recover = pg_bool(runtime->recover));
    pg_add(batch, runtime_tokens_replace, .account_id = account, .runtime = name, .recover = pg_bool(runtime->recover));
    char expires_in[24];
    snprintf(expires_in, sizeof expires_in, "%" PRIu64, runtime->token_expires_in_ms);
    uint8_t sealed[TOKEN_SEAL_BYTES];
    struct token_place place = {str_c(account_id), runtime->name, runtime->token_id};
    struct str secret = token_seal(pg_column_key(pg), &place, runtime->token_sha256, sealed);
    pg_add(batch, runtime_token_create, .account_id = account, .runtime = name, .token_id = pg_text(runtime->token_id),
           .secret_sha256 = pg_bytea(secret.at, secret.len), .runtime_id = pg_text(str_c(runtime_id)),
           .recover = pg_bool(runtime->recover),
           .expires_in_ms = runtime->token_expires_in_ms ? pg_text(str_c(expires_in)) : pg_null());
    store_submit_node(batch, 0, ERROR_CONFLICT, "a runtime of this name exists", on_done, arg);
}

void runtime_store_delete(struct pg *pg, const char *account_id, struct str name, store_count_done on_done, void *arg)
{
    const struct pg_param account = pg_text(str_c(account_id)), runtime = pg_text(name);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_tokens_revoke, .account_id = account, .runtime = runtime);
    pg_add(batch, runtime_delete, .account_id = account, .runtime = runtime);
    store_submit_count(batch, 1, on_done, arg);
}

void runtime_store_get(struct pg *pg, const char *account_id, struct str name, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_get, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(name));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void runtime_store_list(struct pg *pg, const char *account_id, const struct store_page *page, store_slice_done on_done,
                        void *arg)
{
    struct store_window window;
    struct error err;
    if (store_window_init(&window, page, 1, &err) != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    const struct sql_runtime_list values = {
        .account_id = pg_text(str_c(account_id)),
        .low_1 = pg_text(window.low[0]),
        .high_1 = pg_text(window.high[0]),
        .limit = pg_text(str_c(window.limit)),
    };
    pg_add_list(batch, runtime_list, window.is_back, &values);
    store_submit_slice(batch, &window, on_done, arg);
}
