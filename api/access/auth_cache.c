#include "api/access/auth_cache.h"

#include "base/hash.h"
#include "base/mem.h"

enum { WAYS = 4, SETS = API_AUTH_CACHE_ENTRIES / WAYS };

struct entry {
    bool is_used;
    uint64_t asked_ms;
    struct token token;
    struct api_principal principal;
};

struct api_auth_cache {
    uint64_t ttl_ms;
    struct entry entries[API_AUTH_CACHE_ENTRIES];
};

struct api_auth_cache *api_auth_cache_create(uint64_t ttl_ms)
{
    struct api_auth_cache *cache = mem_zalloc(sizeof *cache);
    cache->ttl_ms = ttl_ms;
    return cache;
}

void api_auth_cache_destroy(struct api_auth_cache *cache)
{
    if (cache) mem_free_secret(cache, sizeof *cache);
}

// Only valid credentials get in, and their ids are random: nobody can choose which set to crowd.
static size_t first_of_set(const struct token *token)
{
    return hash_end(hash_text(HASH_BEGIN, str_c(token->id))) % SETS * WAYS;
}

static bool is_same(const struct entry *entry, const struct token *token)
{
    if (!entry->is_used || !str_eq(str_c(entry->token.id), str_c(token->id))) return false;
    return str_eq_secret(str_of((const char *)entry->token.secret_sha256, sizeof entry->token.secret_sha256),
                         str_of((const char *)token->secret_sha256, sizeof token->secret_sha256));
}

static size_t index_of(const struct api_auth_cache *cache, const struct token *token)
{
    size_t first = first_of_set(token);
    for (size_t i = first; i < first + WAYS; i++)
        if (is_same(&cache->entries[i], token)) return i;
    return API_AUTH_CACHE_ENTRIES;
}

const struct api_principal *api_auth_cache_find(const struct api_auth_cache *cache, const struct token *token,
                                                uint64_t now_ms)
{
    size_t i = index_of(cache, token);
    if (i == API_AUTH_CACHE_ENTRIES) return NULL;
    const struct entry *entry = &cache->entries[i];
    return now_ms - entry->asked_ms < cache->ttl_ms ? &entry->principal : NULL;
}

void api_auth_cache_put(struct api_auth_cache *cache, const struct token *token, const struct api_principal *principal,
                        uint64_t asked_ms)
{
    size_t i = index_of(cache, token);
    if (i == API_AUTH_CACHE_ENTRIES) {
        size_t first = i = first_of_set(token);
        for (size_t k = first; k < first + WAYS; k++) {
            const struct entry *entry = &cache->entries[k], *oldest = &cache->entries[i];
            if (oldest->is_used && (!entry->is_used || entry->asked_ms < oldest->asked_ms)) i = k;
        }
    } else if (cache->entries[i].asked_ms > asked_ms) {
        return; // a younger answer is there
    }
    cache->entries[i] = (struct entry){.is_used = true, .asked_ms = asked_ms, .token = *token, .principal = *principal};
}

void api_auth_cache_drop(struct api_auth_cache *cache, const struct token *token)
{
    size_t i = index_of(cache, token);
    if (i < API_AUTH_CACHE_ENTRIES) cache->entries[i] = (struct entry){0};
}
