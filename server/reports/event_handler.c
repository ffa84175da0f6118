#include "server/reports/event_handler.h"

#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "server/reports/share.h"

enum { RETRY_BASE_MS = 50, RETRY_CAP_MS = 2000, CONFLICTS_MAX = 3, DEFECTS_MAX = 8 };

// A report and its bytes, in one allocation.
struct event_item {
    struct event_item *next;
    struct report report;
    size_t bytes;
    bool patient;
    event_item_done on_done;
    void *arg;
};

// One account's reports; there while it has some.
struct lane {
    struct lane *next;
    struct event_handler *handler;
    char account_id[64];
    struct event_item *first, *last;
    size_t count, bytes;
    struct event_item **in_flight; // batch_count slots
    size_t in_flight_count;
    struct event_item **ended; // batch_count slots: those whose callbacks are running
    struct event_item **ahead; // batch_count slots: those of the next transaction, made ready meanwhile
    size_t ahead_count;
    struct report_transaction *next_transaction; // of those ahead
    bool is_ready;
    unsigned busy; // callbacks of transactions that are running
    bool away;     // so was the database at its last try
    size_t alone;  // so many of the first go one by one: a transaction of them failed on its data or took too long
    unsigned conflicts;
    unsigned defects;         // so often the first of them met an error that is neither its own nor the database's
    struct event_item *aside; // the first one, while the one behind it is tried
    uint64_t started_us;      // of the transaction in flight
    uint64_t turn;            // what it was given, on the handler's clock: the least goes first
    struct backoff backoff;
    uint64_t not_before_ms; // of the next try, after a failure
    uint64_t since_ms;      // when the oldest waiting report came
};

struct event_handler {
    struct loop *loop;
    struct event_handler_options options;
    struct lane *lanes;
    struct share *share;
    size_t transactions; // in flight
    uint64_t clock;      // the turn of the lane that went last
    size_t bytes;
    uv_timer_t *timer;
    bool stopped, pumping, pump_again;
    struct metric *batches, *applied, *unchanged, *refused, *failed, *queued_bytes, *commit_seconds;
    struct metric *limited[SHARE_RUNTIME + 1]; // by enum share_scope
};

static void pump(struct event_handler *handler);
static void submit_in_turn(struct event_handler *handler);

