#include "api/graphql/projection.h"

#include <stdint.h>

#include "api/graphql/variables.h"
#include "base/mem.h"

enum { PATH_BYTES_MAX = 4096 };

// A collection while it is made.
struct collector {
    struct gql_projection *projection;
    struct gql_collection *collection;
    struct seen *seen; // a fragment counts once in a collection
};

struct seen {
    struct seen *next;
    const struct gql_fragment *fragment;
};

static void *grown(struct arena *arena, const void *old, size_t count, size_t size, size_t *cap)
{
    *cap = *cap ? *cap * 2 : 4;
    void *room = arena_array(arena, *cap, size);
    if (count) memcpy(room, old, count * size);
    return room;
}

static struct gql_collected *field_of_key(const struct collector *c, struct str key)
{
    struct gql_collection *collection = c->collection;
    for (size_t i = 0; i < collection->count; i++)
        if (str_eq(collection->fields[i].key, key)) return &collection->fields[i];
    if (collection->count == collection->cap)
        collection->fields = grown(c->projection->arena, collection->fields, collection->count,
                                   sizeof *collection->fields, &collection->cap);
    struct gql_collected *added = &collection->fields[collection->count++];
    added->key = key;
    return added;
}

static void add_field(const struct collector *c, const struct gql_selection *field)
{
    struct gql_collected *collected = field_of_key(c, field->alias);
    if (collected->count == 0) collected->field = field;
    if (collected->count == collected->cap)
        collected->all =
            grown(c->projection->arena, collected->all, collected->count, sizeof *collected->all, &collected->cap);
    collected->all[collected->count++] = field;
}

static bool applies(const struct collector *c, struct str condition)
{
    if (condition.len == 0) return true;
    const struct gql_type *wanted = gql_schema_type(c->projection->schema, condition);
    return wanted && gql_type_covers(wanted, c->collection->type);
}

static bool is_first_spread(struct collector *c, const struct gql_fragment *fragment)
{
    for (const struct seen *seen = c->seen; seen; seen = seen->next)
        if (seen->fragment == fragment) return false;
    struct seen *seen = arena_alloc(c->projection->arena, sizeof *seen);
    *seen = (struct seen){.next = c->seen, .fragment = fragment};
    c->seen = seen;
    return true;
}

static bool collect_into(struct collector *c, const struct gql_selection *selections)
{
    for (const struct gql_selection *selection = selections; selection; selection = selection->next) {
        if (c->projection->selections_left == 0) {
            gql_problem_add(c->projection->problems, selection->at, "QUERY_TOO_LARGE", NULL,
                            "The fragments multiply to too many selections.");
            return false;
        }
        c->projection->selections_left--;
        if (!gql_is_included(selection->directives, c->projection->variables)) continue;
        const struct gql_selection *inner = selection->selections;
        switch (selection->kind) {
        case GQL_FIELD: add_field(c, selection); continue;
        case GQL_INLINE_FRAGMENT:
            if (!applies(c, selection->type)) continue;
            break;
        case GQL_FRAGMENT_SPREAD:
            if (!applies(c, selection->fragment->type) || !is_first_spread(c, selection->fragment)) continue;
            inner = selection->fragment->selections;
            break;
        }
        if (!collect_into(c, inner)) return false;
    }
    return true;
}

struct gql_collection *gql_collect(struct gql_projection *p, const struct gql_type *type,
                                   const struct gql_selection *selections)
{
    struct collector c = {.projection = p, .collection = arena_alloc(p->arena, sizeof *c.collection)};
    c.collection->type = type;
    return collect_into(&c, selections) ? c.collection : NULL;
}

// Every object of a type in a place has the same fields, so that a list of many collects them once.
struct gql_collection *gql_collect_inner(struct gql_projection *p, struct gql_collected *field,
                                         const struct gql_type *type)
{
    for (struct gql_collection *known = field->inner; known; known = known->next)
        if (known->type == type) return known;
    struct collector c = {.projection = p, .collection = arena_alloc(p->arena, sizeof *c.collection)};
    c.collection->type = type;
    for (size_t i = 0; i < field->count; i++)
        if (!collect_into(&c, field->all[i]->selections)) return NULL;
    c.collection->next = field->inner;
    field->inner = c.collection;
    return c.collection;
}

static void write_path(const struct gql_place *place, struct strbuf *out)
{
    if (!place) return;
    write_path(place->outer, out);
    if (place->outer) strbuf_add_byte(out, ',');
    if (place->key.at)
        strbuf_add_json(out, place->key);
    else
        strbuf_addf(out, "%zu", place->index);
}

