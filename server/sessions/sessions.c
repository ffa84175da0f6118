#include "server/sessions/sessions.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/sessions/registry_lease.h"
#include "server/sessions/session_lags.h"
#include "server/sessions/session_measures.h"
#include "server/sessions/session_queue.h"
#include "storage/sessions/session_store.h"

enum {
    FIRST_TICK_MS = 50, // until agents may come
    TICK_MS = 250,
    MOVE_TTLS = 2,         // after so many more lifetimes of a lease without a database, agents are sent elsewhere
    ENDED_EVERY_MS = 1000, // a session that another replica took over from is notified within two of these
    SINCE_BYTES = 64,
};

struct sessions {
    struct loop *loop;
    struct sessions_options options;
    struct timer timer;
    bool forgot;     // what an earlier process left has been ended
    bool forgetting; // ... is being ended
    bool asking_ended, complained, fenced;
    struct registry_lease lease;
    uint64_t ended_at_ms, fenced_at_ms;
    bool moved; // agents were asked to go elsewhere
    char since[SINCE_BYTES];
    struct session_queue *queue;
    struct session_lags *lags;
    struct metric *lease_age, *renewed, *not_renewed;
    uint64_t renewed_at_ms;
    struct session_measures measures;
};

// ---- the lease -----------------------------------------------------------------------------------------------------

static void on_forgotten(void *arg, const struct error *err, uint64_t count)
{
    struct sessions *sessions = arg;
    sessions->forgetting = false;
    if (err) return; // the next tick tries again
    sessions->forgot = true;
    // From here on nothing is urgent: the broker keeps to the lease's end by itself.
    uint64_t tick_ms = sessions->options.lease_ttl_ms / 20;
    timer_set_interval(&sessions->timer, tick_ms < TICK_MS ? tick_ms + 1 : TICK_MS);
    if (count) log_info("sessions", "earlier_sessions_ended", log_uint("sessions", count));
}

// Whether sessions may get calls is by the lease alone where others could hold the same runtime.
static void say_until_when(struct sessions *sessions)
{
    if (sessions->options.peer_address[0])
        tunnel_broker_route_until(sessions->options.broker, registry_lease_held_until(&sessions->lease));
}

static void on_measured(void *arg, const struct error *err, uint64_t count)
{
    (void)arg;
    (void)count;
    if (err && err->code != ERROR_CANCELLED) log_debug("sessions", "measures_not_written", log_err(err));
}

static void tell_measures(struct sessions *sessions)
{
    struct strbuf text;
    strbuf_init(&text, SESSION_MEASURES_BYTES_MAX);
    if (session_measures_write(&sessions->measures, sessions->options.broker, &text))
        session_store_measured(sessions->options.pg, strbuf_str(&text), on_measured, NULL);
    strbuf_finish(&text);
}

static void on_renewed(void *arg, const struct error *err, uint64_t count)
{
    (void)count;
    struct sessions *sessions = arg;
    if (err) {
        registry_lease_refused(&sessions->lease);
        metric_add(sessions->not_renewed, 1);
        if (!sessions->complained && err->code != ERROR_CANCELLED)
            log_warn("sessions", "lease_not_renewed", log_err(err));
        sessions->complained = true;
        return;
    }
    // It may have lapsed between two ticks: then it counts as fenced, too.
    if (sessions->renewed_at_ms && sessions->options.peer_address[0] &&
        !registry_lease_is_held(&sessions->lease, clock_mono_ms()))
        sessions->fenced = true;
    registry_lease_granted(&sessions->lease);
    metric_add(sessions->renewed, 1);
    sessions->renewed_at_ms = clock_mono_ms();
    if (sessions->complained) log_info("sessions", "lease_renewed_again");
    sessions->complained = false;
    // A session must be found at the listener that is written beside the lease.
    atomic_store(sessions->options.may_open, true);
    // What others took over while the lease could not be renewed is ended before it could get calls
    // again.
    if (!sessions->fenced) say_until_when(sessions);
    tell_measures(sessions);
}

