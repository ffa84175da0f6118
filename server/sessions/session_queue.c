#include "server/sessions/session_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { HELD_POLL_MS = 50, RETRY_MS = 1000, REASON_BYTES = 64 };

// A session that waits for its epoch.
struct opening {
    struct opening *next;
    struct tunnel_node *node; // NULL: the session is gone, or no caller waits
    struct tunnel_session_info session;
};

// One that has ended.
struct end {
    struct end *next;
    uint64_t epoch, ended_at_ms, silent_ms; // silent: when it ended
    enum tunnel_ending ending;
    char account_id[sizeof((struct tunnel_identity *)0)->account_id];
    char runtime[sizeof((struct tunnel_identity *)0)->runtime];
    char reason[REASON_BYTES];
};

struct session_queue {
    struct session_queue_options options;
    struct timer timer; // until openings may go, and before ends are tried again
    bool stopped;
    struct opening *openings, **openings_last;      // waiting, in order
    struct opening *opening_now[SESSION_BATCH_MAX]; // under way, by account and runtime
    size_t opening_count;                           // of them; 0: none is under way
    size_t opening_most;                            // how many may go together: halved after a refusal
    struct end *ends, **ends_last;
    struct end *ending_now[SESSION_BATCH_MAX];
    size_t ending_count, ending_most, end_count; // end_count: waiting
    bool ends_wait, complained;
    struct metric *waiting_gauge, *dropped;
};

static void send_openings(struct session_queue *queue);
static void send_ends(struct session_queue *queue);

static void on_timer(void *arg)
{
    struct session_queue *queue = arg;
    queue->ends_wait = false;
    send_openings(queue);
    send_ends(queue);
}

static void wait(struct session_queue *queue, uint64_t wait_ms)
{
    if (timer_is_open(&queue->timer) && !timer_is_active(&queue->timer)) timer_start(&queue->timer, wait_ms, 0);
}

struct session_queue *session_queue_create(struct loop *loop, const struct session_queue_options *options)
{
    struct session_queue *queue = mem_zalloc(sizeof *queue);
    queue->options = *options;
    if (!queue->options.open) queue->options.open = session_batch_open;
    if (!queue->options.close) queue->options.close = session_batch_close;
    queue->openings_last = &queue->openings;
    queue->ends_last = &queue->ends;
    queue->opening_most = queue->ending_most = SESSION_BATCH_MAX;
    timer_init(&queue->timer, loop_uv(loop), on_timer, queue);
    queue->waiting_gauge = metric_with(metrics_gauge(
        "culvert_session_ends_waiting", "Ended sessions whose end is not written to PostgreSQL yet.", NULL));
    queue->dropped = metric_with(metrics_counter(
        "culvert_session_ends_dropped_total", "Ended sessions whose end was dropped because too many waited.", NULL));
    return queue;
}

void session_queue_stop(struct session_queue *queue)
{
    if (!queue) return;
    queue->stopped = true;
    for (struct opening *opening = queue->openings; opening; opening = opening->next)
        opening->node = NULL;
    for (size_t i = 0; i < queue->opening_count; i++)
        queue->opening_now[i]->node = NULL;
}

void session_queue_destroy(struct session_queue *queue)
{
    if (!queue) return;
    timer_finish(&queue->timer);
    for (struct opening *opening = queue->openings, *next; opening; opening = next) {
        next = opening->next;
        mem_free_secret(opening, sizeof *opening);
    }
    for (struct end *end = queue->ends, *next; end; end = next) {
        next = end->next;
        mem_free(end);
    }
    metric_move(queue->waiting_gauge, -(int64_t)queue->end_count);
    mem_free(queue);
}

// ---- openings ------------------------------------------------------------------------------------------------------

static int compare_openings(const void *a, const void *b)
{
    const struct opening *x = *(struct opening *const *)a, *y = *(struct opening *const *)b;
    int order = session_batch_compare(x->session.identity.account_id, str_c(x->session.identity.runtime),
                                      y->session.identity.account_id, str_c(y->session.identity.runtime));
    if (order) return order;
    return x->session.ref.id < y->session.ref.id ? -1 : x->session.ref.id > y->session.ref.id; // one loop: as they came
}

static bool same_runtime(const struct opening *a, const struct opening *b)
{
    return strcmp(a->session.identity.account_id, b->session.identity.account_id) == 0 &&
           strcmp(a->session.identity.runtime, b->session.identity.runtime) == 0;
}

static void push_opening(struct session_queue *queue, struct opening *opening)
{
    opening->next = NULL;
    *queue->openings_last = opening;
    queue->openings_last = &opening->next;
}

