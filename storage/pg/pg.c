#include "storage/pg/pg.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "culvert_statements.h"
#include "storage/pg/pg_connection.h"

enum { CONNECTIONS_MAX = 16, PIPELINE_BATCHES_MAX = 4, TICK_MS = 50 };

struct pg {
    struct loop *loop;
    struct pg_options options;
    char *conninfo, *settings;
    char *actor; // NULL: none
    struct pg_connection *connections[CONNECTIONS_MAX];
    unsigned connection_count;
    struct pg_batch *waiting, *waiting_last; // for a connection, in order
    size_t waiting_count;
    struct pg_batch *ending, *ending_last; // failed inside pg_batch_submit: told in the next turn
    uv_timer_t tick;                       // deadlines, while anything is under way
    uv_timer_t kick;                       // the next turn
    unsigned open_handles;
    _Atomic uint64_t own_losses, *losses;
    struct purpose_key column_key; // count 0: none
    bool is_closing, is_torn_down, is_bypass_logged;
    enum error_code last_complaint;
    loop_fn on_closed;
    void *closed_arg;
    struct metric *ready, *waiting_gauge, *seconds, *done, *failed, *lost;
};

static void on_tick(uv_timer_t *timer);
static void on_kick(uv_timer_t *timer);

static void push(struct pg_batch **first, struct pg_batch **last, struct pg_batch *batch)
{
    batch->next = NULL;
    if (*last)
        (*last)->next = batch;
    else
        *first = batch;
    *last = batch;
}

static struct pg_batch *pop(struct pg_batch **first, struct pg_batch **last)
{
    struct pg_batch *batch = *first;
    *first = batch->next;
    if (!*first) *last = NULL;
    batch->next = NULL;
    return batch;
}

static void count_ready(struct pg *pg, int64_t by)
{
    metric_move(pg->ready, by);
}

// ---- handing out ---------------------------------------------------------------------------------------------------

// Slow batches share a connection, and while there is another one nothing else goes behind them.
static size_t load(const struct pg_connection *c, bool is_slow)
{
    return pg_connection_in_flight(c) + (is_slow && !pg_connection_is_slow(c) ? PIPELINE_BATCHES_MAX : 0);
}

static bool has_fast_connection(const struct pg *pg)
{
    for (unsigned i = 0; i < pg->connection_count; i++)
        if (pg_connection_is_ready(pg->connections[i]) && !pg_connection_is_slow(pg->connections[i])) return true;
    return false;
}

static struct pg_connection *least_loaded(const struct pg *pg, bool is_slow)
{
    struct pg_connection *best = NULL;
    bool avoids_slow = !is_slow && has_fast_connection(pg);
    for (unsigned i = 0; i < pg->connection_count; i++) {
        struct pg_connection *c = pg->connections[i];
        if (!pg_connection_is_ready(c) || pg_connection_in_flight(c) >= PIPELINE_BATCHES_MAX) continue;
        if (avoids_slow && pg_connection_is_slow(c)) continue;
        if (!best || load(c, is_slow) < load(best, is_slow)) best = c;
    }
    return best;
}

static void hand_out(struct pg *pg)
{
    while (pg->waiting) {
        struct pg_connection *c = least_loaded(pg, pg->waiting->is_slow);
        if (!c) break;
        pg->waiting_count--;
        pg_connection_submit(c, pop(&pg->waiting, &pg->waiting_last));
    }
    metric_set(pg->waiting_gauge, (int64_t)pg->waiting_count);
}

static void end_batch(struct pg *pg, struct pg_batch *batch)
{
    metric_add(batch->is_failed ? pg->failed : pg->done, 1);
    metric_observe(pg->seconds, (double)(clock_mono_us() - batch->submitted_us) / 1e6);
    pg_batch_end(batch);
}

static void end_later(struct pg *pg, struct pg_batch *batch)
{
    push(&pg->ending, &pg->ending_last, batch);
    uv_timer_start(&pg->kick, on_kick, 0, 0);
}

void pg_batch_slow(struct pg_batch *batch)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, batch->pg->options.slow_statement_timeout_ms);
    batch->is_slow = true;
    pg_add(batch, pg_slow, .timeout = pg_text(str_c(text)));
}

