#include "server/sessions.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "storage/session_store.h"

enum { DIRECTORY_TTL_S = 86400, FORGET_RETRY_MS = 50 };

struct sessions {
    struct loop *loop;
    struct sessions_options options;
    uv_timer_t *timer;
    bool forgot; // what an earlier process left has been ended
    bool asking; // a renewal is under way
    bool complained;
    struct opening *openings;
};

// A session that waits for its epoch.
struct opening {
    struct opening *next, **link;
    struct sessions *sessions;
    struct tunnel_node *node; // NULL: the session or the node is gone
    struct tunnel_session_info session;
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

struct sessions *sessions_create(struct loop *loop, const struct sessions_options *options)
{
    struct sessions *sessions = mem_zalloc(sizeof *sessions);
    sessions->loop = loop;
    sessions->options = *options;
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
    for (struct opening *opening = sessions->openings; opening; opening = opening->next)
        opening->node = NULL;
}

void sessions_destroy(struct sessions *sessions)
{
    if (!sessions) return;
    if (sessions->timer) uv_close((uv_handle_t *)sessions->timer, free_timer);
    mem_free(sessions);
}

static void opening_end(struct opening *opening)
{
    *opening->link = opening->next;
    if (opening->next) opening->next->link = opening->link;
    mem_free(opening);
}

static void note_close(struct sessions *sessions, const struct tunnel_session_info *session, uint64_t epoch,
                       const char *reason);

static void on_opened(void *arg, const struct error *err, uint64_t epoch)
{
    struct opening *opening = arg;
    struct tunnel_session_info *session = &opening->session;
    if (!opening->node) {
        // It left while it waited: without this its row would say that it is alive.
        if (!err) note_close(opening->sessions, session, epoch, "gone before it was open");
    } else if (err) {
        log_warn("sessions", "session_refused", log_c("account", session->identity.account_id),
                 log_c("runtime", session->identity.runtime), log_err(err));
        tunnel_session_refused(opening->node, session->ref,
                               err->code == ERROR_NOT_FOUND ? "the runtime was deleted"
                                                            : "no epoch: the database is away");
    } else {
        tunnel_session_opened(opening->node, session->ref, epoch);
    }
    opening_end(opening);
}

static void refuse(void *arg)
{
    struct opening *opening = arg;
    if (opening->node)
        tunnel_session_refused(opening->node, opening->session.ref, "not ready: the database has not answered yet");
    opening_end(opening);
}

void sessions_on_opening(struct sessions *sessions, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    struct opening *opening = mem_alloc(sizeof *opening);
    *opening = (struct opening){.next = sessions->openings, .link = &sessions->openings};
    opening->sessions = sessions;
    opening->node = node;
    opening->session = *session;
    if (opening->next) opening->next->link = &opening->next;
    sessions->openings = opening;
    // What an earlier process of this name left must be ended first, or this one would be ended with it.
    if (!atomic_load(sessions->options.may_open)) {
        loop_post(sessions->loop, refuse, opening);
        return;
    }
    char session_id[64];
    snprintf(session_id, sizeof session_id, "%u-%llu", session->ref.node, (unsigned long long)session->ref.id);
    struct session_new row = {
        .runtime = str_c(session->identity.runtime),
        .runtime_id = str_c(session->identity.runtime_id),
        .replica = str_c(sessions->options.replica),
        .session_id = str_c(session_id),
        .instance_id = str_c(session->instance_id),
        .boot_id = str_c(session->boot_id),
        .agent_version = str_c(session->agent_version),
        .remote = str_c(session->remote),
    };
    session_store_open(sessions->options.pg, session->identity.account_id, &row, on_opened, opening);
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

static void on_close_noted(void *arg, const struct error *err, uint64_t count)
{
    (void)arg;
    (void)count;
    if (err && err->code != ERROR_CANCELLED) log_warn("sessions", "session_end_not_noted", log_err(err));
}

static void note_close(struct sessions *sessions, const struct tunnel_session_info *session, uint64_t epoch,
                       const char *reason)
{
    session_store_close(sessions->options.pg, session->identity.account_id, str_c(session->identity.runtime), epoch,
                        str_c(reason), on_close_noted, NULL);
}

void sessions_on_closed(struct sessions *sessions, const struct tunnel_session_info *session, const char *reason)
{
    if (session->epoch == 0) { // it never carried anything
        for (struct opening *opening = sessions->openings; opening; opening = opening->next)
            if (opening->session.ref.id == session->ref.id) opening->node = NULL;
        return;
    }
    note_close(sessions, session, session->epoch, reason);
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