static struct opening *pop_opening(struct session_queue *queue)
{
    struct opening *opening = queue->openings;
    if (!opening) return NULL;
    queue->openings = opening->next;
    if (!queue->openings) queue->openings_last = &queue->openings;
    return opening;
}

// Takes what goes into one transaction: no runtime twice, the later one waits for the next.
static void take_openings(struct session_queue *queue)
{
    struct opening **now = queue->opening_now;
    size_t count = 0, kept = 0;
    for (struct opening *opening; count < queue->opening_most && (opening = pop_opening(queue));) {
        if (opening->node)
            now[count++] = opening;
        else
            mem_free_secret(opening, sizeof *opening);
    }
    qsort(now, count, sizeof *now, compare_openings);
    for (size_t i = 0; i < count; i++) {
        if (kept && same_runtime(now[kept - 1], now[i]))
            push_opening(queue, now[i]);
        else
            now[kept++] = now[i];
    }
    queue->opening_count = kept;
}

static void finish_opening(struct session_queue *queue, struct opening *opening, const struct error *err,
                           struct session_grant grant)
{
    const struct session_queue_options *options = &queue->options;
    if (opening->node)
        options->on_opened(options->ctx, opening->node, &opening->session, err, grant);
    else if (!err && grant.epoch && !grant.stands_by) // it left while it waited, and its row marks it as alive
        session_queue_close(queue, &opening->session, grant.epoch, "ended before it was open");
    mem_free_secret(opening, sizeof *opening);
}

// The database does not answer: waiting does not help.
static void fail_openings(struct session_queue *queue, const struct error *err)
{
    struct opening *waiting = queue->openings;
    queue->openings = NULL;
    queue->openings_last = &queue->openings;
    for (struct opening *next; waiting; waiting = next) {
        next = waiting->next;
        finish_opening(queue, waiting, err, (struct session_grant){0});
    }
}

static bool is_away(const struct error *err)
{
    return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TIMEOUT || err->code == ERROR_CANCELLED;
}

static void on_opened(void *arg, const struct error *err, const struct session_grant *grants)
{
    struct session_queue *queue = arg;
    struct opening *done[SESSION_BATCH_MAX];
    size_t count = queue->opening_count;
    memcpy(done, queue->opening_now, count * sizeof *done);
    queue->opening_count = 0;
    // One of many may be what PostgreSQL refuses: they are tried again in smaller parts, until it
    // stands alone.
    bool again = err && !is_away(err) && count > 1 && !queue->stopped;
    queue->opening_most = again ? (count + 1) / 2 : SESSION_BATCH_MAX;
    for (size_t i = 0; i < count; i++) {
        if (again)
            push_opening(queue, done[i]);
        else
            finish_opening(queue, done[i], err, err ? (struct session_grant){0} : grants[i]);
    }
    if (err && is_away(err)) fail_openings(queue, err);
    send_openings(queue);
}

static void send_openings(struct session_queue *queue)
{
    if (queue->opening_count || !queue->openings || queue->stopped) return;
    // What an earlier process of this name left must be ended first, or these would be ended with
    // it.
    if (!atomic_load(queue->options.may_open)) {
        wait(queue, HELD_POLL_MS);
        return;
    }
    take_openings(queue);
    if (!queue->opening_count) return;
    struct session_new *rows = mem_array(queue->opening_count, sizeof *rows);
    char(*ids)[48] = mem_array(queue->opening_count, sizeof *ids);
    for (size_t i = 0; i < queue->opening_count; i++) {
        const struct tunnel_session_info *session = &queue->opening_now[i]->session;
        int len = snprintf(ids[i], sizeof ids[i], "%u-%llu", session->ref.node, (unsigned long long)session->ref.id);
        rows[i] = (struct session_new){
            .account_id = session->identity.account_id,
            .runtime = str_c(session->identity.runtime),
            .runtime_id = str_c(session->identity.runtime_id),
            .session_id = str_of(ids[i], (size_t)len),
            .instance_id = str_c(session->instance_id),
            .boot_id = str_c(session->boot_id),
            .agent_version = str_c(session->agent_version),
            .remote = str_c(session->remote),
            .waits = session->stands_by,
        };
    }
    queue->options.open(queue->options.pg, str_c(queue->options.replica), rows, queue->opening_count, on_opened, queue);
    mem_free(ids);
    mem_free(rows);
}

