#include "api/access/access_rules.h"

#include <assert.h>

#include "base/json/json.h"
#include "base/mem.h"

enum { JSON_BYTES_MAX = 64 * 1024 * 1024, JSON_TOKENS_MAX = 4 * 1000 * 1000, ARENA_BYTES_MAX = 256 * 1024 * 1024 };

struct access_rules {
    unsigned references;
    bool is_default_allow;
    struct arena *arena;
    struct access_rule *rules;
    size_t count;
    struct access_set *sets[ENTITY_COUNT][ACTION_COUNT];
};

static enum error_code parse_all(struct access_rules *rules, const json_t *list, struct error *err)
{
    const json_t *each;
    size_t i;
    rules->rules = arena_array(rules->arena, json_array_size(list), sizeof *rules->rules);
    json_array_foreach(list, i, each)
    {
        if (access_rule_parse(each, rules->arena, &rules->rules[rules->count], err) == ERROR_NONE)
            rules->count++;
        else if (!str_eq(json_get_str(each, "effect"), STR("ALLOW")))
            return error_set(err, ERROR_INTERNAL, "a rule of the account is of a newer version");
    }
    return ERROR_NONE;
}

enum error_code access_rules_create(bool is_default_allow, struct str rules_json, struct access_rules **out,
                                    struct error *err)
{
    const struct json_limits limits = {.bytes_max = JSON_BYTES_MAX, .tokens_max = JSON_TOKENS_MAX};
    json_t *list;
    if (json_decode(rules_json, &limits, &list, err) != ERROR_NONE) return err->code;
    struct access_rules *rules = mem_zalloc(sizeof *rules);
    rules->references = 1;
    rules->is_default_allow = is_default_allow;
    rules->arena = arena_create(ARENA_BYTES_MAX);
    enum error_code code = parse_all(rules, list, err);
    json_decref(list);
    if (code == ERROR_NONE)
        *out = rules;
    else
        access_rules_unref(rules);
    return code;
}

struct access_rules *access_rules_ref(struct access_rules *rules)
{
    if (rules) rules->references++;
    return rules;
}

void access_rules_unref(struct access_rules *rules)
{
    if (!rules || --rules->references > 0) return;
    for (size_t i = 0; i < ENTITY_COUNT; i++)
        for (size_t j = 0; j < ACTION_COUNT; j++)
            access_set_destroy(rules->sets[i][j]);
    arena_destroy(rules->arena);
    mem_free(rules);
}

const struct access_set *access_rules_set(struct access_rules *rules, enum access_entity entity,
                                          enum access_action action)
{
    struct access_set **set = &rules->sets[entity][action];
    if (!*set) *set = access_set_create(rules->rules, rules->count, entity, action, rules->is_default_allow);
    return *set;
}

size_t access_rules_bytes(const struct access_rules *rules)
{
    size_t bytes = sizeof *rules + arena_used(rules->arena);
    for (size_t i = 0; i < ENTITY_COUNT; i++)
        for (size_t j = 0; j < ACTION_COUNT; j++)
            if (rules->sets[i][j]) bytes += access_set_bytes(rules->sets[i][j]);
    return bytes;
}

struct access_decision access_decide(struct access_rules *rules, enum access_entity entity, enum access_action action,
                                     const struct access_object *object)
{
    if (!rules) return (struct access_decision){.is_allowed = true, .reason = ACCESS_UNLIMITED};
    return access_set_decide(access_rules_set(rules, entity, action), object);
}

bool access_allows_all(struct access_rules *rules, enum access_entity entity, enum access_action action)
{
    return !rules || access_set_allows_all(access_rules_set(rules, entity, action));
}

bool access_may_deny_by_others(struct access_rules *rules, enum access_entity entity, enum access_action action,
                               unsigned known)
{
    return rules && access_set_may_deny_by_others(access_rules_set(rules, entity, action), known);
}

const char *access_reason_name(enum access_reason reason)
{
    static const char *const names[] = {
        [ACCESS_UNLIMITED] = "UNLIMITED",       [ACCESS_ALLOW_RULE] = "ALLOW_RULE",
        [ACCESS_DENY_RULE] = "DENY_RULE",       [ACCESS_DEFAULT_ALLOW] = "DEFAULT_ALLOW",
        [ACCESS_DEFAULT_DENY] = "DEFAULT_DENY",
    };
    return names[reason];
}
