#include "api/graphql/validation.h"

#include <stdint.h>

#include "base/parse.h"

enum { SPREADS_MAX = 64, VALUE_DEPTH_MAX = 64, VISITS_MAX = 20000 };
static const char code[] = "GRAPHQL_VALIDATION_FAILED";

struct validator {
    const struct gql_schema *schema;
    const struct gql_document *document;
    const struct gql_limits *limits;
    struct gql_problems *problems;
    const struct gql_operation *operation;           // whose variables are in scope
    uint64_t used_variables;                         // by position, the first 64
    const struct gql_fragment *spreads[SPREADS_MAX]; // the way from the operation to here
    size_t spread_count;
    size_t visits; // selections looked at: spreading fragments in fragments multiplies them
};

static void check_selections(struct validator *v, const struct gql_type *type, const struct gql_selection *first);

// ---- values --------------------------------------------------------------------------------------------------------

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

static void check_variable_use(struct validator *v, const struct gql_value *value, const struct gql_type_ref *wanted,
                               bool has_default)
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
    if (index < 64) v->used_variables |= 1ull << index;
    struct gql_type_ref given = variable->type, relaxed = *wanted;
    bool default_is_value = variable->has_default && variable->def.kind != GQL_VALUE_NULL;
    if (default_is_value || has_default) relaxed.non_null = false;
    if (types_fit(&given, &relaxed)) return;
    gql_problem_add(v->problems, value->at, code, NULL,
                    "Variable \"$%.*s\" of type \"%s\" used in position expecting type \"%s\".", STR_ARG(value->text),
                    gql_type_ref_text(&given, v->problems->arena), gql_type_ref_text(wanted, v->problems->arena));
}

static bool leaf_accepts(const struct gql_type *type, const struct gql_value *value)
{
    if (type->kind == GQL_ENUM) return value->kind == GQL_VALUE_ENUM && gql_type_has_name(type, value->text);
    if (str_eq(type->name, STR("Int"))) {
        int64_t number;
        return value->kind == GQL_VALUE_INT &&
               parse_i64(value->text, INT32_MIN, INT32_MAX, &number, NULL) == ERROR_NONE;
    }
    if (str_eq(type->name, STR("Float"))) return value->kind == GQL_VALUE_INT || value->kind == GQL_VALUE_FLOAT;
    if (str_eq(type->name, STR("Boolean"))) return value->kind == GQL_VALUE_BOOLEAN;
    if (str_eq(type->name, STR("String"))) return value->kind == GQL_VALUE_STRING;
    if (str_eq(type->name, STR("ID"))) return value->kind == GQL_VALUE_STRING || value->kind == GQL_VALUE_INT;
    return true; // scalars of the schema take any value
}

static void check_value(struct validator *v, const struct gql_value *value, const struct gql_type_ref *wanted,
                        bool has_default);

static void check_input_object(struct validator *v, const struct gql_value *value, const struct gql_type *type)
{
    for (const struct gql_argument *field = value->fields; field; field = field->next) {
        const struct gql_input_def *input = gql_input_find(type->inputs, field->name);
        if (!input) {
            gql_problem_add(v->problems, field->at, code, NULL, "Field \"%.*s\" is not defined by type \"%.*s\".",
                            STR_ARG(field->name), STR_ARG(type->name));
            continue;
        }
        check_value(v, &field->value, &input->type, input->has_default);
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

static void check_value(struct validator *v, const struct gql_value *value, const struct gql_type_ref *wanted,
                        bool has_default)
{
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
            check_value(v, value, wanted->item, false);
            return;
        }
        for (const struct gql_value *item = value->items; item; item = item->next)
            check_value(v, item, wanted->item, false);
        return;
    }
    const struct gql_type *type = gql_schema_type(v->schema, wanted->name);
    if (type->kind == GQL_INPUT && value->kind == GQL_VALUE_OBJECT) {
        check_input_object(v, value, type);
        return;
    }
    if (type->kind != GQL_INPUT && leaf_accepts(type, value)) return;
    gql_problem_add(v->problems, value->at, code, NULL, "Expected value of type \"%s\", found %.*s.",
                    gql_type_ref_text(wanted, v->problems->arena), STR_ARG(str_first(value->text, 80)));
}

