// registry_table: what one loop remembers of which replica holds which runtime. Pure: time comes as
// an argument (milliseconds, monotonic). A cache: the owner of a session checks every call, and
// PostgreSQL knows.
//
// Rules: an entry carries its epoch, and what is older than anything seen for the runtime never
// replaces it, whatever its source; the epoch is remembered while the entry is, also when the
// session is known to be over. A place is good for a while (`place_ms`), the knowledge that it has
// no replica for a shorter one (`none_ms`). Bounded: the entry that was used longest ago makes
// room, of runtimes without a replica first; for one without a replica no place is forgotten.
#ifndef CULVERT_SERVER_REGISTRY_TABLE_H
#define CULVERT_SERVER_REGISTRY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runtime_key.h"
#include "base/str.h"

enum { REGISTRY_REPLICA_BYTES = 208, REGISTRY_ADDRESS_BYTES = 304 };

// A value.
struct registry_place {
    uint64_t epoch;
    char replica[REGISTRY_REPLICA_BYTES];
    char address[REGISTRY_ADDRESS_BYTES]; // of its peer listener; empty: it has none
};

enum registry_known { REGISTRY_UNKNOWN, REGISTRY_HELD, REGISTRY_NOBODY };

struct registry_table;

struct registry_table_options {
    size_t entries_max;
    uint64_t place_ms, none_ms;
};

struct registry_table *registry_table_create(const struct registry_table_options *options);
void registry_table_destroy(struct registry_table *table); // NULL is fine

// HELD: *out is the place. NOBODY: it had no replica recently.
enum registry_known registry_table_find(struct registry_table *table, const struct runtime_key *key, uint64_t now_ms,
                                        struct registry_place *out);
// A source reports a place. False: older than what is known, and dropped.
bool registry_table_held(struct registry_table *table, const struct runtime_key *key,
                         const struct registry_place *place, uint64_t now_ms);
// A source reports that this epoch (0: whatever there is) is over and nothing newer is known.
// False: a newer one is known.
bool registry_table_over(struct registry_table *table, const struct runtime_key *key, uint64_t epoch, uint64_t now_ms);
// What is known up to this epoch (0: all) is in doubt: the next find returns UNKNOWN.
void registry_table_doubt(struct registry_table *table, const struct runtime_key *key, uint64_t epoch);
void registry_table_doubt_all(struct registry_table *table); // messages may have been missed
size_t registry_table_count(const struct registry_table *table);

#endif
