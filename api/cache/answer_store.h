// answer_store: what an answer made of an account's reported entities depends on, so that it may be
// kept and given again for exactly as long as it is right.
#ifndef CULVERT_API_CACHE_ANSWER_STORE_H
#define CULVERT_API_CACHE_ANSWER_STORE_H

#include "base/id.h"
#include "storage/sql/store.h"

// Over so long a time two equal versions mean that nothing changed between them; over a longer one
// a lease could have run out and been renewed.
enum { ANSWER_VERSION_SPAN_MS = 4000 };

// on_done's node is no JSON but a word without meaning: whatever was written to the account's
// applications, clusters and rollouts, and each turn of their freshness, changes it, and no word
// ever comes back.
void answer_store_version(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// Names the shape of entities in this build: the statements that make them.
void answer_store_shape(uint8_t out[ID_SHA256_BYTES]);

#endif
