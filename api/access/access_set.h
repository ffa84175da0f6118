// access_set: the rules that apply to a user for one type of entities and one action, compiled: a
// key for each combination of attribute values that a rule names. Rules that name the same
// attributes make one signature, so that a decision is one lookup a signature, however many rules
// there are. In SQL the keys are the members of a JSON object (access_scope.h). Constant once it is
// made; one thread.
#ifndef CULVERT_API_ACCESS_ACCESS_SET_H
#define CULVERT_API_ACCESS_ACCESS_SET_H

#include "api/access/access_rule.h"

// What rules see of an entity. Empty: it has no such attribute.
struct access_label {
    struct str key, value;
};
struct access_object {
    struct str values[ATTRIBUTE_COUNT];
    const struct access_label *labels;
    size_t label_count;
};

enum access_reason { ACCESS_UNLIMITED, ACCESS_ALLOW_RULE, ACCESS_DENY_RULE, ACCESS_DEFAULT_ALLOW, ACCESS_DEFAULT_DENY };

struct access_decision {
    bool is_allowed;
    enum access_reason reason;
    const char *rule_id; // the deciding one, of several the first by id; NULL: none
};

// What rules name: attributes, and labels with their keys or any labels of the object.
struct access_signature {
    bool is_deny;
    unsigned mask, label_keys;
    struct str keys[ACCESS_RULE_LABEL_KEYS_MAX]; // empty: any
};

// More of them would make a statement slow to plan: those with labels then stand for all keys.
enum { ACCESS_LOOKUPS_MAX = 16 };

struct access_set;

// A key of the document begins with this text; then for each attribute of the mask "\1" and the
// value, then for each label "\1key\2value" in the order of the keys (ACCESS_HIDDEN_VALUE).
enum { ACCESS_PREFIX_BYTES = 8 };
void access_signature_prefix(const struct access_signature *signature, char out[ACCESS_PREFIX_BYTES]);

// rules: of any type and action, in order of their ids; they must outlive the set.
struct access_set *access_set_create(const struct access_rule *rules, size_t count, enum access_entity entity,
                                     enum access_action action, bool is_default_allow);
void access_set_destroy(struct access_set *set); // NULL is fine

struct access_decision access_set_decide(const struct access_set *set, const struct access_object *object);
// See access_may_deny_by_others().
bool access_set_may_deny_by_others(const struct access_set *set, unsigned known);
// What no attribute changes: every entity is allowed, or none is.
bool access_set_allows_all(const struct access_set *set);
bool access_set_allows_none(const struct access_set *set);
// What decides in SQL is in these: a deny, and where access is denied by default an allow. Keys of
// labels have only the characters that Kubernetes accepts.
size_t access_set_lookups(const struct access_set *set, const struct access_signature **out);
// No rule or default allows what no key is for.
bool access_set_needs_allow(const struct access_set *set);
struct str access_set_document(const struct access_set *set);
size_t access_set_bytes(const struct access_set *set);

#endif
