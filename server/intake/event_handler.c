#include "server/intake/event_handler.h"

#include <assert.h>

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/intake/account_queue.h"
#include "server/intake/share.h"

enum { RESTING_QUEUES_MAX = 64 };

struct event_handler {
    struct loop *loop;
    struct event_handler_options options;
    struct account_queue_options account_queue_options;
    struct account_queue *queues;
    struct share *share;
    size_t transactions; // in flight
    uint64_t clock;      // the turn of the queue that went last
    size_t bytes;
    struct timer timer;
    bool stopped, pumping, pump_again;
    struct metric *batches, *applied, *unchanged, *refused, *over_quota, *failed, *queued_bytes, *commit_seconds;
    struct metric *limited[SHARE_RUNTIME + 1]; // by enum share_scope
};

static void pump(struct event_handler *handler);
static void submit_in_turn(struct event_handler *handler);

static void make_metrics(struct event_handler *handler)
{
    struct metric_family *reports = metrics_counter("culvert_reports_total", "Reports by result.", "result", NULL);
    handler->applied = metric_with(reports, "applied");
    handler->unchanged = metric_with(reports, "unchanged");
    handler->refused = metric_with(reports, "refused");
    handler->over_quota = metric_with(reports, "over_quota");
    handler->failed = metric_with(reports, "failed");
    handler->batches =
        metric_with(metrics_counter("culvert_report_transactions_total", "Transactions that applied reports.", NULL));
    handler->queued_bytes =
        metric_with(metrics_gauge("culvert_reports_queued_bytes", "Bytes of reports not yet committed.", NULL));
    struct metric_family *limited =
        metrics_counter("culvert_reports_limited_total",
                        "Reports over HTTP answered with 429, by the share that was used up.", "scope", NULL);
    handler->limited[SHARE_ACCOUNT] = metric_with(limited, "account");
    handler->limited[SHARE_RUNTIME] = metric_with(limited, "runtime");
    handler->commit_seconds =
        metric_with(metrics_histogram("culvert_report_transaction_seconds", "Duration of a report transaction.", NULL));
}

static void on_timer(void *arg)
{
    pump(arg);
}

static void on_ready(void *ctx)
{
    pump(ctx);
}

static void on_applied(void *ctx, struct account_queue *queue, const struct error *err,
                       const struct report_outcome *outcomes, size_t count);
static void end_item(void *ctx, struct event_item *item, const struct error *err, const struct report_outcome *outcome);

struct event_handler *event_handler_create(struct loop *loop, const struct event_handler_options *options)
{
    struct event_handler *handler = mem_zalloc(sizeof *handler);
    handler->loop = loop;
    handler->options = *options;
    handler->account_queue_options = (struct account_queue_options){
        .handler = &handler->options, .on_ready = on_ready, .on_applied = on_applied, .end = end_item, .ctx = handler};
    timer_init(&handler->timer, loop_uv(loop), on_timer, handler);
    handler->share = share_create(&(struct share_options){options->account_bytes_max, options->runtime_bytes_max});
    make_metrics(handler);
    return handler;
}

void event_handler_stop(struct event_handler *handler)
{
    handler->stopped = true;
    timer_stop(&handler->timer);
}

void event_handler_destroy(struct event_handler *handler)
{
    if (!handler) return;
    struct error err;
    error_set(&err, ERROR_CANCELLED, "the server is shutting down");
    for (struct account_queue *queue; (queue = handler->queues);) {
        handler->queues = queue->next;
        account_queue_end_all(queue, &err);
        account_queue_destroy(queue);
    }
    share_destroy(handler->share);
    timer_finish(&handler->timer);
    mem_free(handler);
}

// ---- taking --------------------------------------------------------------------------------------------------------

static struct account_queue *find_queue(struct event_handler *handler, struct str account_id)
{
    for (struct account_queue *queue = handler->queues; queue; queue = queue->next)
        if (str_eq(str_c(queue->account_id), account_id)) return queue;
    return NULL;
}

static struct account_queue *make_queue(struct event_handler *handler, struct str account_id)
{
    struct account_queue *queue = account_queue_create(&handler->account_queue_options, account_id);
    queue->turn = handler->clock;
    queue->next = handler->queues;
    handler->queues = queue;
    return queue;
}