static void check_arguments(struct validator *v, const struct gql_argument *given, const struct gql_input_def *defined,
                            struct gql_location at, const char *where, struct str what)
{
    for (const struct gql_argument *argument = given; argument; argument = argument->next) {
        const struct gql_input_def *input = gql_input_find(defined, argument->name);
        if (!input)
            gql_problem_add(v->problems, argument->at, code, NULL, "Unknown argument \"%.*s\" on %s.",
                            STR_ARG(argument->name), where);
        else
            check_value(v, &argument->value, &input->type, input->has_default);
        for (const struct gql_argument *other = given; other != argument; other = other->next)
            if (str_eq(other->name, argument->name))
                gql_problem_add(v->problems, argument->at, code, NULL, "There can be only one argument named \"%.*s\".",
                                STR_ARG(argument->name));
    }
    for (const struct gql_input_def *input = defined; input; input = input->next) {
        if (!input->type.non_null || input->has_default) continue;
        const struct gql_argument *argument = given;
        while (argument && !str_eq(argument->name, input->name))
            argument = argument->next;
        if (!argument)
            gql_problem_add(v->problems, at, code, NULL,
                            "Field \"%.*s\" argument \"%.*s\" of type \"%s\" is required, but it was not provided.",
                            STR_ARG(what), STR_ARG(input->name), gql_type_ref_text(&input->type, v->problems->arena));
    }
}

static void check_directives(struct validator *v, const struct gql_directive *first)
{
    static const struct gql_input_def condition = {.name = {"if", 2},
                                                   .type = {.name = {"Boolean", 7}, .non_null = true}};
    for (const struct gql_directive *directive = first; directive; directive = directive->next) {
        if (!str_eq(directive->name, STR("skip")) && !str_eq(directive->name, STR("include"))) {
            gql_problem_add(v->problems, directive->at, code, NULL, "Unknown directive \"@%.*s\".",
                            STR_ARG(directive->name));
            continue;
        }
        const char *where = arena_printf(v->problems->arena, "directive \"@%.*s\"", STR_ARG(directive->name));
        check_arguments(v, directive->arguments, &condition, directive->at, where, directive->name);
    }
}

// ---- selections ----------------------------------------------------------------------------------------------------

static void check_field(struct validator *v, const struct gql_type *type, const struct gql_selection *field)
{
    if (str_eq(field->name, STR("__typename"))) {
        if (field->selections)
            gql_problem_add(v->problems, field->at, code, NULL,
                            "Field \"__typename\" must not have a selection since type \"String!\" has no subfields.");
        return;
    }
    const struct gql_field_def *def = type->kind == GQL_UNION ? NULL : gql_type_field(type, field->name);
    if (!def) {
        gql_problem_add(v->problems, field->at, code, NULL, "Cannot query field \"%.*s\" on type \"%.*s\".",
                        STR_ARG(field->name), STR_ARG(type->name));
        return;
    }
    const char *where =
        arena_printf(v->problems->arena, "field \"%.*s.%.*s\"", STR_ARG(type->name), STR_ARG(field->name));
    check_arguments(v, field->arguments, def->arguments, field->at, where, field->name);
    const struct gql_type *inner = gql_schema_type(v->schema, gql_type_ref_name(&def->type));
    const char *text = gql_type_ref_text(&def->type, v->problems->arena);
    if (gql_type_is_leaf(inner)) {
        if (field->selections)
            gql_problem_add(v->problems, field->at, code, NULL,
                            "Field \"%.*s\" must not have a selection since type \"%s\" has no subfields.",
                            STR_ARG(field->name), text);
    } else if (!field->selections) {
        gql_problem_add(
            v->problems, field->at, code, NULL,
            "Field \"%.*s\" of type \"%s\" must have a selection of subfields. Did you mean \"%.*s { ... }\"?",
            STR_ARG(field->name), text, STR_ARG(field->name));
    } else {
        check_selections(v, inner, field->selections);
    }
}

