// snapshot_verdict_store: what the end of a runtime's last snapshot came to, for the replica that holds its session.
#ifndef CULVERT_STORAGE_REPORTS_SNAPSHOT_VERDICT_STORE_H
#define CULVERT_STORAGE_REPORTS_SNAPSHOT_VERDICT_STORE_H

#include "base/runtime_key.h"
#include "storage/reports/report.h"
#include "storage/sql/store.h"

// end: a report of type REPORT_SNAPSHOT_END that was applied. Its texts are needed until this returns.
void snapshot_verdict_put(struct pg *pg, const struct report *end, bool needs_resync, store_count_done on_done,
                          void *arg);

enum snapshot_verdict { SNAPSHOT_UNDECIDED, SNAPSHOT_MATCHED, SNAPSHOT_NEEDS_RESYNC };

// About this end or a later one of the same session.
typedef void (*snapshot_verdict_done)(void *arg, const struct error *err, enum snapshot_verdict verdict);
void snapshot_verdict_find(struct pg *pg, const struct runtime_key *key, uint64_t epoch, uint64_t sequence,
                           snapshot_verdict_done on_done, void *arg);

#endif
