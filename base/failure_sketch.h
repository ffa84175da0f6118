// failure_sketch: how often each of very many names (addresses, key ids) failed lately, in memory that never grows: a
// count-min sketch of leaky buckets, with conservative updates. A name's count is never lower than what it had; names
// that share all their cells with others may count as more. Nobody can push a count out: there is no eviction, and the
// cells are chosen by a hash with a secret of this process. Thread-safe.
// Source: Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005; Estan and Varghese,
// "New directions in traffic measurement and accounting", 2002 (conservative update).
#ifndef CULVERT_BASE_FAILURE_SKETCH_H
#define CULVERT_BASE_FAILURE_SKETCH_H

#include <stdint.h>

#include "base/str.h"

struct failure_sketch;

// per_minute: what a name may fail, at once and in each minute.
struct failure_sketch *failure_sketch_create(unsigned per_minute);
void failure_sketch_destroy(struct failure_sketch *sketch); // NULL is fine

// now_ms: monotonic. One more failure.
void failure_sketch_add(struct failure_sketch *sketch, struct str name, uint64_t now_ms);
// 0: it may try. Else in how many seconds it may again.
unsigned failure_sketch_wait_s(struct failure_sketch *sketch, struct str name, uint64_t now_ms);

#endif
