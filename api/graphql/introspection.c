#include "api/graphql/introspection.h"

#include "api/graphql/variables.h"

struct writer {
    struct gql_projection *projection;
    struct strbuf *out;
};

// A type where it is used: a definition, or a reference to one with its lists and exclamation
// marks.
struct type_use {
    const struct gql_type *named; // NULL: ref
    const struct gql_type_ref *ref;
    bool as_nullable; // without the outermost exclamation mark of ref
};

struct directive {
    const char *name, *description;
    const char *locations; // JSON
    const struct gql_input_def *arguments;
};

static const struct gql_input_def reason_argument = {
    .name = {"reason", 6},
    .type = {.name = {"String", 6}},
    .has_default = true,
    .def = {.kind = GQL_VALUE_STRING, .text = {"No longer supported", 19}},
};
static const struct gql_input_def url_argument = {.name = {"url", 3},
                                                  .type = {.name = {"String", 6}, .non_null = true}};

// Each value of a type with fields is written by a function of this kind; false as
// gql_introspect().
typedef bool (*write_field)(struct writer *w, const void *value, struct gql_collected *field);

static bool write_type(struct writer *w, const struct type_use *use, struct gql_collected *field);

// ---- what all have in common --------------------------------------------------------------------

static bool is(const struct gql_collected *field, const char *name)
{
    return str_eq(field->field->name, str_c(name));
}

static bool write_null(struct writer *w)
{
    strbuf_add_c(w->out, "null");
    return true;
}

static bool write_text(struct writer *w, struct str text)
{
    if (!text.at) return write_null(w);
    strbuf_add_json(w->out, text);
    return true;
}

static bool write_bool(struct writer *w, bool value)
{
    strbuf_add_c(w->out, value ? "true" : "false");
    return true;
}

static bool write_object(struct writer *w, const char *type_name, const void *value, write_field write,
                         struct gql_collected *field)
{
    const struct gql_type *type = gql_schema_type(w->projection->schema, str_c(type_name));
    struct gql_collection *collection = gql_collect_inner(w->projection, field, type);
    if (!collection) return false;
    strbuf_add_byte(w->out, '{');
    for (size_t i = 0; i < collection->count; i++) {
        struct gql_collected *inner = &collection->fields[i];
        if (i) strbuf_add_byte(w->out, ',');
        strbuf_add_json(w->out, inner->key);
        strbuf_add_byte(w->out, ':');
        if (is(inner, "__typename"))
            strbuf_add_json(w->out, type->name);
        else if (!write(w, value, inner))
            return false;
    }
    strbuf_add_byte(w->out, '}');
    return true;
}

// Between the items of a list. False: the answer is too large already, and nothing more is needed.
static bool next_item(struct writer *w, size_t *count)
{
    if ((*count)++) strbuf_add_byte(w->out, ',');
    return !w->out->overflow;
}

static bool wants_deprecated(struct writer *w, const char *type_name, const struct gql_collected *field)
{
    const struct gql_type *type = gql_schema_type(w->projection->schema, str_c(type_name));
    const struct gql_field_def *def = gql_type_field(type, field->field->name);
    struct error err;
    json_t *arguments =
        gql_coerce_arguments(w->projection->schema, def, field->field->arguments, w->projection->variables, &err);
    bool wants = json_get_bool(arguments, "includeDeprecated", false);
    json_decref(arguments);
    return wants;
}

static bool write_deprecation(struct writer *w, const struct gql_notes *notes, const struct gql_collected *field)
{
    if (is(field, "isDeprecated")) return write_bool(w, notes->deprecated);
    return write_text(w, notes->deprecated ? notes->reason : STR_EMPTY);
}

// ---- inputs, fields, values of enums ------------------------------------------------------------

static bool write_default(struct writer *w, const struct gql_input_def *input)
{
    if (!input->has_default) return write_null(w);
    const struct gql_value *value = &input->def;
    struct strbuf literal;
    strbuf_init(&literal, GQL_PROBLEMS_BYTES_MAX);
    if (value->kind == GQL_VALUE_STRING)
        strbuf_add_json(&literal, value->text);
    else
        strbuf_add_str(&literal, value->text);
    strbuf_add_json(w->out, strbuf_str(&literal));
    strbuf_finish(&literal);
    return true;
}

static bool write_input_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct gql_input_def *input = value;
    if (is(field, "name")) return write_text(w, input->name);
    if (is(field, "description")) return write_text(w, input->notes.description);
    if (is(field, "type")) return write_type(w, &(struct type_use){.ref = &input->type}, field);
    if (is(field, "defaultValue")) return write_default(w, input);
    return write_deprecation(w, &input->notes, field);
}

