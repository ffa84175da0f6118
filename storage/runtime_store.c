#include "storage/runtime_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/store_call.h"

void runtime_store_create(struct pg *pg, const char *account_id, const struct runtime_new *runtime,
                          store_node_done on_done, void *arg)
{
    char runtime_id[ID_UUID_BYTES];
    id_uuid7(runtime_id);
    struct pg_param account = pg_text(str_c(account_id)), name = pg_text(runtime->name);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_runtime_create, 21,
                 (struct pg_param[]){account,
                                     name,
                                     pg_text(str_c(runtime_id)),
                                     pg_text_or_null(runtime->ns),
                                     pg_text_or_null(runtime->cluster),
                                     pg_text_or_null(runtime->installation_type),
                                     pg_text_or_null(runtime->git_provider),
                                     pg_text_or_null(runtime->runtime_version),
                                     pg_text_or_null(runtime->chart_version),
                                     pg_text_or_null(runtime->component_names),
                                     pg_text_or_null(runtime->ingress_host),
                                     pg_text_or_null(runtime->internal_ingress_host),
                                     pg_text_or_null(runtime->ingress_class),
                                     pg_text_or_null(runtime->ingress_controller),
                                     pg_text_or_null(runtime->gateway_name),
                                     pg_text_or_null(runtime->gateway_namespace),
                                     pg_text_or_null(runtime->repo),
                                     pg_text_or_null(runtime->access_mode),
                                     pg_bool(runtime->managed),
                                     pg_bool(runtime->is_external_argo_cd),
                                     pg_bool(runtime->recover)});
    pg_batch_add(batch, &statement_runtime_tokens_replace, 3,
                 (struct pg_param[]){account, name, pg_bool(runtime->recover)});
    pg_batch_add(batch, &statement_runtime_token_create, 6,
                 (struct pg_param[]){account, name, pg_text(runtime->token_id),
                                     pg_bytea(runtime->token_sha256, ID_SHA256_BYTES), pg_text(str_c(runtime_id)),
                                     pg_bool(runtime->recover)});
    store_submit_node(batch, 0, ERROR_CONFLICT, "a runtime of this name exists", on_done, arg);
}

void runtime_store_delete(struct pg *pg, const char *account_id, struct str name, store_count_done on_done, void *arg)
{
    struct pg_param params[] = {pg_text(str_c(account_id)), pg_text(name)};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_runtime_tokens_revoke, 2, params);
    pg_batch_add(batch, &statement_runtime_delete, 2, params);
    store_submit_count(batch, 1, on_done, arg);
}

void runtime_store_get(struct pg *pg, const char *account_id, struct str name, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_runtime_get, 2, (struct pg_param[]){pg_text(str_c(account_id)), pg_text(name)});
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
    pg_batch_add(batch, window.is_back ? &statement_runtime_list_back : &statement_runtime_list, 4,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(window.low[0]), pg_text(window.high[0]),
                                     pg_text(str_c(window.limit))});
    store_submit_slice(batch, &window, on_done, arg);
}

struct tokens_call {
    runtime_tokens_done on_done;
    void *arg;
};

static bool read_token(const struct pg_rows *rows, int row, struct runtime_token_row *out)
{
    out->token_id = pg_rows_get(rows, row, 1);
    out->account_id = pg_rows_get(rows, row, 2);
    out->runtime = pg_rows_get(rows, row, 3);
    out->runtime_id = pg_rows_get(rows, row, 4);
    out->revoked = str_eq(pg_rows_get(rows, row, 6), STR("t"));
    return parse_u64(pg_rows_get(rows, row, 0), 1, INT64_MAX, &out->change, NULL) == ERROR_NONE &&
           parse_hex(pg_rows_get(rows, row, 5), out->token_sha256, sizeof out->token_sha256, NULL) == ERROR_NONE;
}

static void on_tokens(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct tokens_call *call = arg;
    int found = count ? pg_rows_count(&results[0]) : 0;
    struct runtime_token_row *rows = mem_array((size_t)found, sizeof *rows);
    struct error broken;
    for (int i = 0; i < found && !err; i++) {
        if (read_token(&results[0], i, &rows[i])) continue;
        error_set(&broken, ERROR_INTERNAL, "a runtime token's row cannot be read");
        err = &broken;
    }
    call->on_done(call->arg, err, err ? NULL : rows, err ? 0 : (size_t)found);
    mem_free_secret(rows, (size_t)found * sizeof *rows);
    mem_free(call);
}

void runtime_store_tokens_since(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done, void *arg)
{
    char seen[24], most[16];
    snprintf(seen, sizeof seen, "%" PRIu64, change);
    snprintf(most, sizeof most, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_runtime_tokens_since, 2,
                 (struct pg_param[]){pg_text(str_c(seen)), pg_text(str_c(most))});
    struct tokens_call *call = mem_alloc(sizeof *call);
    *call = (struct tokens_call){on_done, arg};
    pg_batch_submit(batch, STORE_READ_MS, on_tokens, call);
}
