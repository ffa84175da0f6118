#include "storage/reports/report_store.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/reports/report_batch.h"
#include "storage/reports/report_judge.h"
#include "storage/reports/storage_usage_store.h"
#include "storage/sql/store_call.h"

// A transaction of reports may wait behind another of the same runtime.
enum { APPLY_MS = 30000 };

// Jansson and zstd take about 15 ms a MiB: more than a loop can spare.
enum { INLINE_BYTES_MAX = 256 * 1024 };

struct report_transaction {
    uv_work_t request;
    struct pg *pg;
    struct report_batch *batch;
    struct pg_batch *statements;
    const struct report_kinds *kinds;
    struct manifest_known *known;
    uint64_t server;        // as it was when this was made: pg_losses()
    struct report *reports; // ours, with their texts, while a thread looks at them
    size_t count;
    char account_id[ID_ACCOUNT_BYTES];
    struct report_judgement *judgement; // of an account that is short of room
    bool is_at_work, is_unwanted;       // on the thread pool, or asking; its caller has given it up meanwhile
    report_store_ready on_ready;
    void *ready_arg;
    report_store_done on_done;
    void *arg;
};

static void free_transaction(struct report_transaction *transaction)
{
    report_batch_destroy(transaction->batch);
    report_judgement_destroy(transaction->judgement);
    mem_free(transaction->reports);
    mem_free(transaction);
}

// ---- making ready --------------------------------------------------------------------------------------------------

// The reports and their texts, in one allocation.
static struct report *copy_reports(const struct report *reports, size_t count)
{
    size_t bytes = count * sizeof *reports;
    for (size_t i = 0; i < count; i++)
        bytes += report_text_bytes(&reports[i]);
    struct report *copies = mem_alloc(bytes);
    char *to = (char *)(copies + count);
    for (size_t i = 0; i < count; i++)
        to = report_copy_into(&copies[i], &reports[i], to);
    return copies;
}

static void fill(struct report_transaction *transaction, const struct report *reports)
{
    report_batch_fill(transaction->batch, transaction->statements, transaction->kinds, reports, transaction->known,
                      transaction->server, transaction->judgement);
}

static void prepare(uv_work_t *request)
{
    struct report_transaction *transaction = request->data;
    fill(transaction, transaction->reports);
}

static void on_prepared(uv_work_t *request, int status)
{
    struct report_transaction *transaction = request->data;
    (void)status; // never cancelled
    struct pg *pg = transaction->pg;
    transaction->is_at_work = false;
    mem_free(transaction->reports);
    transaction->reports = NULL;
    if (transaction->is_unwanted)
        report_transaction_destroy(transaction);
    else
        transaction->on_ready(transaction->ready_arg);
    pg_release(pg);
}

static void prepare_elsewhere(struct report_transaction *transaction)
{
    transaction->is_at_work = true;
    transaction->request.data = transaction;
    pg_hold(transaction->pg);
    uv_queue_work(loop_uv(pg_loop(transaction->pg)), &transaction->request, prepare, on_prepared);
}

// Without an answer it is made as if there were room: its transaction finds out.
static void on_judged(void *arg, struct report_judgement *judgement)
{
    struct report_transaction *transaction = arg;
    struct pg *pg = transaction->pg;
    transaction->judgement = judgement;
    if (transaction->is_unwanted) {
        transaction->is_at_work = false;
        report_transaction_destroy(transaction);
    } else {
        prepare_elsewhere(transaction);
    }
    pg_release(pg);
}

struct report_transaction *report_store_prepare(struct pg *pg, const struct report_kinds *kinds,
                                                struct manifest_known *known, const struct report *reports,
                                                size_t count, report_store_ready on_ready, void *arg)
{
    struct report_transaction *transaction = mem_zalloc(sizeof *transaction);
    AUTO_FREE char *account = count ? mem_strndup(reports[0].account_id.at, reports[0].account_id.len) : NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += report_text_bytes(&reports[i]);
    transaction->pg = pg;
    transaction->kinds = kinds;
    transaction->known = known;
    transaction->server = pg_losses(pg);
    transaction->batch = report_batch_create(count);
    transaction->statements = pg_batch_create(pg, account);
    transaction->count = count;
    transaction->on_ready = on_ready;
    transaction->ready_arg = arg;
    snprintf(transaction->account_id, sizeof transaction->account_id, "%s", account ? account : "");
    if (count && manifest_known_is_full(known, reports[0].account_id)) {
        transaction->reports = copy_reports(reports, count);
        transaction->is_at_work = true;
        pg_hold(pg);
        report_judge_ask(pg, kinds, reports, count, on_judged, transaction);
        return transaction;
    }
    if (bytes <= INLINE_BYTES_MAX) {
        if (count) fill(transaction, reports);
        on_ready(arg);
        return transaction;
    }
    transaction->reports = copy_reports(reports, count);
    prepare_elsewhere(transaction);
    return transaction;
}

void report_transaction_destroy(struct report_transaction *transaction)
{
    if (!transaction) return;
    transaction->is_unwanted = true;
    if (transaction->is_at_work) return;
    pg_batch_destroy(transaction->statements);
    free_transaction(transaction);
}

// ---- applying ------------------------------------------------------------------------------------------------------

