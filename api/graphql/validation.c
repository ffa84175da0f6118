#include "api/graphql/validation.h"

#include "api/graphql/conflicts.h"
#include "api/graphql/validator.h"

enum { INTROSPECTION_LISTS_MAX = 3, INTROSPECTION_DEPTH_MAX = 24 };
static const char code[] = "GRAPHQL_VALIDATION_FAILED";

static void check_selections(struct gql_validator *v, const struct gql_type *type, const struct gql_selection *first);

// ---- directives -----------------------------------------------------------------------------------------------------

// place: the directive location (specification section 3.13), "FIELD" for example.
static void check_directives(struct gql_validator *v, const struct gql_directive *first, const char *place)
{
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
        gql_check_arguments(v, directive->arguments, gql_condition_argument(), directive->at,
                            arena_printf(arena, "directive \"@%.*s\"", STR_ARG(name)),
                            arena_printf(arena, "Directive \"@%.*s\"", STR_ARG(name)));
    }
}

// ---- selections ----------------------------------------------------------------------------------------------------

// Lists of types in lists of types multiply; graphql-js refuses the third one, too. False: refused.
static bool enter_introspection(struct gql_validator *v, const struct gql_type *type, const struct gql_selection *field)
{
    static const char *const lists[] = {"fields", "interfaces", "possibleTypes", "inputFields"};
    if (v->introspection == 0 && v->limits->introspection_refused) {
        gql_problem_add(v->problems, field->at, code, NULL,
                        "Introspection is switched off (graphql.introspection); the schema is at "
                        "/2.0/api/graphql/schema.graphql.");
        return false;
    }
    v->introspection++;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && str_eq(type->name, STR("__Type")); i++)
        if (str_eq(field->name, str_c(lists[i]))) v->introspection_lists++;
    if (v->introspection_lists < INTROSPECTION_LISTS_MAX) return true;
    gql_problem_add(v->problems, field->at, code, NULL, "Maximum introspection depth exceeded");
    return false;
}

static void check_inner_selections(struct gql_validator *v, const struct gql_type *type, const struct gql_type *inner,
                                   const struct gql_selection *field)
{
    unsigned introspection = v->introspection, lists = v->introspection_lists;
    bool is_meta = str_starts(inner->name, STR("__"));
    v->field_depth++;
    if (!is_meta || enter_introspection(v, type, field)) check_selections(v, inner, field->selections);
    v->field_depth--;
    v->introspection = introspection;
    v->introspection_lists = lists;
}

static void check_field(struct gql_validator *v, const struct gql_type *type, const struct gql_selection *field)
{
    if (v->field_depth == 0 && ++v->root_fields == v->limits->root_fields_max + 1)
        gql_problem_add(v->problems, field->at, code, NULL, "The operation has more than %u root fields.",
                        v->limits->root_fields_max);
    if (str_eq(field->name, STR("__typename"))) {
        gql_check_arguments(v, field->arguments, NULL, field->at, "field \"__typename\"", "");
        if (field->selections)
            gql_problem_add(v->problems, field->at, code, NULL,
                            "Field \"__typename\" must not have a selection since type \"String!\" has no subfields.");
        return;
    }
    const struct gql_field_def *def = gql_schema_field(v->schema, type, field->name);
    if (!def) {
        gql_problem_add(v->problems, field->at, code, NULL, "Cannot query field \"%.*s\" on type \"%.*s\".",
                        STR_ARG(field->name), STR_ARG(type->name));
        return;
    }
    struct arena *arena = v->problems->arena;
    gql_check_arguments(v, field->arguments, def->arguments, field->at,
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
        check_inner_selections(v, type, inner, field);
    }
}

// The type that a fragment's condition names, if it can stand here. fragment: `"name" ` or nothing,
// for messages.
static const struct gql_type *condition_type(struct gql_validator *v, const struct gql_type *type, struct str condition,
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
static void report_cycle(struct gql_validator *v, const struct gql_selection *spread, size_t first)
{
    const char *via = "";
    for (size_t i = first + 1; i < v->spread_count; i++)
        via = arena_printf(v->problems->arena, "%s%s\"%.*s\"", via, *via ? ", " : " via ",
                           STR_ARG(str_first(v->spreads[i]->name, 100)));
    gql_problem_add(v->problems, spread->at, code, NULL, "Cannot spread fragment \"%.*s\" within itself%s.",
                    STR_ARG(spread->name), via);
}

static void check_spread(struct gql_validator *v, const struct gql_type *type, const struct gql_selection *spread)
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
    if (!inner || v->spread_count == GQL_SPREADS_MAX) return;
    check_directives(v, fragment->directives, "FRAGMENT_DEFINITION");
    v->spreads[v->spread_count++] = fragment;
    check_selections(v, inner, fragment->selections);
    v->spread_count--;
}

static void check_selections(struct gql_validator *v, const struct gql_type *type, const struct gql_selection *first)
{
    // Spreading counts as nesting, so that fragments cannot pass the limit on depth.
    // What introspection needs is deeper than queries for data are.
    unsigned depth_max = v->limits->depth_max;
    if (v->introspection && depth_max < INTROSPECTION_DEPTH_MAX) depth_max = INTROSPECTION_DEPTH_MAX;
    if (v->depth >= depth_max) {
        gql_problem_add(v->problems, first->at, code, NULL, "The document is nested deeper than %u with its fragments.",
                        depth_max);
        return;
    }
    v->depth++;
    for (const struct gql_selection *selection = first; selection; selection = selection->next) {
        if (!gql_may_visit(v, selection->at)) break;
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

static void check_variables(struct gql_validator *v, const struct gql_operation *operation)
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
            gql_check_value(v, &variable->def, &variable->type, false);
        check_directives(v, variable->directives, "VARIABLE_DEFINITION");
        for (const struct gql_variable *other = operation->variables; other != variable; other = other->next)
            if (str_eq(other->name, variable->name))
                gql_problem_add(v->problems, variable->at, code, NULL,
                                "There can be only one variable named \"$%.*s\".", STR_ARG(variable->name));
    }
}

static void check_operation(struct gql_validator *v, const struct gql_operation *operation)
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

static void check_names(struct gql_validator *v)
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
    struct gql_validator v = {.schema = schema, .document = document, .limits = limits, .problems = problems};
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
