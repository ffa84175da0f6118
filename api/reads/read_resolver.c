#include "api/reads/read_resolver.h"

#include <assert.h>
#include <strings.h>

#include "api/resolvers.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "storage/sql/store_call.h"

enum { PARAMETERS_MAX = 64, ARRAY_BYTES_MAX = 1024 * 1024 };

// Where the values of a statement come from, by the names of its parameters.
struct values {
    struct api_request *request;
    const struct read *read;
    const json_t *arguments, *filters; // filters: NULL for none
    const struct store_window *window; // of lists
    bool is_descending;                // against the declared order: what comes next is below
};

// ---- values of filters and arguments ------------------------------------------------------------

// A literal of text[]. NULL when there is nothing in it: no filter.
static enum error_code array_value(struct api_request *request, const char *name, const json_t *list,
                                   struct pg_param *out, struct error *err)
{
    struct strbuf text;
    size_t i, count = 0;
    json_t *each;
    strbuf_init(&text, ARRAY_BYTES_MAX);
    strbuf_add_byte(&text, '{');
    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        struct str item = json_str(each);
        if (!json_is_string(each)) continue;
        strbuf_add_c(&text, count++ ? ",\"" : "\"");
        for (size_t k = 0; k < item.len; k++) {
            if (item.at[k] == '"' || item.at[k] == '\\') strbuf_add_byte(&text, '\\');
            strbuf_add_byte(&text, item.at[k]);
        }
        strbuf_add_byte(&text, '"');
    }
    strbuf_add_byte(&text, '}');
    enum error_code code = ERROR_NONE;
    if (text.overflow)
        code = error_set(err, ERROR_INVALID, "%s: more than %d bytes", name, ARRAY_BYTES_MAX);
    else
        *out = count ? pg_text(arena_str(request->arena, strbuf_str(&text))) : pg_null();
    strbuf_finish(&text);
    return code;
}

// Nothing, null and the empty text are no value.
static enum error_code value_of(struct api_request *request, const struct read_input *input, const json_t *value,
                                struct pg_param *out, struct error *err)
{
    struct str text = json_str(value);
    int64_t ignored;
    *out = pg_null();
    switch (input->type) {
    case READ_TEXTS: return array_value(request, input->name, value, out, err);
    case READ_BOOLEAN:
        if (json_is_boolean(value)) *out = pg_bool(json_is_true(value));
        return ERROR_NONE;
    case READ_NUMBER:
        if (json_is_integer(value))
            *out = pg_text(str_c(arena_printf(request->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value))));
        return ERROR_NONE;
    case READ_TIME:
        if (text.len && clock_parse_rfc3339(text, &ignored, NULL) != ERROR_NONE)
            return error_set(err, ERROR_INVALID, "%s: is no RFC 3339 time", input->name);
        *out = pg_text_or_null(text);
        return ERROR_NONE;
    case READ_TEXT: *out = pg_text_or_null(text); return ERROR_NONE;
    }
    assert(false);
    return ERROR_INTERNAL;
}

static const struct read_input *input_of(const struct read *read, const char *name)
{
    for (const struct read_input *input = read->inputs; input->name; input++)
        if (strcasecmp(input->name, name) == 0) return input;
    return NULL;
}

// ---- parameters ---------------------------------------------------------------------------------

// The text behind `prefix`; NULL: it does not begin so.
static const char *behind(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(name, prefix, len) == 0 ? name + len : NULL;
}

// The keys of a cursor follow the name of its order.
static struct pg_param bound_value(const struct values *v, const char *number, bool is_low)
{
    const struct store_window *window = v->window;
    bool is_after = is_low != v->is_descending;
    size_t index = (size_t)(number[0] - '0'); // of at most STORE_KEYS_MAX keys
    assert(index < window->key_count && !number[1]);
    if (!(is_after ? window->has_low : window->has_high)) return pg_null();
    return pg_text(is_after ? window->low[index] : window->high[index]);
}

