#include "api/graphql/schema.h"

#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS = 512, TOKENS_MAX = 200000, SDL_ARENA_BYTES_MAX = 16 * 1024 * 1024 };

struct gql_schema {
    struct arena *arena;
    struct gql_type *slots[SLOTS];
    struct gql_type *first, **end;
};

// Specification section 4.2. The root fields are __schema and __type.
static const char introspection_sdl[] =
    "type __Schema { description: String types: [__Type!]! queryType: __Type! mutationType: __Type"
    " subscriptionType: __Type directives: [__Directive!]! }"
    "type __Type { kind: __TypeKind! name: String description: String specifiedByURL: String"
    " fields(includeDeprecated: Boolean = false): [__Field!] interfaces: [__Type!] possibleTypes: [__Type!]"
    " enumValues(includeDeprecated: Boolean = false): [__EnumValue!]"
    " inputFields(includeDeprecated: Boolean = false): [__InputValue!] ofType: __Type isOneOf: Boolean }"
    "type __Field { name: String! description: String args(includeDeprecated: Boolean = false): [__InputValue!]!"
    " type: __Type! isDeprecated: Boolean! deprecationReason: String }"
    "type __InputValue { name: String! description: String type: __Type! defaultValue: String"
    " isDeprecated: Boolean! deprecationReason: String }"
    "type __EnumValue { name: String! description: String isDeprecated: Boolean! deprecationReason: String }"
    "type __Directive { name: String! description: String isRepeatable: Boolean!"
    " locations: [__DirectiveLocation!]! args(includeDeprecated: Boolean = false): [__InputValue!]! }"
    "enum __TypeKind { SCALAR OBJECT INTERFACE UNION ENUM INPUT_OBJECT LIST NON_NULL }"
    "enum __DirectiveLocation { QUERY MUTATION SUBSCRIPTION FIELD FRAGMENT_DEFINITION FRAGMENT_SPREAD"
    " INLINE_FRAGMENT VARIABLE_DEFINITION SCHEMA SCALAR OBJECT FIELD_DEFINITION ARGUMENT_DEFINITION INTERFACE"
    " UNION ENUM ENUM_VALUE INPUT_OBJECT INPUT_FIELD_DEFINITION }";

struct reader {
    struct gql_lexer lexer;
    struct gql_schema *schema;
    struct error *err;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum error_code try_code = (call);                                                                             \
        if (try_code != ERROR_NONE) return try_code;                                                                   \
    } while (0)

static struct gql_type **slot_of(const struct gql_schema *schema, struct str name)
{
    return (struct gql_type **)&schema->slots[hash_end(hash_text(HASH_BEGIN, name)) % SLOTS];
}

const struct gql_type *gql_schema_type(const struct gql_schema *schema, struct str name)
{
    for (const struct gql_type *type = *slot_of(schema, name); type; type = type->next_in_slot)
        if (str_eq(type->name, name)) return type;
    return NULL;
}

static struct gql_type *add_type(struct gql_schema *schema, enum gql_type_kind kind, struct str name)
{
    struct gql_type *type = arena_alloc(schema->arena, sizeof *type);
    struct gql_type **slot = slot_of(schema, name);
    *type = (struct gql_type){.kind = kind, .name = arena_str(schema->arena, name), .next_in_slot = *slot};
    *slot = type;
    *schema->end = type;
    schema->end = &type->next;
    return type;
}

// ---- reading -------------------------------------------------------------------------------------------------------

static bool at(const struct reader *r, const char *text)
{
    return r->lexer.token.kind <= GQL_TOKEN_NAME && r->lexer.token.kind != GQL_TOKEN_END &&
           str_eq(r->lexer.token.text, str_c(text));
}

static enum error_code next(struct reader *r)
{
    return gql_lexer_next(&r->lexer, r->err);
}

static enum error_code expect(struct reader *r, const char *text)
{
    if (at(r, text)) return next(r);
    return error_set(r->err, ERROR_INVALID, "schema line %u: expected \"%s\", found \"%.*s\"", r->lexer.token.at.line,
                     text, STR_ARG(r->lexer.token.text));
}

