#include "api/compile/compiled_read.h"

#include <assert.h>
#include <stdlib.h>

#include "api/compile/plan_cache.h"
#include "api/compile/read_inputs.h"
#include "api/compile/row_writer.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "storage/sql/store_call.h"

// One root field on its way; in the request's arena.
struct compiled_read {
    struct api_request *request;
    const struct bound_query *query;
    const struct gql_selected *selected;
    struct shape shape;
    struct store_window window; // of lists
    struct plan_request wanted;
    struct read_inputs inputs;
    unsigned skip;
    struct plan *plan;
    const struct compiled_rows *rows; // in place of on_written
    gql_written on_written;
    void *arg;
};

// ---- order and page -----------------------------------------------------------------------------

static enum error_code check_cursor(bool is_given, const struct str *keys, const struct bound_order *order,
                                    struct error *err)
{
    if (!is_given || str_eq(keys[0], str_c(order->name))) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "the cursor is of another order than %s", order->name);
}

static enum error_code set_page(struct compiled_read *read, struct error *err)
{
    struct row_window *wanted = &read->wanted.window;
    struct store_window *window = &read->window;
    struct store_page page;
    bool is_descending;
    if (!read->query->is_list) {
        wanted->order = read->query->orders;
        wanted->limit = read->rows ? (unsigned)read->rows->rows_max : 1;
        read->wanted.id_sql = read->rows ? read->rows->id_sql : NULL;
        return ERROR_NONE;
    }
    if (api_page_of(read->selected->arguments, &page, err) != ERROR_NONE) return err->code;
    if (!page.first && !page.last) page.first = read->query->page_rows;
    read->skip = page.skip;
    wanted->has_skip = page.skip > 0;
    enum error_code code =
        read_inputs_order(read->query->orders, read->selected->arguments, &wanted->order, &is_descending, err);
    if (code == ERROR_NONE) code = store_window_init(window, &page, 1 + wanted->order->key_count, err);
    if (code == ERROR_NONE) code = check_cursor(window->has_low, window->low, wanted->order, err);
    if (code == ERROR_NONE) code = check_cursor(window->has_high, window->high, wanted->order, err);
    if (code != ERROR_NONE) return code;
    wanted->is_reversed = window->is_back != is_descending;
    // What is behind a cursor is below it in a descending list.
    wanted->has_low = is_descending ? window->has_high : window->has_low;
    wanted->has_high = is_descending ? window->has_low : window->has_high;
    wanted->limit = window->rows_max + 1;
    return ERROR_NONE;
}

// The keys of a cursor follow the name of its order.
static struct str bound_value(const struct compiled_read *read, const struct plan_param *param)
{
    const struct store_window *window = &read->window;
    bool is_low = param->source == PLAN_LOW;
    bool is_descending = read->wanted.window.is_reversed != window->is_back;
    return (is_low != is_descending ? window->low : window->high)[1 + param->index];
}

// ---- the plan -----------------------------------------------------------------------------------

static void add_key(const struct compiled_read *read, struct strbuf *key)
{
    const struct row_window *wanted = &read->wanted.window;
    strbuf_addf(key, "|%s %d%d%d%d%d %u|", wanted->order->name, wanted->is_reversed, wanted->has_low, wanted->has_high,
                wanted->has_skip, read->wanted.id_sql != NULL, wanted->limit);
    access_predicate_add_key(&read->wanted.choice.access, key);
    for (size_t i = 0; i < read->inputs.count; i++)
        strbuf_add_byte(key, (char)('0' + (int)read->wanted.choice.given[i]));
}

static enum error_code set_plan(struct compiled_read *read, struct error *err)
{
    struct plan_cache *plans = read->request->api->plans;
    read->wanted.shape = &read->shape;
    read->wanted.choice = (struct row_choice){
        .binding = read->query->binding,
        .inputs = read->query->inputs,
        .given = read->inputs.given,
        .access = access_predicate_of(&read->request->principal, read->request->rules, &read->query->binding->access)};
    if (shape_init(&read->shape, read->query, read->selected, err) != ERROR_NONE) return err->code;
    struct strbuf *key = &read->shape.key;
    add_key(read, key);
    enum error_code code = ERROR_NONE;
    read->plan = plan_cache_find(plans, strbuf_str(key));
    if (!read->plan) {
        code = plan_make(&read->wanted, strbuf_str(key), &read->plan, err);
        if (code == ERROR_NONE) plan_cache_add(plans, read->plan);
    }
    strbuf_finish(key);
    return code;
}

// ---- cost ---------------------------------------------------------------------------------------

// Rows times what one costs, over all fields of a request: before any statement of this one runs.
static enum error_code check_cost(struct compiled_read *read, struct error *err)
{
    struct api_request *request = read->request;
    uint64_t max = request->api->options.query_cost_max;
    uint64_t rows = read->query->is_list ? read->window.rows_max : read->wanted.window.limit;
    request->query_cost += rows * read->plan->row_cost;
    if (!max || request->query_cost <= max) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "the query costs %llu, the limit is %llu (graphql.cost_max): request fewer rows, or fewer fields "
                     "that are lists",
                     (unsigned long long)request->query_cost, (unsigned long long)max);
}

