#include "storage/application_store.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/manifest_blob.h"
#include "storage/store_call.h"

// ---- lists ---------------------------------------------------------------------------------------------------------

// The filters as values; texts is their memory.
struct filter {
    struct arena *arena;
    json_t *object;
    bool matches_nothing; // asks for something that no application has here
};

static struct pg_param array_text(struct filter *filter, const json_t *array)
{
    char *text = json_dumps(array, JSON_COMPACT);
    struct str copy = arena_str(filter->arena, text ? str_c(text) : STR("[]"));
    if (text) free(text);
    return pg_text(copy);
}

// A list and its single-valued twin ("runtimes", "runtime") as one list. Empty strings are no filter.
static struct pg_param list_of(struct filter *filter, const char *many, const char *one)
{
    json_t *list = json_array();
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(filter->object, many), i, each)
    {
        if (json_is_string(each) && json_string_length(each)) json_array_append(list, each);
    }
    // Both given: both must hold.
    struct str single = one ? json_get_str(filter->object, one) : STR_EMPTY;
    if (single.len) {
        bool is_among = json_array_size(list) == 0;
        json_array_foreach(list, i, each)
        {
            if (str_eq(json_str(each), single)) is_among = true;
        }
        if (!is_among) filter->matches_nothing = true;
        json_array_clear(list);
        json_array_append_new(list, json_new_str(single));
    }
    struct pg_param param = array_text(filter, list);
    json_decref(list);
    return param;
}

static bool has_word(const json_t *array, struct str word)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)array, i, each)
    {
        if (str_eq(json_str(each), word)) return true;
    }
    return json_array_size(array) == 0;
}

// Favourites and application groups are kept by nobody yet: what asks for them finds nothing.
static void check_impossible(struct filter *filter)
{
    const json_t *object = filter->object;
    if (!has_word(json_get_array(object, "kinds"), STR("Application")) ||
        !has_word(json_get_array(object, "groups"), STR("argoproj.io")) || json_get_bool(object, "favorite", false) ||
        json_get_bool(object, "hasAppGroups", false) || json_array_size(json_get_array(object, "appGroups")) > 0)
        filter->matches_nothing = true;
}

static size_t filter_params(struct filter *filter, struct pg_param *out)
{
    size_t count = 0;
    out[count++] = pg_text(json_get_str(filter->object, "project"));
    out[count++] = list_of(filter, "runtimes", "runtime");
    out[count++] = list_of(filter, "applications", NULL);
    out[count++] = pg_text(json_get_str(filter->object, "applicationName"));
    out[count++] = list_of(filter, "statuses", NULL);
    out[count++] = list_of(filter, "healthStatuses", NULL);
    out[count++] = list_of(filter, "namespaces", "namespace");
    out[count++] = list_of(filter, "clusterUrls", "clusterUrl");
    out[count++] = list_of(filter, "labels", NULL);
    out[count++] = list_of(filter, "versions", NULL);
    out[count++] = pg_bool(json_get_bool(filter->object, "includeComponents", false));
    out[count++] = pg_bool(json_get_bool(filter->object, "excludeGitSources", false));
    return count;
}

static void submit_list(struct pg *pg, const char *account_id, struct filter *filter, struct store_window *window,
                        store_slice_done on_done, void *arg)
{
    struct pg_param params[20] = {pg_text(str_c(account_id))};
    size_t count = 1;
    for (size_t i = 0; i < 3; i++)
        params[count++] = pg_text(window->low[i]);
    for (size_t i = 0; i < 3; i++)
        params[count++] = pg_text(window->high[i]);
    count += filter_params(filter, params + count);
    check_impossible(filter);
    params[count++] = pg_text(filter->matches_nothing ? STR("0") : str_c(window->limit));
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window->is_back ? &statement_application_list_back : &statement_application_list, count,
                 params);
    store_submit_slice(batch, window, on_done, arg);
}

void application_store_list(struct pg *pg, const char *account_id, struct str filter_json,
                            const struct store_page *page, store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct error err;
    struct filter filter = {0};
    enum error_code code = store_window_init(&window, page, 3, &err);
    if (code == ERROR_NONE && filter_json.len) code = json_decode(filter_json, NULL, &filter.object, &err);
    if (code != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    filter.arena = arena_create(0);
    submit_list(pg, account_id, &filter, &window, on_done, arg);
    arena_destroy(filter.arena);
    json_decref(filter.object);
}

void cluster_store_list(struct pg *pg, const char *account_id, struct str runtime, const struct store_page *page,
                        store_slice_done on_done, void *arg)
{
    struct store_window window;
    struct error err;
    if (store_window_init(&window, page, 2, &err) != ERROR_NONE) {
        store_fail_slice(pg, &err, on_done, arg);
        return;
    }
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, window.is_back ? &statement_cluster_list_back : &statement_cluster_list, 7,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(window.low[0]),
                                     pg_text(window.low[1]), pg_text(window.high[0]), pg_text(window.high[1]),
                                     pg_text(str_c(window.limit))});
    store_submit_slice(batch, &window, on_done, arg);
}

// ---- one application -----------------------------------------------------------------------------------------------

enum { NODE_BYTES_MAX = 96 * 1024 * 1024, MANIFEST_COLUMNS = 3 };

struct get_call {
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

static void give_node(const struct get_call *call, const struct pg_rows *rows)
{
    struct error err;
    struct strbuf node;
    strbuf_init(&node, NODE_BYTES_MAX);
    struct str text = pg_rows_get(rows, 0, 0);
    strbuf_add_str(&node, str_first(text, text.len - 1)); // without its closing brace
    enum error_code code = add_manifest(&node, "actualManifest", rows, 1, &err);
    if (code == ERROR_NONE) code = add_manifest(&node, "desiredManifest", rows, 1 + MANIFEST_COLUMNS, &err);
    strbuf_add_byte(&node, '}');
    if (code == ERROR_NONE && node.overflow)
        code = error_set(&err, ERROR_TOO_LARGE, "the application's manifests are too large to show");
    call->on_done(call->arg, code == ERROR_NONE ? NULL : &err, code == ERROR_NONE ? strbuf_str(&node) : STR_EMPTY);
    strbuf_finish(&node);
}

static void on_get(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct get_call *call = arg;
    (void)count;
    if (err || pg_rows_count(&results[0]) == 0)
        call->on_done(call->arg, err, STR_EMPTY);
    else
        give_node(call, &results[0]);
    mem_free(call);
}

void application_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                           store_node_done on_done, void *arg)
{
    struct get_call *call = mem_alloc(sizeof *call);
    *call = (struct get_call){on_done, arg};
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_application_get, 4,
                 (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(name), pg_text(ns)});
    pg_batch_submit(batch, STORE_READ_MS, on_get, call);
}
