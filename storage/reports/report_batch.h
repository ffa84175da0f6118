// report_batch: the statements of one transaction of reports and what their answers mean. Made for one transaction,
// from planning to the answer; one thread at a time, any thread for the planning. report_store.c sends them.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_BATCH_H
#define CULVERT_STORAGE_REPORTS_REPORT_BATCH_H

#include "base/arena.h"
#include "storage/manifests/manifest_known.h"
#include "storage/pg/pg.h"
#include "storage/reports/report.h"

struct report_batch;
struct report_judgement;
struct report_kinds;

struct report_batch *report_batch_create(size_t count);
void report_batch_destroy(struct report_batch *batch); // NULL is fine
// judgement: as of storage/reports/report_judge.h, or NULL: nothing is refused for want of room.
// Parses, compresses and adds everything that these `count` reports of one account need, in the order that keeps
// transactions from waiting for each other in a circle. Whatever was read of the reports is copied into it. known: may
// be NULL; what it knows of `server` is not sent.
void report_batch_fill(struct report_batch *batch, struct pg_batch *to, const struct report_kinds *kinds,
                       const struct report *reports, struct manifest_known *known, uint64_t server,
                       struct report_judgement *judgement);
// The runtimes of these reports in the order of their names, *out_count of them, "" for one that none can have; in the
// arena. A judgement has a room for each.
struct str *report_batch_runtimes(struct arena *arena, const struct report *reports, size_t count, size_t *out_count);
// Was anything left out that is known? Then the transaction means something on the same server only.
bool report_batch_has_skipped(const struct report_batch *batch);
// Was something refused for want of room?
bool report_batch_is_short(const struct report_batch *batch);
// After COMMIT: the manifests it wrote are known.
void report_batch_learn(const struct report_batch *batch, struct manifest_known *known, uint64_t server);
// outcomes[i] belongs to reports[i]; the array is the batch's. `results` are those of the statements of the fill.
const struct report_outcome *report_batch_outcomes(struct report_batch *batch, const struct pg_rows *results);

#endif
