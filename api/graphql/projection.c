#include "api/graphql/projection.h"

#include <stdint.h>

#include "api/graphql/variables.h"
#include "base/mem.h"

// Where a value stands, for the path of an error; made text only when there is one.
struct place {
    const struct place *outer;
    struct str key; // of an object
    size_t index;   // of a list, when key is empty
};

static void collect_into(const struct gql_projection *p, const struct gql_type *type,
                         const struct gql_selection *selections, struct gql_collection *out, size_t *cap);

static void add_field(const struct gql_projection *p, const struct gql_selection *field, struct gql_collection *out,
                      size_t *cap)
{
    for (size_t i = 0; i < out->count; i++) {
        struct gql_collected *have = &out->fields[i];
        if (!str_eq(have->key, field->alias)) continue;
        const struct gql_selection **all = arena_array(p->arena, have->count + 1, sizeof *all);
        memcpy(all, have->all, have->count * sizeof *all);
        all[have->count++] = field;
        have->all = all;
        return;
    }
    if (out->count == *cap) {
        *cap = *cap ? *cap * 2 : 16;
        struct gql_collected *fields = arena_array(p->arena, *cap, sizeof *fields);
        if (out->count) memcpy(fields, out->fields, out->count * sizeof *fields);
        out->fields = fields;
    }
    struct gql_collected *added = &out->fields[out->count++];
    *added = (struct gql_collected){.key = field->alias, .field = field, .count = 1};
    added->all = arena_array(p->arena, 1, sizeof *added->all);
    added->all[0] = field;
}

static bool applies(const struct gql_projection *p, const struct gql_type *type, struct str condition)
{
    if (condition.len == 0) return true;
    const struct gql_type *wanted = gql_schema_type(p->schema, condition);
    return wanted && gql_type_covers(wanted, type);
}

static void collect_into(const struct gql_projection *p, const struct gql_type *type,
                         const struct gql_selection *selections, struct gql_collection *out, size_t *cap)
{
    for (const struct gql_selection *selection = selections; selection; selection = selection->next) {
        if (!gql_is_included(selection->directives, p->variables)) continue;
        if (selection->kind == GQL_FIELD) {
            add_field(p, selection, out, cap);
        } else if (selection->kind == GQL_INLINE_FRAGMENT) {
            if (applies(p, type, selection->type)) collect_into(p, type, selection->selections, out, cap);
        } else {
            const struct gql_fragment *fragment = gql_document_fragment(p->document, selection->name);
            if (applies(p, type, fragment->type)) collect_into(p, type, fragment->selections, out, cap);
        }
    }
}

void gql_collect(const struct gql_projection *p, const struct gql_type *type, const struct gql_selection *selections,
                 struct gql_collection *out)
{
    size_t cap = 0;
    *out = (struct gql_collection){0};
    collect_into(p, type, selections, out, &cap);
}

static void write_path(const struct place *place, struct strbuf *out)
{
    if (!place) return;
    write_path(place->outer, out);
    if (place->outer) strbuf_add_byte(out, ',');
    if (place->key.at)
        strbuf_add_json(out, place->key);
    else
        strbuf_addf(out, "%zu", place->index);
}

static bool must_not_be_null(const struct gql_projection *p, const struct gql_type_ref *type, const struct place *place,
                             struct gql_location at, const char *why)
{
    struct strbuf path;
    strbuf_init(&path, 4096);
    strbuf_add_byte(&path, '[');
    write_path(place, &path);
    strbuf_add_byte(&path, ']');
    gql_problem_add(p->problems, at, "INTERNAL_SERVER_ERROR", arena_cstr(p->arena, strbuf_str(&path)), "%s \"%s\".",
                    why, gql_type_ref_text(type, p->arena));
    strbuf_finish(&path);
    return false;
}

static bool write_value(const struct gql_projection *p, const struct gql_type_ref *type,
                        const struct gql_collected *field, const json_t *value, const struct place *place,
                        struct strbuf *out);

// A nullable place takes the null that its inside could not be.
static bool write_or_null(const struct gql_projection *p, const struct gql_type_ref *type,
                          const struct gql_collected *field, const json_t *value, const struct place *place,
                          struct strbuf *out)
{
    size_t before = out->len;
    if (write_value(p, type, field, value, place, out)) return true;
    if (type->non_null) return false;
    out->len = before;
    strbuf_add_c(out, "null");
    return true;
}

