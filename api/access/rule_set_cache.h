// rule_set_cache: compiled rules by account and name of the set (access_rule_set() in SQL),
// so that a set is made once after a change. Bounded by number and bytes; those that were
// not used longest leave. One an api_auth, on its loop.
#ifndef CULVERT_API_ACCESS_RULE_SET_CACHE_H
#define CULVERT_API_ACCESS_RULE_SET_CACHE_H

#include "api/access/access_rules.h"

enum { RULE_SET_CACHE_ENTRIES = 4096, RULE_SET_CACHE_BYTES = 128 * 1024 * 1024 };

struct rule_set_cache;

struct rule_set_cache *rule_set_cache_create(void);
void rule_set_cache_destroy(struct rule_set_cache *cache); // NULL is fine
// Borrowed; NULL: it is not known.
struct access_rules *rule_set_cache_find(struct rule_set_cache *cache, struct str account_id, struct str name);
// Takes a reference of its own.
void rule_set_cache_put(struct rule_set_cache *cache, struct str account_id, struct str name,
                        struct access_rules *rules);

#endif