static enum error_code read_name(struct reader *r, struct str *out)
{
    if (r->lexer.token.kind != GQL_TOKEN_NAME)
        return error_set(r->err, ERROR_INVALID, "schema line %u: expected a name, found \"%.*s\"",
                         r->lexer.token.at.line, STR_ARG(r->lexer.token.text));
    *out = arena_str(r->schema->arena, r->lexer.token.text);
    return next(r);
}

static enum error_code read_description(struct reader *r, struct str *out)
{
    const struct gql_token *token = &r->lexer.token;
    if (token->kind != GQL_TOKEN_STRING && token->kind != GQL_TOKEN_BLOCK_STRING) return ERROR_NONE;
    TRY(gql_token_string(token, r->schema->arena, out, r->err));
    return next(r);
}

// The argument of a directive: (name: "text").
static enum error_code read_directive_text(struct reader *r, const char *argument, struct str *out)
{
    TRY(expect(r, "("));
    TRY(expect(r, argument));
    TRY(expect(r, ":"));
    if (r->lexer.token.kind != GQL_TOKEN_STRING) return expect(r, "a string");
    TRY(gql_token_string(&r->lexer.token, r->schema->arena, out, r->err));
    TRY(next(r));
    return expect(r, ")");
}

static enum error_code read_deprecation(struct reader *r, struct gql_notes *out)
{
    if (!at(r, "@")) return ERROR_NONE;
    TRY(next(r));
    TRY(expect(r, "deprecated"));
    out->deprecated = true;
    out->reason = STR("No longer supported");
    return at(r, "(") ? read_directive_text(r, "reason", &out->reason) : ERROR_NONE;
}

static enum error_code read_specified_by(struct reader *r, struct gql_type *type)
{
    if (!at(r, "@")) return ERROR_NONE;
    TRY(next(r));
    TRY(expect(r, "specifiedBy"));
    return read_directive_text(r, "url", &type->specified_by);
}

// Defaults are plain: a boolean, an enum value, a number, a string, or null.
static enum error_code read_default(struct reader *r, struct gql_input_def *out)
{
    if (!at(r, "=")) return ERROR_NONE;
    TRY(next(r));
    const struct gql_token *token = &r->lexer.token;
    static const enum gql_value_kind kinds[] = {
        [GQL_TOKEN_NAME] = GQL_VALUE_ENUM,
        [GQL_TOKEN_INT] = GQL_VALUE_INT,
        [GQL_TOKEN_FLOAT] = GQL_VALUE_FLOAT,
        [GQL_TOKEN_STRING] = GQL_VALUE_STRING,
    };
    if (token->kind < GQL_TOKEN_NAME || token->kind > GQL_TOKEN_STRING) return expect(r, "a plain default value");
    out->has_default = true;
    out->def.kind = kinds[token->kind];
    out->def.text = arena_str(r->schema->arena, token->text);
    if (at(r, "true") || at(r, "false")) {
        out->def.kind = GQL_VALUE_BOOLEAN;
        out->def.boolean = at(r, "true");
    } else if (at(r, "null")) {
        out->def.kind = GQL_VALUE_NULL;
    }
    return next(r);
}

static enum error_code read_type(struct reader *r, struct gql_type_ref *out)
{
    TRY(gql_parse_type(&r->lexer, r->schema->arena, 0, out, r->err));
    return ERROR_NONE;
}

static enum error_code read_inputs(struct reader *r, const char *close, struct gql_input_def **out)
{
    TRY(next(r));
    while (!at(r, close)) {
        struct gql_input_def *input = arena_alloc(r->schema->arena, sizeof *input);
        TRY(read_description(r, &input->notes.description));
        TRY(read_name(r, &input->name));
        TRY(expect(r, ":"));
        TRY(read_type(r, &input->type));
        TRY(read_default(r, input));
        TRY(read_deprecation(r, &input->notes));
        *out = input;
        out = &input->next;
    }
    return next(r);
}

