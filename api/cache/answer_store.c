#include "api/cache/answer_store.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "culvert_statements.h"

// Who asks has something else to do if this takes long.
enum { VERSION_MS = 2000, SHAPE_BYTES_MAX = 4 * 1024 * 1024 };

struct version_call {
    store_node_done on_done;
    void *arg;
};

static void on_version(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct version_call *call = arg;
    (void)count;
    call->on_done(call->arg, err, err ? STR_EMPTY : pg_rows_get(&results[0], 0, 0));
    mem_free(call);
}

void answer_store_version(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct version_call *call = mem_alloc(sizeof *call);
    *call = (struct version_call){on_done, arg};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, answer_version, .account_id = pg_text(str_c(account_id)));
    pg_batch_submit(batch, VERSION_MS, on_version, call);
}

void answer_store_shape(uint8_t out[ID_SHA256_BYTES])
{
    struct strbuf text;
    strbuf_init(&text, SHAPE_BYTES_MAX);
    for (size_t i = 0; i < culvert_statements_count; i++)
        strbuf_add_c(&text, culvert_statements[i]->sql);
    id_sha256(text.at, text.len, out);
    strbuf_finish(&text);
}
