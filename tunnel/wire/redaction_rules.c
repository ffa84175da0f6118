#include "tunnel/wire/redaction_rules.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"

enum { SHAPES_MAX = 96, KINDS_MAX = 64 + REDACTION_OPEN_MAX, DEPTH_MAX = 32, ARENA_BYTES_MAX = 8 * 1024 * 1024 };

struct shape {
    struct str name;
    struct redaction_node *node;
};

struct kind {
    struct str group, name; // an empty group beside open paths: any
    struct redaction_node *node;
};

struct redaction_rules {
    struct arena *arena;
    struct shape shapes[SHAPES_MAX];
    size_t shape_count;
    struct kind kinds[KINDS_MAX];
    size_t kind_count;
    struct redaction_node *unknown;
};

// ---- nodes ---------------------------------------------------------------------------------------------------------

static struct redaction_node *new_node(struct redaction_rules *rules, enum redaction_type type)
{
    struct redaction_node *node = arena_alloc(rules->arena, sizeof *node);
    node->type = type;
    return node;
}

// The entry of exactly this key; *out_place: where it is, or where it belongs.
static struct redaction_child *find_exact(const struct redaction_node *node, struct str key, size_t *out_place)
{
    size_t low = 0, high = node->child_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = str_compare(node->children[middle].key, key);
        if (order == 0) {
            if (out_place) *out_place = middle;
            return &node->children[middle];
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (out_place) *out_place = low;
    return NULL;
}

// The array with one more at place; arrays lie in the arena, so that the old one is simply left.
static void insert(struct redaction_rules *rules, struct redaction_child **list, size_t *count, size_t place,
                   struct str key, struct redaction_node *child)
{
    struct redaction_child *fresh = arena_array(rules->arena, *count + 1, sizeof *fresh);
    if (place) memcpy(fresh, *list, place * sizeof *fresh);
    if (*count > place) memcpy(fresh + place + 1, *list + place, (*count - place) * sizeof *fresh);
    fresh[place] = (struct redaction_child){arena_str(rules->arena, key), child};
    *list = fresh;
    ++*count;
}

// key may end in `*`. What was there for it before is replaced.
static void set_child(struct redaction_rules *rules, struct redaction_node *node, struct str key,
                      struct redaction_node *child)
{
    size_t place = 0;
    if (!str_ends(key, STR("*"))) {
        struct redaction_child *old = find_exact(node, key, &place);
        if (old)
            old->node = child;
        else
            insert(rules, &node->children, &node->child_count, place, key, child);
        return;
    }
    key.len--;
    for (place = 0; place < node->prefix_count && node->prefixes[place].key.len >= key.len; place++)
        if (str_eq(node->prefixes[place].key, key)) {
            node->prefixes[place].node = child;
            return;
        }
    insert(rules, &node->prefixes, &node->prefix_count, place, key, child);
}

const struct redaction_node *redaction_node_child(const struct redaction_node *node, struct str key)
{
    if (!node) return NULL;
    const struct redaction_child *child = find_exact(node, key, NULL);
    if (child) return child->node;
    for (size_t i = 0; i < node->prefix_count; i++)
        if (str_starts(key, node->prefixes[i].key)) return node->prefixes[i].node;
    return NULL;
}

// ---- the table's notation ------------------------------------------------------------------------------------------

// The table is ours: what is wrong with it is a defect, found by the first test that makes rules.
static void parse_fields(struct redaction_rules *rules, struct redaction_node *into, struct str *text, int depth);

static struct redaction_node *shape_named(struct redaction_rules *rules, struct str name, int depth)
{
    for (size_t i = 0; i < rules->shape_count; i++)
        if (str_eq(rules->shapes[i].name, name)) return rules->shapes[i].node;
    for (const struct redaction_shape *shape = redaction_shapes; shape->name; shape++) {
        if (!str_eq(str_c(shape->name), name)) continue;
        assert(rules->shape_count < SHAPES_MAX && depth < DEPTH_MAX);
        struct redaction_node *node = new_node(rules, str_eq(name, STR("deep")) ? REDACTION_DEEP : REDACTION_CLOSED);
        // Known before it is read: a shape may hold itself.
        rules->shapes[rules->shape_count++] = (struct shape){str_c(shape->name), node};
        struct str fields = str_c(shape->fields);
        parse_fields(rules, node, &fields, depth + 1);
        return node;
    }
    assert(!"a shape that is not in the table");
    abort();
}

static bool is_key_byte(char c)
{
    return c != '\0' && !strchr(" :,{}@", c);
}

static struct str take_word(struct str *text)
{
    size_t len = 0;
    while (len < text->len && is_key_byte(text->at[len]))
        len++;
    struct str word = str_first(*text, len);
    *text = str_from(*text, len);
    return word;
}

static bool take(struct str *text, char c)
{
    if (!text->len || *text->at != c) return false;
    *text = str_from(*text, 1);
    return true;
}

static void include(struct redaction_rules *rules, struct redaction_node *into, const struct redaction_node *shape)
{
    for (size_t i = 0; i < shape->child_count; i++)
        if (!find_exact(into, shape->children[i].key, NULL))
            set_child(rules, into, shape->children[i].key, shape->children[i].node);
    for (size_t i = 0; i < shape->prefix_count; i++) {
        char *key = arena_printf(rules->arena, "%.*s*", STR_ARG(shape->prefixes[i].key));
        set_child(rules, into, str_c(key), shape->prefixes[i].node);
    }
}

// Behind the keys of a field: what they have in common.
static struct redaction_node *parse_value(struct redaction_rules *rules, struct str *text, int depth)
{
    if (take(text, ':')) {
        enum redaction_type type = redaction_type_named(take_word(text));
        assert(type != REDACTION_TYPES);
        return new_node(rules, type);
    }
    if (take(text, '@')) return shape_named(rules, take_word(text), depth);
    bool opens = take(text, '{');
    assert(opens);
    struct redaction_node *node = new_node(rules, REDACTION_CLOSED);
    parse_fields(rules, node, text, depth + 1);
    bool closes = take(text, '}');
    assert(closes);
    (void)opens, (void)closes;
    return node;
}

static void parse_fields(struct redaction_rules *rules, struct redaction_node *into, struct str *text, int depth)
{
    enum { KEYS_MAX = 64 };
    assert(depth < DEPTH_MAX);
    for (;;) {
        struct str keys[KEYS_MAX];
        size_t count = 0;
        while (take(text, ' '))
            ;
        if (!text->len || *text->at == '}') return;
        if (take(text, '@')) {
            include(rules, into, shape_named(rules, take_word(text), depth));
            continue;
        }
        do {
            assert(count < KEYS_MAX);
            keys[count] = take_word(text);
            assert(keys[count].len);
            count++;
        } while (take(text, ','));
        struct redaction_node *node = parse_value(rules, text, depth);
        for (size_t i = 0; i < count; i++)
            set_child(rules, into, keys[i], node);
    }
}

static struct redaction_node *parse_root(struct redaction_rules *rules, const char *fields)
{
    struct redaction_node *node = new_node(rules, REDACTION_CLOSED);
    struct str text = str_c(fields);
    parse_fields(rules, node, &text, 0);
    assert(!text.len);
    return node;
}

// ---- what the owner opens ------------------------------------------------------------------------------------------

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '/' || c == '$';
}