static void on_ended(void *arg, const struct error *err, const struct session_ended *ended, size_t count,
                     struct str next)
{
    struct sessions *sessions = arg;
    sessions->asking_ended = false;
    if (err) return;
    for (size_t i = 0; i < count; i++) {
        char account_id[64], runtime[128];
        snprintf(account_id, sizeof account_id, "%.*s", STR_ARG(ended[i].account_id));
        snprintf(runtime, sizeof runtime, "%.*s", STR_ARG(ended[i].runtime));
        tunnel_broker_supersede(sessions->options.broker, account_id, runtime, ended[i].epoch + 1);
    }
    snprintf(sessions->since, sizeof sessions->since, "%.*s", STR_ARG(next));
    if (!sessions->fenced || !registry_lease_is_held(&sessions->lease, clock_mono_ms())) return;
    sessions->fenced = false;
    log_info("sessions", "session_routing_resumed");
    say_until_when(sessions);
}

static void keep_lease(struct sessions *sessions, uint64_t now_ms)
{
    struct str replica = str_c(sessions->options.replica);
    struct pg *pg = sessions->options.pg;
    if (registry_lease_is_due(&sessions->lease, now_ms)) {
        uint64_t ttl_ms = sessions->options.lease_ttl_ms;
        registry_lease_ask(&sessions->lease, now_ms);
        session_store_renew(pg, replica, ttl_ms, str_c(sessions->options.peer_address), ttl_ms / 3, on_renewed,
                            sessions);
    }
    bool held = registry_lease_is_held(&sessions->lease, now_ms);
    if (!held && !sessions->fenced && sessions->options.peer_address[0] && sessions->renewed_at_ms) {
        sessions->fenced = true; // the broker keeps to the time by itself
        sessions->fenced_at_ms = now_ms;
        sessions->moved = false;
        log_warn("sessions", "session_routing_stopped", log_c("reason", "the lease could not be renewed in time"));
    }
    // A database that comes back soon finds the tunnels where they were; if it does not, another
    // replica may reach it.
    if (!held && sessions->fenced && !sessions->moved &&
        now_ms >= sessions->fenced_at_ms + MOVE_TTLS * sessions->options.lease_ttl_ms) {
        sessions->moved = true;
        log_warn("sessions", "sessions_redirected", log_c("reason", "the database is not available"));
        tunnel_broker_move_sessions(sessions->options.broker, sessions->options.lease_ttl_ms);
    }
    if (sessions->asking_ended || !held || now_ms < sessions->ended_at_ms + ENDED_EVERY_MS) return;
    sessions->asking_ended = true;
    sessions->ended_at_ms = now_ms;
    session_store_ended(pg, replica, str_c(sessions->since), on_ended, sessions);
}

static void on_tick(void *arg)
{
    struct sessions *sessions = arg;
    uint64_t now_ms = clock_mono_ms();
    metric_set(sessions->lease_age, sessions->renewed_at_ms ? (int64_t)(now_ms - sessions->renewed_at_ms) : -1);
    if (!sessions->forgot) {
        if (sessions->forgetting || !pg_is_ready(sessions->options.pg)) return;
        sessions->forgetting = true;
        session_store_forget_replica(sessions->options.pg, str_c(sessions->options.replica), on_forgotten, sessions);
    } else {
        keep_lease(sessions, now_ms);
    }
}

static void watch_lease(struct sessions *sessions)
{
    struct metric_family *renewals =
        metrics_counter("culvert_lease_renewals_total", "Renewals of the replica's lease.", "result", NULL);
    sessions->renewed = metric_with(renewals, "renewed");
    sessions->not_renewed = metric_with(renewals, "failed");
    sessions->lease_age = metric_with(metrics_gauge("culvert_lease_age_milliseconds",
                                                    "Time since the lease was renewed; -1: not renewed yet.", NULL));
    registry_lease_init(&sessions->lease, sessions->options.lease_ttl_ms);
    snprintf(sessions->since, sizeof sessions->since, "-infinity");
    if (sessions->options.peer_address[0]) tunnel_broker_route_until(sessions->options.broker, 0);
    timer_init(&sessions->timer, loop_uv(sessions->loop), on_tick, sessions);
    timer_start(&sessions->timer, 0, FIRST_TICK_MS);
}