static bool write_inputs(struct writer *w, const char *owner, const struct gql_input_def *first,
                         struct gql_collected *field)
{
    bool deprecated = wants_deprecated(w, owner, field);
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    for (const struct gql_input_def *input = first; input; input = input->next) {
        if (input->notes.deprecated && !deprecated) continue;
        if (!next_item(w, &count)) break;
        if (!write_object(w, "__InputValue", input, write_input_field, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_field_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct gql_field_def *def = value;
    if (is(field, "name")) return write_text(w, def->name);
    if (is(field, "description")) return write_text(w, def->notes.description);
    if (is(field, "args")) return write_inputs(w, "__Field", def->arguments, field);
    if (is(field, "type")) return write_type(w, &(struct type_use){.ref = &def->type}, field);
    return write_deprecation(w, &def->notes, field);
}

static bool write_enum_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct gql_name *name = value;
    if (is(field, "name")) return write_text(w, name->name);
    if (is(field, "description")) return write_text(w, name->notes.description);
    return write_deprecation(w, &name->notes, field);
}

// ---- types --------------------------------------------------------------------------------------

static bool write_fields(struct writer *w, const struct gql_type *type, struct gql_collected *field)
{
    if (type->kind != GQL_OBJECT && type->kind != GQL_INTERFACE) return write_null(w);
    bool deprecated = wants_deprecated(w, "__Type", field);
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    for (const struct gql_field_def *def = type->fields; def; def = def->next) {
        if (def->notes.deprecated && !deprecated) continue;
        if (!next_item(w, &count)) break;
        if (!write_object(w, "__Field", def, write_field_field, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_enum_values(struct writer *w, const struct gql_type *type, struct gql_collected *field)
{
    if (type->kind != GQL_ENUM) return write_null(w);
    bool deprecated = wants_deprecated(w, "__Type", field);
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    for (const struct gql_name *name = type->names; name; name = name->next) {
        if (name->notes.deprecated && !deprecated) continue;
        if (!next_item(w, &count)) break;
        if (!write_object(w, "__EnumValue", name, write_enum_field, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_interfaces(struct writer *w, const struct gql_type *type, struct gql_collected *field)
{
    if (type->kind != GQL_OBJECT && type->kind != GQL_INTERFACE) return write_null(w);
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    for (const struct gql_name *name = type->names; name; name = name->next) {
        if (!next_item(w, &count)) break;
        const struct type_use use = {.named = gql_schema_type(w->projection->schema, name->name)};
        if (!write_type(w, &use, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_possible_types(struct writer *w, const struct gql_type *type, struct gql_collected *field)
{
    if (type->kind != GQL_UNION && type->kind != GQL_INTERFACE) return write_null(w);
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    const struct gql_type *one = gql_schema_first(w->projection->schema);
    for (; one; one = one->next) {
        if (one->kind != GQL_OBJECT || !gql_type_covers(type, one)) continue;
        if (!next_item(w, &count)) break;
        if (!write_type(w, &(struct type_use){.named = one}, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_named_field(struct writer *w, const struct gql_type *type, struct gql_collected *field)
{
    static const char *const kinds[] = {
        [GQL_SCALAR] = "SCALAR",       [GQL_ENUM] = "ENUM",   [GQL_OBJECT] = "OBJECT",
        [GQL_INTERFACE] = "INTERFACE", [GQL_UNION] = "UNION", [GQL_INPUT] = "INPUT_OBJECT",
    };
    if (is(field, "kind")) return write_text(w, str_c(kinds[type->kind]));
    if (is(field, "name")) return write_text(w, type->name);
    if (is(field, "description")) return write_text(w, type->description);
    if (is(field, "specifiedByURL")) return write_text(w, type->specified_by);
    if (is(field, "fields")) return write_fields(w, type, field);
    if (is(field, "interfaces")) return write_interfaces(w, type, field);
    if (is(field, "possibleTypes")) return write_possible_types(w, type, field);
    if (is(field, "enumValues")) return write_enum_values(w, type, field);
    if (is(field, "inputFields") && type->kind == GQL_INPUT) return write_inputs(w, "__Type", type->inputs, field);
    if (is(field, "isOneOf") && type->kind == GQL_INPUT) return write_bool(w, false);
    return write_null(w); // ofType, and what types of this kind do not have
}

static bool write_type_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct type_use *use = value;
    if (use->named) return write_named_field(w, use->named, field);
    bool non_null = use->ref->non_null && !use->as_nullable;
    if (is(field, "kind")) return write_text(w, non_null ? STR("NON_NULL") : STR("LIST"));
    if (!is(field, "ofType")) return write_null(w);
    if (non_null) return write_type(w, &(struct type_use){.ref = use->ref, .as_nullable = true}, field);
    return write_type(w, &(struct type_use){.ref = use->ref->item}, field);
}

static bool write_type(struct writer *w, const struct type_use *use, struct gql_collected *field)
{
    struct type_use plain = *use;
    if (plain.ref && !plain.ref->item && (plain.as_nullable || !plain.ref->non_null))
        plain = (struct type_use){.named = gql_schema_type(w->projection->schema, plain.ref->name)};
    return write_object(w, "__Type", &plain, write_type_field, field);
}

// ---- the schema ---------------------------------------------------------------------------------

static bool write_directive_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct directive *directive = value;
    if (is(field, "name")) return write_text(w, str_c(directive->name));
    if (is(field, "description")) return write_text(w, str_c(directive->description));
    if (is(field, "isRepeatable")) return write_bool(w, false);
    if (is(field, "args")) return write_inputs(w, "__Directive", directive->arguments, field);
    strbuf_add_c(w->out, directive->locations);
    return true;
}

static bool write_directives(struct writer *w, struct gql_collected *field)
{
    static const char selections[] = "[\"FIELD\",\"FRAGMENT_SPREAD\",\"INLINE_FRAGMENT\"]";
    const struct directive directives[] = {
        {"include", "Includes this field or fragment only when the argument is true.", selections,
         gql_condition_argument()},
        {"skip", "Leaves out this field or fragment when the argument is true.", selections, gql_condition_argument()},
        {"deprecated", "Marks an element of the schema as no longer supported.",
         "[\"FIELD_DEFINITION\",\"ARGUMENT_DEFINITION\",\"INPUT_FIELD_DEFINITION\",\"ENUM_VALUE\"]", &reason_argument},
        {"specifiedBy", "The URL of the specification of a scalar.", "[\"SCALAR\"]", &url_argument},
    };
    strbuf_add_byte(w->out, '[');
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++) {
        if (i) strbuf_add_byte(w->out, ',');
        if (!write_object(w, "__Directive", &directives[i], write_directive_field, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_types(struct writer *w, struct gql_collected *field)
{
    size_t count = 0;
    strbuf_add_byte(w->out, '[');
    for (const struct gql_type *type = gql_schema_first(w->projection->schema); type; type = type->next) {
        if (!next_item(w, &count)) break;
        if (!write_type(w, &(struct type_use){.named = type}, field)) return false;
    }
    strbuf_add_byte(w->out, ']');
    return true;
}

static bool write_schema_field(struct writer *w, const void *value, struct gql_collected *field)
{
    const struct gql_schema *schema = value;
    static const char *const roots[] = {"queryType", "mutationType", "subscriptionType"};
    for (int kind = GQL_QUERY; kind <= GQL_SUBSCRIPTION; kind++) {
        if (!is(field, roots[kind])) continue;
        const struct type_use root = {.named = gql_schema_root(schema, (enum gql_operation_kind)kind)};
        return root.named ? write_type(w, &root, field) : write_null(w);
    }
    if (is(field, "types")) return write_types(w, field);
    if (is(field, "directives")) return write_directives(w, field);
    return write_null(w);
}

bool gql_is_introspection(struct str field)
{
    return str_eq(field, STR("__schema")) || str_eq(field, STR("__type"));
}

bool gql_introspect(struct gql_projection *p, const struct gql_type *root, struct gql_collected *field,
                    struct strbuf *out)
{
    struct writer w = {p, out};
    strbuf_add_json(out, field->key);
    strbuf_add_byte(out, ':');
    if (is(field, "__schema")) return write_object(&w, "__Schema", p->schema, write_schema_field, field);
    struct error err;
    const struct gql_field_def *def = gql_schema_field(p->schema, root, field->field->name);
    json_t *arguments = gql_coerce_arguments(p->schema, def, field->field->arguments, p->variables, &err);
    const struct gql_type *type = gql_schema_type(p->schema, json_get_str(arguments, "name"));
    json_decref(arguments);
    return type ? write_type(&w, &(struct type_use){.named = type}, field) : write_null(&w);
}
