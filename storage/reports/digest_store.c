#include "storage/reports/digest_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"

// A scan of the largest inventory there may be takes about a second.
enum { READ_MS = 30000 };

struct digest_call {
    union {
        digest_store_read on_tree;
        digest_store_asked on_asked;
        digest_store_listed on_rows;
        digest_store_confirmed on_confirmed;
    };
    void *arg;
};

static struct pg_batch *batch_of(struct pg *pg, const char *account_id)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_digest_by_key, NULL);
    return batch;
}

// ---- the tree ------------------------------------------------------------------------------------------------------

static enum error_code take_leaf(const struct pg_rows *rows, int row, struct digest_store_tree *tree, struct error *err)
{
    uint64_t leaf = 0, count = 0;
    int64_t halves[2] = {0};
    enum error_code code = parse_u64(pg_rows_get(rows, row, 1), 0, UINT32_MAX, &count, err);
    if (code) return code;
    if (pg_rows_is_null(rows, row, 0)) {
        tree->is_partial = true;
        return ERROR_NONE;
    }
    code = parse_u64(pg_rows_get(rows, row, 0), 0, DIGEST_STORE_LEAVES - 1, &leaf, err);
    for (int i = 0; i < 2 && !code; i++)
        code = parse_i64(pg_rows_get(rows, row, 2 + i), INT64_MIN, INT64_MAX, &halves[i], err);
    if (code) return code;
    for (size_t i = 0; i < DIGEST_STORE_NODE_BYTES; i++)
        tree->nodes[leaf][i] = (uint8_t)((uint64_t)halves[i / 8] >> (56 - i % 8 * 8));
    tree->leaf_rows[leaf] = (uint32_t)count;
    tree->rows += count;
    return ERROR_NONE;
}

static void on_nodes(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct digest_call *call = arg;
    (void)count;
    struct digest_store_tree *tree = mem_zalloc(sizeof *tree);
    struct error broken;
    if (!err) {
        const struct pg_rows *fence = &results[1], *nodes = &results[2];
        tree->is_fenced = pg_rows_count(fence) == 0 || !str_eq(pg_rows_get(fence, 0, 0), STR("t"));
        for (int row = 0; row < pg_rows_count(nodes) && !err; row++)
            if (take_leaf(nodes, row, tree, &broken) != ERROR_NONE) err = &broken;
    }
    call->on_tree(call->arg, err, err ? NULL : tree);
    mem_free(tree);
    mem_free(call);
}

void digest_store_tree(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch,
                       digest_store_read on_done, void *arg)
{
    char number[24];
    int len = snprintf(number, sizeof number, "%" PRIu64, epoch);
    struct digest_call *call = mem_alloc(sizeof *call);
    *call = (struct digest_call){.on_tree = on_done, .arg = arg};
    struct pg_batch *batch = batch_of(pg, account_id);
    pg_add(batch, digest_fence, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .epoch = pg_text(str_of(number, (size_t)len)));
    pg_add(batch, digest_nodes, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime));
    pg_batch_submit(batch, READ_MS, on_nodes, call);
}

// ---- its end -------------------------------------------------------------------------------------------------------

static void on_confirmed(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct digest_call *call = arg;
    (void)results;
    (void)count;
    call->on_confirmed(call->arg, err);
    mem_free(call);
}

void digest_store_confirm(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, uint64_t sequence,
                          digest_store_confirmed on_done, void *arg)
{
    char numbers[2][24];
    snprintf(numbers[0], sizeof numbers[0], "%" PRIu64, epoch);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, sequence);
    struct digest_call *call = mem_alloc(sizeof *call);
    *call = (struct digest_call){.on_confirmed = on_done, .arg = arg};
    struct pg_batch *batch = batch_of(pg, account_id);
    pg_add(batch, digest_confirm, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .epoch = pg_text(str_c(numbers[0])), .sequence = pg_text(str_c(numbers[1])));
    pg_batch_submit(batch, READ_MS, on_confirmed, call);
}

// ---- is there anything ---------------------------------------------------------------------------------------------

static void on_asked(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct digest_call *call = arg;
    (void)count;
    call->on_asked(call->arg, err, !err && pg_rows_count(&results[1]) > 0);
    mem_free(call);
}

void digest_store_holds_any(struct pg *pg, const char *account_id, struct str runtime, digest_store_asked on_done,
                            void *arg)
{
    struct digest_call *call = mem_alloc(sizeof *call);
    *call = (struct digest_call){.on_asked = on_done, .arg = arg};
    struct pg_batch *batch = batch_of(pg, account_id);
    pg_add(batch, digest_holds_any, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime));
    pg_batch_submit(batch, READ_MS, on_asked, call);
}

// ---- rows ----------------------------------------------------------------------------------------------------------

static enum error_code take_row(const struct pg_rows *rows, int row, struct digest_store_row *out, struct error *err)
{
    struct str *const texts[] = {&out->cluster,  &out->ref.group,   &out->ref.kind, &out->ref.ns,
                                 &out->ref.name, &out->ref.version, &out->ref.uid};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pg_rows_get(rows, row, (int)i + 1);
    out->is_unread = str_eq(pg_rows_get(rows, row, 8), STR("t"));
    return parse_hex(pg_rows_get(rows, row, 0), out->entry, sizeof out->entry, err);
}

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct digest_call *call = arg;
    (void)count;
    struct error broken;
    size_t found = err ? 0 : (size_t)pg_rows_count(&results[1]);
    struct digest_store_row *rows = mem_array(found + 1, sizeof *rows);
    for (size_t i = 0; i < found && !err; i++)
        if (take_row(&results[1], (int)i, &rows[i], &broken) != ERROR_NONE) err = &broken;
    call->on_rows(call->arg, err, err ? NULL : rows, err ? 0 : found);
    mem_free(rows);
    mem_free(call);
}

void digest_store_rows(struct pg *pg, const char *account_id, struct str runtime,
                       const uint8_t leaves[DIGEST_STORE_LEAVES / 8], struct str unread, digest_store_listed on_done,
                       void *arg)
{
    struct digest_call *call = mem_alloc(sizeof *call);
    *call = (struct digest_call){.on_rows = on_done, .arg = arg};
    struct pg_batch *batch = batch_of(pg, account_id);
    pg_add(batch, digest_rows, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .leaves = pg_bytea(leaves, DIGEST_STORE_LEAVES / 8), .unread_kinds = pg_text(unread));
    pg_batch_submit(batch, READ_MS, on_rows, call);
}