static enum error_code read_fields(struct reader *r, struct gql_field_def **out)
{
    TRY(expect(r, "{"));
    while (!at(r, "}")) {
        struct gql_field_def *field = arena_alloc(r->schema->arena, sizeof *field);
        TRY(read_description(r, &field->notes.description));
        TRY(read_name(r, &field->name));
        if (at(r, "(")) TRY(read_inputs(r, ")", &field->arguments));
        TRY(expect(r, ":"));
        TRY(read_type(r, &field->type));
        TRY(read_deprecation(r, &field->notes));
        *out = field;
        out = &field->next;
    }
    return next(r);
}

static enum error_code read_one_name(struct reader *r, struct gql_name ***end)
{
    struct gql_name *name = arena_alloc(r->schema->arena, sizeof *name);
    TRY(read_description(r, &name->notes.description));
    TRY(read_name(r, &name->name));
    **end = name;
    *end = &name->next;
    return ERROR_NONE;
}

static enum error_code read_enum(struct reader *r, struct gql_type *type)
{
    struct gql_name **end = &type->names;
    TRY(expect(r, "{"));
    while (!at(r, "}")) {
        struct gql_name **name = end;
        TRY(read_one_name(r, &end));
        TRY(read_deprecation(r, &(*name)->notes));
    }
    return next(r);
}

static enum error_code read_union(struct reader *r, struct gql_type *type)
{
    struct gql_name **end = &type->names;
    TRY(expect(r, "="));
    do {
        if (at(r, "|")) TRY(next(r));
        TRY(read_one_name(r, &end));
    } while (at(r, "|"));
    return ERROR_NONE;
}

static enum error_code read_object(struct reader *r, struct gql_type *type)
{
    struct gql_name **end = &type->names;
    if (at(r, "implements")) {
        TRY(next(r));
        do {
            if (at(r, "&")) TRY(next(r));
            TRY(read_one_name(r, &end));
        } while (at(r, "&"));
    }
    return read_fields(r, &type->fields);
}

static enum error_code read_definition(struct reader *r)
{
    static const struct {
        const char *keyword;
        enum gql_type_kind kind;
    } kinds[] = {
        {"scalar", GQL_SCALAR},       {"enum", GQL_ENUM},   {"type", GQL_OBJECT},
        {"interface", GQL_INTERFACE}, {"union", GQL_UNION}, {"input", GQL_INPUT},
    };
    struct str description = STR_EMPTY;
    TRY(read_description(r, &description));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!at(r, kinds[i].keyword)) continue;
        struct str name = STR_EMPTY;
        TRY(next(r));
        TRY(read_name(r, &name));
        if (gql_schema_type(r->schema, name))
            return error_set(r->err, ERROR_INVALID, "schema line %u: duplicate type %.*s", r->lexer.token.at.line,
                             STR_ARG(name));
        struct gql_type *type = add_type(r->schema, kinds[i].kind, name);
        type->description = description;
        switch (type->kind) {
        case GQL_SCALAR: return read_specified_by(r, type);
        case GQL_ENUM: return read_enum(r, type);
        case GQL_UNION: return read_union(r, type);
        case GQL_INPUT: return at(r, "{") ? read_inputs(r, "}", &type->inputs) : expect(r, "{");
        case GQL_OBJECT:
        case GQL_INTERFACE: return read_object(r, type);
        }
    }
    return expect(r, "a type definition");
}

// ---- checks --------------------------------------------------------------------------------------------------------

static enum error_code check_ref(const struct gql_schema *schema, const struct gql_type *owner,
                                 const struct gql_type_ref *ref, bool input, struct error *err)
{
    struct str name = gql_type_ref_name(ref);
    const struct gql_type *type = gql_schema_type(schema, name);
    if (!type)
        return error_set(err, ERROR_INVALID, "schema: %.*s refers to the unknown type %.*s", STR_ARG(owner->name),
                         STR_ARG(name));
    if (input ? !gql_type_is_input(type) : type->kind == GQL_INPUT)
        return error_set(err, ERROR_INVALID, "schema: %.*s uses %.*s in an invalid position", STR_ARG(owner->name),
                         STR_ARG(name));
    return ERROR_NONE;
}

