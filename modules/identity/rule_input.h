// rule_input: a rule as a client gives it (CreateAbacRuleInput, UpdateAbacRuleInput), checked.
// Lives in its arena; pure.
#ifndef CULVERT_MODULES_IDENTITY_RULE_INPUT_H
#define CULVERT_MODULES_IDENTITY_RULE_INPUT_H

#include "api/access/access_rule.h"

struct rule_input {
    struct access_rule rule;
    struct str entity, effect, teams, tags, actions, attributes; // the last four: JSON
};

// ERROR_INVALID: names the member, what is wrong and what is accepted.
MUST_CHECK enum error_code rule_input_take(const json_t *input, struct arena *arena, struct rule_input *out,
                                           struct error *err);

#endif
