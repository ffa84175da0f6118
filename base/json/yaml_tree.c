#include "base/json/yaml_tree.h"

#include <stdbool.h>
#include <string.h>
#include <yaml.h>

// A mapping under construction waits for its next key or for that key's value.
struct level {
    json_t *container; // borrowed from its parent, the first one from `root`
    json_t *key;       // owned; NULL: a key is next
};

struct tree {
    struct level levels[YAML_TREE_DEPTH_MAX];
    size_t depth;
    size_t nodes;
    json_t *root;
    bool is_typed;
};

static enum error_code refuse(struct error *err, enum error_code code, const yaml_mark_t *mark, const char *what)
{
    return error_set(err, code, "line %zu: %s", mark->line + 1, what);
}

// Takes over value's reference.
static enum error_code put(struct tree *tree, json_t *value, const yaml_mark_t *mark, struct error *err)
{
    enum error_code code = ERROR_NONE;
    struct level *level = tree->depth ? &tree->levels[tree->depth - 1] : NULL;
    if (++tree->nodes > YAML_TREE_NODES_MAX) {
        code = refuse(err, ERROR_TOO_LARGE, mark, "too many values");
    } else if (!value) {
        code = refuse(err, ERROR_INVALID, mark, "not UTF-8 text");
    } else if (!level) {
        if (!(json_is_object(value) || json_is_array(value)) || tree->root)
            code = refuse(err, ERROR_INVALID, mark, "one mapping or sequence is expected");
        else
            tree->root = json_incref(value);
    } else if (json_is_array(level->container)) {
        json_array_append(level->container, value);
    } else if (!level->key) {
        if (!json_is_string(value))
            code = refuse(err, ERROR_INVALID, mark, "a key must be plain text");
        else if (json_object_get(level->container, json_string_value(value)))
            code = refuse(err, ERROR_INVALID, mark, "a key is repeated");
        else
            level->key = json_incref(value);
    } else {
        json_object_set(level->container, json_string_value(level->key), value);
        json_decref(level->key);
        level->key = NULL;
    }
    json_decref(value);
    return code;
}

static enum error_code open_container(struct tree *tree, json_t *container, const yaml_mark_t *mark, struct error *err)
{
    if (tree->depth == YAML_TREE_DEPTH_MAX) {
        json_decref(container);
        return refuse(err, ERROR_TOO_LARGE, mark, "nested too deep");
    }
    json_incref(container);
    enum error_code code = put(tree, container, mark, err);
    // The parent holds it from here on; without one it was refused.
    json_decref(container);
    if (code == ERROR_NONE) tree->levels[tree->depth++] = (struct level){.container = container};
    return code;
}

static bool is_among(struct str s, const char *const *words)
{
    for (; *words; words++)
        if (str_eq(s, str_c(*words))) return true;
    return false;
}

// The value of a plain scalar.
static json_t *typed_scalar(struct str s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_among(s, nulls)) return json_null();
    if (is_among(s, trues)) return json_true();
    if (is_among(s, falses)) return json_false();
    // JSON's numbers, which jansson reads; YAML's other forms of them stay texts.
    bool may_be_number = s.len < 64 && strspn(s.at, "0123456789") + (s.at[0] == '-') > 0;
    json_t *number = may_be_number ? json_loadb(s.at, s.len, JSON_DECODE_ANY, NULL) : NULL;
    if (json_is_number(number)) return number;
    json_decref(number);
    return json_stringn(s.at, s.len);
}

static json_t *scalar(const struct tree *tree, const yaml_event_t *event)
{
    const char *at = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const struct level *level = tree->depth ? &tree->levels[tree->depth - 1] : NULL;
    bool is_key = level && json_is_object(level->container) && !level->key;
    return tree->is_typed && is_plain && !is_key ? typed_scalar(str_of(at, len)) : json_stringn(at, len);
}

static enum error_code on_event(struct tree *tree, const yaml_event_t *event, struct error *err)
{
    const yaml_mark_t *mark = &event->start_mark;
    switch (event->type) {
    case YAML_ALIAS_EVENT: return refuse(err, ERROR_INVALID, mark, "aliases are not accepted");
    case YAML_DOCUMENT_START_EVENT:
        return tree->root ? refuse(err, ERROR_INVALID, mark, "one document is expected") : ERROR_NONE;
    case YAML_SCALAR_EVENT: return put(tree, scalar(tree, event), mark, err);
    case YAML_SEQUENCE_START_EVENT: return open_container(tree, json_array(), mark, err);
    case YAML_MAPPING_START_EVENT: return open_container(tree, json_object(), mark, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: tree->depth--; return ERROR_NONE;
    default: return ERROR_NONE;
    }
}

static enum error_code read_events(yaml_parser_t *parser, struct tree *tree, struct error *err)
{
    for (bool done = false; !done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return refuse(err, ERROR_INVALID, &parser->problem_mark, parser->problem ? parser->problem : "not YAML");
        done = event.type == YAML_STREAM_END_EVENT;
        enum error_code code = on_event(tree, &event, err);
        yaml_event_delete(&event);
        if (code != ERROR_NONE) return code;
    }
    return tree->root ? ERROR_NONE : error_set(err, ERROR_INVALID, "the document is empty");
}

static enum error_code decode(struct str text, size_t bytes_max, bool is_typed, json_t **out, struct error *err)
{
    if (text.len > bytes_max) return error_set(err, ERROR_TOO_LARGE, "over the limit of %zu bytes", bytes_max);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return error_set(err, ERROR_INTERNAL, "no YAML parser");
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.at ? text.at : ""), text.len);
    struct tree tree = {.is_typed = is_typed};
    enum error_code code = read_events(&parser, &tree, err);
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < YAML_TREE_DEPTH_MAX; i++)
        json_decref(tree.levels[i].key);
    if (code == ERROR_NONE)
        *out = tree.root;
    else
        json_decref(tree.root);
    return code;
}

enum error_code yaml_tree_decode(struct str text, size_t bytes_max, json_t **out, struct error *err)
{
    return decode(text, bytes_max, false, out, err);
}

enum error_code yaml_tree_decode_typed(struct str text, size_t bytes_max, json_t **out, struct error *err)
{
    return decode(text, bytes_max, true, out, err);
}
