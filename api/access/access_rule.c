#include "api/access/access_rule.h"

#include <stdio.h>

#include "base/json/json.h"

static enum error_code parse_actions(const json_t *rule, uint32_t *out, struct error *err)
{
    const json_t *list = json_get_array(rule, "actions"), *name;
    size_t i;
    *out = 0;
    json_array_foreach(list, i, name)
    {
        enum access_action action;
        if (!access_action_named(json_str(name), &action))
            return error_set(err, ERROR_INVALID, "actions[%zu]: \"%.*s\" is no action; for example VIEW or SYNC", i,
                             STR_ARG(str_first(json_str(name), 100)));
        *out |= 1u << action;
    }
    if (!*out) return error_set(err, ERROR_INVALID, "actions: must name at least one action");
    return ERROR_NONE;
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20) return true;
    return false;
}

static enum error_code check_value(const json_t *object, const char *member, size_t i, struct error *err)
{
    struct str text = json_get_str(object, member);
    if (text.len && text.len <= ACCESS_RULE_VALUE_BYTES_MAX && !has_control(text)) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "attributes[%zu].%s: %zu bytes, must be 1 to %d without control characters", i,
                     member, text.len, ACCESS_RULE_VALUE_BYTES_MAX);
}

// One of the list `attributes`, and which it is. Only labels have keys.
static enum error_code check_attribute(const json_t *object, size_t i, enum access_entity entity,
                                       enum access_attribute_name *out, struct error *err)
{
    struct str name = json_get_str(object, "name"), key = json_get_str(object, "key");
    if (!access_attribute_named(name, out))
        return error_set(err, ERROR_INVALID, "attributes[%zu].name: \"%.*s\" is no attribute", i,
                         STR_ARG(str_first(name, 100)));
    if (!access_entity_has(entity, *out))
        return error_set(err, ERROR_INVALID, "attributes[%zu].name: entities of the type %s have no %s", i,
                         access_entity_name(entity), access_attribute_text(*out));
    if (*out != ATTRIBUTE_LABEL && key.len)
        return error_set(err, ERROR_INVALID, "attributes[%zu].key: only LABEL has a key", i);
    enum error_code code = check_value(object, "value", i, err);
    if (code == ERROR_NONE && *out == ATTRIBUTE_LABEL) code = check_value(object, "key", i, err);
    return code;
}

// The values of an attribute, or of labels with this key.
static struct access_dimension dimension_of(const json_t *list, enum access_attribute_name name, struct str key,
                                            bool is_deny, struct arena *arena)
{
    struct str *values = arena_array(arena, json_array_size(list) + 1, sizeof *values);
    struct access_dimension made = {.values = values};
    if (key.len && is_deny)
        values[made.count++] = str_c(arena_printf(arena, "%.*s\x02" ACCESS_HIDDEN_VALUE, STR_ARG(key)));
    const json_t *object;
    size_t i;
    json_array_foreach(list, i, object)
    {
        enum access_attribute_name found;
        struct str value = json_get_str(object, "value");
        if (!access_attribute_named(json_get_str(object, "name"), &found) || found != name) continue;
        if (key.len && !str_eq(json_get_str(object, "key"), key)) continue;
        struct str text = key.len ? str_c(arena_printf(arena, "%.*s\x02%.*s", STR_ARG(key), STR_ARG(value)))
                                  : arena_str(arena, value);
        bool is_new = true;
        for (size_t j = 0; j < made.count && is_new; j++)
            is_new = !str_eq(values[j], text);
        if (is_new) values[made.count++] = text;
    }
    return made;
}

