#include "agent/calls/identity_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

struct slot {
    size_t len; // 0: empty
    int64_t usable_until_ms;
    uint8_t key[ID_SHA256_BYTES];
    char text[IDENTITY_CACHE_TEXT_BYTES_MAX];
};

struct identity_cache {
    struct slot slots[IDENTITY_CACHE_SLOTS];
};

struct identity_cache *identity_cache_create(void)
{
    return mem_zalloc(sizeof(struct identity_cache));
}

void identity_cache_destroy(struct identity_cache *cache)
{
    if (cache) mem_free_secret(cache, sizeof(*cache));
}

// The text ends in its signature: its last bytes are as good as a hash, and a wrong slot only costs a verification.
static struct slot *slot_of(struct identity_cache *cache, struct str text)
{
    uint64_t hash = HASH_BEGIN;
    for (size_t i = text.len > 8 ? text.len - 8 : 0; i < text.len; i++)
        hash = hash_byte(hash, (uint8_t)text.at[i]);
    return &cache->slots[hash_end(hash) % IDENTITY_CACHE_SLOTS];
}

bool identity_cache_find(struct identity_cache *cache, struct str text, const uint8_t key[ID_SHA256_BYTES],
                         int64_t now_ms)
{
    const struct slot *slot = slot_of(cache, text);
    if (!text.len || slot->len != text.len || now_ms > slot->usable_until_ms) return false;
    struct str known_key = str_of((const char *)slot->key, ID_SHA256_BYTES);
    return str_eq_secret(text, str_of(slot->text, slot->len)) &&
           str_eq_secret(known_key, str_of((const char *)key, ID_SHA256_BYTES));
}

void identity_cache_put(struct identity_cache *cache, struct str text, const uint8_t key[ID_SHA256_BYTES],
                        int64_t usable_until_ms)
{
    if (!text.len || text.len > IDENTITY_CACHE_TEXT_BYTES_MAX) return;
    struct slot *slot = slot_of(cache, text);
    slot->len = text.len;
    slot->usable_until_ms = usable_until_ms;
    memcpy(slot->key, key, ID_SHA256_BYTES);
    memcpy(slot->text, text.at, text.len);
}
