// report_store: what clusters reported, applied once and in order. The entry of every report, whichever mouth it came
// through. One call = one transaction: entity row, manifest blob, history, per-runtime position. A row yields only to
// a newer (epoch, sequence) from a tunnel, or a newer observation time over HTTP; replays change nothing.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_STORE_H
#define CULVERT_STORAGE_REPORTS_REPORT_STORE_H

#include <stdint.h>

#include "base/error.h"
#include "storage/pg/pg.h"
#include "storage/reports/report.h"
#include "storage/sql/sweep.h"

// outcomes[i] belongs to reports[i]. With err nothing was applied and everything may be tried again.
typedef void (*report_store_done)(void *arg, const struct error *err, const struct report_outcome *outcomes,
                                  size_t count);

// The checks that need nothing but the report: what fails here is refused by report_store_prepare(), too.
MUST_CHECK enum error_code report_store_check(const struct report *report, struct error *err);

// A transaction in two steps, so that the next one is made ready while PostgreSQL works on the one
// before. All reports of it belong to one account. One bad record never sinks its batch. The texts
// stay the caller's and are needed until this returns. Large batches are parsed and compressed on
// libuv's thread pool, so that the loop goes on. on_ready may run inside the call, or later; never
// after report_transaction_destroy. A batch that may not fit into what is left of a storage quota
// ends with ERROR_CONFLICT, too; made anew, with the same `known`, each of its reports is looked at
// by itself: what does not grow goes in, of the others as many as there is room for. Without
// `known` it ends with ERROR_LIMITED. Manifests that are known are not sent again; if the server
// may have become another one meanwhile, the transaction ends with ERROR_CONFLICT and is to be made
// anew. known may be NULL; it must outlive the transaction. So must kinds
// (storage/reports/report_kind.h).
struct report_transaction;
struct manifest_known;
struct report_kinds;
typedef void (*report_store_ready)(void *arg);
struct report_transaction *report_store_prepare(struct pg *pg, const struct report_kinds *kinds,
                                                struct manifest_known *known, const struct report *reports,
                                                size_t count, report_store_ready on_ready, void *arg);
// A ready one, while the pg is open. Takes it.
void report_transaction_submit(struct report_transaction *transaction, report_store_done on_done, void *arg);
// One that was not submitted, ready or not; NULL is fine.
void report_transaction_destroy(struct report_transaction *transaction);

// Both steps at once.
void report_store_apply(struct pg *pg, const struct report_kinds *kinds, const struct report *reports, size_t count,
                        report_store_done on_done, void *arg);

// Housekeeping for all accounts: the counters of what is stored, old tombstones, manifests that
// nothing names any more (walk: up to `rows` of an account or of a part of it; count: the manifests
// removed).
extern const struct sweep report_store_sweeps[];
extern const size_t report_store_sweep_count;
void report_store_sweep(struct pg *pg, unsigned limit, const struct sweep_place *place, sweep_walked on_done,
                        void *arg);
// As many as limit means that there may be more.
void report_store_sweep_tombstones(struct pg *pg, unsigned limit, store_count_done on_done, void *arg);

#endif
