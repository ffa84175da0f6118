#include "api/graphql/validation.h"

#include <stdint.h>

#include "api/graphql/conflicts.h"
#include "base/parse.h"

enum { SPREADS_MAX = 64, VISITS_MAX = 20000, SHOWN_BYTES_MAX = 200 };
static const char code[] = "GRAPHQL_VALIDATION_FAILED";

struct validator {
    const struct gql_schema *schema;
    const struct gql_document *document;
    const struct gql_limits *limits;
    struct gql_problems *problems;
    const struct gql_operation *operation;           // whose variables are in scope
    bool *used_variables;                            // by their position in the operation
    bool *used_fragments;                            // by their position in the document
    const struct gql_fragment *spreads[SPREADS_MAX]; // the way from the operation to here
    size_t spread_count;
    unsigned depth, field_depth; // of selections to here, fragments included; of fields alone
    unsigned root_fields;
    size_t visits; // selections and values looked at: spreading fragments in fragments multiplies them
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

// wanted NULL: inside a scalar that takes anything.
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
static const char *shown(struct validator *v, const struct gql_value *value)
{
    struct strbuf text;
    strbuf_init(&text, SHOWN_BYTES_MAX);
    show(value, &text);
    const char *out = text.overflow ? "a long value" : arena_cstr(v->problems->arena, strbuf_str(&text));
    strbuf_finish(&text);
    return out;
}

// What is wrong with a literal of a leaf type, or NULL.
static const char *leaf_fault(struct validator *v, const struct gql_type *type, const struct gql_value *value)
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
static void check_free_value(struct validator *v, const struct gql_value *value)
{
    if (value->kind == GQL_VALUE_VARIABLE) check_variable_use(v, value, NULL, false);
    for (const struct gql_value *item = value->items; item; item = item->next)
        check_free_value(v, item);
    for (const struct gql_argument *field = value->fields; field; field = field->next)
        check_free_value(v, &field->value);
}

// One more selection or value to look at, unless there were too many.
static bool may_visit(struct validator *v, struct gql_location at)
{
    if (gql_problems_full(v->problems)) return false;
    if (++v->visits <= VISITS_MAX) return true;
    if (v->visits == VISITS_MAX + 1)
        gql_problem_add(v->problems, at, code, NULL, "The fragments multiply to more than %d selections.", VISITS_MAX);
    return false;
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
        for (const struct gql_argument *other = value->fields; other != field; other = other->next)
            if (str_eq(other->name, field->name))
                gql_problem_add(v->problems, field->at, code, NULL, "There can be only one input field named \"%.*s\".",
                                STR_ARG(field->name));
        if (gql_problems_full(v->problems)) return;
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
    if (!may_visit(v, value->at)) return;
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

static void check_arguments(struct validator *v, const struct gql_argument *given, const struct gql_input_def *defined,
                            struct gql_location at, const char *where, const char *what)
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

// place: the directive location (specification section 3.13), "FIELD" for example.
static void check_directives(struct validator *v, const struct gql_directive *first, const char *place)
{
    static const struct gql_input_def condition = {.name = {"if", 2},
                                                   .type = {.name = {"Boolean", 7}, .non_null = true}};
    bool selects =
        strcmp(place, "FIELD") == 0 || strcmp(place, "FRAGMENT_SPREAD") == 0 || strcmp(place, "INLINE_FRAGMENT") == 0;
    struct arena *arena = v->problems->arena;
    for (const struct gql_directive *directive = first; directive; directive = directive->next) {
        struct str name = directive->name;
        if (!str_eq(name, STR("skip")) && !str_eq(name, STR("include"))) {
            gql_problem_add(v->problems, directive->at, code, NULL, "Unknown directive \"@%.*s\".", STR_ARG(name));
            continue;
        }
        if (!selects)
            gql_problem_add(v->problems, directive->at, code, NULL, "Directive \"@%.*s\" may not be used on %s.",
                            STR_ARG(name), place);
        for (const struct gql_directive *other = first; other != directive; other = other->next)
            if (str_eq(other->name, name))
                gql_problem_add(v->problems, directive->at, code, NULL,
                                "The directive \"@%.*s\" can only be used once at this location.", STR_ARG(name));
        check_arguments(v, directive->arguments, &condition, directive->at,
                        arena_printf(arena, "directive \"@%.*s\"", STR_ARG(name)),
                        arena_printf(arena, "Directive \"@%.*s\"", STR_ARG(name)));
    }
}

// ---- selections ----------------------------------------------------------------------------------------------------

static void check_field(struct validator *v, const struct gql_type *type, const struct gql_selection *field)
{
    if (v->field_depth == 0 && ++v->root_fields == v->limits->root_fields_max + 1)
        gql_problem_add(v->problems, field->at, code, NULL, "The operation has more than %u root fields.",
                        v->limits->root_fields_max);
    if (str_eq(field->name, STR("__typename"))) {
        check_arguments(v, field->arguments, NULL, field->at, "field \"__typename\"", "");
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
    struct arena *arena = v->problems->arena;
    check_arguments(v, field->arguments, def->arguments, field->at,
                    arena_printf(arena, "field \"%.*s.%.*s\"", STR_ARG(type->name), STR_ARG(field->name)),
                    arena_printf(arena, "Field \"%.*s\"", STR_ARG(field->name)));
    const struct gql_type *inner = gql_schema_type(v->schema, gql_type_ref_name(&def->type));
    const char *text = gql_type_ref_text(&def->type, arena);
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
        v->field_depth++;
        check_selections(v, inner, field->selections);
        v->field_depth--;
    }
}

// The type that a fragment's condition names, if it can stand here. fragment: `"name" ` or nothing, for messages.
static const struct gql_type *condition_type(struct validator *v, const struct gql_type *type, struct str condition,
                                             struct gql_location at, const char *fragment)
{
    if (condition.len == 0) return type;
    const struct gql_type *wanted = gql_schema_type(v->schema, condition);
    if (!wanted)
        gql_problem_add(v->problems, at, code, NULL, "Unknown type \"%.*s\".", STR_ARG(condition));
    else if (!gql_type_is_composite(wanted))
        gql_problem_add(v->problems, at, code, NULL, "Fragment %scannot condition on non composite type \"%.*s\".",
                        fragment, STR_ARG(condition));
    else if (!gql_schema_types_meet(v->schema, type, wanted))
        gql_problem_add(v->problems, at, code, NULL,
                        "Fragment %scannot be spread here as objects of type \"%.*s\" can never be of type \"%.*s\".",
                        fragment, STR_ARG(type->name), STR_ARG(condition));
    else
        return wanted;
    return NULL;
}

// Spread number `first` on the way to here is the same fragment.
static void report_cycle(struct validator *v, const struct gql_selection *spread, size_t first)
{
    const char *via = "";
    for (size_t i = first + 1; i < v->spread_count; i++)
        via = arena_printf(v->problems->arena, "%s%s\"%.*s\"", via, *via ? ", " : " via ",
                           STR_ARG(str_first(v->spreads[i]->name, 100)));
    gql_problem_add(v->problems, spread->at, code, NULL, "Cannot spread fragment \"%.*s\" within itself%s.",
                    STR_ARG(spread->name), via);
}

static void check_spread(struct validator *v, const struct gql_type *type, const struct gql_selection *spread)
{
    const struct gql_fragment *fragment = spread->fragment;
    if (!fragment) {
        gql_problem_add(v->problems, spread->at, code, NULL, "Unknown fragment \"%.*s\".", STR_ARG(spread->name));
        return;
    }
    v->used_fragments[fragment->index] = true;
    for (size_t i = 0; i < v->spread_count; i++) {
        if (v->spreads[i] != fragment) continue;
        report_cycle(v, spread, i);
        return;
    }
    const char *name = arena_printf(v->problems->arena, "\"%.*s\" ", STR_ARG(str_first(fragment->name, 100)));
    const struct gql_type *inner = condition_type(v, type, fragment->type, spread->at, name);
    if (!inner || v->spread_count == SPREADS_MAX) return;
    check_directives(v, fragment->directives, "FRAGMENT_DEFINITION");
    v->spreads[v->spread_count++] = fragment;
    check_selections(v, inner, fragment->selections);
    v->spread_count--;
}

static void check_selections(struct validator *v, const struct gql_type *type, const struct gql_selection *first)
{
    // Spreading counts as nesting, so that fragments cannot pass the limit on depth.
    if (v->depth >= v->limits->depth_max) {
        gql_problem_add(v->problems, first->at, code, NULL, "The document is nested deeper than %u with its fragments.",
                        v->limits->depth_max);
        return;
    }
    v->depth++;
    for (const struct gql_selection *selection = first; selection; selection = selection->next) {
        if (!may_visit(v, selection->at)) break;
        switch (selection->kind) {
        case GQL_FIELD:
            check_directives(v, selection->directives, "FIELD");
            check_field(v, type, selection);
            break;
        case GQL_FRAGMENT_SPREAD:
            check_directives(v, selection->directives, "FRAGMENT_SPREAD");
            check_spread(v, type, selection);
            break;
        case GQL_INLINE_FRAGMENT: {
            check_directives(v, selection->directives, "INLINE_FRAGMENT");
            const struct gql_type *inner = condition_type(v, type, selection->type, selection->at, "");
            if (inner) check_selections(v, inner, selection->selections);
            break;
        }
        }
    }
    v->depth--;
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
        check_directives(v, variable->directives, "VARIABLE_DEFINITION");
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
    static const char *const places[] = {"QUERY", "MUTATION", "SUBSCRIPTION"};
    size_t before = v->problems->count, count = 0;
    for (const struct gql_variable *variable = operation->variables; variable; variable = variable->next)
        count++;
    v->operation = operation;
    v->used_variables = arena_array(v->problems->arena, count, sizeof *v->used_variables);
    v->root_fields = 0;
    check_variables(v, operation);
    check_directives(v, operation->directives, places[operation->kind]);
    check_selections(v, root, operation->selections);
    if (v->problems->count != before) return; // what was not looked at is not unused
    const bool *used = v->used_variables;
    for (const struct gql_variable *variable = operation->variables; variable; variable = variable->next, used++)
        if (!*used)
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
    v.used_fragments = arena_array(problems->arena, document->fragment_count, sizeof *v.used_fragments);
    check_names(&v);
    for (const struct gql_operation *operation = document->operations; operation; operation = operation->next)
        check_operation(&v, operation);
    if (problems->count) return;
    for (const struct gql_fragment *fragment = document->fragments; fragment; fragment = fragment->next)
        if (!v.used_fragments[fragment->index])
            gql_problem_add(problems, fragment->at, code, NULL, "Fragment \"%.*s\" is never used.",
                            STR_ARG(fragment->name));
    for (const struct gql_operation *operation = document->operations; operation && problems->count == 0;
         operation = operation->next)
        gql_check_conflicts(schema, operation, problems);
}
