// flapping_store: objects of a runtime that change far more often than anybody needs to know: what they are, how often,
// and until when. A finding for people, shown with the runtime; it goes by itself when the object is quiet.
#ifndef CULVERT_STORAGE_REPORTS_FLAPPING_STORE_H
#define CULVERT_STORAGE_REPORTS_FLAPPING_STORE_H

#include <stdint.h>

#include "storage/sql/store.h"

enum { FLAPPING_FINDINGS_MAX = 100 }; // of one call; also what is kept of a runtime

// Views. changes: since the finding before it about the same object.
struct flapping_finding {
    struct str runtime, group, kind, ns, name;
    uint64_t changes;
    int64_t since_ms; // wall clock, when it began to be noisy
};

// At most FLAPPING_FINDINGS_MAX. Findings about runtimes that do not exist are dropped. count: findings that were
// taken.
void flapping_store_put(struct pg *pg, const char *account_id, const struct flapping_finding *findings, size_t count,
                        store_count_done on_done, void *arg);

#endif
