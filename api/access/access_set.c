#include "api/access/access_set.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/table.h"

enum {
    KEY_BYTES_MAX = ACCESS_RULE_DIMENSIONS_MAX * (2 * ACCESS_RULE_VALUE_BYTES_MAX + 2) + ACCESS_PREFIX_BYTES,
    DOCUMENT_BYTES_MAX = 512 * 1024 * 1024,
    ARENA_BYTES_MAX = 512 * 1024 * 1024,
};

struct entry {
    struct table_node node;
    struct str key;
    const char *rule_id;
};

struct signatures {
    struct access_signature *list;
    size_t count, cap;
};

struct access_set {
    struct arena *arena;
    bool is_default_allow;
    const char *allows, *denies;         // the first rule without attributes
    struct signatures signatures, named; // without and with the keys of labels
    struct table keys;
    struct strbuf document;
};

void access_signature_prefix(const struct access_signature *signature, char out[ACCESS_PREFIX_BYTES])
{
    snprintf(out, ACCESS_PREFIX_BYTES, "%c%02x%u", signature->is_deny ? 'd' : 'a', signature->mask & 0xff,
             signature->label_keys % 10);
}

static bool is_entry(const struct table_node *node, const void *key)
{
    return str_eq(TABLE_OWNER(node, const struct entry, node)->key, *(const struct str *)key);
}

static const struct entry *entry_find(const struct access_set *set, struct str key)
{
    uint64_t hash = hash_end(hash_part(set->keys.seed, key));
    struct table_node *node = table_find(&set->keys, hash, is_entry, &key);
    return node ? TABLE_OWNER(node, const struct entry, node) : NULL;
}

// Of the same key the first rule stays.
static void entry_add(struct access_set *set, struct str key, const struct access_rule *rule)
{
    if (entry_find(set, key)) return;
    struct entry *entry = arena_alloc(set->arena, sizeof *entry);
    entry->key = arena_str(set->arena, key);
    entry->rule_id = rule->id;
    table_add(&set->keys, &entry->node, hash_end(hash_part(set->keys.seed, entry->key)));
    strbuf_add_byte(&set->document, set->document.len > 1 ? ',' : ' ');
    strbuf_add_json(&set->document, entry->key);
    strbuf_add_c(&set->document, ":0");
}

static bool is_same(const struct access_signature *a, const struct access_signature *b)
{
    if (a->is_deny != b->is_deny || a->mask != b->mask || a->label_keys != b->label_keys) return false;
    for (unsigned i = 0; i < a->label_keys; i++)
        if (!str_eq(a->keys[i], b->keys[i])) return false;
    return true;
}

static void signature_add(struct arena *arena, struct signatures *in, const struct access_signature *signature)
{
    for (size_t i = 0; i < in->count; i++)
        if (is_same(&in->list[i], signature)) return;
    if (in->count == in->cap) {
        size_t cap = in->cap ? in->cap * 2 : 8;
        struct access_signature *grown = arena_array(arena, cap, sizeof *grown);
        if (in->count) memcpy(grown, in->list, in->count * sizeof *grown);
        in->list = grown;
        in->cap = cap;
    }
    in->list[in->count++] = *signature;
}

// "Labels and Selectors", Kubernetes documentation: syntax of keys.
static bool is_label_key(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char letter = key.at[i] | 0x20;
        if (letter >= 'a' && letter <= 'z') continue;
        if (!memchr("0123456789-_./", key.at[i], 14)) return false;
    }
    return key.len > 0;
}

// A key that no label can have stays with those of any labels.
static struct access_signature name_labels(const struct access_rule *rule, struct access_signature signature)
{
    struct access_signature named = signature;
    for (unsigned i = 0; i < rule->label_keys; i++) {
        const struct access_dimension *dimension = &rule->dimensions[rule->dimension_count - rule->label_keys + i];
        struct str value = dimension->values[0];
        const char *end = memchr(value.at, '\x02', value.len);
        named.keys[i] = (struct str){value.at, (size_t)(end - value.at)};
        if (!is_label_key(named.keys[i])) return signature;
    }
    return named;
}

static void rule_add_signatures(struct access_set *set, const struct access_rule *rule,
                                const struct access_signature *signature)
{
    struct access_signature named = name_labels(rule, *signature);
    for (unsigned i = 0; i < named.label_keys; i++)
        named.keys[i] = arena_str(set->arena, named.keys[i]);
    signature_add(set->arena, &set->signatures, signature);
    if (set->named.count <= ACCESS_LOOKUPS_MAX) signature_add(set->arena, &set->named, &named);
}

// Each combination of one value of each dimension.
static void add_combinations(struct access_set *set, const struct access_rule *rule)
{
    const struct access_signature signature = {
        .is_deny = rule->is_deny, .mask = rule->mask, .label_keys = rule->label_keys};
    char prefix[ACCESS_PREFIX_BYTES];
    struct strbuf key;
    access_signature_prefix(&signature, prefix);
    rule_add_signatures(set, rule, &signature);
    strbuf_init(&key, KEY_BYTES_MAX);
    for (unsigned number = 0; number < rule->combinations; number++) {
        size_t rest = number;
        strbuf_clear(&key);
        strbuf_add_c(&key, prefix);
        for (size_t i = 0; i < rule->dimension_count; i++) {
            const struct access_dimension *dimension = &rule->dimensions[i];
            strbuf_add_byte(&key, '\x01');
            strbuf_add_str(&key, dimension->values[rest % dimension->count]);
            rest /= dimension->count;
        }
        entry_add(set, strbuf_str(&key), rule);
    }
    strbuf_finish(&key);
}

