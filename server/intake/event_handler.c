#include "server/intake/event_handler.h"

#include <assert.h>

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/intake/lane.h"
#include "server/intake/share.h"

enum { LANES_RESTING_MAX = 64 };

struct event_handler {
    struct loop *loop;
    struct event_handler_options options;
    struct lane_options lane_options;
    struct lane *lanes;
    struct share *share;
    size_t transactions; // in flight
    uint64_t clock;      // the turn of the lane that went last
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

static void on_applied(void *ctx, struct lane *lane, const struct error *err, const struct report_outcome *outcomes,
                       size_t count);
static void end_item(void *ctx, struct event_item *item, const struct error *err, const struct report_outcome *outcome);

struct event_handler *event_handler_create(struct loop *loop, const struct event_handler_options *options)
{
    struct event_handler *handler = mem_zalloc(sizeof *handler);
    handler->loop = loop;
    handler->options = *options;
    handler->lane_options = (struct lane_options){
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
    for (struct lane *lane; (lane = handler->lanes);) {
        handler->lanes = lane->next;
        lane_end_all(lane, &err);
        lane_destroy(lane);
    }
    share_destroy(handler->share);
    timer_finish(&handler->timer);
    mem_free(handler);
}

// ---- taking --------------------------------------------------------------------------------------------------------

static struct lane *find_lane(struct event_handler *handler, struct str account_id)
{
    for (struct lane *lane = handler->lanes; lane; lane = lane->next)
        if (str_eq(str_c(lane->account_id), account_id)) return lane;
    return NULL;
}

static struct lane *make_lane(struct event_handler *handler, struct str account_id)
{
    struct lane *lane = lane_create(&handler->lane_options, account_id);
    lane->turn = handler->clock;
    lane->next = handler->lanes;
    handler->lanes = lane;
    return lane;
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
    struct lane *lane = find_lane(handler, report->account_id);
    if (report->account_id.len >= sizeof lane->account_id)
        return error_set(err, ERROR_INVALID, "account id of %zu bytes", report->account_id.len);
    if (!patient && event_handler_is_full(handler))
        return error_set(err, ERROR_UNAVAILABLE, "%zu bytes of reports are waiting, the limit is %llu", handler->bytes,
                         (unsigned long long)handler->options.queue_bytes_max);
    if (!patient && (handler->stopped || (lane && lane_is_away(lane))))
        return error_set(err, ERROR_UNAVAILABLE, "the database is not available");
    if (!patient && lane && lane_is_parked(lane, report->runtime))
        return error_set(err, ERROR_UNAVAILABLE, "reports of this runtime are suspended, one of them takes too long");
    if (!patient && check_share(handler, report, err) != ERROR_NONE) return ERROR_LIMITED;
    if (!lane) lane = make_lane(handler, report->account_id);
    struct event_item *item = event_item_create(report, patient, on_done, arg);
    lane_add(lane, item);
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

// The next transaction, of this lane or of another, leaves before anybody is told of this one: PostgreSQL is not to
// wait for that.
static void succeeded(struct event_handler *handler, struct lane *lane, const struct report_outcome *outcomes,
                      size_t count)
{
    struct event_item **items = lane_succeeded(lane, count);
    submit_in_turn(handler);
    struct report *reports = mem_array(count, sizeof *reports);
    for (size_t i = 0; i < count; i++)
        reports[i] = items[i]->report;
    if (handler->options.on_committed) handler->options.on_committed(handler->options.ctx, reports, outcomes, count);
    mem_free(reports);
    for (size_t i = 0; i < count; i++)
        end_item(handler, items[i], NULL, &outcomes[i]);
}

static void on_applied(void *ctx, struct lane *lane, const struct error *err, const struct report_outcome *outcomes,
                       size_t count)
{
    struct event_handler *handler = ctx;
    metric_observe(handler->commit_seconds, (double)(clock_mono_us() - lane->started_us) / 1e6);
    metric_add(handler->batches, 1);
    assert(handler->transactions > 0);
    handler->transactions--;
    // The pool is closing: whatever is tried again now would be lost in it.
    if (err && err->code == ERROR_CANCELLED) event_handler_stop(handler);
    // A callback may submit to this lane: no further transaction is made of that before all of them have run.
    lane->busy++;
    if (err) {
        metric_add(handler->failed, lane->in_flight_count);
        lane_failed(lane, err);
    } else {
        succeeded(handler, lane, outcomes, count);
    }
    assert(lane->busy > 0);
    lane->busy--;
    if (handler->options.on_progress) handler->options.on_progress(handler->options.ctx);
    pump(handler);
}

// ---- turns ---------------------------------------------------------------------------------------------------------

static struct lane *lane_whose_turn_it_is(const struct event_handler *handler)
{
    struct lane *first = NULL;
    for (struct lane *lane = handler->lanes; lane; lane = lane->next)
        if (lane_may_go(lane) && (!first || lane->turn < first->turn)) first = lane;
    return first;
}

// Who had nothing to say for a while begins where the others are.
static void give_turn(struct event_handler *handler, struct lane *lane)
{
    if (lane->turn < handler->clock) lane->turn = handler->clock;
    handler->clock = lane->turn;
    lane->turn += lane_bytes_ahead(lane);
    handler->transactions++;
    lane_submit(lane);
}

static void submit_in_turn(struct event_handler *handler)
{
    uint64_t most = handler->options.transactions_max;
    while (!handler->stopped && (!most || handler->transactions < most)) {
        struct lane *lane = lane_whose_turn_it_is(handler);
        if (!lane) return;
        give_turn(handler, lane);
    }
}

// A lane that was given more than others stays for a while when it is empty: whoever says little at a time but often
// would else begin anew each time where the others are, and those would wait for ever.
static bool may_be_forgotten(const struct event_handler *handler, const struct lane *lane, size_t *resting)
{
    if (lane->turn <= handler->clock || handler->bytes == 0) return true;
    return ++*resting > LANES_RESTING_MAX;
}

static void drop_lane(struct lane **link)
{
    struct lane *lane = *link;
    *link = lane->next;
    lane_destroy(lane);
}

// One pass over the lanes: prepares those that may go, drops those that are empty. Gives back how long the next one
// waits.
static uint64_t pump_once(struct event_handler *handler)
{
    uint64_t now = clock_mono_ms(), soonest = UINT64_MAX;
    size_t resting = 0;
    for (struct lane **link = &handler->lanes; *link;) {
        struct lane *lane = *link;
        uint64_t wait = lane_wait_ms(lane, now);
        if (wait == 0)
            lane_prepare(lane);
        else if (wait < soonest)
            soonest = wait;
        // A callback may have put lanes in front.
        while (*link != lane)
            link = &(*link)->next;
        if (lane_is_empty(lane) && may_be_forgotten(handler, lane, &resting))
            drop_lane(link);
        else
            link = &lane->next;
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
