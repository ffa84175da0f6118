#include "api/graphql/conflicts.h"

#include <stdlib.h>

enum { VISITS_MAX = 40000 };
static const char code[] = "GRAPHQL_VALIDATION_FAILED";

// A field where it stands in the merged tree.
struct entry {
    const struct entry *outer; // the field whose selection it is in
    const struct gql_selection *field;
    const struct gql_type *parent;
    const struct gql_type_ref *type;
    size_t order;
};

struct group {
    const struct entry **entries;
    size_t count, cap;
};

struct seen {
    struct seen *next;
    const struct gql_fragment *fragment;
};

enum pass { PASS_PARENTS, PASS_SHAPE };

struct checker {
    const struct gql_schema *schema;
    struct gql_problems *problems;
    enum pass pass;
    size_t visits;
};

static bool merge(struct checker *c, const struct group *fields);

// ---- gathering -----------------------------------------------------------------------------------------------------

static void add(struct checker *c, struct group *group, const struct entry *entry)
{
    if (group->count == group->cap) {
        group->cap = group->cap ? group->cap * 2 : 8;
        const struct entry **entries = arena_array(c->problems->arena, group->cap, sizeof *entries);
        if (group->count) memcpy(entries, group->entries, group->count * sizeof *entries);
        group->entries = entries;
    }
    group->entries[group->count++] = entry;
}

static bool may_visit(struct checker *c, struct gql_location at)
{
    if (++c->visits <= VISITS_MAX) return true;
    gql_problem_add(c->problems, at, code, NULL, "The fragments multiply to too many selections.");
    return false;
}

static void add_field(struct checker *c, const struct entry *outer, const struct gql_type *parent,
                      const struct gql_selection *field, struct group *out)
{
    static const struct gql_type_ref typename_type = {.name = {"String", 6}, .non_null = true};
    const struct gql_field_def *def = gql_schema_field(c->schema, parent, field->name);
    struct entry *entry = arena_alloc(c->problems->arena, sizeof *entry);
    *entry = (struct entry){outer, field, parent, def ? &def->type : &typename_type, out->count};
    add(c, out, entry);
}

// False: there is a problem already.
static bool gather(struct checker *c, const struct entry *outer, const struct gql_type *parent,
                   const struct gql_selection *first, struct seen **seen, struct group *out)
{
    for (const struct gql_selection *selection = first; selection; selection = selection->next) {
        if (!may_visit(c, selection->at)) return false;
        const struct gql_selection *inner = selection->selections;
        struct str condition = selection->type;
        if (selection->kind == GQL_FIELD) {
            add_field(c, outer, parent, selection, out);
            continue;
        }
        if (selection->kind == GQL_FRAGMENT_SPREAD) {
            const struct seen *known = *seen;
            while (known && known->fragment != selection->fragment)
                known = known->next;
            if (known) continue;
            struct seen *one = arena_alloc(c->problems->arena, sizeof *one);
            *one = (struct seen){*seen, selection->fragment};
            *seen = one;
            inner = selection->fragment->selections;
            condition = selection->fragment->type;
        }
        const struct gql_type *type = condition.len ? gql_schema_type(c->schema, condition) : parent;
        if (!gather(c, outer, type, inner, seen, out)) return false;
    }
    return true;
}

// The selections of all the group's fields, as one.
static bool merge_children(struct checker *c, const struct group *group)
{
    struct group children = {0};
    for (size_t i = 0; i < group->count; i++) {
        const struct entry *entry = group->entries[i];
        struct seen *seen = NULL;
        const struct gql_type *type = gql_schema_type(c->schema, gql_type_ref_name(entry->type));
        if (!gather(c, entry, type, entry->field->selections, &seen, &children)) return false;
    }
    return merge(c, &children);
}

// ---- comparing -----------------------------------------------------------------------------------------------------

static bool values_equal(const struct gql_value *a, const struct gql_value *b);

static size_t arguments_count(const struct gql_argument *first)
{
    size_t count = 0;
    for (; first; first = first->next)
        count++;
    return count;
}

// Their order does not matter.
static bool arguments_equal(const struct gql_argument *a, const struct gql_argument *b)
{
    if (arguments_count(a) != arguments_count(b)) return false;
    for (; a; a = a->next) {
        const struct gql_argument *other = b;
        while (other && !str_eq(other->name, a->name))
            other = other->next;
        if (!other || !values_equal(&a->value, &other->value)) return false;
    }
    return true;
}

static bool values_equal(const struct gql_value *a, const struct gql_value *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == GQL_VALUE_OBJECT) return arguments_equal(a->fields, b->fields);
    if (a->kind != GQL_VALUE_LIST) return str_eq(a->text, b->text);
    const struct gql_value *left = a->items, *right = b->items;
    for (; left && right; left = left->next, right = right->next)
        if (!values_equal(left, right)) return false;
    return left == right;
}