// In byte order, each once.
static enum error_code label_keys_of(const json_t *list, struct access_rule *rule,
                                     struct str out[ACCESS_RULE_LABEL_KEYS_MAX], struct error *err)
{
    const json_t *object;
    size_t i;
    json_array_foreach(list, i, object)
    {
        struct str key = json_get_str(object, "key");
        unsigned at = 0;
        if (!key.len) continue;
        while (at < rule->label_keys && str_compare(out[at], key) < 0)
            at++;
        if (at < rule->label_keys && str_eq(out[at], key)) continue;
        if (rule->label_keys == ACCESS_RULE_LABEL_KEYS_MAX)
            return error_set(err, ERROR_INVALID, "attributes: labels with more than %d keys; make a rule for each",
                             ACCESS_RULE_LABEL_KEYS_MAX);
        for (unsigned j = rule->label_keys; j > at; j--)
            out[j] = out[j - 1];
        out[at] = key;
        rule->label_keys++;
    }
    return ERROR_NONE;
}

static enum error_code add_dimensions(const json_t *list, struct arena *arena, struct access_rule *rule,
                                      struct error *err)
{
    struct str keys[ACCESS_RULE_LABEL_KEYS_MAX];
    if (label_keys_of(list, rule, keys, err) != ERROR_NONE) return err->code;
    for (unsigned name = 0; name < ATTRIBUTE_LABEL; name++)
        if (rule->mask & 1u << name)
            rule->dimensions[rule->dimension_count++] =
                dimension_of(list, (enum access_attribute_name)name, STR_EMPTY, rule->is_deny, arena);
    for (unsigned i = 0; i < rule->label_keys; i++)
        rule->dimensions[rule->dimension_count++] = dimension_of(list, ATTRIBUTE_LABEL, keys[i], rule->is_deny, arena);
    size_t combinations = 1;
    for (size_t i = 0; i < rule->dimension_count && combinations <= ACCESS_RULE_COMBINATIONS_MAX; i++)
        combinations *= rule->dimensions[i].count;
    if (combinations > ACCESS_RULE_COMBINATIONS_MAX)
        return error_set(err, ERROR_INVALID,
                         "attributes: more than %d combinations of values (one of each attribute); make several rules",
                         ACCESS_RULE_COMBINATIONS_MAX);
    rule->combinations = (unsigned)combinations;
    return ERROR_NONE;
}

static enum error_code parse_attributes(const json_t *json, struct arena *arena, struct access_rule *rule,
                                        struct error *err)
{
    const json_t *list = json_get_array(json, "attributes"), *object;
    size_t i;
    if (json_array_size(list) > ACCESS_RULE_ATTRIBUTES_MAX)
        return error_set(err, ERROR_INVALID, "attributes: %zu, must be at most %d; make several rules",
                         json_array_size(list), ACCESS_RULE_ATTRIBUTES_MAX);
    json_array_foreach(list, i, object)
    {
        enum access_attribute_name name;
        if (check_attribute(object, i, rule->entity, &name, err) != ERROR_NONE) return err->code;
        if (name != ATTRIBUTE_LABEL) rule->mask |= 1u << name;
    }
    return add_dimensions(list, arena, rule, err);
}

enum error_code access_rule_parse(const json_t *json, struct arena *arena, struct access_rule *out, struct error *err)
{
    struct access_rule rule = {.id = arena_cstr(arena, json_get_str(json, "id"))};
    struct str entity = json_get_str(json, "entityType"), effect = json_get_str(json, "effect");
    if (!access_entity_named(entity, &rule.entity))
        return error_set(err, ERROR_INVALID, "entityType: \"%.*s\" is no type of entities",
                         STR_ARG(str_first(entity, 100)));
    rule.is_deny = str_eq(effect, STR("DENY"));
    if (!rule.is_deny && effect.len && !str_eq(effect, STR("ALLOW")))
        return error_set(err, ERROR_INVALID, "effect: must be ALLOW or DENY");
    enum error_code code = parse_actions(json, &rule.actions, err);
    if (code == ERROR_NONE) code = parse_attributes(json, arena, &rule, err);
    if (code == ERROR_NONE) *out = rule;
    return code;
}