bool event_handler_is_full(const struct event_handler *handler)
{
    return handler->bytes >= handler->options.queue_bytes_max;
}

bool event_handler_has_room(const struct event_handler *handler, const struct runtime_key *key)
{
    return !event_handler_is_full(handler) && share_over(handler->share, key) == SHARE_FREE;
}

bool event_handler_is_idle(const struct event_handler *handler)
{
    return handler->bytes == 0;
}

// What somebody who cannot wait is told before anything is taken.
static enum error_code check_share(struct event_handler *handler, const struct report *report, struct error *err)
{
    enum share_scope over = share_over(handler->share, &(struct runtime_key){report->account_id, report->runtime});
    if (over == SHARE_FREE) return ERROR_NONE;
    metric_add(handler->limited[over], 1);
    return error_set(err, ERROR_LIMITED, "more reports of this %s are waiting than its share of the queue",
                     over == SHARE_ACCOUNT ? "account" : "runtime");
}

enum error_code event_handler_submit(struct event_handler *handler, const struct report *report, bool patient,
                                     event_item_done on_done, void *arg, struct error *err)
{
    struct account_queue *queue = find_queue(handler, report->account_id);
    if (report->account_id.len >= sizeof queue->account_id)
        return error_set(err, ERROR_INVALID, "account id of %zu bytes", report->account_id.len);
    if (!patient && event_handler_is_full(handler))
        return error_set(err, ERROR_UNAVAILABLE, "%zu bytes of reports are waiting, the limit is %llu", handler->bytes,
                         (unsigned long long)handler->options.queue_bytes_max);
    if (!patient && (handler->stopped || (queue && account_queue_is_away(queue))))
        return error_set(err, ERROR_UNAVAILABLE, "the database is not available");
    if (!patient && queue && account_queue_is_parked(queue, report->runtime))
        return error_set(err, ERROR_UNAVAILABLE, "reports of this runtime are suspended, one of them takes too long");
    if (!patient && check_share(handler, report, err) != ERROR_NONE) return ERROR_LIMITED;
    if (!queue) queue = make_queue(handler, report->account_id);
    struct event_item *item = event_item_create(report, patient, on_done, arg);
    account_queue_add(queue, item);
    handler->bytes += item->bytes;
    share_take(handler->share, &(struct runtime_key){report->account_id, report->runtime}, item->bytes);
    metric_move(handler->queued_bytes, (int64_t)item->bytes);
    pump(handler);
    return ERROR_NONE;
}

// ---- applying ------------------------------------------------------------------------------------------------------

static void count_outcome(struct event_handler *handler, const struct report_outcome *outcome)
{
    switch (outcome->result) {
    case REPORT_APPLIED: metric_add(handler->applied, 1); break;
    case REPORT_UNCHANGED:
    case REPORT_RESYNC: metric_add(handler->unchanged, 1); break;
    case REPORT_REFUSED: metric_add(handler->refused, 1); break;
    case REPORT_OVER_QUOTA: metric_add(handler->over_quota, 1); break;
    }
}

static void end_item(void *ctx, struct event_item *item, const struct error *err, const struct report_outcome *outcome)
{
    struct event_handler *handler = ctx;
    handler->bytes -= item->bytes;
    share_give_back(handler->share, &(struct runtime_key){item->report.account_id, item->report.runtime}, item->bytes);
    metric_move(handler->queued_bytes, -(int64_t)item->bytes);
    if (outcome) count_outcome(handler, outcome);
    item->on_done(item->arg, err, &item->report, outcome);
    event_item_destroy(item);
}

// The next transaction, of this queue or of another, leaves before anybody is told of this one: PostgreSQL is not to
// wait for that.
static void succeeded(struct event_handler *handler, struct account_queue *queue, const struct report_outcome *outcomes,
                      size_t count)
{
    struct event_item **items = account_queue_succeeded(queue, count);
    submit_in_turn(handler);
    struct report *reports = mem_array(count, sizeof *reports);
    for (size_t i = 0; i < count; i++)
        reports[i] = items[i]->report;
    if (handler->options.on_committed) handler->options.on_committed(handler->options.ctx, reports, outcomes, count);
    mem_free(reports);
    for (size_t i = 0; i < count; i++)
        end_item(handler, items[i], NULL, &outcomes[i]);
}