static bool same_shape(const struct checker *c, const struct gql_type_ref *a, const struct gql_type_ref *b)
{
    if (a->non_null != b->non_null || !a->item != !b->item) return false;
    if (a->item) return same_shape(c, a->item, b->item);
    bool leaf =
        gql_type_is_leaf(gql_schema_type(c->schema, a->name)) || gql_type_is_leaf(gql_schema_type(c->schema, b->name));
    return !leaf || str_eq(a->name, b->name);
}

// "Fields "a" conflict because subfields "b" conflict because <why>...": from the fields that a and
// b both are in.
static void report(struct checker *c, const struct entry *a, const struct entry *b, const char *why)
{
    struct gql_location at = b->field->at;
    for (; a->outer != b->outer; a = a->outer, b = b->outer)
        why = arena_printf(c->problems->arena, "subfields \"%.*s\" conflict because %s",
                           STR_ARG(str_first(a->field->alias, 100)), why);
    gql_problem_add(c->problems, at, code, NULL,
                    "Fields \"%.*s\" conflict because %s. Use different aliases on the fields to fetch both if this "
                    "was intentional.",
                    STR_ARG(str_first(a->field->alias, 100)), why);
}

static const char *difference(struct checker *c, const struct entry *a, const struct entry *b)
{
    struct arena *arena = c->problems->arena;
    if (c->pass == PASS_SHAPE)
        return same_shape(c, a->type, b->type)
                   ? NULL
                   : arena_printf(arena, "they return conflicting types \"%s\" and \"%s\"",
                                  gql_type_ref_text(a->type, arena), gql_type_ref_text(b->type, arena));
    if (!str_eq(a->field->name, b->field->name))
        return arena_printf(arena, "\"%.*s\" and \"%.*s\" are different fields", STR_ARG(a->field->name),
                            STR_ARG(b->field->name));
    return arguments_equal(a->field->arguments, b->field->arguments) ? NULL : "they have differing arguments";
}

static bool check_group(struct checker *c, const struct group *group)
{
    for (size_t i = 1; i < group->count; i++) {
        const char *why = difference(c, group->entries[0], group->entries[i]);
        if (!why) continue;
        report(c, group->entries[0], group->entries[i], why);
        return false;
    }
    return merge_children(c, group);
}

// Fields of two object types never meet in one object; those of an interface or a union meet with
// all.
static bool check_parents(struct checker *c, const struct group *group)
{
    bool any = false;
    for (size_t i = 0; i < group->count; i++) {
        const struct gql_type *parent = group->entries[i]->parent;
        bool again = parent->kind != GQL_OBJECT;
        for (size_t k = 0; k < i && !again; k++)
            again = group->entries[k]->parent == parent;
        if (again) continue;
        any = true;
        struct group meeting = {0};
        for (size_t k = 0; k < group->count; k++) {
            if (group->entries[k]->parent != parent && group->entries[k]->parent->kind == GQL_OBJECT) continue;
            if (!may_visit(c, group->entries[k]->field->at)) return false;
            add(c, &meeting, group->entries[k]);
        }
        if (!check_group(c, &meeting)) return false;
    }
    return any || check_group(c, group);
}

static int by_key(const void *left, const void *right)
{
    const struct entry *a = *(const struct entry *const *)left, *b = *(const struct entry *const *)right;
    int order = str_compare(a->field->alias, b->field->alias);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static bool merge(struct checker *c, const struct group *fields)
{
    if (fields->count == 0) return true;
    qsort(fields->entries, fields->count, sizeof *fields->entries, by_key);
    for (size_t start = 0, end; start < fields->count; start = end) {
        struct str key = fields->entries[start]->field->alias;
        for (end = start + 1; end < fields->count && str_eq(fields->entries[end]->field->alias, key);)
            end++;
        struct group group = {.entries = fields->entries + start, .count = end - start, .cap = end - start};
        if (!(c->pass == PASS_PARENTS ? check_parents(c, &group) : check_group(c, &group))) return false;
    }
    return true;
}

void gql_check_conflicts(const struct gql_schema *schema, const struct gql_operation *operation,
                         struct gql_problems *problems)
{
    for (int pass = PASS_PARENTS; pass <= PASS_SHAPE; pass++) {
        struct checker c = {.schema = schema, .problems = problems, .pass = (enum pass)pass};
        struct group fields = {0};
        struct seen *seen = NULL;
        const struct gql_type *root = gql_schema_root(schema, operation->kind);
        if (!gather(&c, NULL, root, operation->selections, &seen, &fields) || !merge(&c, &fields)) return;
    }
}
