// runtime_key: which runtime is meant: its account and its name in it. Views; whoever makes one
// keeps the texts. And what a name may be.
#ifndef CULVERT_BASE_RUNTIME_KEY_H
#define CULVERT_BASE_RUNTIME_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/str.h"

struct runtime_key {
    struct str account_id, runtime;
};

static inline bool runtime_key_eq(const struct runtime_key *a, const struct runtime_key *b)
{
    return str_eq(a->account_id, b->account_id) && str_eq(a->runtime, b->runtime);
}

static inline uint64_t runtime_key_hash(uint64_t seed, const struct runtime_key *key)
{
    return hash_end(hash_part(hash_part(seed, key->account_id), key->runtime));
}

// "<account id>-<name>" must be one DNS label of at most 63 bytes, and account ids have 24.
enum { RUNTIME_NAME_BYTES_MAX = 38 };

// RFC 1123, section 2.1: lower-case letters, digits and inner dashes.
static inline bool runtime_name_is_valid(struct str name)
{
    if (!name.len || name.len > RUNTIME_NAME_BYTES_MAX) return false;
    if (name.at[0] == '-' || name.at[name.len - 1] == '-') return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
    }
    return true;
}

#endif