static bool can_meet(const struct gql_schema *schema, const struct gql_type *a, const struct gql_type *b)
{
    if (gql_type_covers(a, b) || gql_type_covers(b, a)) return true;
    const struct gql_type *abstract = a->kind == GQL_OBJECT ? b : a;
    const struct gql_type *other = abstract == a ? b : a;
    if (abstract->kind != GQL_UNION) return other->kind == GQL_INTERFACE;
    for (const struct gql_name *name = abstract->names; name; name = name->next)
        if (gql_type_covers(other, gql_schema_type(schema, name->name))) return true;
    return false;
}

// The type that a fragment's condition names, if it can stand here.
static const struct gql_type *condition_type(struct validator *v, const struct gql_type *type, struct str condition,
                                             struct gql_location at)
{
    if (condition.len == 0) return type;
    const struct gql_type *wanted = gql_schema_type(v->schema, condition);
    if (!wanted)
        gql_problem_add(v->problems, at, code, NULL, "Unknown type \"%.*s\".", STR_ARG(condition));
    else if (!gql_type_is_composite(wanted))
        gql_problem_add(v->problems, at, code, NULL, "Fragment cannot condition on non composite type \"%.*s\".",
                        STR_ARG(condition));
    else if (!can_meet(v->schema, type, wanted))
        gql_problem_add(v->problems, at, code, NULL,
                        "Fragment cannot be spread here as objects of type \"%.*s\" can never be of type \"%.*s\".",
                        STR_ARG(type->name), STR_ARG(condition));
    else
        return wanted;
    return NULL;
}

static void check_spread(struct validator *v, const struct gql_type *type, const struct gql_selection *spread)
{
    const struct gql_fragment *fragment = gql_document_fragment(v->document, spread->name);
    if (!fragment) {
        gql_problem_add(v->problems, spread->at, code, NULL, "Unknown fragment \"%.*s\".", STR_ARG(spread->name));
        return;
    }
    for (size_t i = 0; i < v->spread_count; i++) {
        if (v->spreads[i] != fragment) continue;
        gql_problem_add(v->problems, spread->at, code, NULL, "Cannot spread fragment \"%.*s\" within itself.",
                        STR_ARG(spread->name));
        return;
    }
    // Spreading counts as nesting, so that fragments cannot pass the limit on depth.
    if (v->spread_count == SPREADS_MAX || v->spread_count >= v->limits->depth_max) {
        gql_problem_add(v->problems, spread->at, code, NULL, "Fragments are nested deeper than %u.",
                        v->limits->depth_max);
        return;
    }
    const struct gql_type *inner = condition_type(v, type, fragment->type, spread->at);
    if (!inner) return;
    v->spreads[v->spread_count++] = fragment;
    check_selections(v, inner, fragment->selections);
    v->spread_count--;
}

// The same response key must mean the same field.
static void check_conflicts(struct validator *v, const struct gql_selection *first)
{
    for (const struct gql_selection *a = first; a; a = a->next) {
        if (a->kind != GQL_FIELD) continue;
        for (const struct gql_selection *b = first; b != a; b = b->next) {
            if (b->kind != GQL_FIELD || !str_eq(a->alias, b->alias) || str_eq(a->name, b->name)) continue;
            gql_problem_add(
                v->problems, a->at, code, NULL,
                "Fields \"%.*s\" conflict because \"%.*s\" and \"%.*s\" are different fields. Use different "
                "aliases on the fields to fetch both if this was intentional.",
                STR_ARG(a->alias), STR_ARG(b->name), STR_ARG(a->name));
        }
    }
}

static void check_selections(struct validator *v, const struct gql_type *type, const struct gql_selection *first)
{
    check_conflicts(v, first);
    for (const struct gql_selection *selection = first; selection; selection = selection->next) {
        if (v->problems->count == GQL_PROBLEMS_MAX) return;
        if (++v->visits > VISITS_MAX) {
            if (v->visits == VISITS_MAX + 1)
                gql_problem_add(v->problems, selection->at, code, NULL,
                                "The fragments multiply to more than %d selections.", VISITS_MAX);
            return;
        }
        check_directives(v, selection->directives);
        switch (selection->kind) {
        case GQL_FIELD: check_field(v, type, selection); break;
        case GQL_FRAGMENT_SPREAD: check_spread(v, type, selection); break;
        case GQL_INLINE_FRAGMENT: {
            const struct gql_type *inner = condition_type(v, type, selection->type, selection->at);
            if (inner) check_selections(v, inner, selection->selections);
            break;
        }
        }
    }
}

