#include "api/graphql/variables.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/parse.h"

enum { TYPE_TEXT_BYTES_MAX = 4096 };

struct coercion {
    const struct gql_schema *schema;
    struct gql_problems *problems;
    const struct gql_variable *variable;
};

// ---- variables, from JSON ------------------------------------------------------------------------------------------

static json_t *refuse(struct coercion *c, const char *what, const char *detail)
{
    gql_problem_add(c->problems, c->variable->at, "BAD_USER_INPUT", NULL, "Variable \"$%.*s\" got invalid value; %s%s.",
                    STR_ARG(c->variable->name), what, detail);
    return NULL;
}

static json_t *refuse_leaf(struct coercion *c, const struct gql_type *type)
{
    struct strbuf text;
    strbuf_init(&text, TYPE_TEXT_BYTES_MAX);
    strbuf_addf(&text, "%.*s", STR_ARG(type->name));
    for (const struct gql_name *name = type->names; name; name = name->next)
        strbuf_addf(&text, "%s%.*s", name == type->names ? ", which has " : ", ", STR_ARG(name->name));
    refuse(c, "it does not fit type ", arena_cstr(c->problems->arena, strbuf_str(&text)));
    strbuf_finish(&text);
    return NULL;
}

static json_t *coerce_leaf(struct coercion *c, const struct gql_type *type, json_t *value)
{
    bool fits = true;
    struct str name = type->name;
    if (type->kind == GQL_ENUM) {
        fits = json_is_string(value) && gql_type_has_name(type, json_str(value));
    } else if (str_eq(name, STR("Int"))) {
        bool whole = json_is_real(value) && trunc(json_real_value(value)) == json_real_value(value);
        double number = json_number_value(value);
        fits = (json_is_integer(value) || whole) && number >= INT32_MIN && number <= INT32_MAX;
        if (fits && whole) return json_integer((json_int_t)number);
    } else if (str_eq(name, STR("Float"))) {
        fits = json_is_number(value);
    } else if (str_eq(name, STR("Boolean"))) {
        fits = json_is_boolean(value);
    } else if (str_eq(name, STR("String"))) {
        fits = json_is_string(value);
    } else if (str_eq(name, STR("ID"))) {
        fits = json_is_string(value) || json_is_integer(value);
        if (json_is_integer(value)) return json_sprintf("%lld", (long long)json_integer_value(value));
    }
    if (fits) return json_incref(value);
    return refuse_leaf(c, type);
}

static json_t *coerce(struct coercion *c, const struct gql_type_ref *type, json_t *value);

static json_t *default_value(const struct gql_value *def);

static json_t *coerce_object(struct coercion *c, const struct gql_type *type, json_t *value)
{
    if (!json_is_object(value))
        return refuse(c, "expected an object of type ", arena_cstr(c->problems->arena, type->name));
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        if (!gql_input_find(type->inputs, str_c(key)))
            return refuse(c, arena_printf(c->problems->arena, "Field \"%.100s\" is not defined by type ", key),
                          arena_cstr(c->problems->arena, type->name));
    }
    json_t *out = json_object();
    for (const struct gql_input_def *input = type->inputs; input; input = input->next) {
        member = json_object_getn(value, input->name.at, input->name.len);
        json_t *coerced = NULL;
        if (!member && input->has_default)
            coerced = default_value(&input->def);
        else if (!member && input->type.non_null)
            refuse(c, "a required field was not provided: ", arena_cstr(c->problems->arena, input->name));
        else if (!member)
            continue;
        else
            coerced = coerce(c, &input->type, member);
        if (!coerced) {
            json_decref(out);
            return NULL;
        }
        json_object_setn_new(out, input->name.at, input->name.len, coerced);
    }
    return out;
}

static json_t *coerce_list(struct coercion *c, const struct gql_type_ref *type, json_t *value)
{
    json_t *out = json_array();
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; i++) {
        json_t *item = coerce(c, type->item, json_is_array(value) ? json_array_get(value, i) : value);
        if (!item) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, item);
    }
    return out;
}

