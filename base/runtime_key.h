// runtime_key: which runtime is meant: its account and its name in it. Views; whoever makes one
// keeps the texts.
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

#endif
