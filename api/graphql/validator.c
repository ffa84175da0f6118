#include "api/graphql/validator.h"

#include <stdint.h>

#include "base/parse.h"

enum { VISITS_MAX = 20000, SHOWN_BYTES_MAX = 200 };
static const char code[] = "GRAPHQL_VALIDATION_FAILED";

static const struct gql_variable *find_variable(const struct gql_operation *operation, struct str name,
                                                unsigned *out_index)
{
    unsigned index = 0;
    for (const struct gql_variable *variable = operation->variables; variable; variable = variable->next, index++) {
        if (!str_eq(variable->name, name)) continue;
        *out_index = index;
        return variable;
    }
    return NULL;
}

// Specification section 5.8.5, AreTypesCompatible().
static bool types_fit(const struct gql_type_ref *given, const struct gql_type_ref *wanted)
{
    if (wanted->non_null && !given->non_null) return false;
    if (wanted->item) return given->item && types_fit(given->item, wanted->item);
    return !given->item && str_eq(given->name, wanted->name);
}

// wanted NULL: inside a scalar that takes anything.
static void check_variable_use(struct gql_validator *v, const struct gql_value *value,
                               const struct gql_type_ref *wanted, bool has_default)
{
    unsigned index = 0;
    const struct gql_variable *variable = find_variable(v->operation, value->text, &index);
    struct str operation = v->operation->name;
    if (!variable) {
        gql_problem_add(v->problems, value->at, code, NULL, "Variable \"$%.*s\" is not defined%s%.*s%s.",
                        STR_ARG(value->text), operation.len ? " by operation \"" : "", STR_ARG(operation),
                        operation.len ? "\"" : "");
        return;
    }
    v->used_variables[index] = true;
    if (!wanted) return;
    struct gql_type_ref given = variable->type, relaxed = *wanted;
    bool default_is_value = variable->has_default && variable->def.kind != GQL_VALUE_NULL;
    if (default_is_value || has_default) relaxed.non_null = false;
    if (types_fit(&given, &relaxed)) return;
    gql_problem_add(v->problems, value->at, code, NULL,
                    "Variable \"$%.*s\" of type \"%s\" used in position expecting type \"%s\".", STR_ARG(value->text),
                    gql_type_ref_text(&given, v->problems->arena), gql_type_ref_text(wanted, v->problems->arena));
}

static void show(const struct gql_value *value, struct strbuf *out)
{
    switch (value->kind) {
    case GQL_VALUE_STRING: strbuf_add_json(out, value->text); return;
    case GQL_VALUE_VARIABLE: strbuf_addf(out, "$%.*s", STR_ARG(value->text)); return;
    case GQL_VALUE_LIST:
        strbuf_add_byte(out, '[');
        for (const struct gql_value *item = value->items; item && !out->overflow; item = item->next) {
            show(item, out);
            if (item->next) strbuf_add_c(out, ", ");
        }
        strbuf_add_byte(out, ']');
        return;
    case GQL_VALUE_OBJECT:
        strbuf_add_byte(out, '{');
        for (const struct gql_argument *field = value->fields; field && !out->overflow; field = field->next) {
            strbuf_addf(out, "%.*s: ", STR_ARG(field->name));
            show(&field->value, out);
            if (field->next) strbuf_add_c(out, ", ");
        }
        strbuf_add_byte(out, '}');
        return;
    default: strbuf_add_str(out, value->text);
    }
}

// A value as its document has it, for a message.
static const char *shown(struct gql_validator *v, const struct gql_value *value)
{
    struct strbuf text;
    strbuf_init(&text, SHOWN_BYTES_MAX);
    show(value, &text);
    const char *out = text.overflow ? "a long value" : arena_cstr(v->problems->arena, strbuf_str(&text));
    strbuf_finish(&text);
    return out;
}

// What is wrong with a literal of a leaf type, or NULL.
static const char *leaf_fault(struct gql_validator *v, const struct gql_type *type, const struct gql_value *value)
{
    enum gql_value_kind kind = value->kind;
    const char *fault = NULL;
    if (type->kind == GQL_ENUM) {
        if (kind == GQL_VALUE_ENUM && gql_type_has_name(type, value->text)) return NULL;
        if (kind == GQL_VALUE_ENUM)
            return arena_printf(v->problems->arena, "Value \"%.*s\" does not exist in \"%.*s\" enum.",
                                STR_ARG(str_first(value->text, SHOWN_BYTES_MAX)), STR_ARG(type->name));
        return arena_printf(v->problems->arena, "Enum \"%.*s\" cannot represent non-enum value: %s.",
                            STR_ARG(type->name), shown(v, value));
    }
    if (str_eq(type->name, STR("Int"))) {
        int64_t number;
        if (kind != GQL_VALUE_INT)
            fault = "non-integer";
        else if (parse_i64(value->text, INT32_MIN, INT32_MAX, &number, NULL) != ERROR_NONE)
            fault = "non 32-bit signed integer";
    } else if (str_eq(type->name, STR("Float"))) {
        if (kind != GQL_VALUE_INT && kind != GQL_VALUE_FLOAT) fault = "non numeric";
    } else if (str_eq(type->name, STR("Boolean"))) {
        if (kind != GQL_VALUE_BOOLEAN) fault = "a non boolean";
    } else if (str_eq(type->name, STR("String"))) {
        if (kind != GQL_VALUE_STRING) fault = "a non string";
    } else if (str_eq(type->name, STR("ID"))) {
        if (kind != GQL_VALUE_STRING && kind != GQL_VALUE_INT) fault = "a non-string and non-integer";
    }
    if (!fault) return NULL;
    return arena_printf(v->problems->arena, "%.*s cannot represent %s value: %s", STR_ARG(type->name), fault,
                        shown(v, value));
}