static enum error_code twice(const struct gql_type *owner, struct str name, struct error *err)
{
    return error_set(err, ERROR_INVALID, "schema: %.*s has a duplicate %.*s", STR_ARG(owner->name), STR_ARG(name));
}

static enum error_code check_inputs(const struct gql_schema *schema, const struct gql_type *owner,
                                    const struct gql_input_def *inputs, struct error *err)
{
    for (const struct gql_input_def *input = inputs; input; input = input->next) {
        TRY(check_ref(schema, owner, &input->type, true, err));
        if (gql_input_find(inputs, input->name) != input) return twice(owner, input->name, err);
    }
    return ERROR_NONE;
}

// What an object implements must be an interface, whose fields it has; what is in a union must be
// an object.
static enum error_code check_name(const struct gql_schema *schema, const struct gql_type *owner, struct str name,
                                  struct error *err)
{
    const struct gql_type *type = gql_schema_type(schema, name);
    if (!type)
        return error_set(err, ERROR_INVALID, "schema: %.*s refers to the unknown type %.*s", STR_ARG(owner->name),
                         STR_ARG(name));
    if (type->kind != (owner->kind == GQL_UNION ? GQL_OBJECT : GQL_INTERFACE))
        return error_set(err, ERROR_INVALID, "schema: %.*s uses %.*s in an invalid position", STR_ARG(owner->name),
                         STR_ARG(name));
    for (const struct gql_field_def *field = type->fields; field && owner->kind == GQL_OBJECT; field = field->next)
        if (!gql_type_field(owner, field->name))
            return error_set(err, ERROR_INVALID, "schema: %.*s does not have the field %.*s of %.*s",
                             STR_ARG(owner->name), STR_ARG(field->name), STR_ARG(name));
    return ERROR_NONE;
}

static enum error_code check_type(const struct gql_schema *schema, const struct gql_type *type, struct error *err)
{
    for (const struct gql_field_def *field = type->fields; field; field = field->next) {
        TRY(check_ref(schema, type, &field->type, false, err));
        TRY(check_inputs(schema, type, field->arguments, err));
        if (gql_type_field(type, field->name) != field) return twice(type, field->name, err);
    }
    TRY(check_inputs(schema, type, type->inputs, err));
    for (const struct gql_name *name = type->names; name; name = name->next) {
        if (type->kind != GQL_ENUM) TRY(check_name(schema, type, name->name, err));
        for (const struct gql_name *other = type->names; other != name; other = other->next)
            if (str_eq(other->name, name->name)) return twice(type, name->name, err);
    }
    return ERROR_NONE;
}

static enum error_code read_part(struct reader *r, struct str sdl)
{
    TRY(gql_lexer_init(&r->lexer, sdl, TOKENS_MAX, r->err));
    while (r->lexer.token.kind != GQL_TOKEN_END)
        TRY(read_definition(r));
    return ERROR_NONE;
}

static enum error_code read_all(struct reader *r, struct str sdl)
{
    static const char *const builtin[] = {"Int", "Float", "String", "Boolean", "ID"};
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        add_type(r->schema, GQL_SCALAR, str_c(builtin[i]));
    TRY(read_part(r, sdl));
    TRY(read_part(r, str_c(introspection_sdl)));
    for (const struct gql_type *type = r->schema->first; type; type = type->next)
        TRY(check_type(r->schema, type, r->err));
    const struct gql_type *query = gql_schema_root(r->schema, GQL_QUERY);
    if (!query || query->kind != GQL_OBJECT) return error_set(r->err, ERROR_INVALID, "schema: type Query is missing");
    return ERROR_NONE;
}

struct gql_schema *gql_schema_create(struct str sdl, struct error *err)
{
    struct gql_schema *schema = mem_zalloc(sizeof *schema);
    schema->arena = arena_create(SDL_ARENA_BYTES_MAX);
    schema->end = &schema->first;
    struct reader r = {.schema = schema, .err = err};
    // The types keep views: of a copy that lives as long as they do.
    if (read_all(&r, arena_str(schema->arena, sdl)) == ERROR_NONE) return schema;
    gql_schema_destroy(schema);
    return NULL;
}

