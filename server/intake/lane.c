#include "server/intake/lane.h"

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

struct lane *lane_create(const struct lane_options *options, struct str account_id)
{
    uint64_t slots = options->handler->batch_count;
    struct lane *lane = mem_zalloc(sizeof *lane);
    lane->options = options;
    snprintf(lane->account_id, sizeof lane->account_id, "%.*s", STR_ARG(account_id));
    lane->in_flight = mem_array(slots, sizeof *lane->in_flight);
    lane->ended = mem_array(slots, sizeof *lane->ended);
    lane->ahead = mem_array(slots, sizeof *lane->ahead);
    backoff_init(&lane->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    return lane;
}

void lane_destroy(struct lane *lane)
{
    assert(lane->waiting.count == 0 && lane->parked.count == 0);
    assert(lane->in_flight_count == 0 && lane->ahead_count == 0 && !lane->aside);
    mem_free(lane->in_flight);
    mem_free(lane->ended);
    mem_free(lane->ahead);
    mem_free(lane);
}

static void set_next_state(struct lane *lane, enum lane_next_state state)
{
    assert(state == LANE_NEXT_NONE || state == lane->next_state + 1);
    assert(state != LANE_NEXT_PREPARING || lane->ahead_count > 0);
    lane->next_state = state;
}

static void end(struct lane *lane, struct event_item *item, const struct error *err,
                const struct report_outcome *outcome)
{
    lane->options->end(lane->options->ctx, item, err, outcome);
}

static void discard_next(struct lane *lane)
{
    lane->options->handler->discard(lane->next_transaction);
    lane->next_transaction = NULL;
    set_next_state(lane, LANE_NEXT_NONE);
}

void lane_end_all(struct lane *lane, const struct error *err)
{
    if (lane->aside) end(lane, lane->aside, err, NULL);
    lane->aside = NULL;
    for (size_t i = 0; i < lane->in_flight_count; i++)
        end(lane, lane->in_flight[i], err, NULL);
    lane->in_flight_count = 0;
    discard_next(lane);
    for (size_t i = 0; i < lane->ahead_count; i++)
        end(lane, lane->ahead[i], err, NULL);
    lane->ahead_count = 0;
    for (struct event_item *item; (item = event_line_take(&lane->waiting));)
        end(lane, item, err, NULL);
    for (struct event_item *item; (item = event_line_take(&lane->parked));)
        end(lane, item, err, NULL);
    lane->suspect = NULL;
}

// ---- waiting -------------------------------------------------------------------------------------------------------

bool lane_is_parked(const struct lane *lane, struct str runtime)
{
    return lane->parked.first && str_eq(lane->parked.first->report.runtime, runtime);
}

void lane_add(struct lane *lane, struct event_item *item)
{
    if (lane_is_parked(lane, item->report.runtime)) {
        event_line_add(&lane->parked, item);
        return;
    }
    if (lane->waiting.count == 0) lane->since_ms = clock_mono_ms();
    event_line_add(&lane->waiting, item);
}

bool lane_is_empty(const struct lane *lane)
{
    return lane->waiting.count == 0 && lane->parked.count == 0 && lane->in_flight_count == 0 &&
           lane->ahead_count == 0 && !lane->busy;
}

// What waits will find out when the database is back; without that, the first report after a while does.
bool lane_is_away(const struct lane *lane)
{
    bool waits = lane->waiting.count > 0 || lane->in_flight_count > 0 || lane->ahead_count > 0;
    return (lane->away && waits) || lane->not_before_ms > clock_mono_ms();
}

static uint64_t parked_wait_ms(const struct lane *lane, uint64_t now_ms)
{
    if (!lane->parked.count || lane->in_flight_count || lane->ahead_count || lane->busy) return UINT64_MAX;
    return lane->parked_until_ms > now_ms ? lane->parked_until_ms - now_ms : 0;
}

// While one is in flight only a full one is made ready: what comes until then shares it.
static uint64_t waiting_wait_ms(const struct lane *lane, uint64_t now_ms)
{
    const struct event_handler_options *options = lane->options->handler;
    if (lane->waiting.count == 0 || lane->ahead_count || lane->busy) return UINT64_MAX;
    if (lane->not_before_ms > now_ms) return lane->in_flight_count ? UINT64_MAX : lane->not_before_ms - now_ms;
    bool is_full = lane->waiting.count >= options->batch_count || lane->waiting.bytes >= options->batch_bytes;
    if (lane->in_flight_count) return is_full && !lane->alone ? 0 : UINT64_MAX;
    if (is_full || lane->alone) return 0;
    uint64_t due = lane->since_ms + options->batch_delay_ms;
    return due > now_ms ? due - now_ms : 0;
}

uint64_t lane_wait_ms(const struct lane *lane, uint64_t now_ms)
{
    uint64_t waiting = waiting_wait_ms(lane, now_ms), parked = parked_wait_ms(lane, now_ms);
    return waiting < parked ? waiting : parked;
}

// ---- going ---------------------------------------------------------------------------------------------------------

static void on_ready(void *arg)
{
    struct lane *lane = arg;
    set_next_state(lane, LANE_NEXT_READY);
    lane->options->on_ready(lane->options->ctx);
}

// Before all others, as it was: the suspect alone, then the rest of its runtime.
static void unpark(struct lane *lane)
{
    for (struct event_item *item; (item = event_line_take(&lane->waiting));)
        event_line_add(&lane->parked, item);
    lane->waiting = lane->parked;
    lane->parked = (struct event_line){0};
    if (!lane->alone) lane->alone = 1;
}

// What the next transaction is made of.
struct choice {
    size_t count_max, bytes_max, bytes, looks;
};

// The one behind `before`, or the first, comes along. False: it has no room.
static bool choose(struct lane *lane, struct choice *choice, struct event_item *before)
{
    const struct event_item *item = before ? before->next : lane->waiting.first;
    bool is_full = lane->ahead_count >= choice->count_max;
    if (is_full || (lane->ahead_count && choice->bytes + item->bytes > choice->bytes_max)) return false;
    choice->bytes += item->bytes;
    lane->ahead[lane->ahead_count++] = event_line_take_behind(&lane->waiting, before);
    return true;
}

// All of the first one's runtime. False: one of them has no room.
static bool choose_runtime(struct lane *lane, struct choice *choice)
{
    struct str runtime = lane->waiting.first->report.runtime;
    struct event_item *before = NULL, *item;
    while ((item = before ? before->next : lane->waiting.first) && choice->looks < LOOKS_MAX) {
        choice->looks++;
        if (!str_eq(item->report.runtime, runtime))
            before = item;
        else if (!choose(lane, choice, before))
            return false;
    }
    return true;
}

static bool is_half_full(const struct lane *lane, const struct choice *choice)
{
    return lane->ahead_count >= (choice->count_max + 1) / 2 || choice->bytes >= choice->bytes_max / 2;
}

// Transactions about one runtime wait for each other, also those of other loops. So while there is more than one can
// hold, each is about as few runtimes as fill half of it.
static void choose_next(struct lane *lane, size_t most)
{
    struct choice choice = {.count_max = most, .bytes_max = lane->options->handler->batch_bytes};
    bool is_more = most > 1 && (lane->waiting.count > most || lane->waiting.bytes > choice.bytes_max);
    while (is_more && lane->waiting.first && choice.looks < LOOKS_MAX) {
        if (!choose_runtime(lane, &choice) || is_half_full(lane, &choice)) return;
    }
    while (lane->waiting.first && choose(lane, &choice, NULL))
        continue;
}

void lane_prepare(struct lane *lane)
{
    const struct event_handler_options *options = lane->options->handler;
    assert(lane->next_state == LANE_NEXT_NONE && lane->ahead_count == 0);
    if (lane->parked.count && lane->parked_until_ms <= clock_mono_ms()) unpark(lane);
    size_t most = lane->alone ? 1 : options->batch_count;
    if (lane->defects >= DEFECTS_MAX && lane->is_behind_next && lane->waiting.count > 1) {
        lane->aside = event_line_take(&lane->waiting);
        most = 1;
    }
    choose_next(lane, most);
    lane->since_ms = clock_mono_ms();
    struct report *reports = mem_array(lane->ahead_count, sizeof *reports);
    for (size_t i = 0; i < lane->ahead_count; i++)
        reports[i] = lane->ahead[i]->report;
    set_next_state(lane, LANE_NEXT_PREPARING); // on_ready may run inside
    lane->next_transaction =
        options->prepare(options->pg, options->kinds, options->known, reports, lane->ahead_count, on_ready, lane);
    mem_free(reports);
}

bool lane_may_go(const struct lane *lane)
{
    return lane->next_state == LANE_NEXT_READY && lane->next_transaction && !lane->in_flight_count;
}

size_t lane_bytes_ahead(const struct lane *lane)
{
    size_t bytes = 0;
    for (size_t i = 0; i < lane->ahead_count; i++)
        bytes += lane->ahead[i]->bytes;
    return bytes;
}

static void on_applied(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count)
{
    struct lane *lane = arg;
    lane->options->on_applied(lane->options->ctx, lane, err, outcomes, count);
}

void lane_submit(struct lane *lane)
{
    assert(lane_may_go(lane));
    struct report_transaction *transaction = lane->next_transaction;
    struct event_item **free_slots = lane->in_flight;
    assert(lane->in_flight_count == 0 && lane->ahead_count <= lane->options->handler->batch_count);
    lane->in_flight = lane->ahead;
    lane->in_flight_count = lane->ahead_count;
    lane->ahead = free_slots;
    lane->ahead_count = 0;
    lane->next_transaction = NULL;
    set_next_state(lane, LANE_NEXT_NONE);
    lane->started_us = clock_mono_us();
    lane->options->handler->submit(transaction, on_applied, lane);
}

// ---- success -------------------------------------------------------------------------------------------------------

static void refuse(struct lane *lane, struct event_item *item, const struct error *err)
{
    if (lane->alone) lane->alone--;
    lane->defects = 0;
    if (lane->suspect == item) lane->suspect = NULL;
    struct report_outcome refused = {.result = REPORT_REFUSED, .detail = err->text};
    log_limited(LOG_WARN, "event_handler", "report_refused", item->report.account_id, item->report.runtime,
                log_str("account", item->report.account_id), log_str("runtime", item->report.runtime),
                log_str("kind", item->report.kind), log_str("name", item->report.name), log_err(err));
    end(lane, item, NULL, &refused);
}

// The one behind it was answered: so it is the report that cannot be applied, not the database that cannot apply.
static void refuse_aside(struct lane *lane)
{
    struct event_item *item = lane->aside;
    struct error err;
    if (!item) return;
    lane->aside = NULL;
    if (lane->suspect == item)
        error_set(&err, ERROR_TIMEOUT, "%u attempts took too long, other reports did not", lane->timeouts);
    else
        error_set(&err, ERROR_INTERNAL, "%u attempts failed with an internal error, other reports did not",
                  lane->defects);
    refuse(lane, item, &err);
}

struct event_item **lane_succeeded(struct lane *lane, size_t count)
{
    refuse_aside(lane);
    backoff_reset(&lane->backoff);
    lane->away = false;
    lane->not_before_ms = 0;
    lane->conflicts = lane->defects = 0;
    if (lane->suspect == lane->in_flight[0]) lane->suspect = NULL;
    lane->others_went = true;
    if (lane->alone) lane->alone -= count < lane->alone ? count : lane->alone;
    assert(count == lane->in_flight_count);
    struct event_item **items = lane->in_flight;
    lane->in_flight = lane->ended;
    lane->ended = items;
    lane->in_flight_count = 0;
    return items;
}

// ---- failure -------------------------------------------------------------------------------------------------------

static void put_all_back(struct lane *lane)
{
    discard_next(lane);
    while (lane->ahead_count)
        event_line_add_head(&lane->waiting, lane->ahead[--lane->ahead_count]);
    while (lane->in_flight_count)
        event_line_add_head(&lane->waiting, lane->in_flight[--lane->in_flight_count]);
    if (lane->aside) event_line_add_head(&lane->waiting, lane->aside);
    lane->aside = NULL;
}

// The patient ones wait in their order; the others are told, also those that were not yet tried: they would be too.
static void put_back(struct lane *lane, const struct error *err)
{
    put_all_back(lane);
    struct event_line all = lane->waiting, told = {0};
    lane->waiting = (struct event_line){0};
    for (struct event_item *item; (item = event_line_take(&all));)
        event_line_add(item->patient ? &lane->waiting : &told, item);
    for (struct event_item *item; (item = event_line_take(&told));)
        end(lane, item, err, NULL);
}

static bool is_about_the_data(enum error_code code)
{
    return code == ERROR_INVALID || code == ERROR_TOO_LARGE || code == ERROR_NOT_FOUND;
}

// The one report that cannot be applied: it is kept out, the others go on.
static void refuse_the_one(struct lane *lane, const struct error *err)
{
    assert(lane->in_flight_count == 1);
    struct event_item *item = lane->in_flight[0];
    lane->in_flight_count = 0;
    refuse(lane, item, err);
}

static void back_off(struct lane *lane)
{
    lane->not_before_ms = clock_mono_ms() + backoff_next_ms(&lane->backoff) + 1;
}

// A defect of ours or of the database, met by one report: it is nobody's fault who sent it, so nothing is refused for
// it. It is tried again, and after some tries in turns with the one behind it (lane_prepare).
static void hold(struct lane *lane, const struct error *err)
{
    struct event_item *item = lane->in_flight[0];
    lane->defects++;
    lane->is_behind_next = !lane->aside;
    if (lane->aside) { // so it is not the report: those who can come again are told to
        struct error told;
        error_set(&told, ERROR_UNAVAILABLE, "%.*s", ERROR_TEXT_BYTES - 1, err->text);
        put_back(lane, &told);
    } else if (item->patient) {
        put_all_back(lane);
    } else {
        lane->in_flight_count = lane->defects = 0;
        if (lane->alone) lane->alone--;
        end(lane, item, err, NULL);
        return;
    }
    if (!lane->alone) lane->alone = 1;
    back_off(lane);
}

// All of the suspect's runtime that can wait does so aside; the others of it are told.
static void park(struct lane *lane, const struct error *err)
{
    put_all_back(lane);
    struct event_line all = lane->waiting, told = {0};
    lane->waiting = (struct event_line){0};
    for (struct event_item *item; (item = event_line_take(&all));) {
        bool is_of_it = str_eq(item->report.runtime, lane->suspect->report.runtime);
        event_line_add(!is_of_it ? &lane->waiting : item->patient ? &lane->parked : &told, item);
    }
    lane->parked_until_ms = clock_mono_ms() + lane->options->handler->park_ms;
    if (lane->alone) lane->alone--;
    for (struct event_item *item; (item = event_line_take(&told));)
        end(lane, item, err, NULL);
}

// The end of a snapshot that is never told makes the agent send another one; nothing is lost by giving it up.
static void give_up(struct lane *lane, struct event_item *item)
{
    struct report_outcome outcome = {REPORT_RESYNC, "it took too long"};
    lane->in_flight_count = 0;
    lane->suspect = NULL;
    if (lane->alone) lane->alone--;
    log_warn("event_handler", "snapshot_abandoned", log_str("account", item->report.account_id),
             log_str("runtime", item->report.runtime), log_uint("tries", lane->timeouts));
    end(lane, item, NULL, &outcome);
}

// One report took too long by itself. Either it always will, or the database is slow: what others meet tells. Only
// while nobody else gets through is it tried for ever, in turns with the one behind it.
static void suspect(struct lane *lane, const struct error *err)
{
    struct event_item *item = lane->in_flight[0];
    if (lane->suspect != item) {
        lane->suspect = item;
        lane->timeouts = 0;
        lane->others_went = false;
    }
    lane->timeouts++;
    if (lane->timeouts < TIMEOUTS_MAX) {
        park(lane, err);
    } else if (item->report.type == REPORT_SNAPSHOT_END) {
        give_up(lane, item);
    } else if (lane->others_went) {
        refuse_the_one(lane, err);
    } else {
        lane->defects = DEFECTS_MAX;
        lane->is_behind_next = lane->away = true;
        put_back(lane, err);
        if (!lane->alone) lane->alone = 1;
        back_off(lane);
    }
}

static bool is_suspicious(const struct lane *lane, const struct error *err)
{
    const struct event_item *item = lane->in_flight[0];
    return err->code == ERROR_TIMEOUT && lane->in_flight_count == 1 && item->patient && !lane->aside &&
           (!lane->suspect || lane->suspect == item);
}

void lane_failed(struct lane *lane, const struct error *err)
{
    size_t count = lane->in_flight_count;
    assert(count > 0);
    if (is_about_the_data(err->code)) refuse_aside(lane); // the database does answer
    if (is_about_the_data(err->code) && count == 1) {
        refuse_the_one(lane, err);
        return;
    }
    if (err->code != ERROR_CANCELLED)
        log_warn("event_handler", "transaction_failed", log_c("account", lane->account_id), log_uint("reports", count),
                 log_c("code", error_code_name(err->code)), log_err(err));
    if (err->code == ERROR_INTERNAL && count == 1) {
        hold(lane, err);
        return;
    }
    if (is_suspicious(lane, err)) {
        suspect(lane, err);
        return;
    }
    if (lane->aside) lane->is_behind_next = false;
    bool split = is_about_the_data(err->code) || err->code == ERROR_INTERNAL || err->code == ERROR_TIMEOUT;
    if (split && count > lane->alone) lane->alone = count;
    if (is_about_the_data(err->code) || err->code == ERROR_INTERNAL) {
        put_all_back(lane);
        return;
    }
    // Somebody else was faster: nothing of the caller's, so that all are tried again, for a while.
    if (err->code == ERROR_CONFLICT && lane->conflicts++ < CONFLICTS_MAX) {
        put_all_back(lane);
    } else {
        struct error told = *err;
        if (told.code == ERROR_CONFLICT) told.code = ERROR_UNAVAILABLE;
        lane->away = true;
        put_back(lane, &told);
    }
    back_off(lane);
}