static enum error_code parameter_value(const struct values *v, const char *name, struct pg_param *out,
                                       struct error *err)
{
    const char *rest;
    if (strcmp(name, "account_id") == 0) {
        *out = pg_text(str_c(v->request->principal.account_id));
    } else if ((rest = behind(name, "filter_")) || (rest = behind(name, "argument_"))) {
        const struct read_input *input = input_of(v->read, rest);
        assert(input);
        const json_t *value = json_object_get(v->filters, input->name);
        if (!value) value = json_object_get(v->arguments, input->name);
        return value_of(v->request, input, value, out, err);
    } else {
        assert(v->window);
        if (strcmp(name, "limit") == 0)
            *out = pg_text(str_c(v->window->limit));
        else if (strcmp(name, "has_low") == 0)
            *out = pg_bool(v->is_descending ? v->window->has_high : v->window->has_low);
        else if (strcmp(name, "has_high") == 0)
            *out = pg_bool(v->is_descending ? v->window->has_low : v->window->has_high);
        else if ((rest = behind(name, "low_")))
            *out = bound_value(v, rest, true);
        else if ((rest = behind(name, "high_")))
            *out = bound_value(v, rest, false);
    }
    return ERROR_NONE;
}

// The batch with the statement, or NULL.
static struct pg_batch *batch_of(const struct values *v, const struct pg_statement *statement, struct error *err)
{
    struct pg_param params[PARAMETERS_MAX] = {0};
    assert(statement->parameters <= PARAMETERS_MAX);
    for (unsigned i = 0; i < statement->parameters; i++)
        if (parameter_value(v, statement->names[i], &params[i], err) != ERROR_NONE) return NULL;
    struct pg_batch *batch = pg_batch_create(v->request->api->options.pg, v->request->principal.account_id);
    pg_batch_add(batch, statement, params);
    return batch;
}

// ---- lists --------------------------------------------------------------------------------------

// orderBy: {field, direction}; without it the declared first one.
static const struct read_order *order_of(const struct read *read, const json_t *arguments, bool *out_is_descending,
                                         struct error *err)
{
    const json_t *wanted = json_get_object(arguments, "orderBy");
    struct str name = json_get_str(wanted, "field");
    *out_is_descending = str_eq(json_get_str(wanted, "direction"), STR("desc"));
    for (const struct read_order *order = read->orders; order->name; order++)
        if (!name.len || str_eq(name, str_c(order->name))) return order;
    error_set(err, ERROR_INVALID, "orderBy.field: %.*s is no order of this list", STR_ARG(name));
    return NULL;
}

static enum error_code check_cursor(bool is_given, const struct str *keys, const struct read_order *order,
                                    struct error *err)
{
    if (!is_given || str_eq(keys[0], str_c(order->name))) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "the cursor is of another order than %s", order->name);
}

static void resolve_list(struct values *v, gql_resolved on_resolved, void *arg)
{
    struct store_page page;
    struct store_window window;
    struct error err;
    struct pg_batch *batch = NULL;
    if (!api_page_or_answer(v->arguments, &page, on_resolved, arg)) return;
    const struct read_order *order = order_of(v->read, v->arguments, &v->is_descending, &err);
    enum error_code code = order ? store_window_init(&window, &page, 1 + order->keys, &err) : ERROR_INVALID;
    if (code == ERROR_NONE) code = check_cursor(window.has_low, window.low, order, &err);
    if (code == ERROR_NONE) code = check_cursor(window.has_high, window.high, order, &err);
    v->window = &window;
    if (code == ERROR_NONE)
        batch = batch_of(v, window.is_back != v->is_descending ? order->back : order->forward, &err);
    if (batch)
        store_submit_slice(batch, &window, api_resolved_slice, api_pending_create(v->request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

void api_resolve_read(void *ctx, const void *with, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct error err;
    struct values v = {
        .request = request, .read = with, .arguments = arguments, .filters = json_get_object(arguments, "filters")};
    if (v.read->orders) {
        resolve_list(&v, on_resolved, arg);
        return;
    }
    struct pg_batch *batch = batch_of(&v, v.read->one, &err);
    if (batch)
        store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}
