// access_rule: one rule as it is compared: on entities of a type, actions, and for each attribute
// that it names the values of which an entity has to have one. A rule without attributes is about
// all entities of the type. Labels count by key: of each key that it names it needs a value. Lives
// in its arena. Pure; any thread.
#ifndef CULVERT_API_ACCESS_ACCESS_RULE_H
#define CULVERT_API_ACCESS_ACCESS_RULE_H

#include <jansson.h>
#include <stdint.h>

#include "api/access/access_terms.h"
#include "base/arena.h"
#include "base/error.h"

enum {
    ACCESS_RULE_ATTRIBUTES_MAX = 64,
    ACCESS_RULE_VALUE_BYTES_MAX = 512,
    ACCESS_RULE_LABEL_KEYS_MAX = 2,
    ACCESS_RULE_COMBINATIONS_MAX = 256, // of values, one of each attribute
    ACCESS_RULE_DIMENSIONS_MAX = ATTRIBUTE_COUNT - 1 + ACCESS_RULE_LABEL_KEYS_MAX,
};

// A label whose value did not leave the cluster has the digest of it (tunnel/wire/redaction.h): a
// deny that names its key applies, whatever the value may be. In keys it stands for all such values.
#define ACCESS_DIGEST_PREFIX "hmac-sha256:"
#define ACCESS_HIDDEN_VALUE  "\x03"

// An attribute, or a key of labels, whose values are then "key\2value".
struct access_dimension {
    const struct str *values;
    size_t count;
};

struct access_rule {
    const char *id;
    bool is_deny;
    enum access_entity entity;
    uint32_t actions; // bit i: enum access_action i
    unsigned mask;    // bit i: attribute i, without labels
    unsigned label_keys;
    // Of mask in order, then of labels by key.
    struct access_dimension dimensions[ACCESS_RULE_DIMENSIONS_MAX];
    size_t dimension_count;
    unsigned combinations;
};

// rule: {id, entityType, effect, actions, attributes: [{name, key, value}]}. ERROR_INVALID: names
// the member, what is wrong and what is accepted.
MUST_CHECK enum error_code access_rule_parse(const json_t *rule, struct arena *arena, struct access_rule *out,
                                             struct error *err);

#endif
