#include "server/sessions.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/session_queue.h"
#include "storage/session_store.h"

enum { DIRECTORY_TTL_S = 86400, FORGET_RETRY_MS = 50 };

struct sessions {
    struct loop *loop;
    struct sessions_options options;
    uv_timer_t *timer;
    bool forgot; // what an earlier process left has been ended
    bool asking; // a renewal is under way
    bool complained;
    struct session_queue *queue;
};

static void on_forgotten(void *arg, const struct error *err, uint64_t count)
{
    struct sessions *sessions = arg;
    sessions->asking = false;
    if (err) return; // the next tick tries again
    sessions->forgot = true;
    atomic_store(sessions->options.may_open, true);
    uv_timer_set_repeat(sessions->timer, sessions->options.lease_ttl_ms / 3);
    uv_timer_again(sessions->timer);
    if (count) log_info("sessions", "earlier_sessions_ended", log_uint("sessions", count));
}

static void on_renewed(void *arg, const struct error *err, uint64_t count)
{
    (void)count;
    struct sessions *sessions = arg;
    sessions->asking = false;
    if (err && !sessions->complained) log_warn("sessions", "lease_not_renewed", log_err(err));
    sessions->complained = err != NULL;
}

static void on_tick(uv_timer_t *timer)
{
    struct sessions *sessions = timer->data;
    if (sessions->asking || !pg_is_ready(sessions->options.pg)) return;
    sessions->asking = true;
    struct str replica = str_c(sessions->options.replica);
    if (!sessions->forgot)
        session_store_forget_replica(sessions->options.pg, replica, on_forgotten, sessions);
    else
        session_store_renew(sessions->options.pg, replica, sessions->options.lease_ttl_ms, on_renewed, sessions);
}

static void on_opened(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct error *err, uint64_t epoch)
{
    (void)ctx;
    if (!err && epoch) {
        tunnel_session_opened(node, session->ref, epoch);
        return;
    }
    const char *reason = err ? "no epoch: the database is away" : "the runtime was deleted";
    log_warn("sessions", "session_refused", log_c("account", session->identity.account_id),
             log_c("runtime", session->identity.runtime), log_c("reason", reason), log_err(err));
    tunnel_session_refused(node, session->ref, reason);
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
                                                 });
    if (options->renews) {
        sessions->timer = mem_zalloc(sizeof *sessions->timer);
        sessions->timer->data = sessions;
        uv_timer_init(loop_uv(loop), sessions->timer);
        uv_timer_start(sessions->timer, on_tick, 0, FORGET_RETRY_MS);
    }
    return sessions;
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

void sessions_stop(struct sessions *sessions)
{
    if (!sessions) return;
    if (sessions->timer) uv_timer_stop(sessions->timer);
    session_queue_stop(sessions->queue);
}

void sessions_destroy(struct sessions *sessions)
{
    if (!sessions) return;
    if (sessions->timer) uv_close((uv_handle_t *)sessions->timer, free_timer);
    session_queue_destroy(sessions->queue);
    mem_free(sessions);
}

void sessions_on_opening(struct sessions *sessions, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    session_queue_open(sessions->queue, node, session);
}

static int directory_key(const struct tunnel_session_info *session, char *out, size_t size)
{
    return snprintf(out, size, "culvert:tunnel:%s:%s", session->identity.account_id, session->identity.runtime);
}

static int directory_value(const struct sessions *sessions, const struct tunnel_session_info *session, char *out,
                           size_t size)
{
    return snprintf(out, size, "%llu %s", (unsigned long long)session->epoch, sessions->options.replica);
}

void sessions_on_open(struct sessions *sessions, const struct tunnel_session_info *session)
{
    struct redis *redis = sessions->options.redis;
    if (!redis || !redis_is_ready(redis)) return;
    char key[256], value[256], ttl[16];
    int key_len = directory_key(session, key, sizeof key);
    int value_len = directory_value(sessions, session, value, sizeof value);
    int ttl_len = snprintf(ttl, sizeof ttl, "%d", DIRECTORY_TTL_S);
    const struct str words[] = {STR("SET"), str_of(key, (size_t)key_len), str_of(value, (size_t)value_len), STR("EX"),
                                str_of(ttl, (size_t)ttl_len)};
    redis_command(redis, 5, words, NULL, NULL);
}

void sessions_on_closed(struct sessions *sessions, const struct tunnel_session_info *session, const char *reason)
{
    if (session->epoch == 0) { // it never carried anything
        session_queue_forget(sessions->queue, session->ref);
        return;
    }
    session_queue_close(sessions->queue, session, session->epoch, reason);
    struct redis *redis = sessions->options.redis;
    if (!redis || !redis_is_ready(redis)) return;
    // Only if it is still ours: a newer session may have written its own line already.
    static const char script[] =
        "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";
    char key[256], value[256];
    int key_len = directory_key(session, key, sizeof key);
    int value_len = directory_value(sessions, session, value, sizeof value);
    const struct str words[] = {STR("EVAL"), STR(script), STR("1"), str_of(key, (size_t)key_len),
                                str_of(value, (size_t)value_len)};
    redis_command(redis, 5, words, NULL, NULL);
}