void session_queue_open(struct session_queue *queue, struct tunnel_node *node,
                        const struct tunnel_session_info *session)
{
    if (queue->stopped) return;
    struct opening *opening = mem_alloc(sizeof *opening);
    opening->node = node;
    opening->session = *session;
    push_opening(queue, opening);
    send_openings(queue);
}

void session_queue_forget(struct session_queue *queue, struct tunnel_session_ref ref)
{
    for (size_t i = 0; i < queue->opening_count; i++)
        if (queue->opening_now[i]->session.ref.id == ref.id) queue->opening_now[i]->node = NULL;
    for (struct opening *opening = queue->openings; opening; opening = opening->next)
        if (opening->session.ref.id == ref.id) opening->node = NULL;
}

// ---- ends ----------------------------------------------------------------------------------------------------------

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = *(struct end *const *)a, *y = *(struct end *const *)b;
    return session_batch_compare(x->account_id, str_c(x->runtime), y->account_id, str_c(y->runtime));
}

static void push_end(struct session_queue *queue, struct end *end)
{
    end->next = NULL;
    *queue->ends_last = end;
    queue->ends_last = &end->next;
    queue->end_count++;
    metric_move(queue->waiting_gauge, 1);
}

static struct end *pop_end(struct session_queue *queue)
{
    struct end *end = queue->ends;
    if (!end) return NULL;
    queue->ends = end->next;
    if (!queue->ends) queue->ends_last = &queue->ends;
    queue->end_count--;
    metric_move(queue->waiting_gauge, -1);
    return end;
}

static struct end *note_ended(struct session_queue *queue, struct end *end, const struct error *err)
{
    if (!err && !queue->stopped && queue->options.on_ended)
        queue->options.on_ended(queue->options.ctx, end->account_id, end->runtime);
    return end;
}

static void on_closed(void *arg, const struct error *err, uint64_t ignored)
{
    struct session_queue *queue = arg;
    (void)ignored;
    size_t count = queue->ending_count;
    bool away = err && is_away(err), refused = err && !away;
    queue->ending_count = 0;
    queue->ending_most = refused && count > 1 ? (count + 1) / 2 : SESSION_BATCH_MAX;
    bool again = !queue->stopped && (away || (refused && count > 1));
    for (size_t i = 0; i < count; i++) {
        if (again)
            push_end(queue, queue->ending_now[i]);
        else
            mem_free(note_ended(queue, queue->ending_now[i], err));
    }
    if (err && err->code != ERROR_CANCELLED && !queue->complained)
        log_warn("sessions", "session_ends_not_recorded", log_uint("sessions", count), log_bool("again", again),
                 log_err(err));
    queue->complained = err != NULL;
    if (away && again) {
        queue->ends_wait = true;
        wait(queue, RETRY_MS);
        return;
    }
    send_ends(queue);
}

static void send_ends(struct session_queue *queue)
{
    if (queue->ending_count || !queue->ends || queue->ends_wait) return;
    struct session_over *rows = mem_array(SESSION_BATCH_MAX, sizeof *rows);
    size_t count = 0;
    for (struct end *end; count < queue->ending_most && (end = pop_end(queue));)
        queue->ending_now[count++] = end;
    qsort(queue->ending_now, count, sizeof *queue->ending_now, compare_ends);
    for (size_t i = 0; i < count; i++) {
        const struct end *end = queue->ending_now[i];
        rows[i] = (struct session_over){.account_id = end->account_id,
                                        .runtime = str_c(end->runtime),
                                        .epoch = end->epoch,
                                        .reason = str_c(end->reason),
                                        .cause = str_c(tunnel_ending_name(end->ending)),
                                        .silent_ms = end->silent_ms + clock_mono_ms() - end->ended_at_ms};
    }
    queue->ending_count = count;
    queue->options.close(queue->options.pg, rows, count, on_closed, queue);
    mem_free(rows);
}

void session_queue_close(struct session_queue *queue, const struct tunnel_session_info *session, uint64_t epoch,
                         const char *reason)
{
    if (queue->end_count >= queue->options.ends_max) {
        mem_free(pop_end(queue));
        metric_add(queue->dropped, 1);
    }
    struct end *end = mem_zalloc(sizeof *end);
    end->epoch = epoch;
    end->ended_at_ms = clock_mono_ms();
    end->silent_ms = session->silent_ms;
    end->ending = session->ending;
    snprintf(end->account_id, sizeof end->account_id, "%s", session->identity.account_id);
    snprintf(end->runtime, sizeof end->runtime, "%s", session->identity.runtime);
    snprintf(end->reason, sizeof end->reason, "%s", reason);
    push_end(queue, end);
    send_ends(queue);
}