// ---- definitions ---------------------------------------------------------------------------------------------------

static void check_variables(struct validator *v, const struct gql_operation *operation)
{
    for (const struct gql_variable *variable = operation->variables; variable; variable = variable->next) {
        struct str name = gql_type_ref_name(&variable->type);
        const struct gql_type *type = gql_schema_type(v->schema, name);
        if (!type)
            gql_problem_add(v->problems, variable->at, code, NULL, "Unknown type \"%.*s\".", STR_ARG(name));
        else if (!gql_type_is_input(type))
            gql_problem_add(v->problems, variable->at, code, NULL,
                            "Variable \"$%.*s\" cannot be non-input type \"%s\".", STR_ARG(variable->name),
                            gql_type_ref_text(&variable->type, v->problems->arena));
        else if (variable->has_default)
            check_value(v, &variable->def, &variable->type, false);
        for (const struct gql_variable *other = operation->variables; other != variable; other = other->next)
            if (str_eq(other->name, variable->name))
                gql_problem_add(v->problems, variable->at, code, NULL,
                                "There can be only one variable named \"$%.*s\".", STR_ARG(variable->name));
    }
}

static void check_operation(struct validator *v, const struct gql_operation *operation)
{
    const struct gql_type *root = gql_schema_root(v->schema, operation->kind);
    if (!root) {
        gql_problem_add(v->problems, operation->at, code, NULL, "Schema is not configured to execute %s operations.",
                        operation->kind == GQL_SUBSCRIPTION ? "subscription" : "such");
        return;
    }
    v->operation = operation;
    v->used_variables = 0;
    check_variables(v, operation);
    check_directives(v, operation->directives);
    unsigned roots = 0;
    for (const struct gql_selection *selection = operation->selections; selection; selection = selection->next)
        roots++;
    if (roots > v->limits->root_fields_max)
        gql_problem_add(v->problems, operation->at, code, NULL, "The operation has more than %u root fields.",
                        v->limits->root_fields_max);
    else
        check_selections(v, root, operation->selections);
    unsigned index = 0;
    for (const struct gql_variable *variable = operation->variables; variable && index < 64;
         variable = variable->next, index++)
        if (!(v->used_variables & 1ull << index) && v->problems->count == 0)
            gql_problem_add(v->problems, variable->at, code, NULL, "Variable \"$%.*s\" is never used%s%.*s%s.",
                            STR_ARG(variable->name), operation->name.len ? " in operation \"" : "",
                            STR_ARG(operation->name), operation->name.len ? "\"" : "");
}

static void check_names(struct validator *v)
{
    for (const struct gql_operation *a = v->document->operations; a; a = a->next) {
        if (a->name.len == 0 && v->document->operations->next)
            gql_problem_add(v->problems, a->at, code, NULL,
                            "This anonymous operation must be the only defined operation.");
        for (const struct gql_operation *b = v->document->operations; b != a; b = b->next)
            if (a->name.len && str_eq(a->name, b->name))
                gql_problem_add(v->problems, a->at, code, NULL, "There can be only one operation named \"%.*s\".",
                                STR_ARG(a->name));
    }
    for (const struct gql_fragment *a = v->document->fragments; a; a = a->next)
        for (const struct gql_fragment *b = v->document->fragments; b != a; b = b->next)
            if (str_eq(a->name, b->name))
                gql_problem_add(v->problems, a->at, code, NULL, "There can be only one fragment named \"%.*s\".",
                                STR_ARG(a->name));
}

void gql_validate(const struct gql_schema *schema, const struct gql_document *document, const struct gql_limits *limits,
                  struct gql_problems *problems)
{
    struct validator v = {.schema = schema, .document = document, .limits = limits, .problems = problems};
    if (!document->operations) {
        gql_problem_add(problems, (struct gql_location){0}, code, NULL, "The document has no operation.");
        return;
    }
    check_names(&v);
    for (const struct gql_operation *operation = document->operations; operation; operation = operation->next)
        check_operation(&v, operation);
}