void pg_batch_submit(struct pg_batch *batch, uint64_t deadline_ms, pg_done on_done, void *arg)
{
    struct pg *pg = batch->pg;
    assert(batch->submitted_us == 0); // once
    batch->on_done = on_done;
    batch->arg = arg;
    batch->submitted_us = clock_mono_us();
    batch->deadline_at_ms =
        clock_mono_ms() + deadline_ms + (batch->is_slow ? pg->options.slow_statement_timeout_ms : 0);
    if (pg->is_closing) pg_batch_fail(batch, ERROR_CANCELLED, "the server is shutting down");
    if (batch->count == 0 && !batch->is_failed) pg_batch_fail(batch, ERROR_INVALID, "a transaction without statements");
    if (pg->waiting_count >= pg->options.queue_max)
        pg_batch_fail(batch, ERROR_UNAVAILABLE, "too many transactions are waiting for PostgreSQL");
    if (pg->is_torn_down) { // a holder's callback, in a turn of its own
        end_batch(pg, batch);
        return;
    }
    if (batch->is_failed) {
        end_later(pg, batch);
        return;
    }
    push(&pg->waiting, &pg->waiting_last, batch);
    pg->waiting_count++;
    hand_out(pg);
    if (!uv_is_active((uv_handle_t *)&pg->tick)) uv_timer_start(&pg->tick, on_tick, TICK_MS, TICK_MS);
}

