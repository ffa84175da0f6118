// identity_cache: identities whose signature and content were found good a moment ago, so that the calls of one user
// within a second are checked by comparing bytes: HMAC and JSON cost more than all the rest of a small call. What is
// remembered is bound to the very text and the very key; an identity that has expired meanwhile is not found. Owned by
// the calls; one loop.
#ifndef CULVERT_AGENT_IDENTITY_CACHE_H
#define CULVERT_AGENT_IDENTITY_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/str.h"

enum { IDENTITY_CACHE_SLOTS = 256, IDENTITY_CACHE_TEXT_BYTES_MAX = 768 };

struct identity_cache;

struct identity_cache *identity_cache_create(void);
void identity_cache_destroy(struct identity_cache *cache); // NULL is fine
// Was this text verified with this key, and may it still be used at now_ms (wall clock)?
bool identity_cache_find(struct identity_cache *cache, struct str text, const uint8_t key[ID_SHA256_BYTES],
                         int64_t now_ms);
// It has been verified; usable_until_ms: its expiry with whatever skew the verifier grants. Longer texts are forgotten.
void identity_cache_put(struct identity_cache *cache, struct str text, const uint8_t key[ID_SHA256_BYTES],
                        int64_t usable_until_ms);

#endif
