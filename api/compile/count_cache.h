// count_cache: what lists were counted to, for a moment: callers that ask the same with the same
// rights at the same time share one count, and a count is made anew at most once in its interval.
// One an api, on its loop.
#ifndef CULVERT_API_COMPILE_COUNT_CACHE_H
#define CULVERT_API_COMPILE_COUNT_CACHE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"

struct count_cache;
struct count_flight; // a count under way

// Counts that are kept, at most; 0: none, each caller counts for itself. interval_ms: from a
// count's end.
struct count_cache *count_cache_create(size_t counts_max, uint64_t interval_ms);
void count_cache_destroy(struct count_cache *cache); // NULL is fine; after pg was closed

// value is borrowed.
typedef void (*count_counted)(void *arg, const struct error *err, const json_t *value);
// on_counted comes exactly once, at once or later. Returns the flight when the caller has to count,
// NULL when another one does or did. key: the question with the account and its rights. arena: the
// request's, which lives until on_counted.
struct count_flight *count_cache_join(struct count_cache *cache, struct str key, struct arena *arena,
                                      count_counted on_counted, void *arg);
// Answers all that joined; the reference of value is taken. Errors are not kept.
void count_flight_end(struct count_flight *flight, const struct error *err, json_t *value);

#endif
