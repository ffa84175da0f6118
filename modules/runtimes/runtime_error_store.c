#include "modules/runtimes/runtime_error_store.h"

#include "base/id.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct runtime_error_call {
    store_count_done on_done;
    void *arg;
};

static void on_put(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct runtime_error_call *call = arg;
    struct error missing;
    uint64_t taken = 0;
    for (size_t i = 0; i + 1 < count; i++)
        taken += pg_rows_affected(&results[i]);
    if (!err && taken == 0) {
        error_set(&missing, ERROR_NOT_FOUND, "the runtime does not exist");
        err = &missing;
    }
    call->on_done(call->arg, err, err ? 0 : taken);
    mem_free(call);
}

static struct str cut(struct str text)
{
    if (text.len <= RUNTIME_ERROR_MESSAGE_BYTES_MAX) return text;
    size_t len = RUNTIME_ERROR_MESSAGE_BYTES_MAX;
    while (len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    return str_first(text, len);
}

void runtime_error_store_put(struct pg *pg, const char *account_id, struct str runtime,
                             enum runtime_error_origin origin, const struct runtime_error *errors, size_t count,
                             store_count_done on_done, void *arg)
{
    struct str origin_name = origin == RUNTIME_ERROR_INSTALLATION ? STR("INSTALLATION") : STR("EVENT_SOURCE");
    struct pg_param account = pg_text(str_c(account_id)), name = pg_text(runtime);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    struct strbuf identity;
    strbuf_init(&identity, RUNTIME_ERROR_MESSAGE_BYTES_MAX + 64);
    for (size_t i = 0; i < count && i < RUNTIME_ERRORS_MAX; i++) {
        struct str level = errors[i].is_warning ? STR("WARNING") : STR("ERROR"), message = cut(errors[i].message);
        uint8_t key[ID_SHA256_BYTES];
        strbuf_clear(&identity);
        strbuf_addf(&identity, "%.*s %.*s ", STR_ARG(origin_name), STR_ARG(level));
        strbuf_add_str(&identity, message);
        id_sha256(identity.at, identity.len, key);
        pg_add(batch, runtime_error_put, .account_id = account, .runtime = name, .error_key = pg_bytea(key, sizeof key),
               .origin = pg_text(origin_name), .level = pg_text(level), .message = pg_text(message));
    }
    strbuf_finish(&identity);
    pg_add(batch, runtime_error_trim, .account_id = account, .runtime = name);
    struct runtime_error_call *call = mem_alloc(sizeof *call);
    *call = (struct runtime_error_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_put, call);
}