static void on_applied(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct report_transaction *transaction = arg;
    struct error changed;
    (void)count;
    bool is_same_server = pg_losses(transaction->pg) == transaction->server;
    if (!err && is_same_server) report_batch_learn(transaction->batch, transaction->known, transaction->server);
    if (!err && !is_same_server && report_batch_has_skipped(transaction->batch)) {
        // It was committed, maybe where the manifests that were not sent are not: the next try sends them.
        error_set(&changed, ERROR_CONFLICT, "the connection to PostgreSQL was lost");
        err = &changed;
    }
    // There may be no room for all of it: the next try looks at each.
    if (err && err->code == ERROR_LIMITED && transaction->known) {
        manifest_known_set_full(transaction->known, str_c(transaction->account_id));
        error_set(&changed, ERROR_CONFLICT, "%.*s", ERROR_TEXT_BYTES - 1, err->text);
        err = &changed;
    }
    if (!err && report_batch_is_short(transaction->batch))
        manifest_known_set_full(transaction->known, str_c(transaction->account_id));
    const struct report_outcome *outcomes = err ? NULL : report_batch_outcomes(transaction->batch, results);
    transaction->on_done(transaction->arg, err, outcomes, err ? 0 : transaction->count);
    free_transaction(transaction);
}

void report_transaction_submit(struct report_transaction *transaction, report_store_done on_done, void *arg)
{
    transaction->on_done = on_done;
    transaction->arg = arg;
    pg_batch_submit(transaction->statements, APPLY_MS, on_applied, transaction);
}

// Both steps at once: what waits for the first.
struct apply_call {
    struct report_transaction *transaction;
    bool is_ready;
    report_store_done on_done;
    void *arg;
};

static void apply_go(struct apply_call *call)
{
    if (!call->is_ready || !call->transaction) return;
    report_transaction_submit(call->transaction, call->on_done, call->arg);
    mem_free(call);
}

static void on_ready_to_apply(void *arg)
{
    struct apply_call *call = arg;
    call->is_ready = true;
    apply_go(call);
}

void report_store_apply(struct pg *pg, const struct report_kinds *kinds, const struct report *reports, size_t count,
                        report_store_done on_done, void *arg)
{
    struct apply_call *call = mem_alloc(sizeof *call);
    *call = (struct apply_call){.on_done = on_done, .arg = arg};
    call->transaction = report_store_prepare(pg, kinds, NULL, reports, count, on_ready_to_apply, call);
    apply_go(call);
}

// ---- housekeeping --------------------------------------------------------------------------------------------------

struct sweep_call {
    sweep_walked on_done;
    void *arg;
};

static void on_swept(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct sweep_call *call = arg;
    struct sweep_place next = {0};
    uint64_t removed = 0, slice = 0;
    bool has_next = false;
    (void)count;
    if (!err) {
        const struct pg_rows *rows = &results[PG_BATCH_SLOW_ANSWERS];
        struct str holder = pg_rows_get(rows, 0, 0);
        has_next = holder.len > 0 && holder.len < sizeof next.account_id &&
                   parse_u64(pg_rows_get(rows, 0, 1), 0, UINT16_MAX, &slice, NULL) == ERROR_NONE;
        if (has_next) snprintf(next.account_id, sizeof next.account_id, "%.*s", STR_ARG(holder));
        next.slice = (unsigned)slice;
        if (parse_u64(pg_rows_get(rows, 0, 2), 0, INT64_MAX, &removed, NULL) != ERROR_NONE) removed = 0;
    }
    call->on_done(call->arg, err, removed, has_next ? &next : NULL);
    mem_free(call);
}

void report_store_sweep(struct pg *pg, unsigned limit, const struct sweep_place *place, sweep_walked on_done, void *arg)
{
    char number[16], slice[16];
    snprintf(number, sizeof number, "%u", limit);
    snprintf(slice, sizeof slice, "%u", place->slice);
    struct sweep_call *call = mem_alloc(sizeof *call);
    *call = (struct sweep_call){on_done, arg};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, report_sweep, .account_id = pg_text(str_c(place->account_id)), .slice = pg_text(str_c(slice)),
           .limit = pg_text(str_c(number)));
    pg_batch_submit(batch, APPLY_MS, on_swept, call);
}

void report_store_sweep_tombstones(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char number[16];
    snprintf(number, sizeof number, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, report_sweep_tombstones, .limit = pg_text(str_c(number)));
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}

static void sweep_usage(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)keep;
    storage_usage_store_fold(pg, sweep->rows, on_done, arg);
}

static void sweep_tombstones(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                             store_count_done on_done, void *arg)
{
    (void)keep;
    report_store_sweep_tombstones(pg, sweep->rows, on_done, arg);
}

// clang-format off
const struct sweep report_store_sweeps[] = {
    {"usage", SWEEP_OFTEN, SWEEP_COUNTS_NOTHING, .rows = 10000, .step = sweep_usage},
    {"tombstones", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5000, .step = sweep_tombstones},
    {"manifests", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 20000, .walk = report_store_sweep},
};
// clang-format on
const size_t report_store_sweep_count = sizeof report_store_sweeps / sizeof *report_store_sweeps;
