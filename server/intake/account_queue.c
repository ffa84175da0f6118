#include "server/intake/account_queue.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

enum {
    RETRY_BASE_MS = 50,
    RETRY_CAP_MS = 2000,
    CONFLICTS_MAX = 3,
    DEFECTS_MAX = 8,
    TIMEOUTS_MAX = 3,
    LOOKS_MAX = 2048
};

struct account_queue *account_queue_create(const struct account_queue_options *options, struct str account_id)
{
    uint64_t slots = options->handler->batch_count;
    struct account_queue *queue = mem_zalloc(sizeof *queue);
    queue->options = options;
    snprintf(queue->account_id, sizeof queue->account_id, "%.*s", STR_ARG(account_id));
    queue->in_flight = mem_array(slots, sizeof *queue->in_flight);
    queue->ended = mem_array(slots, sizeof *queue->ended);
    queue->ahead = mem_array(slots, sizeof *queue->ahead);
    backoff_init(&queue->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    return queue;
}

void account_queue_destroy(struct account_queue *queue)
{
    assert(queue->waiting.count == 0 && queue->parked.count == 0);
    assert(queue->in_flight_count == 0 && queue->ahead_count == 0 && !queue->aside);
    mem_free(queue->in_flight);
    mem_free(queue->ended);
    mem_free(queue->ahead);
    mem_free(queue);
}

static void set_next_state(struct account_queue *queue, enum account_queue_next_state state)
{
    assert(state == ACCOUNT_QUEUE_NEXT_NONE || state == queue->next_state + 1);
    assert(state != ACCOUNT_QUEUE_NEXT_PREPARING || queue->ahead_count > 0);
    queue->next_state = state;
}

// item: of PARKED and TRIED.
static void set_suspect(struct account_queue *queue, enum account_queue_suspect_state state, struct event_item *item)
{
    // clang-format off
    static const unsigned allowed[] = {
        [ACCOUNT_QUEUE_SUSPECT_NONE] = 1u << ACCOUNT_QUEUE_SUSPECT_PARKED,
        [ACCOUNT_QUEUE_SUSPECT_PARKED] = 1u << ACCOUNT_QUEUE_SUSPECT_TRIED | 1u << ACCOUNT_QUEUE_SUSPECT_NONE,
        [ACCOUNT_QUEUE_SUSPECT_TRIED] = 1u << ACCOUNT_QUEUE_SUSPECT_PARKED | 1u << ACCOUNT_QUEUE_SUSPECT_NONE,
    };
    // clang-format on
    assert(allowed[queue->suspect_state] & 1u << state);
    assert((state == ACCOUNT_QUEUE_SUSPECT_NONE) == !item);
    queue->suspect_state = state;
    queue->suspect = item;
}

static void forget_suspect(struct account_queue *queue)
{
    if (queue->suspect) set_suspect(queue, ACCOUNT_QUEUE_SUSPECT_NONE, NULL);
}

// aside: of BEHIND.
static void set_turn(struct account_queue *queue, enum account_queue_turn turn, struct event_item *aside)
{
    assert(turn != ACCOUNT_QUEUE_TURN_BEHIND || queue->turn_of == ACCOUNT_QUEUE_TURN_BEHIND_DUE);
    assert((turn == ACCOUNT_QUEUE_TURN_BEHIND) == (aside != NULL));
    queue->turn_of = turn;
    queue->aside = aside;
}

static void end(struct account_queue *queue, struct event_item *item, const struct error *err,
                const struct report_outcome *outcome)
{
    queue->options->end(queue->options->ctx, item, err, outcome);
}

static void discard_next(struct account_queue *queue)
{
    queue->options->handler->discard(queue->next_transaction);
    queue->next_transaction = NULL;
    set_next_state(queue, ACCOUNT_QUEUE_NEXT_NONE);
}

void account_queue_end_all(struct account_queue *queue, const struct error *err)
{
    struct event_item *aside = queue->aside;
    set_turn(queue, ACCOUNT_QUEUE_TURN_FIRST, NULL);
    forget_suspect(queue);
    if (aside) end(queue, aside, err, NULL);
    for (size_t i = 0; i < queue->in_flight_count; i++)
        end(queue, queue->in_flight[i], err, NULL);
    queue->in_flight_count = 0;
    discard_next(queue);
    for (size_t i = 0; i < queue->ahead_count; i++)
        end(queue, queue->ahead[i], err, NULL);
    queue->ahead_count = 0;
    for (struct event_item *item; (item = event_line_take(&queue->waiting));)
        end(queue, item, err, NULL);
    for (struct event_item *item; (item = event_line_take(&queue->parked));)
        end(queue, item, err, NULL);
}

// ---- waiting -------------------------------------------------------------------------------------------------------

bool account_queue_is_parked(const struct account_queue *queue, struct str runtime)
{
    return queue->parked.first && str_eq(queue->parked.first->report.runtime, runtime);
}

void account_queue_add(struct account_queue *queue, struct event_item *item)
{
    if (account_queue_is_parked(queue, item->report.runtime)) {
        event_line_add(&queue->parked, item);
        return;
    }
    if (queue->waiting.count == 0) queue->since_ms = clock_mono_ms();
    event_line_add(&queue->waiting, item);
}

bool account_queue_is_empty(const struct account_queue *queue)
{
    return queue->waiting.count == 0 && queue->parked.count == 0 && queue->in_flight_count == 0 &&
           queue->ahead_count == 0 && !queue->busy;
}

// What waits will find out when the database is back; without that, the first report after a while does.
bool account_queue_is_away(const struct account_queue *queue)
{
    bool waits = queue->waiting.count > 0 || queue->in_flight_count > 0 || queue->ahead_count > 0;
    return (queue->away && waits) || queue->not_before_ms > clock_mono_ms();
}

static uint64_t parked_wait_ms(const struct account_queue *queue, uint64_t now_ms)
{
    if (!queue->parked.count || queue->in_flight_count || queue->ahead_count || queue->busy) return UINT64_MAX;
    return queue->parked_until_ms > now_ms ? queue->parked_until_ms - now_ms : 0;
}

// While one is in flight only a full one is made ready: what comes until then shares it.
static uint64_t waiting_wait_ms(const struct account_queue *queue, uint64_t now_ms)
{
    const struct event_handler_options *options = queue->options->handler;
    if (queue->waiting.count == 0 || queue->ahead_count || queue->busy) return UINT64_MAX;
    if (queue->not_before_ms > now_ms) return queue->in_flight_count ? UINT64_MAX : queue->not_before_ms - now_ms;
    bool is_full = queue->waiting.count >= options->batch_count || queue->waiting.bytes >= options->batch_bytes;
    if (queue->in_flight_count) return is_full && !queue->alone ? 0 : UINT64_MAX;
    if (is_full || queue->alone) return 0;
    uint64_t due = queue->since_ms + options->batch_delay_ms;
    return due > now_ms ? due - now_ms : 0;
}

uint64_t account_queue_wait_ms(const struct account_queue *queue, uint64_t now_ms)
{
    uint64_t waiting = waiting_wait_ms(queue, now_ms), parked = parked_wait_ms(queue, now_ms);
    return waiting < parked ? waiting : parked;
}

// ---- going ---------------------------------------------------------------------------------------------------------

static void on_ready(void *arg)
{
    struct account_queue *queue = arg;
    set_next_state(queue, ACCOUNT_QUEUE_NEXT_READY);
    queue->options->on_ready(queue->options->ctx);
}

// Before all others, as it was: the suspect alone, then the rest of its runtime.
static void unpark(struct account_queue *queue)
{
    assert(queue->parked.first == queue->suspect);
    set_suspect(queue, ACCOUNT_QUEUE_SUSPECT_TRIED, queue->suspect);
    for (struct event_item *item; (item = event_line_take(&queue->waiting));)
        event_line_add(&queue->parked, item);
    queue->waiting = queue->parked;
    queue->parked = (struct event_line){0};
    if (!queue->alone) queue->alone = 1;
}

// What the next transaction is made of.
struct choice {
    size_t count_max, bytes_max, bytes, looks;
};

// The one behind `before`, or the first, comes along. False: it has no room.
static bool choose(struct account_queue *queue, struct choice *choice, struct event_item *before)
{
    const struct event_item *item = before ? before->next : queue->waiting.first;
    bool is_full = queue->ahead_count >= choice->count_max;
    if (is_full || (queue->ahead_count && choice->bytes + item->bytes > choice->bytes_max)) return false;
    choice->bytes += item->bytes;
    queue->ahead[queue->ahead_count++] = event_line_take_behind(&queue->waiting, before);
    return true;
}

// All of the first one's runtime. False: one of them has no room.
static bool choose_runtime(struct account_queue *queue, struct choice *choice)
{
    struct str runtime = queue->waiting.first->report.runtime;
    struct event_item *before = NULL, *item;
    while ((item = before ? before->next : queue->waiting.first) && choice->looks < LOOKS_MAX) {
        choice->looks++;
        if (!str_eq(item->report.runtime, runtime))
            before = item;
        else if (!choose(queue, choice, before))
            return false;
    }
    return true;
}

static bool is_half_full(const struct account_queue *queue, const struct choice *choice)
{
    return queue->ahead_count >= (choice->count_max + 1) / 2 || choice->bytes >= choice->bytes_max / 2;
}

// Transactions about one runtime wait for each other, also those of other loops. So while there is more than one can
// hold, each is about as few runtimes as fill half of it.
static void choose_next(struct account_queue *queue, size_t most)
{
    struct choice choice = {.count_max = most, .bytes_max = queue->options->handler->batch_bytes};
    bool is_more = most > 1 && (queue->waiting.count > most || queue->waiting.bytes > choice.bytes_max);
    while (is_more && queue->waiting.first && choice.looks < LOOKS_MAX) {
        if (!choose_runtime(queue, &choice) || is_half_full(queue, &choice)) return;
    }
    while (queue->waiting.first && choose(queue, &choice, NULL))
        continue;
}

void account_queue_prepare(struct account_queue *queue)
{
    const struct event_handler_options *options = queue->options->handler;
    assert(queue->next_state == ACCOUNT_QUEUE_NEXT_NONE && queue->ahead_count == 0);
    bool is_parked = queue->suspect_state == ACCOUNT_QUEUE_SUSPECT_PARKED;
    if (is_parked && queue->parked_until_ms <= clock_mono_ms()) unpark(queue);
    size_t most = queue->alone ? 1 : options->batch_count;
    bool is_behind_due = queue->turn_of == ACCOUNT_QUEUE_TURN_BEHIND_DUE && queue->defects >= DEFECTS_MAX;
    if (is_behind_due && queue->waiting.count > 1) {
        set_turn(queue, ACCOUNT_QUEUE_TURN_BEHIND, event_line_take(&queue->waiting));
        most = 1;
    }
    choose_next(queue, most);
    queue->since_ms = clock_mono_ms();
    struct report *reports = mem_array(queue->ahead_count, sizeof *reports);
    for (size_t i = 0; i < queue->ahead_count; i++)
        reports[i] = queue->ahead[i]->report;
    set_next_state(queue, ACCOUNT_QUEUE_NEXT_PREPARING); // on_ready may run inside
    queue->next_transaction =
        options->prepare(options->pg, options->kinds, options->known, reports, queue->ahead_count, on_ready, queue);
    mem_free(reports);
}

bool account_queue_may_go(const struct account_queue *queue)
{
    return queue->next_state == ACCOUNT_QUEUE_NEXT_READY && queue->next_transaction && !queue->in_flight_count;
}

size_t account_queue_bytes_ahead(const struct account_queue *queue)
{
    size_t bytes = 0;
    for (size_t i = 0; i < queue->ahead_count; i++)
        bytes += queue->ahead[i]->bytes;
    return bytes;
}

static void on_applied(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count)
{
    struct account_queue *queue = arg;
    queue->options->on_applied(queue->options->ctx, queue, err, outcomes, count);
}

void account_queue_submit(struct account_queue *queue)
{
    assert(account_queue_may_go(queue));
    struct report_transaction *transaction = queue->next_transaction;
    struct event_item **free_slots = queue->in_flight;
    assert(queue->in_flight_count == 0 && queue->ahead_count <= queue->options->handler->batch_count);
    queue->in_flight = queue->ahead;
    queue->in_flight_count = queue->ahead_count;
    queue->ahead = free_slots;
    queue->ahead_count = 0;
    queue->next_transaction = NULL;
    set_next_state(queue, ACCOUNT_QUEUE_NEXT_NONE);
    queue->started_us = clock_mono_us();
    queue->options->handler->submit(transaction, on_applied, queue);
}

// ---- success -------------------------------------------------------------------------------------------------------

static void refuse(struct account_queue *queue, struct event_item *item, const struct error *err)
{
    if (queue->alone) queue->alone--;
    queue->defects = 0;
    if (queue->suspect == item) forget_suspect(queue);
    struct report_outcome refused = {.result = REPORT_REFUSED, .detail = err->text};
    log_limited(LOG_WARN, "event_handler", "report_refused", item->report.account_id, item->report.runtime,
                log_str("account", item->report.account_id), log_str("runtime", item->report.runtime),
                log_str("kind", item->report.ref.kind), log_str("name", item->report.ref.name), log_err(err));
    end(queue, item, NULL, &refused);
}

// The one behind it was answered: so it is the report that cannot be applied, not the database that cannot apply.
static void refuse_aside(struct account_queue *queue)
{
    struct event_item *item = queue->aside;
    struct error err;
    if (!item) return;
    set_turn(queue, ACCOUNT_QUEUE_TURN_FIRST, NULL);
    if (queue->suspect == item)
        error_set(&err, ERROR_TIMEOUT, "%u attempts took too long, other reports did not", queue->timeouts);
    else
        error_set(&err, ERROR_INTERNAL, "%u attempts failed with an internal error, other reports did not",
                  queue->defects);
    refuse(queue, item, &err);
}

struct event_item **account_queue_succeeded(struct account_queue *queue, size_t count)
{
    refuse_aside(queue);
    backoff_reset(&queue->backoff);
    queue->away = false;
    queue->not_before_ms = 0;
    queue->conflicts = queue->defects = 0;
    if (queue->suspect == queue->in_flight[0]) forget_suspect(queue);
    queue->others_went = true;
    if (queue->alone) queue->alone -= count < queue->alone ? count : queue->alone;
    assert(count == queue->in_flight_count);
    struct event_item **items = queue->in_flight;
    queue->in_flight = queue->ended;
    queue->ended = items;
    queue->in_flight_count = 0;
    return items;
}

// ---- failure -------------------------------------------------------------------------------------------------------

static void put_all_back(struct account_queue *queue)
{
    discard_next(queue);
    while (queue->ahead_count)
        event_line_add_head(&queue->waiting, queue->ahead[--queue->ahead_count]);
    while (queue->in_flight_count)
        event_line_add_head(&queue->waiting, queue->in_flight[--queue->in_flight_count]);
    if (!queue->aside) return;
    event_line_add_head(&queue->waiting, queue->aside);
    set_turn(queue, ACCOUNT_QUEUE_TURN_FIRST, NULL);
}

// The patient ones wait in their order; the others are told, also those that were not yet tried: they would be too.
static void put_back(struct account_queue *queue, const struct error *err)
{
    put_all_back(queue);
    struct event_line all = queue->waiting, refused = {0};
    queue->waiting = (struct event_line){0};
    for (struct event_item *item; (item = event_line_take(&all));)
        event_line_add(item->patient ? &queue->waiting : &refused, item);
    for (struct event_item *item; (item = event_line_take(&refused));)
        end(queue, item, err, NULL);
}

static bool is_about_the_data(enum error_code code)
{
    return code == ERROR_INVALID || code == ERROR_TOO_LARGE || code == ERROR_NOT_FOUND;
}

// The one report that cannot be applied: it is kept out, the others go on.
static void refuse_the_one(struct account_queue *queue, const struct error *err)
{
    assert(queue->in_flight_count == 1);
    struct event_item *item = queue->in_flight[0];
    queue->in_flight_count = 0;
    refuse(queue, item, err);
}

static void back_off(struct account_queue *queue)
{
    queue->not_before_ms = clock_mono_ms() + backoff_next_ms(&queue->backoff) + 1;
}

// A defect of ours or of the database, met by one report: it is nobody's fault who sent it, so nothing is refused for
// it. It is tried again, and after some tries in turns with the one behind it (account_queue_prepare).
static void hold(struct account_queue *queue, const struct error *err)
{
    struct event_item *item = queue->in_flight[0];
    queue->defects++;
    if (!queue->aside) set_turn(queue, ACCOUNT_QUEUE_TURN_BEHIND_DUE, NULL);
    if (queue->aside) { // so it is not the report: those who can come again are told to
        struct error passing;
        error_set(&passing, ERROR_UNAVAILABLE, "%.*s", ERROR_TEXT_BYTES - 1, err->text);
        put_back(queue, &passing);
    } else if (item->patient) {
        put_all_back(queue);
    } else {
        queue->in_flight_count = queue->defects = 0;
        if (queue->alone) queue->alone--;
        end(queue, item, err, NULL);
        return;
    }
    if (!queue->alone) queue->alone = 1;
    back_off(queue);
}

// All of the suspect's runtime that can wait does so aside; the others of it are told.
static void park(struct account_queue *queue, struct event_item *suspect, const struct error *err)
{
    put_all_back(queue);
    struct event_line all = queue->waiting, refused = {0};
    queue->waiting = (struct event_line){0};
    set_suspect(queue, ACCOUNT_QUEUE_SUSPECT_PARKED, suspect);
    for (struct event_item *item; (item = event_line_take(&all));) {
        bool is_of_it = str_eq(item->report.runtime, suspect->report.runtime);
        event_line_add(!is_of_it ? &queue->waiting : item->patient ? &queue->parked : &refused, item);
    }
    queue->parked_until_ms = clock_mono_ms() + queue->options->handler->park_ms;
    if (queue->alone) queue->alone--;
    for (struct event_item *item; (item = event_line_take(&refused));)
        end(queue, item, err, NULL);
}

// The end of a snapshot that is never told makes the agent send another one; nothing is lost by giving it up.
static void give_up(struct account_queue *queue, struct event_item *item)
{
    struct report_outcome outcome = {REPORT_RESYNC, "it took too long"};
    queue->in_flight_count = 0;
    forget_suspect(queue);
    if (queue->alone) queue->alone--;
    log_warn("event_handler", "snapshot_abandoned", log_str("account", item->report.account_id),
             log_str("runtime", item->report.runtime), log_uint("tries", queue->timeouts));
    end(queue, item, NULL, &outcome);
}

// One report took too long by itself. Either it always will, or the database is slow: what others meet tells. Only
// while nobody else gets through is it tried for ever, in turns with the one behind it.
static void suspect(struct account_queue *queue, const struct error *err)
{
    struct event_item *item = queue->in_flight[0];
    if (queue->suspect != item) {
        queue->timeouts = 0;
        queue->others_went = false;
    }
    queue->timeouts++;
    if (queue->timeouts < TIMEOUTS_MAX) {
        park(queue, item, err);
    } else if (item->report.type == REPORT_SNAPSHOT_END) {
        give_up(queue, item);
    } else if (queue->others_went) {
        refuse_the_one(queue, err);
    } else {
        queue->defects = DEFECTS_MAX;
        queue->away = true;
        set_turn(queue, ACCOUNT_QUEUE_TURN_BEHIND_DUE, NULL);
        put_back(queue, err);
        if (!queue->alone) queue->alone = 1;
        back_off(queue);
    }
}

static bool is_suspicious(const struct account_queue *queue, const struct error *err)
{
    const struct event_item *item = queue->in_flight[0];
    return err->code == ERROR_TIMEOUT && queue->in_flight_count == 1 && item->patient && !queue->aside &&
           (!queue->suspect || queue->suspect == item);
}

void account_queue_failed(struct account_queue *queue, const struct error *err)
{
    size_t count = queue->in_flight_count;
    assert(count > 0);
    if (is_about_the_data(err->code)) refuse_aside(queue); // the database does answer
    if (is_about_the_data(err->code) && count == 1) {
        refuse_the_one(queue, err);
        return;
    }
    if (err->code != ERROR_CANCELLED)
        log_warn("event_handler", "transaction_failed", log_c("account", queue->account_id), log_uint("reports", count),
                 log_c("code", error_code_name(err->code)), log_err(err));
    if (err->code == ERROR_INTERNAL && count == 1) {
        hold(queue, err);
        return;
    }
    if (is_suspicious(queue, err)) {
        suspect(queue, err);
        return;
    }
    bool split = is_about_the_data(err->code) || err->code == ERROR_INTERNAL || err->code == ERROR_TIMEOUT;
    if (split && count > queue->alone) queue->alone = count;
    if (is_about_the_data(err->code) || err->code == ERROR_INTERNAL) {
        put_all_back(queue);
        return;
    }
    // Somebody else was faster: nothing of the caller's, so that all are tried again, for a while.
    if (err->code == ERROR_CONFLICT && queue->conflicts++ < CONFLICTS_MAX) {
        put_all_back(queue);
    } else {
        struct error passing = *err;
        if (passing.code == ERROR_CONFLICT) passing.code = ERROR_UNAVAILABLE;
        queue->away = true;
        put_back(queue, &passing);
    }
    back_off(queue);
}
