// auth_cache: credentials that were valid a moment ago, so that a busy client costs one look at the
// database every few seconds. Positive answers only: what is refused is looked up each time. Fixed
// size; one loop.
#ifndef CULVERT_API_ACCESS_AUTH_CACHE_H
#define CULVERT_API_ACCESS_AUTH_CACHE_H

#include "api/access/principal.h"
#include "base/token.h"

enum { API_AUTH_CACHE_ENTRIES = 1024 };

struct api_auth_cache;

struct api_auth_cache *api_auth_cache_create(uint64_t ttl_ms);
void api_auth_cache_destroy(struct api_auth_cache *cache); // NULL is fine

// The principal of this very credential (id and secret), or NULL. Valid until the next put.
const struct api_principal *api_auth_cache_find(const struct api_auth_cache *cache, const struct token *token,
                                                uint64_t now_ms);
// asked_ms: when the database was asked. The answer is as old as the question, so its time runs
// from there.
void api_auth_cache_put(struct api_auth_cache *cache, const struct token *token, const struct api_principal *principal,
                        uint64_t asked_ms);
// The credential turned out not to be valid any more.
void api_auth_cache_drop(struct api_auth_cache *cache, const struct token *token);

#endif