// A scalar of the schema takes any value; the variables in it must be there.
static void check_free_value(struct gql_validator *v, const struct gql_value *value)
{
    if (value->kind == GQL_VALUE_VARIABLE) check_variable_use(v, value, NULL, false);
    for (const struct gql_value *item = value->items; item; item = item->next)
        check_free_value(v, item);
    for (const struct gql_argument *field = value->fields; field; field = field->next)
        check_free_value(v, &field->value);
}

bool gql_may_visit(struct gql_validator *v, struct gql_location at)
{
    if (gql_problems_full(v->problems)) return false;
    if (++v->visits <= VISITS_MAX) return true;
    if (v->visits == VISITS_MAX + 1)
        gql_problem_add(v->problems, at, code, NULL, "The document has more than %d selections, with its fragments.",
                        VISITS_MAX);
    return false;
}

static void check_input_object(struct gql_validator *v, const struct gql_value *value, const struct gql_type *type)
{
    for (const struct gql_argument *field = value->fields; field; field = field->next) {
        const struct gql_input_def *input = gql_input_find(type->inputs, field->name);
        if (!input) {
            gql_problem_add(v->problems, field->at, code, NULL, "Field \"%.*s\" is not defined by type \"%.*s\".",
                            STR_ARG(field->name), STR_ARG(type->name));
            continue;
        }
        for (const struct gql_argument *other = value->fields; other != field; other = other->next)
            if (str_eq(other->name, field->name))
                gql_problem_add(v->problems, field->at, code, NULL, "There can be only one input field named \"%.*s\".",
                                STR_ARG(field->name));
        if (gql_problems_full(v->problems)) return;
        gql_check_value(v, &field->value, &input->type, input->has_default);
    }
    for (const struct gql_input_def *input = type->inputs; input; input = input->next) {
        if (!input->type.non_null || input->has_default) continue;
        const struct gql_argument *field = value->fields;
        while (field && !str_eq(field->name, input->name))
            field = field->next;
        if (!field)
            gql_problem_add(v->problems, value->at, code, NULL,
                            "Field \"%.*s.%.*s\" of required type \"%s\" was not provided.", STR_ARG(type->name),
                            STR_ARG(input->name), gql_type_ref_text(&input->type, v->problems->arena));
    }
}

void gql_check_value(struct gql_validator *v, const struct gql_value *value, const struct gql_type_ref *wanted,
                     bool has_default)
{
    if (!gql_may_visit(v, value->at)) return;
    if (value->kind == GQL_VALUE_VARIABLE) {
        check_variable_use(v, value, wanted, has_default);
        return;
    }
    if (value->kind == GQL_VALUE_NULL) {
        if (wanted->non_null)
            gql_problem_add(v->problems, value->at, code, NULL, "Expected value of type \"%s\", found null.",
                            gql_type_ref_text(wanted, v->problems->arena));
        return;
    }
    if (wanted->item) {
        if (value->kind != GQL_VALUE_LIST) { // a single value stands for a list of one
            gql_check_value(v, value, wanted->item, false);
            return;
        }
        for (const struct gql_value *item = value->items; item; item = item->next)
            gql_check_value(v, item, wanted->item, false);
        return;
    }
    const struct gql_type *type = gql_schema_type(v->schema, wanted->name);
    if (type->kind == GQL_INPUT && value->kind == GQL_VALUE_OBJECT) {
        check_input_object(v, value, type);
        return;
    }
    if (type->kind == GQL_INPUT) {
        gql_problem_add(v->problems, value->at, code, NULL, "Expected value of type \"%s\", found %s.",
                        gql_type_ref_text(wanted, v->problems->arena), shown(v, value));
        return;
    }
    const char *fault = leaf_fault(v, type, value);
    if (fault)
        gql_problem_add(v->problems, value->at, code, NULL, "%s", fault);
    else
        check_free_value(v, value);
}

void gql_check_arguments(struct gql_validator *v, const struct gql_argument *given, const struct gql_input_def *defined,
                         struct gql_location at, const char *where, const char *what)
{
    for (const struct gql_argument *argument = given; argument; argument = argument->next) {
        const struct gql_input_def *input = gql_input_find(defined, argument->name);
        if (!input)
            gql_problem_add(v->problems, argument->at, code, NULL, "Unknown argument \"%.*s\" on %s.",
                            STR_ARG(argument->name), where);
        else
            gql_check_value(v, &argument->value, &input->type, input->has_default);
        for (const struct gql_argument *other = given; other != argument; other = other->next)
            if (str_eq(other->name, argument->name))
                gql_problem_add(v->problems, argument->at, code, NULL, "There can be only one argument named \"%.*s\".",
                                STR_ARG(argument->name));
        if (gql_problems_full(v->problems)) return;
    }
    for (const struct gql_input_def *input = defined; input; input = input->next) {
        if (!input->type.non_null || input->has_default) continue;
        const struct gql_argument *argument = given;
        while (argument && !str_eq(argument->name, input->name))
            argument = argument->next;
        if (!argument)
            gql_problem_add(v->problems, at, code, NULL,
                            "%s argument \"%.*s\" of type \"%s\" is required, but it was not provided.", what,
                            STR_ARG(input->name), gql_type_ref_text(&input->type, v->problems->arena));
    }
}
