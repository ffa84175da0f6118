#include "storage/report_store.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/report_batch.h"
#include "storage/store_call.h"

// A transaction of reports may wait behind another of the same runtime.
enum { APPLY_MS = 30000 };

struct apply_call {
    struct report_batch *batch;
    size_t count;
    report_store_done on_done;
    void *arg;
};

static void on_applied(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct apply_call *call = arg;
    (void)count;
    call->on_done(call->arg, err, err ? NULL : report_batch_outcomes(call->batch, results), err ? 0 : call->count);
    report_batch_destroy(call->batch);
    mem_free(call);
}

static struct apply_call *call_create(size_t count, report_store_done on_done, void *arg)
{
    struct apply_call *call = mem_alloc(sizeof *call);
    *call = (struct apply_call){report_batch_create(count), count, on_done, arg};
    return call;
}

// ---- off the loop --------------------------------------------------------------------------------------------------

// Jansson and zstd take about 15 ms a MiB: more than a loop can spare.
enum { INLINE_BYTES_MAX = 256 * 1024 };

struct prepare_work {
    uv_work_t request;
    struct pg *pg;
    struct pg_batch *batch;
    struct apply_call *call;
    struct report *reports; // ours, with their texts
};

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

static void prepare(uv_work_t *request)
{
    struct prepare_work *work = request->data;
    report_batch_fill(work->call->batch, work->batch, work->reports);
}

static void on_prepared(uv_work_t *request, int status)
{
    struct prepare_work *work = request->data;
    (void)status; // never cancelled
    struct pg *pg = work->pg;
    pg_batch_submit(work->batch, APPLY_MS, on_applied, work->call);
    mem_free(work->reports);
    mem_free(work);
    pg_release(pg);
}

void report_store_apply(struct pg *pg, const struct report *reports, size_t count, report_store_done on_done, void *arg)
{
    struct apply_call *call = call_create(count, on_done, arg);
    AUTO_FREE char *account = count ? mem_strndup(reports[0].account_id.at, reports[0].account_id.len) : NULL;
    struct pg_batch *batch = pg_batch_create(pg, account);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += report_text_bytes(&reports[i]);
    if (bytes <= INLINE_BYTES_MAX) {
        if (count) report_batch_fill(call->batch, batch, reports);
        pg_batch_submit(batch, APPLY_MS, on_applied, call);
        return;
    }
    struct prepare_work *work = mem_zalloc(sizeof *work);
    *work = (struct prepare_work){.pg = pg, .batch = batch, .call = call, .reports = copy_reports(reports, count)};
    work->request.data = work;
    pg_hold(pg);
    uv_queue_work(loop_uv(pg_loop(pg)), &work->request, prepare, on_prepared);
}

// ---- housekeeping --------------------------------------------------------------------------------------------------

struct sweep_call {
    report_store_swept on_done;
    void *arg;
};

static void on_swept(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct sweep_call *call = arg;
    (void)count;
    uint64_t removed = 0;
    if (!err && parse_u64(pg_rows_get(&results[0], 0, 0), 0, INT64_MAX, &removed, NULL) != ERROR_NONE) removed = 0;
    if (call->on_done) call->on_done(call->arg, err, removed);
    mem_free(call);
}

void report_store_sweep(struct pg *pg, unsigned limit, report_store_swept on_done, void *arg)
{
    char number[16];
    snprintf(number, sizeof number, "%u", limit);
    struct sweep_call *call = mem_alloc(sizeof *call);
    *call = (struct sweep_call){on_done, arg};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_report_sweep, 1, (struct pg_param[]){pg_text(str_c(number))});
    pg_batch_submit(batch, APPLY_MS, on_swept, call);
}
