#include "server/sessions/session_lags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/table.h"
#include "storage/sessions/session_batch.h"

// An agent reports how old its oldest change is, and there is nearly always one on its way: below
// this it is not behind.
enum { NOT_BEHIND_MS = 1000, RETRY_MS = 1000 };

// A session whose agent is behind, or was when it was last written to PostgreSQL.
struct lag {
    struct table_node node;
    struct tunnel_session_ref ref;
    uint64_t epoch;
    uint64_t behind_since_ms, blind_since_ms; // monotonic, 0: not
    bool dirty;                               // PostgreSQL does not know
    char account_id[sizeof((struct tunnel_identity *)0)->account_id];
    char runtime[sizeof((struct tunnel_identity *)0)->runtime];
};

struct session_lags {
    struct session_lags_options options;
    struct timer timer; // before what could not be written is tried again
    struct table table; // by session
    size_t dirty_count;
    struct tunnel_session_ref writing[SESSION_BATCH_MAX];
    size_t writing_count; // 0: nothing is under way
    bool stopped;
    struct metric_family *ages;
};

static void write_dirty(struct session_lags *lags);

static void on_timer(void *arg)
{
    write_dirty(arg);
}

struct session_lags *session_lags_create(struct loop *loop, const struct session_lags_options *options)
{
    struct session_lags *lags = mem_zalloc(sizeof *lags);
    lags->options = *options;
    if (!lags->options.write) lags->options.write = session_batch_lag;
    table_init(&lags->table);
    timer_init(&lags->timer, loop_uv(loop), on_timer, lags);
    lags->ages = metrics_ages("culvert_runtime_lag_seconds", "Lag of the agents that are most behind their clusters.",
                              "account", "runtime", NULL);
    return lags;
}

void session_lags_stop(struct session_lags *lags)
{
    if (!lags) return;
    lags->stopped = true;
    timer_stop(&lags->timer);
}

static uint64_t hash_of(const struct session_lags *lags, struct tunnel_session_ref ref)
{
    return hash_end(lags->table.seed ^ (uint64_t)ref.node << 56 ^ ref.id);
}

static bool is_lag(const struct table_node *node, const void *key)
{
    const struct tunnel_session_ref *ref = key;
    const struct lag *lag = TABLE_OWNER(node, struct lag, node);
    return lag->ref.node == ref->node && lag->ref.id == ref->id;
}

static struct lag *lag_find(const struct session_lags *lags, struct tunnel_session_ref ref)
{
    struct table_node *node = table_find(&lags->table, hash_of(lags, ref), is_lag, &ref);
    return node ? TABLE_OWNER(node, struct lag, node) : NULL;
}

// Sessions of all loops meet in the metric.
static uint64_t metric_key(const struct lag *lag)
{
    return (uint64_t)lag->ref.node << 56 ^ lag->ref.id;
}

static void lag_drop(struct session_lags *lags, struct lag *lag)
{
    table_remove(&lags->table, &lag->node);
    lags->dirty_count -= lag->dirty;
    metric_age_set(lags->ages, metric_key(lag), 0);
    mem_free(lag);
}

void session_lags_destroy(struct session_lags *lags)
{
    if (!lags) return;
    for (struct table_node *node; (node = table_next(&lags->table, NULL));)
        lag_drop(lags, TABLE_OWNER(node, struct lag, node));
    table_finish(&lags->table);
    timer_finish(&lags->timer);
    mem_free(lags);
}

// ---- writing -------------------------------------------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    const struct lag *x = *(struct lag *const *)a, *y = *(struct lag *const *)b;
    return session_batch_compare(x->account_id, str_c(x->runtime), y->account_id, str_c(y->runtime));
}

static void set_dirty(struct session_lags *lags, struct lag *lag, bool dirty)
{
    lags->dirty_count += dirty;
    lags->dirty_count -= lag->dirty;
    lag->dirty = dirty;
}

static void on_written(void *arg, const struct error *err, uint64_t ignored)
{
    struct session_lags *lags = arg;
    (void)ignored;
    size_t count = lags->writing_count;
    lags->writing_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct lag *lag = lag_find(lags, lags->writing[i]);
        if (!lag) continue; // ended meanwhile
        if (err)
            set_dirty(lags, lag, true);
        else if (!lag->dirty && !lag->behind_since_ms && !lag->blind_since_ms)
            lag_drop(lags, lag);
    }
    if (err && err->code != ERROR_CANCELLED) log_debug("sessions", "lags_not_written", log_err(err));
    if (lags->stopped) return;
    if (err)
        timer_start(&lags->timer, RETRY_MS, 0);
    else
        write_dirty(lags);
}

static uint64_t age(uint64_t since_ms, uint64_t now_ms)
{
    return since_ms ? now_ms - since_ms : 0;
}

static void write_dirty(struct session_lags *lags)
{
    if (lags->writing_count || !lags->dirty_count || lags->stopped || timer_is_active(&lags->timer)) return;
    struct lag *now[SESSION_BATCH_MAX];
    size_t count = 0;
    struct table_node *node = NULL;
    while (count < SESSION_BATCH_MAX && (node = table_next(&lags->table, node))) {
        struct lag *lag = TABLE_OWNER(node, struct lag, node);
        if (lag->dirty) now[count++] = lag;
    }
    qsort(now, count, sizeof *now, compare);
    struct session_lag rows[SESSION_BATCH_MAX];
    uint64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct session_lag){.account_id = now[i]->account_id,
                                       .runtime = str_c(now[i]->runtime),
                                       .epoch = now[i]->epoch,
                                       .behind_ms = age(now[i]->behind_since_ms, now_ms),
                                       .blind_ms = age(now[i]->blind_since_ms, now_ms)};
        lags->writing[i] = now[i]->ref;
        set_dirty(lags, now[i], false);
    }
    lags->writing_count = count;
    lags->options.write(lags->options.pg, rows, count, on_written, lags);
}

// ---- reports of agents
// -----------------------------------------------------------------------------------------------

static uint64_t since(uint64_t lag_ms, uint64_t now_ms)
{
    if (lag_ms < NOT_BEHIND_MS) return 0;
    return lag_ms < now_ms ? now_ms - lag_ms : 1; // longer than this machine is up, or than is possible
}

void session_lags_take(struct session_lags *lags, const struct tunnel_session_info *session, uint64_t behind_ms,
                       uint64_t blind_ms)
{
    uint64_t now_ms = clock_mono_ms();
    uint64_t behind = since(behind_ms, now_ms), blind = since(blind_ms, now_ms);
    struct lag *lag = lag_find(lags, session->ref);
    if (lags->stopped || (!lag && !behind && !blind)) return;
    if (!lag) {
        lag = mem_zalloc(sizeof *lag);
        lag->ref = session->ref;
        table_add(&lags->table, &lag->node, hash_of(lags, lag->ref));
        lag->epoch = session->epoch;
        snprintf(lag->account_id, sizeof lag->account_id, "%s", session->identity.account_id);
        snprintf(lag->runtime, sizeof lag->runtime, "%s", session->identity.runtime);
    }
    lag->behind_since_ms = behind;
    lag->blind_since_ms = blind;
    bool blind_first = blind && (!behind || blind < behind);
    metric_age_set(lags->ages, metric_key(lag), blind_first ? blind : behind, lag->account_id, lag->runtime);
    set_dirty(lags, lag, true);
    write_dirty(lags);
}

void session_lags_forget(struct session_lags *lags, struct tunnel_session_ref ref)
{
    struct lag *lag = lag_find(lags, ref);
    if (lag) lag_drop(lags, lag);
}