struct access_set *access_set_create(const struct access_rule *rules, size_t count, enum access_entity entity,
                                     enum access_action action, bool is_default_allow)
{
    struct access_set *set = mem_zalloc(sizeof *set);
    set->arena = arena_create(ARENA_BYTES_MAX);
    set->is_default_allow = is_default_allow;
    table_init(&set->keys);
    strbuf_init(&set->document, DOCUMENT_BYTES_MAX);
    strbuf_add_byte(&set->document, '{');
    for (size_t i = 0; i < count; i++) {
        const struct access_rule *rule = &rules[i];
        if (rule->entity != entity || !(rule->actions & 1u << action)) continue;
        if (rule->dimension_count)
            add_combinations(set, rule);
        else if (rule->is_deny && !set->denies)
            set->denies = rule->id;
        else if (!rule->is_deny && !set->allows)
            set->allows = rule->id;
    }
    strbuf_add_byte(&set->document, '}');
    return set;
}

void access_set_destroy(struct access_set *set)
{
    if (!set) return;
    struct table_node *node = table_next(&set->keys, NULL);
    while (node) {
        struct table_node *next = table_next(&set->keys, node);
        table_remove(&set->keys, node);
        node = next;
    }
    table_finish(&set->keys);
    strbuf_finish(&set->document);
    arena_destroy(set->arena);
    mem_free(set);
}

static void add_label(struct strbuf *key, const struct access_label *label)
{
    strbuf_add_byte(key, '\x01');
    strbuf_add_str(key, label->key);
    strbuf_add_byte(key, '\x02');
    bool is_hidden = str_starts(label->value, STR(ACCESS_DIGEST_PREFIX));
    strbuf_add_str(key, is_hidden ? STR(ACCESS_HIDDEN_VALUE) : label->value);
}

// The first rule that the object's labels complete the key to; `key` is as before afterwards.
static const char *find_labels(const struct access_set *set, const struct access_object *object, unsigned left,
                               struct str above, struct strbuf *key)
{
    const struct entry *entry = left ? NULL : entry_find(set, strbuf_str(key));
    const char *found = entry ? entry->rule_id : NULL;
    size_t len = key->len;
    for (size_t i = 0; left && i < object->label_count; i++) {
        if (above.at && str_compare(object->labels[i].key, above) <= 0) continue;
        add_label(key, &object->labels[i]);
        const char *other = find_labels(set, object, left - 1, object->labels[i].key, key);
        if (other && (!found || strcmp(other, found) < 0)) found = other;
        key->len = len;
    }
    return found;
}

static const char *find_signature(const struct access_set *set, const struct access_signature *signature,
                                  const struct access_object *object)
{
    char prefix[ACCESS_PREFIX_BYTES];
    struct strbuf key;
    strbuf_init(&key, SIZE_MAX / 2);
    access_signature_prefix(signature, prefix);
    strbuf_add_c(&key, prefix);
    const char *found = NULL;
    bool has_all = true;
    for (unsigned name = 0; name < ATTRIBUTE_LABEL; name++) {
        if (!(signature->mask & 1u << name)) continue;
        if (!object->values[name].len) has_all = false;
        strbuf_add_byte(&key, '\x01');
        strbuf_add_str(&key, object->values[name]);
    }
    if (has_all) found = find_labels(set, object, signature->label_keys, STR_EMPTY, &key);
    strbuf_finish(&key);
    return found;
}

// The first by id of the rules with or without attributes.
static const char *find_rule(const struct access_set *set, bool is_deny, const struct access_object *object)
{
    const char *found = is_deny ? set->denies : set->allows;
    for (size_t i = 0; i < set->signatures.count; i++) {
        if (set->signatures.list[i].is_deny != is_deny) continue;
        const char *other = find_signature(set, &set->signatures.list[i], object);
        if (other && (!found || strcmp(other, found) < 0)) found = other;
    }
    return found;
}

struct access_decision access_set_decide(const struct access_set *set, const struct access_object *object)
{
    const char *rule = find_rule(set, true, object);
    if (rule) return (struct access_decision){false, ACCESS_DENY_RULE, rule};
    rule = find_rule(set, false, object);
    if (rule) return (struct access_decision){true, ACCESS_ALLOW_RULE, rule};
    if (set->is_default_allow) return (struct access_decision){true, ACCESS_DEFAULT_ALLOW, NULL};
    return (struct access_decision){false, ACCESS_DEFAULT_DENY, NULL};
}

bool access_set_may_deny_by_others(const struct access_set *set, unsigned known)
{
    for (size_t i = 0; i < set->signatures.count; i++) {
        const struct access_signature *signature = &set->signatures.list[i];
        if (signature->is_deny && (signature->label_keys || signature->mask & ~known)) return true;
    }
    return false;
}

static bool has_signature(const struct access_set *set, bool is_deny)
{
    for (size_t i = 0; i < set->signatures.count; i++)
        if (set->signatures.list[i].is_deny == is_deny) return true;
    return false;
}

bool access_set_needs_allow(const struct access_set *set)
{
    return !set->allows && !set->is_default_allow;
}

bool access_set_allows_all(const struct access_set *set)
{
    return !access_set_needs_allow(set) && !set->denies && !has_signature(set, true);
}

bool access_set_allows_none(const struct access_set *set)
{
    return set->denies || (access_set_needs_allow(set) && !has_signature(set, false));
}

size_t access_set_lookups(const struct access_set *set, const struct access_signature **out)
{
    const struct signatures *lookups = set->named.count <= ACCESS_LOOKUPS_MAX ? &set->named : &set->signatures;
    *out = lookups->list;
    return lookups->count;
}

struct str access_set_document(const struct access_set *set)
{
    return strbuf_str(&set->document);
}

size_t access_set_bytes(const struct access_set *set)
{
    return arena_used(set->arena) + set->document.cap;
}
