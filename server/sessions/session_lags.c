#include "server/sessions/session_lags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "storage/sessions/session_batch.h"

// An agent reports how old its oldest change is, and there is nearly always one on its way: below
// this it is not behind.
enum { NOT_BEHIND_MS = 1000, RETRY_MS = 1000, BUCKETS = 256 };

// A session whose agent is behind, or was when it was last written to PostgreSQL.
struct lag {
    struct lag *next; // in its bucket
    struct tunnel_session_ref ref;
    uint64_t epoch;
    uint64_t behind_since_ms, blind_since_ms; // monotonic, 0: not
    bool dirty;                               // PostgreSQL does not know
    char account_id[sizeof((struct tunnel_identity *)0)->account_id];
    char runtime[sizeof((struct tunnel_identity *)0)->runtime];
};

struct session_lags {
    struct pg *pg;
    struct timer timer; // before what could not be written is tried again
    struct lag *buckets[BUCKETS];
    size_t count, dirty_count;
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

struct session_lags *session_lags_create(struct loop *loop, struct pg *pg)
{
    struct session_lags *lags = mem_zalloc(sizeof *lags);
    lags->pg = pg;
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

// The link that points to it, or the one at the end of its bucket.
static struct lag **lag_link(struct session_lags *lags, struct tunnel_session_ref ref)
{
    struct lag **link = &lags->buckets[ref.id % BUCKETS];
    while (*link && ((*link)->ref.node != ref.node || (*link)->ref.id != ref.id))
        link = &(*link)->next;
    return link;
}

// Sessions of all loops meet in the metric.
static uint64_t metric_key(const struct lag *lag)
{
    return (uint64_t)lag->ref.node << 56 ^ lag->ref.id;
}

static void lag_drop(struct session_lags *lags, struct lag **link)
{
    struct lag *lag = *link;
    *link = lag->next;
    lags->count--;
    lags->dirty_count -= lag->dirty;
    metric_age_set(lags->ages, metric_key(lag), 0);
    mem_free(lag);
}

void session_lags_destroy(struct session_lags *lags)
{
    if (!lags) return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (lags->buckets[i])
            lag_drop(lags, &lags->buckets[i]);
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
        struct lag **link = lag_link(lags, lags->writing[i]), *lag = *link;
        if (!lag) continue; // ended meanwhile
        if (err)
            set_dirty(lags, lag, true);
        else if (!lag->dirty && !lag->behind_since_ms && !lag->blind_since_ms)
            lag_drop(lags, link);
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
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct lag *lag = lags->buckets[i]; lag && count < SESSION_BATCH_MAX; lag = lag->next)
            if (lag->dirty) now[count++] = lag;
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
    session_batch_lag(lags->pg, rows, count, on_written, lags);
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
    struct lag **link = lag_link(lags, session->ref), *lag = *link;
    if (lags->stopped || (!lag && !behind && !blind)) return;
    if (!lag) {
        lag = *link = mem_zalloc(sizeof *lag);
        lags->count++;
        lag->ref = session->ref;
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
    struct lag **link = lag_link(lags, ref);
    if (*link) lag_drop(lags, link);
}