static json_t *coerce(struct coercion *c, const struct gql_type_ref *type, json_t *value)
{
    if (json_is_null(value)) {
        if (type->non_null) return refuse(c, "it must not be null: ", gql_type_ref_text(type, c->problems->arena));
        return json_null();
    }
    if (type->item) return coerce_list(c, type, value);
    const struct gql_type *named = gql_schema_type(c->schema, type->name);
    return named->kind == GQL_INPUT ? coerce_object(c, named, value) : coerce_leaf(c, named, value);
}

static json_t *real_of(struct str text)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%.*s", STR_ARG(str_first(text, sizeof copy - 1)));
    double real = strtod(copy, NULL);
    return isfinite(real) ? json_real(real) : json_null();
}

// A plain literal.
static json_t *default_value(const struct gql_value *def)
{
    int64_t number;
    switch (def->kind) {
    case GQL_VALUE_NULL: return json_null();
    case GQL_VALUE_BOOLEAN: return json_boolean(def->boolean);
    case GQL_VALUE_INT:
        if (parse_i64(def->text, INT64_MIN, INT64_MAX, &number, NULL) == ERROR_NONE) return json_integer(number);
        return real_of(def->text);
    case GQL_VALUE_FLOAT: return real_of(def->text);
    default: return json_new_str(def->text);
    }
}

json_t *gql_coerce_variables(const struct gql_schema *schema, const struct gql_operation *operation,
                             const json_t *given, struct gql_problems *problems)
{
    json_t *out = json_object();
    for (const struct gql_variable *variable = operation->variables; variable; variable = variable->next) {
        struct coercion c = {.schema = schema, .problems = problems, .variable = variable};
        const char *name = arena_cstr(problems->arena, variable->name);
        json_t *value = json_object_get(given, name);
        if (json_is_null(value) && variable->type.non_null) {
            gql_problem_add(problems, variable->at, "BAD_USER_INPUT", NULL,
                            "Variable \"$%.*s\" of non-null type \"%s\" must not be null.", STR_ARG(variable->name),
                            gql_type_ref_text(&variable->type, problems->arena));
        } else if (value) {
            json_t *coerced = coerce(&c, &variable->type, value);
            if (coerced) json_object_set_new(out, name, coerced);
        } else if (variable->has_default) {
            const struct gql_argument wrapped = {.name = variable->name, .value = variable->def};
            const struct gql_input_def input = {.name = variable->name, .type = variable->type};
            const struct gql_field_def field = {.arguments = (struct gql_input_def *)&input};
            json_t *one = gql_coerce_arguments(schema, &field, &wrapped, NULL, NULL);
            if (one) json_object_update(out, one);
            json_decref(one);
        } else if (variable->type.non_null) {
            gql_problem_add(problems, variable->at, "BAD_USER_INPUT", NULL,
                            "Variable \"$%.*s\" of required type \"%s\" was not provided.", STR_ARG(variable->name),
                            gql_type_ref_text(&variable->type, problems->arena));
        }
    }
    if (problems->count == 0) return out;
    json_decref(out);
    return NULL;
}

// ---- arguments, from literals --------------------------------------------------------------------------------------

static json_t *literal(const struct gql_schema *schema, const struct gql_type_ref *type, const struct gql_value *value,
                       const json_t *variables);

// NULL: the member has no value (a variable that was not given).
static json_t *literal_or_default(const struct gql_schema *schema, const struct gql_input_def *input,
                                  const struct gql_argument *given, const json_t *variables)
{
    while (given && !str_eq(given->name, input->name))
        given = given->next;
    json_t *value = given ? literal(schema, &input->type, &given->value, variables) : NULL;
    if (!value && input->has_default) value = default_value(&input->def);
    return value;
}

static json_t *literal_members(const struct gql_schema *schema, const struct gql_input_def *inputs,
                               const struct gql_argument *given, const json_t *variables)
{
    json_t *out = json_object();
    for (const struct gql_input_def *input = inputs; input; input = input->next) {
        json_t *value = literal_or_default(schema, input, given, variables);
        if (value) json_object_setn_new(out, input->name.at, input->name.len, value);
    }
    return out;
}