// The next member of a path, and what is behind it. ["as.this"] or plain; `*`: any.
static bool take_segment(struct str *path, struct str *out)
{
    if (str_starts(*path, STR("[\""))) {
        *path = str_from(*path, 2);
        size_t len = 0;
        while (len < path->len && path->at[len] != '"')
            len++;
        *out = str_first(*path, len);
        *path = str_from(*path, len);
        if (!str_starts(*path, STR("\"]"))) return false;
        *path = str_from(*path, 2);
    } else {
        size_t len = 0;
        while (len < path->len && is_word_byte(path->at[len]))
            len++;
        if (!len && str_starts(*path, STR("*"))) len = 1;
        *out = str_first(*path, len);
        *path = str_from(*path, len);
    }
    if (path->len && *path->at == '.') {
        *path = str_from(*path, 1);
        return out->len > 0 && path->len > 0;
    }
    return out->len > 0 && (!path->len || str_starts(*path, STR("[\"")));
}

// A copy of its own: shapes are shared with paths that stay closed.
static struct redaction_node *own_copy(struct redaction_rules *rules, const struct redaction_node *node)
{
    struct redaction_node *copy = arena_dup(rules->arena, node, sizeof *node);
    if (node->child_count)
        copy->children = arena_dup(rules->arena, node->children, node->child_count * sizeof *node->children);
    if (node->prefix_count)
        copy->prefixes = arena_dup(rules->arena, node->prefixes, node->prefix_count * sizeof *node->prefixes);
    return copy;
}

// node is not shared.
static bool open_below(struct redaction_rules *rules, struct redaction_node *node, struct str path)
{
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        struct str key;
        if (!take_segment(&path, &key)) return false;
        bool is_any = str_eq(key, STR("*"));
        if (!path.len) {
            if (is_any) node->child_count = node->prefix_count = 0;
            set_child(rules, node, key, new_node(rules, REDACTION_OPEN));
            return true;
        }
        struct str plain = is_any ? STR("\001") : key; // of a wildcard: what no key is like
        const struct redaction_node *old = redaction_node_child(node, plain);
        if (old && old->type == REDACTION_OPEN) return true;
        struct redaction_node *child = old ? own_copy(rules, old) : new_node(rules, REDACTION_CLOSED);
        set_child(rules, node, key, child);
        for (size_t i = 0; is_any && i < node->child_count; i++) {
            struct redaction_node *each = own_copy(rules, node->children[i].node);
            node->children[i].node = each;
            if (!open_below(rules, each, path)) return false;
        }
        node = child;
    }
    return false;
}

static struct kind *kind_of(struct redaction_rules *rules, struct str group, struct str name)
{
    for (size_t i = 0; i < rules->kind_count; i++)
        if (str_eq(rules->kinds[i].name, name) && str_eq(rules->kinds[i].group, group)) return &rules->kinds[i];
    return NULL;
}