// ---- running ------------------------------------------------------------------------------------

static struct pg_param param_value(const struct compiled_read *read, const struct plan_param *param)
{
    switch (param->source) {
    case PLAN_ACCOUNT: return pg_text(str_c(read->request->principal.account_id));
    case PLAN_ACCESS: return pg_text(read->wanted.choice.access.value);
    case PLAN_INPUT: return read->inputs.values[param->index];
    case PLAN_LOW:
    case PLAN_HIGH: return pg_text(bound_value(read, param));
    case PLAN_SKIP: return pg_text(str_c(arena_printf(read->request->arena, "%u", read->skip)));
    case PLAN_OPTION: break; // of counts
    }
    assert(false);
    return pg_null();
}

static void write_rows(struct compiled_read *read, const struct pg_rows *rows)
{
    size_t found = (size_t)pg_rows_count(rows);
    size_t rows_max = read->query->is_list ? read->window.rows_max : 1;
    bool has_more = found > rows_max, is_back = read->window.is_back;
    struct row_page page = {.plan = read->plan,
                            .shape = &read->shape,
                            .rows = rows,
                            .count = has_more ? rows_max : found,
                            .is_turned = is_back,
                            .has_next = is_back ? read->window.has_high || read->skip : has_more,
                            .has_prev = is_back ? has_more : read->window.has_low || read->skip};
    struct strbuf text;
    strbuf_init(&text, read->selected->answer_bytes_max);
    row_writer_write(&page, &text);
    read->on_written(read->arg, NULL, &text);
    strbuf_finish(&text);
}

// Each by itself. One whose null may not be is left out; its problem is noted.
static void write_each(struct compiled_read *read, const struct pg_rows *rows)
{
    struct row_page page = {
        .plan = read->plan, .shape = &read->shape, .rows = rows, .count = (size_t)pg_rows_count(rows)};
    struct strbuf text;
    strbuf_init(&text, read->selected->answer_bytes_max);
    for (; page.first_row < page.count; page.first_row++) {
        strbuf_clear(&text);
        struct str id = pg_rows_get(rows, (int)page.first_row, read->plan->id_column);
        if (row_writer_write(&page, &text) && !text.overflow)
            read->rows->on_row(read->rows->arg, id, strbuf_str(&text));
    }
    strbuf_finish(&text);
    read->rows->on_done(read->rows->arg, NULL);
}

static void fail(struct compiled_read *read, const struct error *err)
{
    if (read->rows)
        read->rows->on_done(read->rows->arg, err);
    else
        read->on_written(read->arg, err, NULL);
}

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct compiled_read *read = arg;
    struct plan *plan = read->plan;
    struct error bad;
    if (err && err->code == ERROR_INVALID && (read->window.has_low || read->window.has_high)) {
        error_set(&bad, ERROR_INVALID, "invalid cursor: must come from pageInfo or edges of an earlier answer");
        err = &bad;
    }
    if (err)
        fail(read, err);
    else if (read->rows)
        write_each(read, &results[count - 1]);
    else
        write_rows(read, &results[count - 1]);
    plan_unref(plan); // read may be gone
}

static void submit(struct compiled_read *read)
{
    struct pg_param params[PLAN_PARAMS_MAX] = {0};
    const struct plan *plan = read->plan;
    for (unsigned i = 0; i < plan->read.statement.parameters; i++)
        params[i] = param_value(read, &plan->read.params[i]);
    struct pg_batch *batch = pg_batch_create(read->request->api->options.pg, read->request->principal.account_id);
    pg_batch_generic(batch);
    pg_batch_add(batch, &plan->read.statement, params);
    pg_batch_submit(batch, STORE_READ_MS, on_rows, read);
}

static void begin(struct compiled_read *read)
{
    struct error err;
    read->wanted.query = read->query;
    enum error_code code =
        read_inputs_init(&read->inputs, read->query->inputs, read->selected->arguments, read->request->arena, &err);
    if (code == ERROR_NONE) code = set_page(read, &err);
    if (code == ERROR_NONE) code = set_plan(read, &err);
    if (code == ERROR_NONE) code = check_cost(read, &err);
    if (code == ERROR_NONE) {
        submit(read);
        return;
    }
    plan_unref(read->plan);
    fail(read, &err);
}

void compiled_read_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                           void *arg)
{
    struct api_request *request = ctx;
    struct compiled_read *read = arena_alloc(request->arena, sizeof *read);
    *read = (struct compiled_read){
        .request = request, .query = with, .selected = selected, .on_written = on_written, .arg = arg};
    begin(read);
}

void compiled_read_rows(struct api_request *request, const struct compiled_rows *rows)
{
    struct compiled_read *read = arena_alloc(request->arena, sizeof *read);
    struct bound_query *query = arena_dup(request->arena, rows->query, sizeof *query);
    query->is_list = false; // what is selected is one row
    *read = (struct compiled_read){.request = request,
                                   .query = query,
                                   .selected = rows->selected,
                                   .rows = arena_dup(request->arena, rows, sizeof *rows)};
    begin(read);
}