static bool write_leaf(const struct gql_type *type, const json_t *value, struct strbuf *out)
{
    if (type->kind == GQL_ENUM || str_eq(type->name, STR("String")) || str_eq(type->name, STR("ID"))) {
        if (json_is_integer(value) && type->kind != GQL_ENUM)
            return strbuf_addf(out, "\"%lld\"", (long long)json_integer_value(value)), true;
        if (json_is_boolean(value) && type->kind != GQL_ENUM)
            return strbuf_add_c(out, json_is_true(value) ? "\"true\"" : "\"false\""), true;
        if (!json_is_string(value)) return false;
        if (type->kind == GQL_ENUM && !gql_type_has_name(type, json_str(value))) return false;
        strbuf_add_json(out, json_str(value));
        return true;
    }
    if (str_eq(type->name, STR("Int")) &&
        (!json_is_integer(value) || json_integer_value(value) > INT32_MAX || json_integer_value(value) < INT32_MIN))
        return false;
    if (str_eq(type->name, STR("Float")) && !json_is_number(value)) return false;
    if (str_eq(type->name, STR("Boolean")) && !json_is_boolean(value)) return false;
    size_t len;
    char *text = json_canonical(value, &len);
    strbuf_add(out, text, len);
    mem_free(text);
    return true;
}

static const struct gql_type *concrete_type(const struct gql_projection *p, const struct gql_type *type,
                                            const json_t *value)
{
    if (type->kind == GQL_OBJECT) return type;
    const struct gql_type *concrete = gql_schema_type(p->schema, json_get_str(value, "__typename"));
    return concrete && concrete->kind == GQL_OBJECT && gql_type_covers(type, concrete) ? concrete : NULL;
}

static bool write_field(const struct gql_projection *p, const struct gql_type *type, const struct gql_collected *field,
                        const json_t *object, const struct place *outer, struct strbuf *out)
{
    struct place place = {.outer = outer, .key = field->key};
    strbuf_add_json(out, field->key);
    strbuf_add_byte(out, ':');
    if (str_eq(field->field->name, STR("__typename"))) {
        strbuf_add_json(out, type->name);
        return true;
    }
    const struct gql_field_def *def = gql_type_field(type, field->field->name);
    const json_t *value = json_object_getn(object, def->name.at, def->name.len);
    return write_or_null(p, &def->type, field, value, &place, out);
}

static bool write_object(const struct gql_projection *p, const struct gql_type *type, const struct gql_collected *field,
                         const json_t *value, const struct place *place, struct strbuf *out)
{
    struct gql_collection collection = {0};
    size_t cap = 0;
    for (size_t i = 0; i < field->count; i++)
        collect_into(p, type, field->all[i]->selections, &collection, &cap);
    strbuf_add_byte(out, '{');
    for (size_t i = 0; i < collection.count; i++) {
        if (i) strbuf_add_byte(out, ',');
        if (!write_field(p, type, &collection.fields[i], value, place, out)) return false;
    }
    strbuf_add_byte(out, '}');
    return true;
}

static bool write_list(const struct gql_projection *p, const struct gql_type_ref *type,
                       const struct gql_collected *field, const json_t *value, const struct place *outer,
                       struct strbuf *out)
{
    size_t i;
    json_t *item;
    strbuf_add_byte(out, '[');
    json_array_foreach(value, i, item)
    {
        struct place place = {.outer = outer, .index = i};
        if (i) strbuf_add_byte(out, ',');
        if (!write_or_null(p, type->item, field, item, &place, out)) return false;
    }
    strbuf_add_byte(out, ']');
    return true;
}

static bool write_value(const struct gql_projection *p, const struct gql_type_ref *type,
                        const struct gql_collected *field, const json_t *value, const struct place *place,
                        struct strbuf *out)
{
    struct gql_location at = field->field->at;
    if (!value || json_is_null(value)) {
        if (type->non_null) return must_not_be_null(p, type, place, at, "Cannot return null for non-nullable type");
        strbuf_add_c(out, "null");
        return true;
    }
    if (type->item) {
        if (!json_is_array(value)) return must_not_be_null(p, type, place, at, "The value is no list of type");
        return write_list(p, type, field, value, place, out);
    }
    const struct gql_type *named = gql_schema_type(p->schema, type->name);
    if (gql_type_is_leaf(named)) {
        if (str_eq(named->name, STR("Void"))) return strbuf_add_c(out, "null"), true;
        if (write_leaf(named, value, out)) return true;
        return must_not_be_null(p, type, place, at, "The value does not fit type");
    }
    const struct gql_type *concrete = concrete_type(p, named, value);
    if (!concrete || !json_is_object(value))
        return must_not_be_null(p, type, place, at, "The value is no object of type");
    return write_object(p, concrete, field, value, place, out);
}

bool gql_project_root(const struct gql_projection *p, const struct gql_type *root, const struct gql_collected *field,
                      const json_t *value, struct strbuf *out)
{
    struct place place = {.key = field->key};
    strbuf_add_json(out, field->key);
    strbuf_add_byte(out, ':');
    if (str_eq(field->field->name, STR("__typename"))) {
        strbuf_add_json(out, root->name);
        return true;
    }
    const struct gql_field_def *def = gql_type_field(root, field->field->name);
    return write_or_null(p, &def->type, field, value, &place, out);
}
