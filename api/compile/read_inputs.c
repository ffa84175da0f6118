#include "api/compile/read_inputs.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"

enum { ARRAY_BYTES_MAX = 1024 * 1024 };

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
static enum plan_given texts_value(struct arena *arena, const struct bound_input *input, const json_t *list,
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
        *out = pg_text(arena_str(arena, strbuf_str(&text)));
    strbuf_finish(&text);
    return count == 0 ? PLAN_NOT_GIVEN : is_one ? PLAN_ONE : has_also ? PLAN_ALSO : PLAN_MANY;
}

// Nothing, null and the empty text are no value. *out stays missing when there is an error.
static enum plan_given value_of(struct arena *arena, const struct bound_input *input, const json_t *value,
                                struct pg_param *out, struct error *err)
{
    struct str text = json_str(value);
    int64_t ignored;
    switch (input->type) {
    case BOUND_VALUE_TEXTS: return texts_value(arena, input, value, out, err);
    case BOUND_VALUE_BOOLEAN:
        if (!json_is_boolean(value)) return PLAN_NOT_GIVEN;
        *out = pg_null(); // it stands in the text
        return json_is_true(value) ? PLAN_TRUE : PLAN_FALSE;
    case BOUND_VALUE_NUMBER:
        if (!json_is_integer(value)) return PLAN_NOT_GIVEN;
        *out = pg_text(str_c(arena_printf(arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value))));
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

static enum plan_given fallback_of(const struct bound_input *input, struct pg_param *out)
{
    struct str text = input->fallback ? str_c(input->fallback) : STR("");
    *out = pg_text(text);
    if (input->type != BOUND_VALUE_BOOLEAN) return PLAN_MANY;
    return str_eq(text, STR("t")) ? PLAN_TRUE : PLAN_FALSE;
}

enum error_code read_inputs_init(struct read_inputs *out, const struct bound_input *inputs, const json_t *arguments,
                                 struct arena *arena, struct error *err)
{
    const json_t *filters = json_get_object(arguments, "filters");
    *out = (struct read_inputs){0};
    while (inputs[out->count].name)
        out->count++;
    out->values = arena_array(arena, out->count, sizeof *out->values);
    out->given = arena_array(arena, out->count, sizeof *out->given);
    for (size_t i = 0; i < out->count; i++) {
        const json_t *value = json_object_get(filters, inputs[i].name);
        if (!value) value = json_object_get(arguments, inputs[i].name);
        out->given[i] = value_of(arena, &inputs[i], value, &out->values[i], err);
        if (out->given[i] == PLAN_NOT_GIVEN && (inputs[i].fallback || inputs[i].is_needed))
            out->given[i] = fallback_of(&inputs[i], &out->values[i]);
        if (out->given[i] != PLAN_NOT_GIVEN && out->values[i].kind == PG_PARAM_MISSING) return err->code;
    }
    return ERROR_NONE;
}

enum error_code read_inputs_order(const struct bound_order *orders, const json_t *arguments,
                                  const struct bound_order **out, bool *out_is_descending, struct error *err)
{
    const json_t *sort = json_get_object(arguments, "sort");
    const json_t *wanted = sort ? sort : json_object_get(arguments, "orderBy");
    if (json_array_size(wanted) > 1)
        return error_set(err, ERROR_INVALID, "orderBy: %zu orders are given, one is accepted", json_array_size(wanted));
    if (json_is_array(wanted)) wanted = json_array_get(wanted, 0);
    struct str name = json_get_str(wanted, "field");
    struct str direction = json_get_str(wanted, sort ? "order" : "direction");
    for (const struct bound_order *order = orders; order->name; order++) {
        if (name.len && !str_eq(name, str_c(order->name))) continue;
        *out = order;
        *out_is_descending = str_eq(direction, STR("desc"));
        if (sort) *out_is_descending ^= order->keys[0].is_down;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID, "%s.field: invalid order \"%.*s\" for this list", sort ? "sort" : "orderBy",
                     STR_ARG(name));
}