static enum error_code open_path(struct redaction_rules *rules, struct str entry, struct error *err)
{
    struct str path = entry, kind, group, name;
    bool good = str_cut(&path, ':', &kind) && kind.len && path.len && !str_has_byte(kind, ' ');
    group = kind;
    if (good && !str_cut(&group, '.', &name)) name = kind, group = STR_EMPTY;
    if (good && str_eq(name, STR("Secret")) && !group.len)
        return error_set(err, ERROR_INVALID, "\"%.*s\": Secrets cannot be opened", STR_ARG(entry));
    if (good && str_eq(kind, STR("*"))) {
        for (size_t i = 0; i < rules->kind_count && good; i++)
            if (!str_eq(rules->kinds[i].name, STR("Secret")) || rules->kinds[i].group.len)
                good = open_below(rules, rules->kinds[i].node, path);
        good = good && open_below(rules, rules->unknown, path);
    } else if (good) {
        struct kind *known = kind_of(rules, group, name);
        if (!known) {
            assert(rules->kind_count < KINDS_MAX);
            known = &rules->kinds[rules->kind_count++];
            *known = (struct kind){arena_str(rules->arena, group), arena_str(rules->arena, name),
                                   own_copy(rules, rules->unknown)};
        }
        good = open_below(rules, known->node, path);
    }
    return good ? ERROR_NONE
                : error_set(
                      err, ERROR_INVALID,
                      "\"%.*s\": must be Kind[.group]:path, for example Deployment.apps:spec.template.spec.volumes.csi",
                      STR_ARG(entry));
}

// The entries of a comma-separated list, one after the other; empty ones are passed over.
static bool next_entry(struct str *rest, struct str *out)
{
    while (rest->len) {
        struct str entry;
        if (!str_cut(rest, ',', &entry)) *rest = STR_EMPTY;
        *out = str_trim(entry);
        if (out->len) return true;
    }
    return false;
}

static enum error_code open_keys(struct redaction_rules *rules, const char *shape, struct str keys, struct error *err)
{
    struct redaction_node *node = shape_named(rules, str_c(shape), 0), *open = new_node(rules, REDACTION_TEXT);
    size_t count = 0;
    for (struct str entry; next_entry(&keys, &entry);) {
        if (++count > REDACTION_OPEN_MAX)
            return error_set(err, ERROR_TOO_LARGE, "more than %d keys of %s", REDACTION_OPEN_MAX, shape);
        if (entry.len > REDACTION_OPEN_BYTES_MAX || str_eq(entry, STR("*")))
            return error_set(err, ERROR_INVALID, "\"%.*s\": must be a key of %s, with an optional * at its end",
                             STR_ARG(str_first(entry, 64)), shape);
        set_child(rules, node, entry, open);
    }
    return ERROR_NONE;
}

// ---- life ----------------------------------------------------------------------------------------------------------

enum error_code redaction_rules_create(const struct redaction_options *options, struct redaction_rules **out,
                                       struct error *err)
{
    struct redaction_rules *rules = mem_zalloc(sizeof *rules);
    rules->arena = arena_create(ARENA_BYTES_MAX);
    struct redaction_options none = {.open_paths = STR_EMPTY};
    if (!options) options = &none;
    // Labels and annotations first: shapes that hold these take them over.
    enum error_code code = open_keys(rules, "labels", options->open_labels, err);
    if (code == ERROR_NONE) code = open_keys(rules, "annotations", options->open_annotations, err);
    for (const struct redaction_kind *kind = redaction_kinds; kind->name; kind++) {
        assert(rules->kind_count < KINDS_MAX - REDACTION_OPEN_MAX);
        rules->kinds[rules->kind_count++] =
            (struct kind){str_c(kind->group), str_c(kind->name), parse_root(rules, kind->fields)};
    }
    rules->unknown = parse_root(rules, redaction_unknown_fields);
    size_t count = 0;
    struct str paths = options->open_paths;
    for (struct str entry; code == ERROR_NONE && next_entry(&paths, &entry);) {
        if (++count > REDACTION_OPEN_MAX)
            code = error_set(err, ERROR_TOO_LARGE, "more than %d open paths", REDACTION_OPEN_MAX);
        else if (entry.len > REDACTION_OPEN_BYTES_MAX)
            code = error_set(err, ERROR_TOO_LARGE, "an open path of %zu bytes, the limit is %d", entry.len,
                             REDACTION_OPEN_BYTES_MAX);
        else
            code = open_path(rules, entry, err);
    }
    if (code == ERROR_NONE)
        *out = rules;
    else
        redaction_rules_destroy(rules);
    return code;
}

void redaction_rules_destroy(struct redaction_rules *rules)
{
    if (!rules) return;
    arena_destroy(rules->arena);
    mem_free(rules);
}

const struct redaction_node *redaction_rules_root(const struct redaction_rules *rules, struct str group,
                                                  struct str kind)
{
    for (size_t i = 0; i < rules->kind_count; i++)
        if (str_eq(rules->kinds[i].name, kind) && str_eq(rules->kinds[i].group, group)) return rules->kinds[i].node;
    return rules->unknown;
}
