#include "agent/calls/upstream_connection.h"

#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"

enum { SWEEP_MS = 1000 };

void upstream_pool_unref(struct upstream_pool *pool)
{
    assert(pool->refs > 0);
    if (--pool->refs) return;
    assert(!pool->idle.first && !pool->lingering.first && !pool->shaking.first && !pool->dirty);
    while (pool->spare_count)
        byte_queue_finish(&pool->spares[--pool->spare_count]);
    mem_free(pool);
}

static void time_out(struct upstream_connection *c)
{
    struct error err = {0};
    error_set(&err, ERROR_UNAVAILABLE, "%s:%u: the TLS handshake timed out", c->host, (unsigned)c->port);
    upstream_connection_fail(c, &err);
}

static void on_sweep(void *arg)
{
    struct upstream_pool *pool = arg;
    uint64_t now = clock_mono_ms();
    while (pool->idle.last && now - pool->idle.last->since_ms >= UPSTREAM_POOL_IDLE_MS)
        upstream_connection_close(pool->idle.last);
    while (pool->lingering.last && now - pool->lingering.last->since_ms >= UPSTREAM_LINGER_MS)
        upstream_connection_close(pool->lingering.last);
    while (pool->shaking.last && now - pool->shaking.last->since_ms >= pool->connect_timeout_ms)
        time_out(pool->shaking.last);
    if (!pool->idle.last && !pool->lingering.last && !pool->shaking.last) timer_stop(&pool->sweep);
}

void upstream_pool_sweep_soon(struct upstream_pool *pool)
{
    if (!pool->destroyed && !timer_is_active(&pool->sweep)) timer_start(&pool->sweep, SWEEP_MS, SWEEP_MS);
}

// Once the loop handled what woke it, and before it sleeps.
static void on_check(uv_check_t *check)
{
    upstream_connection_flush_dirty(check->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    upstream_connection_flush_dirty(prepare->data);
}

struct upstream_pool *upstream_pool_create(uv_loop_t *loop, uint64_t connect_timeout_ms, struct agent_tls *tls)
{
    struct upstream_pool *pool = mem_zalloc(sizeof(*pool));
    pool->loop = loop;
    pool->connect_timeout_ms = connect_timeout_ms;
    pool->tls = tls;
    pool->refs = 3; // itself and two handles
    timer_init(&pool->sweep, loop, on_sweep, pool);
    uv_prepare_init(loop, &pool->prepare);
    uv_check_init(loop, &pool->check);
    pool->prepare.data = pool->check.data = pool;
    uv_prepare_start(&pool->prepare, on_prepare);
    uv_check_start(&pool->check, on_check);
    return pool;
}

static void on_handle_closed(uv_handle_t *handle)
{
    upstream_pool_unref(handle->data);
}

void upstream_pool_destroy(struct upstream_pool *pool)
{
    if (!pool) return;
    pool->destroyed = true;
    upstream_connection_flush_dirty(pool);
    while (pool->idle.first)
        upstream_connection_close(pool->idle.first);
    while (pool->lingering.first)
        upstream_connection_close(pool->lingering.first);
    timer_finish(&pool->sweep);
    uv_close((uv_handle_t *)&pool->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&pool->check, on_handle_closed);
    upstream_pool_unref(pool);
}

static struct upstream_connection *find_idle(const struct upstream_pool *pool, struct str host, uint16_t port, bool tls,
                                             unsigned *out_count)
{
    struct upstream_connection *found = NULL;
    *out_count = 0;
    for (struct upstream_connection *c = pool->idle.first; c; c = c->next) {
        if (c->port != port || c->is_https != tls || !str_eq(str_c(c->host), host)) continue;
        if (!found) found = c;
        (*out_count)++;
    }
    return found;
}

struct upstream_connection *upstream_pool_take(struct upstream_pool *pool, struct str host, uint16_t port, bool tls,
                                               uint64_t idle_ms_max, const struct upstream_connection_events *events,
                                               void *arg, bool *out_reused)
{
    unsigned count;
    struct upstream_connection *c = find_idle(pool, host, port, tls, &count); // the newest
    if (c && clock_mono_ms() - c->since_ms >= idle_ms_max) c = NULL;
    *out_reused = c != NULL;
    if (c)
        upstream_connection_set_state(c, UPSTREAM_CONNECTION_OPEN);
    else
        c = upstream_connection_dial(pool, host, port, tls);
    c->events = *events;
    c->arg = arg;
    return c;
}

void upstream_pool_give(struct upstream_pool *pool, struct upstream_connection *c)
{
    unsigned count;
    find_idle(pool, str_c(c->host), c->port, c->is_https, &count);
    if (!upstream_connection_is_clean(c) || pool->destroyed || count >= UPSTREAM_POOL_IDLE_PER_SERVICE) {
        upstream_connection_close(c);
        return;
    }
    if (pool->idle.count >= UPSTREAM_POOL_IDLE_MAX) upstream_connection_close(pool->idle.last);
    c->arg = NULL;
    c->full = false;
    upstream_connection_set_state(c, UPSTREAM_CONNECTION_IDLE);
    upstream_connection_resume(c);
}

unsigned upstream_pool_idle_count(const struct upstream_pool *pool)
{
    return pool->idle.count;
}

uv_loop_t *upstream_pool_loop(const struct upstream_pool *pool)
{
    return pool->loop;
}