static void on_applied(void *ctx, struct account_queue *queue, const struct error *err,
                       const struct report_outcome *outcomes, size_t count)
{
    struct event_handler *handler = ctx;
    metric_observe(handler->commit_seconds, (double)(clock_mono_us() - queue->started_us) / 1e6);
    metric_add(handler->batches, 1);
    assert(handler->transactions > 0);
    handler->transactions--;
    // The pool is closing: whatever is tried again now would be lost in it.
    if (err && err->code == ERROR_CANCELLED) event_handler_stop(handler);
    // A callback may submit to this queue: no further transaction is made of that before all of them have run.
    queue->busy++;
    if (err) {
        metric_add(handler->failed, queue->in_flight_count);
        account_queue_failed(queue, err);
    } else {
        succeeded(handler, queue, outcomes, count);
    }
    assert(queue->busy > 0);
    queue->busy--;
    if (handler->options.on_progress) handler->options.on_progress(handler->options.ctx);
    pump(handler);
}

// ---- turns ---------------------------------------------------------------------------------------------------------

static struct account_queue *queue_whose_turn_it_is(const struct event_handler *handler)
{
    struct account_queue *first = NULL;
    for (struct account_queue *queue = handler->queues; queue; queue = queue->next)
        if (account_queue_may_go(queue) && (!first || queue->turn < first->turn)) first = queue;
    return first;
}

// Who had nothing to say for a while begins where the others are.
static void give_turn(struct event_handler *handler, struct account_queue *queue)
{
    if (queue->turn < handler->clock) queue->turn = handler->clock;
    handler->clock = queue->turn;
    queue->turn += account_queue_bytes_ahead(queue);
    handler->transactions++;
    account_queue_submit(queue);
}

static void submit_in_turn(struct event_handler *handler)
{
    uint64_t most = handler->options.transactions_max;
    while (!handler->stopped && (!most || handler->transactions < most)) {
        struct account_queue *queue = queue_whose_turn_it_is(handler);
        if (!queue) return;
        give_turn(handler, queue);
    }
}

// A queue that was given more than others stays for a while when it is empty: whoever says little at a time but often
// would else begin anew each time where the others are, and those would wait for ever.
static bool may_be_forgotten(const struct event_handler *handler, const struct account_queue *queue, size_t *resting)
{
    if (queue->turn <= handler->clock || handler->bytes == 0) return true;
    return ++*resting > RESTING_QUEUES_MAX;
}

static void drop_queue(struct account_queue **link)
{
    struct account_queue *queue = *link;
    *link = queue->next;
    account_queue_destroy(queue);
}

// One pass over the queues: prepares those that may go, drops those that are empty. Gives back how long the next one
// waits.
static uint64_t pump_once(struct event_handler *handler)
{
    uint64_t now = clock_mono_ms(), soonest = UINT64_MAX;
    size_t resting = 0;
    for (struct account_queue **link = &handler->queues; *link;) {
        struct account_queue *queue = *link;
        uint64_t wait = account_queue_wait_ms(queue, now);
        if (wait == 0)
            account_queue_prepare(queue);
        else if (wait < soonest)
            soonest = wait;
        // A callback may have put queues in front.
        while (*link != queue)
            link = &(*link)->next;
        if (account_queue_is_empty(queue) && may_be_forgotten(handler, queue, &resting))
            drop_queue(link);
        else
            link = &queue->next;
    }
    submit_in_turn(handler);
    return soonest;
}

// Callbacks come back here while a pass is under way: it is then repeated, never nested.
static void pump(struct event_handler *handler)
{
    handler->pump_again = true;
    if (handler->pumping || handler->stopped) return;
    handler->pumping = true;
    uint64_t soonest = UINT64_MAX;
    while (handler->pump_again && !handler->stopped) {
        handler->pump_again = false;
        soonest = pump_once(handler);
    }
    handler->pumping = false;
    if (soonest == UINT64_MAX || handler->stopped)
        timer_stop(&handler->timer);
    else
        timer_start(&handler->timer, soonest, 0);
}
