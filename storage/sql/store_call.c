#include "storage/sql/store_call.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"

// ---- nodes and counts ----------------------------------------------------------------------------------------------

struct node_call {
    size_t answer;
    enum error_code none;
    const char *none_text;
    store_node_done on_done;
    void *arg;
};

static void on_node(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct node_call *call = arg;
    struct error none;
    assert(err || call->answer < count);
    struct str node = STR_EMPTY;
    if (!err && pg_rows_count(&results[call->answer]) > 0) {
        node = pg_rows_get(&results[call->answer], 0, 0);
    } else if (!err && call->none != ERROR_NONE) {
        error_set(&none, call->none, "%s", call->none_text);
        err = &none;
    }
    call->on_done(call->arg, err, node);
    mem_free(call);
}

void store_submit_node(struct pg_batch *batch, size_t answer, enum error_code none, const char *none_text,
                       store_node_done on_done, void *arg)
{
    struct node_call *call = mem_alloc(sizeof *call);
    assert(on_done && (none == ERROR_NONE || none_text));
    *call = (struct node_call){answer, none, none_text, on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_node, call);
}

struct count_call {
    size_t answer;
    store_count_done on_done;
    void *arg;
};

static void on_count(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct count_call *call = arg;
    assert(err || call->answer < count);
    call->on_done(call->arg, err, err ? 0 : pg_rows_affected(&results[call->answer]));
    mem_free(call);
}

void store_submit_count_within(struct pg_batch *batch, size_t answer, uint64_t deadline_ms, store_count_done on_done,
                               void *arg)
{
    struct count_call *call = mem_alloc(sizeof *call);
    *call = (struct count_call){answer, on_done, arg};
    pg_batch_submit(batch, deadline_ms, on_count, call);
}

void store_submit_count(struct pg_batch *batch, size_t answer, store_count_done on_done, void *arg)
{
    store_submit_count_within(batch, answer, STORE_CHANGE_MS, on_done, arg);
}

static void on_number(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct count_call *call = arg;
    uint64_t number = 0;
    assert(err || call->answer < count);
    if (!err && parse_u64(pg_rows_get(&results[call->answer], 0, 0), 0, INT64_MAX, &number, NULL) != ERROR_NONE)
        number = 0;
    call->on_done(call->arg, err, number);
    mem_free(call);
}

void store_submit_number(struct pg_batch *batch, size_t answer, store_count_done on_done, void *arg)
{
    struct count_call *call = mem_alloc(sizeof *call);
    *call = (struct count_call){answer, on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_number, call);
}

// ---- pages ---------------------------------------------------------------------------------------------------------

// Above every text in the order of bytes that the columns have: U+10FFFF.
static const struct str highest = {"\xf4\x8f\xbf\xbf", 4};

