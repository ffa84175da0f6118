#include "storage/sql/store_manifests.h"

#include "base/mem.h"
#include "base/parse.h"
#include "storage/manifests/manifest_blob.h"

enum { NODE_BYTES_MAX = 96 * 1024 * 1024, MANIFEST_COLUMNS = 3 };

struct manifests_call {
    size_t answer;
    const char *const *names;
    store_node_done on_done;
    void *arg;
};

static enum error_code open_manifest(const struct pg_rows *rows, int column, struct strbuf *out, struct error *err)
{
    uint64_t encoding = 0, plain_bytes = 0;
    struct str hex = pg_rows_get(rows, 0, column + 2);
    if (parse_u64(pg_rows_get(rows, 0, column), 0, 1, &encoding, err) != ERROR_NONE ||
        parse_u64(pg_rows_get(rows, 0, column + 1), 0, MANIFEST_BYTES_MAX, &plain_bytes, err) != ERROR_NONE)
        return error_set(err, ERROR_INTERNAL, "a stored manifest cannot be read");
    uint8_t *content = mem_alloc(hex.len / 2);
    enum error_code code = parse_hex(hex, content, hex.len / 2, err);
    if (code == ERROR_NONE)
        code = manifest_blob_open((enum manifest_encoding)encoding, (size_t)plain_bytes,
                                  str_of((const char *)content, hex.len / 2), out, err);
    mem_free(content);
    return code;
}

// ,"name":"the manifest" or ,"name":null
static enum error_code add_manifest(struct strbuf *node, const char *name, const struct pg_rows *rows, int column,
                                    struct error *err)
{
    strbuf_addf(node, ",\"%s\":", name);
    if (pg_rows_is_null(rows, 0, column)) {
        strbuf_add_c(node, "null");
        return ERROR_NONE;
    }
    struct strbuf plain;
    strbuf_init(&plain, MANIFEST_BYTES_MAX);
    enum error_code code = open_manifest(rows, column, &plain, err);
    if (code == ERROR_NONE) strbuf_add_json(node, strbuf_str(&plain));
    strbuf_finish(&plain);
    return code;
}

static void give_node(const struct manifests_call *call, const struct pg_rows *rows)
{
    struct error err;
    struct strbuf node;
    strbuf_init(&node, NODE_BYTES_MAX);
    struct str text = pg_rows_get(rows, 0, 0);
    strbuf_add_str(&node, str_first(text, text.len - 1)); // without its closing brace
    enum error_code code = ERROR_NONE;
    for (int i = 0; call->names[i] && code == ERROR_NONE; i++)
        code = add_manifest(&node, call->names[i], rows, 1 + i * MANIFEST_COLUMNS, &err);
    strbuf_add_byte(&node, '}');
    if (code == ERROR_NONE && node.overflow)
        code = error_set(&err, ERROR_TOO_LARGE, "the manifests are too large for one answer");
    call->on_done(call->arg, code == ERROR_NONE ? NULL : &err, code == ERROR_NONE ? strbuf_str(&node) : STR_EMPTY);
    strbuf_finish(&node);
}

static void on_get(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct manifests_call *call = arg;
    (void)count;
    if (err || pg_rows_count(&results[call->answer]) == 0)
        call->on_done(call->arg, err, STR_EMPTY);
    else
        give_node(call, &results[call->answer]);
    mem_free(call);
}

void store_submit_node_with_manifests(struct pg_batch *batch, size_t answer, const char *const *names,
                                      store_node_done on_done, void *arg)
{
    struct manifests_call *call = mem_alloc(sizeof *call);
    *call = (struct manifests_call){answer, names, on_done, arg};
    pg_batch_submit(batch, STORE_READ_MS, on_get, call);
}