void gql_schema_destroy(struct gql_schema *schema)
{
    if (!schema) return;
    arena_destroy(schema->arena);
    mem_free(schema);
}

// ---- asking --------------------------------------------------------------------------------------------------------

const struct gql_type *gql_schema_root(const struct gql_schema *schema, enum gql_operation_kind kind)
{
    static const char *const names[] = {"Query", "Mutation", "Subscription"};
    return gql_schema_type(schema, str_c(names[kind]));
}

const struct gql_type *gql_schema_first(const struct gql_schema *schema)
{
    return schema->first;
}

const struct gql_field_def *gql_schema_field(const struct gql_schema *schema, const struct gql_type *type,
                                             struct str name)
{
    static const struct gql_input_def type_name = {.name = {"name", 4},
                                                   .type = {.name = {"String", 6}, .non_null = true}};
    static const struct gql_field_def schema_field = {.name = {"__schema", 8},
                                                      .type = {.name = {"__Schema", 8}, .non_null = true}};
    static const struct gql_field_def type_field = {
        .name = {"__type", 6}, .type = {.name = {"__Type", 6}}, .arguments = (struct gql_input_def *)&type_name};
    if (str_starts(name, STR("__")) && type == gql_schema_root(schema, GQL_QUERY)) {
        if (str_eq(name, schema_field.name)) return &schema_field;
        if (str_eq(name, type_field.name)) return &type_field;
    }
    return type->kind == GQL_UNION ? NULL : gql_type_field(type, name);
}

const struct gql_input_def *gql_condition_argument(void)
{
    static const struct gql_input_def condition = {.name = {"if", 2},
                                                   .type = {.name = {"Boolean", 7}, .non_null = true}};
    return &condition;
}

const struct gql_field_def *gql_type_field(const struct gql_type *type, struct str name)
{
    for (const struct gql_field_def *field = type->fields; field; field = field->next)
        if (str_eq(field->name, name)) return field;
    return NULL;
}

const struct gql_input_def *gql_input_find(const struct gql_input_def *first, struct str name)
{
    for (; first; first = first->next)
        if (str_eq(first->name, name)) return first;
    return NULL;
}

bool gql_type_has_name(const struct gql_type *type, struct str name)
{
    for (const struct gql_name *item = type->names; item; item = item->next)
        if (str_eq(item->name, name)) return true;
    return false;
}

bool gql_type_is_leaf(const struct gql_type *type)
{
    return type->kind == GQL_SCALAR || type->kind == GQL_ENUM;
}

bool gql_type_is_composite(const struct gql_type *type)
{
    return type->kind == GQL_OBJECT || type->kind == GQL_INTERFACE || type->kind == GQL_UNION;
}

bool gql_type_is_input(const struct gql_type *type)
{
    return gql_type_is_leaf(type) || type->kind == GQL_INPUT;
}

bool gql_type_covers(const struct gql_type *type, const struct gql_type *concrete)
{
    if (type == concrete) return true;
    if (type->kind == GQL_UNION) return gql_type_has_name(type, concrete->name);
    return type->kind == GQL_INTERFACE && gql_type_has_name(concrete, type->name);
}

bool gql_schema_types_meet(const struct gql_schema *schema, const struct gql_type *a, const struct gql_type *b)
{
    if (a == b) return true;
    if (a->kind == GQL_OBJECT || b->kind == GQL_OBJECT) return gql_type_covers(a, b) || gql_type_covers(b, a);
    for (const struct gql_type *type = schema->first; type; type = type->next)
        if (type->kind == GQL_OBJECT && gql_type_covers(a, type) && gql_type_covers(b, type)) return true;
    return false;
}

struct str gql_type_ref_name(const struct gql_type_ref *ref)
{
    while (ref->item)
        ref = ref->item;
    return ref->name;
}

const char *gql_type_ref_text(const struct gql_type_ref *ref, struct arena *arena)
{
    const char *end = ref->non_null ? "!" : "";
    if (ref->item) return arena_printf(arena, "[%s]%s", gql_type_ref_text(ref->item, arena), end);
    return arena_printf(arena, "%.*s%s", STR_ARG(ref->name), end);
}