bool gql_refuse_value(struct gql_projection *p, const struct gql_type_ref *type, const struct gql_place *place,
                      struct gql_location at, const char *why)
{
    if (gql_problems_full(p->problems)) return false;
    struct strbuf path;
    strbuf_init(&path, PATH_BYTES_MAX);
    strbuf_add_byte(&path, '[');
    write_path(place, &path);
    strbuf_add_byte(&path, ']');
    const char *text = path.overflow ? NULL : arena_cstr(p->arena, strbuf_str(&path));
    strbuf_finish(&path);
    gql_problem_add(p->problems, at, "INTERNAL_SERVER_ERROR", text, "%s \"%s\".", why,
                    gql_type_ref_text(type, p->arena));
    return false;
}

static bool write_value(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                        const json_t *value, const struct gql_place *place, struct strbuf *out);

// A nullable place takes the null that its inside could not be.
static bool write_or_null(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                          const json_t *value, const struct gql_place *place, struct strbuf *out)
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

static const struct gql_type *concrete_type(struct gql_projection *p, const struct gql_type *type, const json_t *value)
{
    if (type->kind == GQL_OBJECT) return type;
    const struct gql_type *concrete = gql_schema_type(p->schema, json_get_str(value, "__typename"));
    return concrete && concrete->kind == GQL_OBJECT && gql_type_covers(type, concrete) ? concrete : NULL;
}

static bool write_field(struct gql_projection *p, const struct gql_type *type, struct gql_collected *field,
                        const json_t *object, const struct gql_place *outer, struct strbuf *out)
{
    struct gql_place place = {.outer = outer, .key = field->key};
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

static bool write_object(struct gql_projection *p, const struct gql_type *type, struct gql_collected *field,
                         const json_t *value, const struct gql_place *place, struct strbuf *out)
{
    struct gql_collection *collection = gql_collect_inner(p, field, type);
    if (!collection) return false;
    strbuf_add_byte(out, '{');
    for (size_t i = 0; i < collection->count; i++) {
        if (i) strbuf_add_byte(out, ',');
        if (!write_field(p, type, &collection->fields[i], value, place, out)) return false;
    }
    strbuf_add_byte(out, '}');
    return true;
}

static bool write_list(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                       const json_t *value, const struct gql_place *outer, struct strbuf *out)
{
    size_t i;
    json_t *item;
    strbuf_add_byte(out, '[');
    json_array_foreach(value, i, item)
    {
        struct gql_place place = {.outer = outer, .index = i};
        if (i) strbuf_add_byte(out, ',');
        if (!write_or_null(p, type->item, field, item, &place, out)) return false;
    }
    strbuf_add_byte(out, ']');
    return true;
}

static bool write_value(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                        const json_t *value, const struct gql_place *place, struct strbuf *out)
{
    struct gql_location at = field->field->at;
    if (out->overflow) return true; // too large already: nothing more is needed
    if (!value || json_is_null(value)) {
        if (type->non_null) return gql_refuse_value(p, type, place, at, "Cannot return null for non-nullable type");
        strbuf_add_c(out, "null");
        return true;
    }
    if (type->item) {
        if (!json_is_array(value)) return gql_refuse_value(p, type, place, at, "The value is not a list of type");
        return write_list(p, type, field, value, place, out);
    }
    const struct gql_type *named = gql_schema_type(p->schema, type->name);
    if (gql_type_is_leaf(named)) {
        if (str_eq(named->name, STR("Void"))) return strbuf_add_c(out, "null"), true;
        if (write_leaf(named, value, out)) return true;
        return gql_refuse_value(p, type, place, at, "The value does not fit type");
    }
    const struct gql_type *concrete = concrete_type(p, named, value);
    if (!concrete || !json_is_object(value))
        return gql_refuse_value(p, type, place, at, "The value is not an object of type");
    return write_object(p, concrete, field, value, place, out);
}

bool gql_project_root(struct gql_projection *p, const struct gql_type *root, struct gql_collected *field,
                      const json_t *value, struct strbuf *out)
{
    struct gql_place place = {.key = field->key};
    strbuf_add_json(out, field->key);
    strbuf_add_byte(out, ':');
    if (str_eq(field->field->name, STR("__typename"))) {
        strbuf_add_json(out, root->name);
        return true;
    }
    const struct gql_field_def *def = gql_type_field(root, field->field->name);
    return write_or_null(p, &def->type, field, value, &place, out);
}

bool gql_project_value(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                       const json_t *value, const struct gql_place *place, struct strbuf *out)
{
    return write_value(p, type, field, value, place, out);
}