// A cursor is base64url of the keys, each ending with a NUL: no key has one inside.
static enum error_code read_cursor(struct str cursor, size_t key_count, char *memory, size_t memory_bytes,
                                   struct str *keys, struct error *err)
{
    size_t len = 0;
    if (cursor.len / 4 * 3 + 3 > memory_bytes ||
        parse_base64url(cursor, (uint8_t *)memory, memory_bytes, &len, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "invalid cursor: must come from pageInfo or edges of an earlier answer");
    struct str rest = str_of(memory, len);
    size_t found = 0;
    for (struct str key; found < key_count && str_cut(&rest, '\0', &key); found++) {
        keys[found] = key;
        if (!str_is_utf8(key)) break;
    }
    if (found != key_count || rest.len)
        return error_set(err, ERROR_INVALID, "invalid cursor: must come from pageInfo or edges of an earlier answer");
    return ERROR_NONE;
}

enum error_code store_window_init(struct store_window *window, const struct store_page *page, size_t key_count,
                                  struct error *err)
{
    window->key_count = key_count;
    window->has_low = page->after.len > 0;
    window->has_high = page->before.len > 0;
    window->is_back = page->last && !page->first;
    for (size_t i = 0; i < key_count; i++) {
        window->low[i] = STR("");
        window->high[i] = highest;
    }
    enum error_code code = ERROR_NONE;
    if (window->has_low)
        code = read_cursor(page->after, key_count, window->memory[0], sizeof window->memory[0], window->low, err);
    if (code == ERROR_NONE && window->has_high)
        code = read_cursor(page->before, key_count, window->memory[1], sizeof window->memory[1], window->high, err);
    if (code != ERROR_NONE) return code;
    unsigned wanted = page->first ? page->first : page->last;
    window->rows_max = wanted && wanted < STORE_PAGE_MAX ? wanted : STORE_PAGE_MAX;
    snprintf(window->limit, sizeof window->limit, "%u", window->rows_max + 1);
    return ERROR_NONE;
}

struct slice_call {
    size_t key_count;
    bool is_back, has_low, has_high;
    unsigned rows_max;
    store_slice_done on_done;
    void *arg;
};

static char *make_cursor(const struct pg_rows *rows, int row, size_t key_count, struct str *out)
{
    char keys[STORE_CURSOR_BYTES_MAX];
    size_t len = 0;
    for (size_t i = 0; i < key_count; i++) {
        struct str key = pg_rows_get(rows, row, (int)i + 1);
        if (key.len + 1 > sizeof keys - len) key = STR_EMPTY; // names are bounded far below
        if (key.len) memcpy(keys + len, key.at, key.len);
        len += key.len;
        keys[len++] = '\0';
    }
    char *text = mem_alloc((len + 2) / 3 * 4 + 1);
    *out = str_of(text, format_base64url((const uint8_t *)keys, len, text));
    return text;
}

static void give_slice(const struct slice_call *call, const struct pg_rows *rows)
{
    size_t found = (size_t)pg_rows_count(rows);
    bool has_more = found > call->rows_max;
    size_t count = has_more ? call->rows_max : found;
    struct str *nodes = mem_array(count, sizeof *nodes);
    struct str *cursors = mem_array(count, sizeof *cursors);
    char **texts = mem_array(count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        int row = (int)(call->is_back ? count - 1 - i : i);
        nodes[i] = pg_rows_get(rows, row, 0);
        texts[i] = make_cursor(rows, row, call->key_count, &cursors[i]);
    }
    struct store_slice slice = {.nodes = nodes, .cursors = cursors, .count = count};
    slice.has_next = call->is_back ? call->has_high : has_more;
    slice.has_prev = call->is_back ? has_more : call->has_low;
    call->on_done(call->arg, NULL, &slice);
    for (size_t i = 0; i < count; i++)
        mem_free(texts[i]);
    mem_free(texts);
    mem_free(cursors);
    mem_free(nodes);
}

static void on_slice(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct slice_call *call = arg;
    if (err)
        call->on_done(call->arg, err, NULL);
    else
        give_slice(call, &results[count - 1]);
    mem_free(call);
}

void store_submit_slice(struct pg_batch *batch, const struct store_window *window, store_slice_done on_done, void *arg)
{
    struct slice_call *call = mem_alloc(sizeof *call);
    *call = (struct slice_call){.key_count = window->key_count,
                                .is_back = window->is_back,
                                .has_low = window->has_low,
                                .has_high = window->has_high,
                                .rows_max = window->rows_max,
                                .on_done = on_done,
                                .arg = arg};
    pg_batch_submit(batch, STORE_READ_MS, on_slice, call);
}

// ---- errors before SQL ---------------------------------------------------------------------------------------------

struct fail_call {
    struct error error;
    store_slice_done on_done;
    void *arg;
};

static void on_fail(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct fail_call *call = arg;
    (void)results;
    (void)count;
    call->on_done(call->arg, err->code == ERROR_CANCELLED ? err : &call->error, NULL);
    mem_free(call);
}

void store_fail_slice(struct pg *pg, const struct error *err, store_slice_done on_done, void *arg)
{
    struct fail_call *call = mem_alloc(sizeof *call);
    *call = (struct fail_call){*err, on_done, arg};
    pg_batch_submit(pg_batch_create(pg, NULL), 0, on_fail, call); // empty: fails in the next turn
}
