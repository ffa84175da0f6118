// access_rules: the rules that apply to a user, by the teams that the user is in, with the
// account's default. Counted references, of one loop; a set is compiled when it is first asked for.
#ifndef CULVERT_API_ACCESS_ACCESS_RULES_H
#define CULVERT_API_ACCESS_ACCESS_RULES_H

#include "api/access/access_set.h"

struct access_rules;

// rules_json: an array of what access_rule_parse() takes, in order of ids. An allow that this
// version does not understand is left out; a deny that it does not is ERROR_INTERNAL, because
// without it more would be allowed.
MUST_CHECK enum error_code access_rules_create(bool is_default_allow, struct str rules_json, struct access_rules **out,
                                               struct error *err);
struct access_rules *access_rules_ref(struct access_rules *rules); // NULL is fine
void access_rules_unref(struct access_rules *rules);               // NULL is fine

// Valid as long as the reference.
const struct access_set *access_rules_set(struct access_rules *rules, enum access_entity entity,
                                          enum access_action action);
size_t access_rules_bytes(const struct access_rules *rules); // grows as sets are compiled

// The one decision about an entity. rules NULL: no rules limit the caller.
struct access_decision access_decide(struct access_rules *rules, enum access_entity entity, enum access_action action,
                                     const struct access_object *object);
// Whether the action is allowed on every entity of the type.
bool access_allows_all(struct access_rules *rules, enum access_entity entity, enum access_action action);
// Whether a deny names an attribute that is not among these (bits by enum access_attribute_name):
// where only these are known of an entity, it may apply.
bool access_may_deny_by_others(struct access_rules *rules, enum access_entity entity, enum access_action action,
                               unsigned known);
// The name of a reason, as the API has it.
const char *access_reason_name(enum access_reason reason);

#endif