static void make_metrics(struct event_handler *handler)
{
    struct metric_family *reports =
        metrics_counter("culvert_reports_total", "Reports by how they ended.", "result", NULL);
    handler->applied = metric_with(reports, "applied");
    handler->unchanged = metric_with(reports, "unchanged");
    handler->refused = metric_with(reports, "refused");
    handler->failed = metric_with(reports, "failed");
    handler->batches =
        metric_with(metrics_counter("culvert_report_transactions_total", "Transactions that applied reports.", NULL));
    handler->queued_bytes =
        metric_with(metrics_gauge("culvert_reports_queued_bytes", "Bytes of reports not yet committed.", NULL));
    struct metric_family *limited =
        metrics_counter("culvert_reports_limited_total",
                        "Reports over HTTP answered with 429: whose share was used up.", "scope", NULL);
    handler->limited[SHARE_ACCOUNT] = metric_with(limited, "account");
    handler->limited[SHARE_RUNTIME] = metric_with(limited, "runtime");
    handler->commit_seconds = metric_with(
        metrics_histogram("culvert_report_transaction_seconds", "Time of one transaction of reports.", NULL));
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

struct event_handler *event_handler_create(struct loop *loop, const struct event_handler_options *options)
{
    struct event_handler *handler = mem_zalloc(sizeof *handler);
    handler->loop = loop;
    handler->options = *options;
    handler->timer = mem_zalloc(sizeof *handler->timer);
    uv_timer_init(loop_uv(loop), handler->timer);
    handler->timer->data = handler;
    handler->share = share_create(&(struct share_options){options->account_bytes_max, options->runtime_bytes_max});
    make_metrics(handler);
    return handler;
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

static void item_end(struct event_handler *handler, struct event_item *item, const struct error *err,
                     const struct report_outcome *outcome)
{
    handler->bytes -= item->bytes;
    share_give_back(handler->share, item->report.account_id, item->report.runtime, item->bytes);
    metric_move(handler->queued_bytes, -(int64_t)item->bytes);
    item->on_done(item->arg, err, &item->report, outcome);
    mem_free(item);
}

void event_handler_stop(struct event_handler *handler)
{
    handler->stopped = true;
    uv_timer_stop(handler->timer);
}

void event_handler_destroy(struct event_handler *handler)
{
    if (!handler) return;
    struct error err;
    error_set(&err, ERROR_CANCELLED, "the server is shutting down");
    for (struct lane *lane = handler->lanes, *next; lane; lane = next) {
        next = lane->next;
        if (lane->aside) item_end(handler, lane->aside, &err, NULL);
        for (size_t i = 0; i < lane->in_flight_count; i++)
            item_end(handler, lane->in_flight[i], &err, NULL);
        handler->options.discard(lane->next_transaction);
        for (size_t i = 0; i < lane->ahead_count; i++)
            item_end(handler, lane->ahead[i], &err, NULL);
        for (struct event_item *item = lane->first, *after; item; item = after) {
            after = item->next;
            item_end(handler, item, &err, NULL);
        }
        mem_free(lane->in_flight);
        mem_free(lane->ended);
        mem_free(lane->ahead);
        mem_free(lane);
    }
    share_destroy(handler->share);
    uv_close((uv_handle_t *)handler->timer, free_timer);
    mem_free(handler);
}

// ---- taking --------------------------------------------------------------------------------------------------------

static struct event_item *item_create(const struct report *report, bool patient, event_item_done on_done, void *arg)
{
    size_t bytes = sizeof(struct event_item) + report_text_bytes(report);
    struct event_item *item = mem_alloc(bytes);
    *item = (struct event_item){.bytes = bytes, .patient = patient, .on_done = on_done, .arg = arg};
    report_copy_into(&item->report, report, (char *)(item + 1));
    return item;
}

static struct event_item *lane_pop(struct lane *lane)
{
    struct event_item *item = lane->first;
    lane->first = item->next;
    if (!lane->first) lane->last = NULL;
    item->next = NULL;
    lane->count--;
    lane->bytes -= item->bytes;
    return item;
}

static void lane_push_back(struct lane *lane, struct event_item *item)
{
    if (lane->last)
        lane->last->next = item;
    else
        lane->first = item;
    lane->last = item;
    lane->count++;
    lane->bytes += item->bytes;
}

static void lane_push_front(struct lane *lane, struct event_item *item)
{
    item->next = lane->first;
    lane->first = item;
    if (!lane->last) lane->last = item;
    lane->count++;
    lane->bytes += item->bytes;
}

static struct lane *lane_find(struct event_handler *handler, struct str account_id)
{
    for (struct lane *lane = handler->lanes; lane; lane = lane->next)
        if (str_eq(str_c(lane->account_id), account_id)) return lane;
    return NULL;
}

static struct lane *lane_create(struct event_handler *handler, struct str account_id)
{
    struct lane *lane = mem_zalloc(sizeof *lane);
    lane->handler = handler;
    snprintf(lane->account_id, sizeof lane->account_id, "%.*s", STR_ARG(account_id));
    lane->in_flight = mem_array(handler->options.batch_count, sizeof *lane->in_flight);
    lane->ended = mem_array(handler->options.batch_count, sizeof *lane->ended);
    lane->ahead = mem_array(handler->options.batch_count, sizeof *lane->ahead);
    backoff_init(&lane->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    lane->turn = handler->clock;
    lane->next = handler->lanes;
    handler->lanes = lane;
    return lane;
}

bool event_handler_is_full(const struct event_handler *handler)
{
    return handler->bytes >= handler->options.queue_bytes_max;
}

bool event_handler_has_room(const struct event_handler *handler, struct str account_id, struct str runtime)
{
    return !event_handler_is_full(handler) && share_over(handler->share, account_id, runtime) == SHARE_FREE;
}

bool event_handler_is_idle(const struct event_handler *handler)
{
    return handler->bytes == 0;
}

// What waits will find out when the database is back; without that, the first report after a while does.
static bool lane_is_away(const struct lane *lane)
{
    bool waits = lane->count > 0 || lane->in_flight_count > 0 || lane->ahead_count > 0;
    return (lane->away && waits) || lane->not_before_ms > clock_mono_ms();
}

// What somebody who cannot wait is told before anything is taken.
static enum error_code check_share(struct event_handler *handler, const struct report *report, struct error *err)
{
    enum share_scope over = share_over(handler->share, report->account_id, report->runtime);
    if (over == SHARE_FREE) return ERROR_NONE;
    metric_add(handler->limited[over], 1);
    return error_set(err, ERROR_LIMITED, "more reports of this %s are waiting than its share of the queue",
                     over == SHARE_ACCOUNT ? "account" : "runtime");
}

enum error_code event_handler_submit(struct event_handler *handler, const struct report *report, bool patient,
                                     event_item_done on_done, void *arg, struct error *err)
{
    struct lane *lane = lane_find(handler, report->account_id);
    if (report->account_id.len >= sizeof lane->account_id)
        return error_set(err, ERROR_INVALID, "an account id of %zu bytes", report->account_id.len);
    if (!patient && event_handler_is_full(handler))
        return error_set(err, ERROR_UNAVAILABLE, "%zu bytes of reports are waiting, the limit is %llu", handler->bytes,
                         (unsigned long long)handler->options.queue_bytes_max);
    if (!patient && (handler->stopped || (lane && lane_is_away(lane))))
        return error_set(err, ERROR_UNAVAILABLE, "the database is away");
    if (!patient && check_share(handler, report, err) != ERROR_NONE) return ERROR_LIMITED;
    if (!lane) lane = lane_create(handler, report->account_id);
    struct event_item *item = item_create(report, patient, on_done, arg);
    if (lane->count == 0) lane->since_ms = clock_mono_ms();
    lane_push_back(lane, item);
    handler->bytes += item->bytes;
    share_take(handler->share, report->account_id, report->runtime, item->bytes);
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
    }
}

static void refuse(struct lane *lane, struct event_item *item, const struct error *err)
{
    if (lane->alone) lane->alone--;
    lane->defects = 0;
    struct report_outcome refused = {.result = REPORT_REFUSED, .detail = err->text};
    log_warn("event_handler", "report_refused", log_str("account", item->report.account_id),
             log_str("runtime", item->report.runtime), log_str("kind", item->report.kind),
             log_str("name", item->report.name), log_err(err));
    count_outcome(lane->handler, &refused);
    item_end(lane->handler, item, NULL, &refused);
}

// The one behind it was answered: so it is the report that cannot be applied, not the database that cannot apply.
static void refuse_aside(struct lane *lane)
{
    struct event_item *item = lane->aside;
    struct error err;
    if (!item) return;
    lane->aside = NULL;
    error_set(&err, ERROR_INTERNAL, "%u tries met an internal error, others did not", lane->defects);
    refuse(lane, item, &err);
}

// The next transaction, of this lane or of another, leaves before anybody is told of this one: PostgreSQL is not to
// wait for that.
static void lane_succeeded(struct lane *lane, const struct report_outcome *outcomes, size_t count)
{
    struct event_handler *handler = lane->handler;
    refuse_aside(lane);
    backoff_reset(&lane->backoff);
    lane->away = false;
    lane->not_before_ms = 0;
    lane->conflicts = lane->defects = 0;
    if (lane->alone) lane->alone -= count < lane->alone ? count : lane->alone;
    struct event_item **items = lane->in_flight;
    lane->in_flight = lane->ended;
    lane->ended = items;
    lane->in_flight_count = 0;
    submit_in_turn(handler);
    struct report *reports = mem_array(count, sizeof *reports);
    for (size_t i = 0; i < count; i++) {
        reports[i] = items[i]->report;
        count_outcome(handler, &outcomes[i]);
    }
    if (handler->options.on_committed) handler->options.on_committed(handler->options.ctx, reports, outcomes, count);
    mem_free(reports);
    for (size_t i = 0; i < count; i++)
        item_end(handler, items[i], NULL, &outcomes[i]);
}

static void lane_put_all_back(struct lane *lane)
{
    lane->handler->options.discard(lane->next_transaction);
    lane->next_transaction = NULL;
    lane->is_ready = false;
    while (lane->ahead_count)
        lane_push_front(lane, lane->ahead[--lane->ahead_count]);
    while (lane->in_flight_count)
        lane_push_front(lane, lane->in_flight[--lane->in_flight_count]);
    if (lane->aside) lane_push_front(lane, lane->aside);
    lane->aside = NULL;
}

// The patient ones wait in their order; the others are told, also those that were not yet tried: they would be too.
static void lane_put_back(struct lane *lane, const struct error *err)
{
    lane_put_all_back(lane);
    struct event_item *item = lane->first, *told = NULL, **told_end = &told;
    lane->first = lane->last = NULL;
    lane->count = lane->bytes = 0;
    for (struct event_item *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        if (item->patient) {
            lane_push_back(lane, item);
        } else {
            *told_end = item;
            told_end = &item->next;
        }
    }
    for (struct event_item *next; told; told = next) {
        next = told->next;
        item_end(lane->handler, told, err, NULL);
    }
}

static bool is_about_the_data(enum error_code code)
{
    return code == ERROR_INVALID || code == ERROR_TOO_LARGE || code == ERROR_NOT_FOUND;
}

// The one report that cannot be applied: it is kept out, the others go on.
static void lane_refuse(struct lane *lane, const struct error *err)
{
    struct event_item *item = lane->in_flight[0];
    lane->in_flight_count = 0;
    refuse(lane, item, err);
}

// A defect of ours or of the database, met by one report: it is nobody's fault who sent it, so nothing is refused for
// it. It is tried again, and after some tries in turns with the one behind it (lane_submit).
static void lane_hold(struct lane *lane, const struct error *err)
{
    struct event_item *item = lane->in_flight[0];
    lane->defects++;
    if (lane->aside) { // so it is not the report: those who can come again are told to
        struct error told;
        error_set(&told, ERROR_UNAVAILABLE, "%.*s", ERROR_TEXT_BYTES - 1, err->text);
        lane_put_back(lane, &told);
    } else if (item->patient) {
        lane_put_all_back(lane);
    } else {
        lane->in_flight_count = lane->defects = 0;
        if (lane->alone) lane->alone--;
        item_end(lane->handler, item, err, NULL);
        return;
    }
    if (!lane->alone) lane->alone = 1;
    lane->not_before_ms = clock_mono_ms() + backoff_next_ms(&lane->backoff) + 1;
}

static void lane_failed(struct lane *lane, const struct error *err)
{
    struct event_handler *handler = lane->handler;
    size_t count = lane->in_flight_count;
    metric_add(handler->failed, count);
    if (is_about_the_data(err->code)) refuse_aside(lane); // the database does answer
    if (is_about_the_data(err->code) && count == 1) {
        lane_refuse(lane, err);
        return;
    }
    if (err->code != ERROR_CANCELLED)
        log_warn("event_handler", "transaction_failed", log_c("account", lane->account_id), log_uint("reports", count),
                 log_c("code", error_code_name(err->code)), log_err(err));
    if (err->code == ERROR_INTERNAL && count == 1) {
        lane_hold(lane, err);
        return;
    }
    bool split = is_about_the_data(err->code) || err->code == ERROR_INTERNAL || err->code == ERROR_TIMEOUT;
    if (split && count > lane->alone) lane->alone = count;
    if (is_about_the_data(err->code) || err->code == ERROR_INTERNAL) {
        lane_put_all_back(lane);
        return;
    }
    // Somebody else was faster: nothing of the caller's, so that all are tried again, for a while.
    if (err->code == ERROR_CONFLICT && lane->conflicts++ < CONFLICTS_MAX) {
        lane_put_all_back(lane);
    } else {
        struct error told = *err;
        if (told.code == ERROR_CONFLICT) told.code = ERROR_UNAVAILABLE;
        lane->away = true;
        lane_put_back(lane, &told);
    }
    lane->not_before_ms = clock_mono_ms() + backoff_next_ms(&lane->backoff) + 1;
}

static void on_applied(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count)
{
    struct lane *lane = arg;
    struct event_handler *handler = lane->handler;
    metric_observe(handler->commit_seconds, (double)(clock_mono_us() - lane->started_us) / 1e6);
    metric_add(handler->batches, 1);
    handler->transactions--;
    // The pool is closing: whatever is tried again now would be lost in it.
    if (err && err->code == ERROR_CANCELLED) event_handler_stop(handler);
    // A callback may submit to this lane: no further transaction is made of that before all of them have run.
    lane->busy++;
    if (err)
        lane_failed(lane, err);
    else
        lane_succeeded(lane, outcomes, count);
    lane->busy--;
    if (handler->options.on_progress) handler->options.on_progress(handler->options.ctx);
    pump(handler);
}

static void on_ready(void *arg)
{
    struct lane *lane = arg;
    lane->is_ready = true;
    pump(lane->handler);
}

// The next transaction begins to be made ready.
static void lane_prepare(struct lane *lane)
{
    struct event_handler *handler = lane->handler;
    size_t most = lane->alone ? 1 : handler->options.batch_count;
    size_t bytes = 0;
    if (lane->defects >= DEFECTS_MAX && lane->defects % 2 == 0 && lane->count > 1) {
        lane->aside = lane_pop(lane);
        most = 1;
    }
    while (lane->first && lane->ahead_count < most) {
        if (lane->ahead_count && bytes + lane->first->bytes > handler->options.batch_bytes) break;
        struct event_item *item = lane_pop(lane);
        bytes += item->bytes;
        lane->ahead[lane->ahead_count++] = item;
    }
    lane->since_ms = clock_mono_ms();
    struct report *reports = mem_array(lane->ahead_count, sizeof *reports);
    for (size_t i = 0; i < lane->ahead_count; i++)
        reports[i] = lane->ahead[i]->report;
    lane->next_transaction = handler->options.prepare(handler->options.pg, handler->options.known, reports,
                                                      lane->ahead_count, on_ready, lane);
    mem_free(reports);
}

// Who had nothing to say for a while begins where the others are.
static void take_turn(struct lane *lane)
{
    struct event_handler *handler = lane->handler;
    if (lane->turn < handler->clock) lane->turn = handler->clock;
    handler->clock = lane->turn;
    for (size_t i = 0; i < lane->in_flight_count; i++)
        lane->turn += lane->in_flight[i]->bytes;
    handler->transactions++;
}

// It goes, when the one before has been answered.
static void lane_submit(struct lane *lane)
{
    struct report_transaction *transaction = lane->next_transaction;
    struct event_item **free_slots = lane->in_flight;
    lane->in_flight = lane->ahead;
    lane->in_flight_count = lane->ahead_count;
    lane->ahead = free_slots;
    lane->ahead_count = 0;
    lane->next_transaction = NULL;
    lane->is_ready = false;
    lane->started_us = clock_mono_us();
    take_turn(lane);
    lane->handler->options.submit(transaction, on_applied, lane);
}

// When the next transaction may be made ready: 0 now, otherwise how long it waits; UINT64_MAX: for nothing. While one
// is in flight only a full one is: what comes until then shares it.
static uint64_t lane_wait_ms(const struct lane *lane, uint64_t now)
{
    const struct event_handler_options *options = &lane->handler->options;
    if (lane->count == 0 || lane->ahead_count || lane->busy) return UINT64_MAX;
    if (lane->not_before_ms > now) return lane->in_flight_count ? UINT64_MAX : lane->not_before_ms - now;
    bool is_full = lane->count >= options->batch_count || lane->bytes >= options->batch_bytes;
    if (lane->in_flight_count) return is_full && !lane->alone ? 0 : UINT64_MAX;
    if (is_full || lane->alone) return 0;
    uint64_t due = lane->since_ms + options->batch_delay_ms;
    return due > now ? due - now : 0;
}

static void lane_drop(struct lane **link)
{
    struct lane *lane = *link;
    *link = lane->next;
    mem_free(lane->in_flight);
    mem_free(lane->ended);
    mem_free(lane->ahead);
    mem_free(lane);
}

static struct lane *lane_whose_turn_it_is(const struct event_handler *handler)
{
    struct lane *first = NULL;
    for (struct lane *lane = handler->lanes; lane; lane = lane->next) {
        bool may_go = lane->is_ready && lane->next_transaction && !lane->in_flight_count;
        if (may_go && (!first || lane->turn < first->turn)) first = lane;
    }
    return first;
}

static void submit_in_turn(struct event_handler *handler)
{
    uint64_t most = handler->options.transactions_max;
    while (!handler->stopped && (!most || handler->transactions < most)) {
        struct lane *lane = lane_whose_turn_it_is(handler);
        if (!lane) return;
        lane_submit(lane);
    }
}

// One pass over the lanes: prepares those that may go, drops those that are empty. Gives back how long the next one
// waits.
static uint64_t pump_once(struct event_handler *handler)
{
    uint64_t now = clock_mono_ms(), soonest = UINT64_MAX;
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
        if (lane->count == 0 && lane->in_flight_count == 0 && lane->ahead_count == 0 && !lane->busy)
            lane_drop(link);
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
        uv_timer_stop(handler->timer);
    else
        uv_timer_start(handler->timer, on_timer, soonest, 0);
}
