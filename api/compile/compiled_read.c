#include "api/compile/compiled_read.h"

#include <assert.h>
#include <stdlib.h>

#include "api/compile/plan_cache.h"
#include "api/compile/row_writer.h"
#include "api/resolvers.h"
#include "base/clock.h"
#include "base/mem.h"
#include "storage/sql/store_call.h"

enum { PAGE_DEFAULT = 100, ARRAY_BYTES_MAX = 1024 * 1024, KEY_BYTES_MAX = 512 * 1024 };

// One root field on its way; in the request's arena.
struct compiled_read {
    struct api_request *request;
    const struct bound_query *query;
    const struct gql_selected *selected;
    struct shape shape;
    struct store_window window; // of lists
    struct plan_request wanted;
    struct pg_param *values; // of the inputs
    struct plan *plan;
    gql_written on_written;
    void *arg;
};

// ---- values -------------------------------------------------------------------------------------

static void add_array_item(struct strbuf *text, struct str item)
{
    strbuf_add_c(text, text->len > 1 ? ",\"" : "\"");
    for (size_t i = 0; i < item.len; i++) {
        if (item.at[i] == '"' || item.at[i] == '\\') strbuf_add_byte(text, '\\');
        strbuf_add_byte(text, item.at[i]);
    }
    strbuf_add_byte(text, '"');
}

// Empty texts and nulls in a list are no values. One value that is compared by = ANY stands alone.
static enum plan_given texts_value(struct compiled_read *read, const struct bound_input *input, const json_t *list,
                                   struct pg_param *out, struct error *err)
{
    struct strbuf text;
    struct str only = STR_EMPTY;
    size_t i, count = 0;
    bool has_also = false;
    json_t *each;
    strbuf_init(&text, ARRAY_BYTES_MAX);
    strbuf_add_byte(&text, '{');
    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        if (!json_string_length(each)) continue;
        only = json_str(each);
        add_array_item(&text, only);
        if (input->also_value && str_eq(only, str_c(input->also_value))) has_also = true;
        count++;
    }
    strbuf_add_byte(&text, '}');
    bool is_one = count == 1 && !has_also && strstr(input->sql, "= ANY (:value)");
    if (text.overflow)
        error_set(err, ERROR_INVALID, "%s: more than %d bytes", input->name, ARRAY_BYTES_MAX);
    else if (is_one)
        *out = pg_text(only);
    else if (count)
        *out = pg_text(arena_str(read->request->arena, strbuf_str(&text)));
    strbuf_finish(&text);
    return count == 0 ? PLAN_NOT_GIVEN : is_one ? PLAN_ONE : has_also ? PLAN_ALSO : PLAN_MANY;
}

// Nothing, null and the empty text are no value. *out stays missing when there is an error.
static enum plan_given value_of(struct compiled_read *read, const struct bound_input *input, const json_t *value,
                                struct pg_param *out, struct error *err)
{
    struct str text = json_str(value);
    int64_t ignored;
    switch (input->type) {
    case BOUND_VALUE_TEXTS: return texts_value(read, input, value, out, err);
    case BOUND_VALUE_BOOLEAN:
        if (!json_is_boolean(value)) return PLAN_NOT_GIVEN;
        *out = pg_bool(json_is_true(value));
        return PLAN_MANY;
    case BOUND_VALUE_NUMBER:
        if (!json_is_integer(value)) return PLAN_NOT_GIVEN;
        *out = pg_text(str_c(arena_printf(read->request->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value))));
        return PLAN_MANY;
    case BOUND_VALUE_TIME:
        if (text.len && clock_parse_rfc3339(text, &ignored, NULL) != ERROR_NONE)
            error_set(err, ERROR_INVALID, "%s: must be an RFC 3339 time", input->name);
        else
            *out = pg_text(text);
        break;
    case BOUND_VALUE_TEXT: *out = pg_text(text); break;
    case BOUND_VALUE_REFUSED:
        if (!json_is_true(value) && !text.len) return PLAN_NOT_GIVEN;
        error_set(err, ERROR_INVALID, "%s: %s", input->name, input->sql);
        return PLAN_MANY;
    }
    return text.len ? PLAN_MANY : PLAN_NOT_GIVEN;
}

static enum error_code set_inputs(struct compiled_read *read, struct error *err)
{
    const json_t *arguments = read->selected->arguments, *filters = json_get_object(arguments, "filters");
    const struct bound_input *inputs = read->query->inputs;
    size_t count = 0;
    while (inputs[count].name)
        count++;
    read->values = arena_array(read->request->arena, count, sizeof *read->values);
    enum plan_given *given = arena_array(read->request->arena, count, sizeof *given);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(filters, inputs[i].name);
        if (!value) value = json_object_get(arguments, inputs[i].name);
        given[i] = value_of(read, &inputs[i], value, &read->values[i], err);
        if (given[i] == PLAN_NOT_GIVEN && (inputs[i].fallback || inputs[i].is_needed)) {
            read->values[i] = pg_text(inputs[i].fallback ? str_c(inputs[i].fallback) : STR(""));
            given[i] = PLAN_MANY;
        }
        if (given[i] != PLAN_NOT_GIVEN && read->values[i].kind == PG_PARAM_MISSING) return err->code;
    }
    read->wanted.given = given;
    return ERROR_NONE;
}