static void expire_waiting(struct pg *pg, uint64_t now_ms)
{
    struct pg_batch *expired = NULL, *expired_last = NULL, *kept = NULL, *kept_last = NULL;
    while (pg->waiting) {
        struct pg_batch *batch = pop(&pg->waiting, &pg->waiting_last);
        if (batch->deadline_at_ms > now_ms) {
            push(&kept, &kept_last, batch);
        } else {
            pg->waiting_count--;
            push(&expired, &expired_last, batch);
        }
    }
    pg->waiting = kept;
    pg->waiting_last = kept_last;
    while (expired) {
        struct pg_batch *batch = pop(&expired, &expired_last);
        pg_batch_fail(batch, ERROR_UNAVAILABLE,
                      pg_is_ready(pg) ? "PostgreSQL is too busy" : "PostgreSQL cannot be reached");
        end_batch(pg, batch);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct pg *pg = timer->data;
    uint64_t now_ms = clock_mono_ms();
    size_t in_flight = 0;
    for (unsigned i = 0; i < pg->connection_count; i++) {
        pg_connection_check_deadline(pg->connections[i], now_ms);
        in_flight += pg_connection_in_flight(pg->connections[i]);
    }
    expire_waiting(pg, now_ms);
    hand_out(pg);
    if (!pg->waiting && in_flight == 0) uv_timer_stop(&pg->tick);
}

// ---- connections ---------------------------------------------------------------------------------------------------

static void on_ready(void *ctx, struct pg_connection *connection, bool bypasses_row_security)
{
    (void)connection;
    struct pg *pg = ctx;
    count_ready(pg, 1);
    pg->last_complaint = ERROR_NONE;
    log_debug("pg", "connection_ready");
    if (bypasses_row_security && !pg->is_bypass_logged) {
        pg->is_bypass_logged = true;
        log_warn("pg", "row_security_bypassed",
                 log_c("hint", "the login role is a superuser or has BYPASSRLS: log in as a member of culvert_app"));
    }
    hand_out(pg);
}

static void on_lost(void *ctx, struct pg_connection *connection, bool was_ready, const struct error *err)
{
    (void)connection;
    struct pg *pg = ctx;
    if (was_ready) {
        count_ready(pg, -1);
        metric_add(pg->lost, 1);
        atomic_fetch_add(pg->losses, 1);
    }
    // Each connection tries again every few seconds: the log hears of a change, not of every try.
    if (pg->last_complaint == err->code && !was_ready) return;
    pg->last_complaint = err->code;
    if (err->code == ERROR_FORBIDDEN)
        log_error("pg", "server_refused", log_err(err));
    else
        log_warn("pg", was_ready ? "connection_lost" : "connection_failed", log_err(err));
}

static void on_batch(void *ctx, struct pg_batch *batch)
{
    struct pg *pg = ctx;
    end_batch(pg, batch);
    if (!pg->is_closing) hand_out(pg);
}

static void on_handle_closed(void *ctx)
{
    struct pg *pg = ctx;
    if (--pg->open_handles > 0) return;
    loop_fn on_closed = pg->on_closed;
    void *arg = pg->closed_arg;
    mem_free(pg->actor);
    mem_free(pg->conninfo);
    mem_free(pg->settings);
    mem_free(pg);
    if (on_closed) on_closed(arg);
}

static void on_timer_closed(uv_handle_t *timer)
{
    on_handle_closed(timer->data);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void make_metrics(struct pg *pg)
{
    pg->ready =
        metric_with(metrics_gauge("culvert_pg_connections_ready", "Established connections to PostgreSQL.", NULL));
    pg->waiting_gauge =
        metric_with(metrics_gauge("culvert_pg_transactions_waiting", "Transactions that wait for a connection.", NULL));
    pg->seconds = metric_with(
        metrics_histogram("culvert_pg_transaction_seconds", "Duration of a transaction, including its wait.", NULL));
    struct metric_family *transactions =
        metrics_counter("culvert_pg_transactions_total", "Transactions by result.", "result", NULL);
    pg->done = metric_with(transactions, "committed");
    pg->failed = metric_with(transactions, "failed");
    pg->lost = metric_with(
        metrics_counter("culvert_pg_connections_lost_total", "Established connections that were lost.", NULL));
}

struct pg *pg_create(struct loop *loop, const struct pg_options *options)
{
    assert(options->connections >= 1 && options->connections <= CONNECTIONS_MAX);
    struct pg *pg = mem_zalloc(sizeof *pg);
    pg->loop = loop;
    pg->options = *options;
    if (!options->slow_statement_timeout_ms) pg->options.slow_statement_timeout_ms = options->statement_timeout_ms;
    pg->losses = options->losses ? options->losses : &pg->own_losses;
    pg->conninfo = mem_strdup(options->conninfo);
    pg->settings = mem_strdup(options->settings ? options->settings : "");
    pg->connection_count = options->connections;
    make_metrics(pg);
    uv_timer_init(loop_uv(loop), &pg->tick);
    uv_timer_init(loop_uv(loop), &pg->kick);
    pg->tick.data = pg->kick.data = pg;
    if (options->column_key) pg->column_key = *options->column_key;
    struct pg_connection_options each = {.uv = loop_uv(loop),
                                         .conninfo = pg->conninfo,
                                         .settings = pg->settings,
                                         .statement_timeout_ms = options->statement_timeout_ms,
                                         .statements_max =
                                             options->statements_max ? options->statements_max : PG_STATEMENTS_DEFAULT,
                                         .checks_login = options->checks_login,
                                         .ctx = pg,
                                         .on_ready = on_ready,
                                         .on_lost = on_lost,
                                         .on_batch = on_batch,
                                         .on_closed = on_handle_closed};
    for (unsigned i = 0; i < pg->connection_count; i++)
        pg->connections[i] = pg_connection_create(&each);
    pg->open_handles = pg->connection_count + 2;
    return pg;
}

const struct purpose_key *pg_column_key(const struct pg *pg)
{
    return pg->column_key.count ? &pg->column_key : NULL;
}

bool pg_is_ready(const struct pg *pg)
{
    for (unsigned i = 0; i < pg->connection_count; i++)
        if (pg_connection_is_ready(pg->connections[i])) return true;
    return false;
}

uint64_t pg_losses(const struct pg *pg)
{
    return atomic_load(pg->losses);
}

void pg_set_actor(struct pg *pg, struct str actor)
{
    mem_free(pg->actor);
    pg->actor = actor.len ? mem_strndup(actor.at, actor.len) : NULL;
}

struct str pg_actor(const struct pg *pg)
{
    return str_c(pg ? pg->actor : NULL);
}

struct loop *pg_loop(const struct pg *pg)
{
    return pg->loop;
}

void pg_hold(struct pg *pg)
{
    pg->open_handles++;
}

void pg_release(struct pg *pg)
{
    on_handle_closed(pg);
}

static void tear_down(struct pg *pg)
{
    pg->is_torn_down = true;
    for (unsigned i = 0; i < pg->connection_count; i++) {
        if (pg_connection_is_ready(pg->connections[i])) count_ready(pg, -1);
        pg_connection_close(pg->connections[i], ERROR_CANCELLED, "the server is shutting down");
    }
    pg->connection_count = 0;
    while (pg->waiting) {
        struct pg_batch *batch = pop(&pg->waiting, &pg->waiting_last);
        pg->waiting_count--;
        pg_batch_fail(batch, ERROR_CANCELLED, "the server is shutting down");
        end_batch(pg, batch);
    }
    while (pg->ending)
        end_batch(pg, pop(&pg->ending, &pg->ending_last));
    uv_close((uv_handle_t *)&pg->tick, on_timer_closed);
    uv_close((uv_handle_t *)&pg->kick, on_timer_closed);
}

static void on_kick(uv_timer_t *timer)
{
    struct pg *pg = timer->data;
    struct pg_batch *ending = pg->ending, *last = pg->ending_last;
    pg->ending = pg->ending_last = NULL;
    while (ending)
        end_batch(pg, pop(&ending, &last));
    if (pg->is_closing) tear_down(pg);
}

// Callbacks of a batch may close the pool, so the work is left to the loop's next turn.
void pg_close(struct pg *pg, loop_fn on_closed, void *arg)
{
    assert(!pg->is_closing);
    pg->is_closing = true;
    pg->on_closed = on_closed;
    pg->closed_arg = arg;
    uv_timer_start(&pg->kick, on_kick, 0, 0);
}