// A value of a scalar that takes anything: as JSON, whatever it is.
static json_t *free_literal(const struct gql_value *value, const json_t *variables)
{
    if (value->kind == GQL_VALUE_LIST) {
        json_t *out = json_array();
        for (const struct gql_value *item = value->items; item; item = item->next) {
            json_t *member = free_literal(item, variables);
            json_array_append_new(out, member ? member : json_null());
        }
        return out;
    }
    if (value->kind == GQL_VALUE_OBJECT) {
        json_t *out = json_object();
        for (const struct gql_argument *field = value->fields; field; field = field->next) {
            json_t *member = free_literal(&field->value, variables);
            if (member) json_object_setn_new(out, field->name.at, field->name.len, member);
        }
        return out;
    }
    if (value->kind == GQL_VALUE_VARIABLE)
        return json_incref(json_object_getn(variables, value->text.at, value->text.len));
    return default_value(value);
}

static json_t *literal(const struct gql_schema *schema, const struct gql_type_ref *type, const struct gql_value *value,
                       const json_t *variables)
{
    if (value->kind == GQL_VALUE_VARIABLE)
        return json_incref(json_object_getn(variables, value->text.at, value->text.len));
    if (value->kind == GQL_VALUE_NULL) return json_null();
    if (type->item) {
        json_t *out = json_array();
        if (value->kind != GQL_VALUE_LIST) {
            json_array_append_new(out, literal(schema, type->item, value, variables));
            return out;
        }
        for (const struct gql_value *item = value->items; item; item = item->next) {
            json_t *member = literal(schema, type->item, item, variables);
            json_array_append_new(out, member ? member : json_null());
        }
        return out;
    }
    const struct gql_type *named = gql_schema_type(schema, type->name);
    if (named->kind == GQL_INPUT) return literal_members(schema, named->inputs, value->fields, variables);
    bool is_id = str_eq(named->name, STR("ID")) && value->kind == GQL_VALUE_INT;
    return is_id ? json_new_str(value->text) : free_literal(value, variables);
}

// Validation lets a nullable variable with a default stand where null may not be: its value decides
// here.
static enum error_code check_nulls(const struct gql_schema *schema, const struct gql_type_ref *type,
                                   const json_t *value, struct str argument, struct error *err)
{
    if (!value || json_is_null(value)) {
        if (!type->non_null) return ERROR_NONE;
        return error_set(err, ERROR_INVALID, "Argument \"%.*s\" has null where its type does not permit it.",
                         STR_ARG(argument));
    }
    enum error_code code = ERROR_NONE;
    if (type->item) {
        for (size_t i = 0; i < json_array_size(value) && code == ERROR_NONE; i++)
            code = check_nulls(schema, type->item, json_array_get(value, i), argument, err);
        return code;
    }
    const struct gql_type *named = gql_schema_type(schema, type->name);
    for (const struct gql_input_def *input = named->inputs; input && code == ERROR_NONE; input = input->next)
        code =
            check_nulls(schema, &input->type, json_object_getn(value, input->name.at, input->name.len), argument, err);
    return code;
}

json_t *gql_coerce_arguments(const struct gql_schema *schema, const struct gql_field_def *field,
                             const struct gql_argument *given, const json_t *variables, struct error *err)
{
    json_t *out = literal_members(schema, field->arguments, given, variables);
    for (const struct gql_input_def *input = field->arguments; input; input = input->next) {
        const json_t *value = json_object_getn(out, input->name.at, input->name.len);
        if (check_nulls(schema, &input->type, value, input->name, err) == ERROR_NONE) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

bool gql_is_included(const struct gql_directive *directives, const json_t *variables)
{
    for (const struct gql_directive *directive = directives; directive; directive = directive->next) {
        if (!directive->arguments) continue;
        json_t *condition = free_literal(&directive->arguments->value, variables);
        bool holds = json_is_true(condition);
        json_decref(condition);
        if (holds == str_eq(directive->name, STR("skip"))) return false;
    }
    return true;
}