// ---- order and page -----------------------------------------------------------------------------

// orderBy: {field, direction}, or a list of one; without it the declared first one.
static enum error_code set_order(struct compiled_read *read, bool *out_is_descending, struct error *err)
{
    const json_t *wanted = json_object_get(read->selected->arguments, "orderBy");
    if (json_array_size(wanted) > 1)
        return error_set(err, ERROR_INVALID, "orderBy: %zu orders are given, one is accepted", json_array_size(wanted));
    if (json_is_array(wanted)) wanted = json_array_get(wanted, 0);
    struct str name = json_get_str(wanted, "field");
    *out_is_descending = str_eq(json_get_str(wanted, "direction"), STR("desc"));
    for (const struct bound_order *order = read->query->orders; order->name; order++) {
        if (name.len && !str_eq(name, str_c(order->name))) continue;
        read->wanted.order = order;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID, "orderBy.field: invalid order \"%.*s\" for this list", STR_ARG(name));
}

static enum error_code check_cursor(bool is_given, const struct str *keys, const struct bound_order *order,
                                    struct error *err)
{
    if (!is_given || str_eq(keys[0], str_c(order->name))) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "the cursor is of another order than %s", order->name);
}

static enum error_code set_page(struct compiled_read *read, struct error *err)
{
    struct plan_request *wanted = &read->wanted;
    struct store_window *window = &read->window;
    struct store_page page;
    bool is_descending;
    if (!read->query->is_list) {
        wanted->order = read->query->orders;
        wanted->limit = 1;
        return ERROR_NONE;
    }
    if (api_page_of(read->selected->arguments, &page, err) != ERROR_NONE) return err->code;
    if (!page.first && !page.last) page.first = PAGE_DEFAULT;
    enum error_code code = set_order(read, &is_descending, err);
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
    bool is_descending = read->wanted.is_reversed != window->is_back;
    return (is_low != is_descending ? window->low : window->high)[1 + param->index];
}

// ---- the plan -----------------------------------------------------------------------------------

static void add_key(const struct compiled_read *read, struct strbuf *key)
{
    const struct plan_request *wanted = &read->wanted;
    strbuf_addf(key, "|%s %d%d%d %u %d %s|", wanted->order->name, wanted->is_reversed, wanted->has_low,
                wanted->has_high, wanted->limit, (int)wanted->access.scope,
                wanted->access.column ? wanted->access.column : "");
    for (size_t i = 0; read->query->inputs[i].name; i++)
        strbuf_add_byte(key, (char)('0' + (int)wanted->given[i]));
}

static enum error_code set_plan(struct compiled_read *read, struct error *err)
{
    struct plan_cache *plans = read->request->api->plans;
    read->wanted.shape = &read->shape;
    read->wanted.access = access_predicate_of(&read->request->principal, &read->query->binding->access);
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
    uint64_t rows = read->query->is_list ? read->window.rows_max : 1;
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
    case PLAN_ACCESS: return pg_text(read->wanted.access.value);
    case PLAN_INPUT: return read->values[param->index];
    case PLAN_LOW:
    case PLAN_HIGH: return pg_text(bound_value(read, param));
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
                            .has_next = is_back ? read->window.has_high : has_more,
                            .has_prev = is_back ? has_more : read->window.has_low};
    struct strbuf text;
    strbuf_init(&text, read->selected->answer_bytes_max);
    row_writer_write(&page, &text);
    read->on_written(read->arg, NULL, &text);
    strbuf_finish(&text);
}

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct compiled_read *read = arg;
    struct plan *plan = read->plan;
    if (err)
        read->on_written(read->arg, err, NULL);
    else
        write_rows(read, &results[count - 1]);
    plan_unref(plan); // read may be gone
}

static void submit(struct compiled_read *read)
{
    struct pg_param params[PLAN_PARAMS_MAX] = {0};
    const struct plan *plan = read->plan;
    for (unsigned i = 0; i < plan->statement.parameters; i++)
        params[i] = param_value(read, &plan->params[i]);
    struct pg_batch *batch = pg_batch_create(read->request->api->options.pg, read->request->principal.account_id);
    pg_batch_generic(batch);
    pg_batch_add(batch, &plan->statement, params);
    pg_batch_submit(batch, STORE_READ_MS, on_rows, read);
}

void compiled_read_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                           void *arg)
{
    struct api_request *request = ctx;
    struct compiled_read *read = arena_alloc(request->arena, sizeof *read);
    *read = (struct compiled_read){
        .request = request, .query = with, .selected = selected, .on_written = on_written, .arg = arg};
    read->wanted.query = read->query;
    struct error err;
    enum error_code code = set_inputs(read, &err);
    if (code == ERROR_NONE) code = set_page(read, &err);
    if (code == ERROR_NONE) code = set_plan(read, &err);
    if (code == ERROR_NONE) code = check_cost(read, &err);
    if (code == ERROR_NONE) {
        submit(read);
        return;
    }
    plan_unref(read->plan);
    on_written(arg, &err, NULL);
}