static void on_opened(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct error *err, struct session_grant grant)
{
    (void)ctx;
    // A standby carries nothing: while the database is away it may as well stay.
    if (err ? session->stands_by : grant.stands_by) {
        tunnel_session_stands_by(node, session->ref);
        return;
    }
    if (!err && grant.epoch) {
        tunnel_session_opened(node, session->ref, grant.epoch);
        return;
    }
    const char *reason = err ? "no epoch: the database is not available" : "the runtime was deleted";
    log_limited(LOG_WARN, "sessions", "session_refused", str_c(session->identity.account_id),
                str_c(session->identity.runtime), log_c("account", session->identity.account_id),
                log_c("runtime", session->identity.runtime), log_c("reason", reason), log_err(err));
    tunnel_session_refused(node, session->ref, reason);
}

static void on_changed(void *ctx, const char *account_id, const char *runtime)
{
    struct sessions *sessions = ctx;
    if (sessions->options.on_changed) sessions->options.on_changed(sessions->options.ctx, account_id, runtime);
}

struct sessions *sessions_create(struct loop *loop, const struct sessions_options *options)
{
    struct sessions *sessions = mem_zalloc(sizeof *sessions);
    sessions->loop = loop;
    sessions->options = *options;
    sessions->queue = session_queue_create(loop, &(struct session_queue_options){
                                                     .pg = options->pg,
                                                     .replica = options->replica,
                                                     .may_open = options->may_open,
                                                     .ends_max = options->ends_max,
                                                     .ctx = sessions,
                                                     .on_opened = on_opened,
                                                     .on_ended = on_changed,
                                                 });
    sessions->lags = session_lags_create(loop, &(struct session_lags_options){.pg = options->pg});
    if (options->renews) watch_lease(sessions);
    return sessions;
}

void sessions_stop(struct sessions *sessions)
{
    if (!sessions) return;
    timer_stop(&sessions->timer);
    session_queue_stop(sessions->queue);
    session_lags_stop(sessions->lags);
}

void sessions_destroy(struct sessions *sessions)
{
    if (!sessions) return;
    timer_finish(&sessions->timer);
    session_queue_destroy(sessions->queue);
    session_lags_destroy(sessions->lags);
    mem_free(sessions);
}

void sessions_on_opening(struct sessions *sessions, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    session_queue_open(sessions->queue, node, session);
}

void sessions_on_open(struct sessions *sessions, const struct tunnel_session_info *session)
{
    registry_tell_open(sessions->options.registry, session);
    on_changed(sessions, session->identity.account_id, session->identity.runtime);
}

void sessions_on_lag(struct sessions *sessions, const struct tunnel_session_info *session, uint64_t behind_ms,
                     uint64_t blind_ms)
{
    session_lags_take(sessions->lags, session, behind_ms, blind_ms);
}

void sessions_on_retired(struct sessions *sessions, const struct tunnel_session_info *session)
{
    session_queue_close(sessions->queue, session, session->epoch, "the agent leaves");
    registry_tell_over(sessions->options.registry, session);
}

void sessions_on_closed(struct sessions *sessions, const struct tunnel_session_info *session, const char *reason)
{
    if (session->epoch == 0) { // it never carried anything
        session_queue_forget(sessions->queue, session->ref);
        return;
    }
    session_lags_forget(sessions->lags, session->ref);
    session_queue_close(sessions->queue, session, session->epoch, reason);
    registry_tell_over(sessions->options.registry, session);
}
