#include "agent/upstream_pool.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "agent/dialer.h"
#include "base/byte_queue.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    READ_BYTES = 4 * 16320, // what one message of the tunnel takes (DATA_PAYLOAD_BYTES in session.c)
    SWEEP_MS = 1000,
};

struct upstream_connection {
    struct upstream_pool *pool;
    struct upstream_connection *next, *prev; // in the idle list
    char *host;
    uint16_t port;
    struct upstream_connection_events events;
    void *arg;
    struct agent_dialer *dialer; // while it is being dialed
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct byte_queue queue;   // what the socket did not take yet
    struct byte_queue writing; // what `write` holds: apart, so that the queue may move while it grows
    bool has_tcp, write_failed, idle, reading, full, end_wanted, ended, closed;
    uint64_t idle_since_ms;
};

struct upstream_pool {
    uv_loop_t *loop;
    uint64_t connect_timeout_ms;
    struct upstream_connection *idle_first, *idle_last; // newest first
    unsigned idle_count;
    uv_timer_t sweep;
    unsigned refs; // itself, its timer, and its connections
    bool destroyed;
    char buffer[READ_BYTES]; // of whichever connection reads right now: what is read is used up in the callback
};

static void unref_pool(struct upstream_pool *pool)
{
    if (--pool->refs == 0) mem_free(pool);
}

// ---- connections -----------------------------------------------------------------------------------------------

static void free_connection(struct upstream_connection *c)
{
    unref_pool(c->pool);
    byte_queue_finish(&c->queue);
    byte_queue_finish(&c->writing);
    mem_free(c->host);
    mem_free(c);
}

static void on_closed(uv_handle_t *handle)
{
    free_connection(handle->data);
}

static void leave_idle(struct upstream_connection *c)
{
    struct upstream_pool *pool = c->pool;
    if (!c->idle) return;
    c->idle = false;
    pool->idle_count--;
    if (c->prev) c->prev->next = c->next;
    if (!c->prev) pool->idle_first = c->next;
    if (c->next) c->next->prev = c->prev;
    if (!c->next) pool->idle_last = c->prev;
    c->next = c->prev = NULL;
}

void upstream_connection_close(struct upstream_connection *c)
{
    if (c->closed) return;
    c->closed = true;
    leave_idle(c);
    if (c->dialer) agent_dialer_cancel(c->dialer);
    c->dialer = NULL;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void fail(struct upstream_connection *c, enum error_code code, int status)
{
    struct error err = {0};
    if (c->closed) return;
    if (c->idle) {
        upstream_connection_close(c);
        return;
    }
    error_set(&err, code, "%s:%u: %s", c->host, (unsigned)c->port, uv_strerror(status));
    c->events.on_error(c->arg, &err);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct upstream_connection *c = handle->data;
    (void)suggested;
    *out = uv_buf_init(c->pool->buffer, sizeof(c->pool->buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct upstream_connection *c = stream->data;
    if (n == 0) return;
    if (c->idle) { // nothing may come on an idle connection but its end
        upstream_connection_close(c);
    } else if (n > 0) {
        c->events.on_read(c->arg, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        upstream_connection_pause(c);
        c->events.on_eof(c->arg);
    } else {
        fail(c, ERROR_IO, (int)n);
    }
}

void upstream_connection_pause(struct upstream_connection *c)
{
    if (c->reading && c->has_tcp) uv_read_stop((uv_stream_t *)&c->tcp);
    c->reading = false;
}

void upstream_connection_resume(struct upstream_connection *c)
{
    if (c->closed || c->reading) return;
    c->reading = true;
    if (c->has_tcp) uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

static void flush(struct upstream_connection *c);

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; // a failed half-close shows as a failed read
}

static void on_written(uv_write_t *write, int status)
{
    struct upstream_connection *c = write->data;
    byte_queue_finish(&c->writing);
    if (c->closed) return;
    if (status < 0) { // the read side tells how the exchange ends
        c->write_failed = true;
        byte_queue_finish(&c->queue);
    }
    flush(c);
    if (c->full && !byte_queue_len(&c->queue)) {
        c->full = false;
        c->events.on_drained(c->arg);
    }
}

static void flush(struct upstream_connection *c)
{
    if (!c->has_tcp || c->closed || byte_queue_len(&c->writing)) return;
    if (byte_queue_len(&c->queue)) {
        c->writing = c->queue;
        c->queue = (struct byte_queue){.at = NULL};
        uv_buf_t buf =
            uv_buf_init((char *)(uintptr_t)byte_queue_front(&c->writing), (unsigned)byte_queue_len(&c->writing));
        c->write.data = c;
        int rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
        if (rc < 0) byte_queue_finish(&c->writing); // closed under us: the read side tells
    } else if (c->end_wanted && !c->ended && !c->write_failed) {
        c->ended = true;
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown);
    }
}

bool upstream_connection_write(struct upstream_connection *c, const struct str *parts, size_t count)
{
    uv_buf_t bufs[UPSTREAM_CONNECTION_PARTS_MAX] = {{.base = NULL}};
    size_t taken = 0;
    assert(count <= UPSTREAM_CONNECTION_PARTS_MAX);
    if (c->closed || c->end_wanted || c->write_failed) return true;
    if (c->has_tcp && !byte_queue_len(&c->queue) && !byte_queue_len(&c->writing)) {
        for (size_t i = 0; i < count; i++)
            bufs[i] = uv_buf_init((char *)(uintptr_t)parts[i].at, (unsigned)parts[i].len);
        int n = uv_try_write((uv_stream_t *)&c->tcp, bufs, (unsigned)count);
        if (n > 0) taken = (size_t)n;
    }
    for (size_t i = 0; i < count; i++) {
        size_t skip = taken < parts[i].len ? taken : parts[i].len;
        taken -= skip;
        byte_queue_add(&c->queue, parts[i].at + skip, parts[i].len - skip);
    }
    flush(c);
    c->full = byte_queue_len(&c->queue) + byte_queue_len(&c->writing) >= UPSTREAM_CONNECTION_QUEUE_BYTES;
    return !c->full;
}

void upstream_connection_end(struct upstream_connection *c)
{
    if (c->closed || c->end_wanted) return;
    c->end_wanted = true;
    flush(c);
}

static void on_dialed(void *arg, int fd, const struct error *err)
{
    struct upstream_connection *c = arg;
    struct error failed = *err;
    c->dialer = NULL;
    if (fd >= 0) {
        int rc = uv_tcp_open(&c->tcp, fd);
        if (rc < 0) {
            error_set(&failed, ERROR_UNAVAILABLE, "%s:%u: %s", c->host, (unsigned)c->port, uv_strerror(rc));
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        failed.code = ERROR_UNAVAILABLE;
        c->events.on_error(c->arg, &failed);
        return;
    }
    c->has_tcp = true;
    if (c->reading) uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    flush(c);
    c->events.on_connected(c->arg);
}

static struct upstream_connection *dial(struct upstream_pool *pool, struct str host, uint16_t port)
{
    struct upstream_connection *c = mem_zalloc(sizeof(*c));
    c->pool = pool;
    pool->refs++;
    c->host = mem_strndup(host.at, host.len);
    c->port = port;
    c->reading = true; // an early end is noticed
    uv_tcp_init(pool->loop, &c->tcp);
    c->tcp.data = c;
    c->dialer = agent_dialer_start(pool->loop, host, port, pool->connect_timeout_ms, on_dialed, c);
    return c;
}

// ---- pool ------------------------------------------------------------------------------------------------------

static void on_sweep(uv_timer_t *timer)
{
    struct upstream_pool *pool = timer->data;
    uint64_t now = clock_mono_ms();
    while (pool->idle_last && now - pool->idle_last->idle_since_ms >= UPSTREAM_POOL_IDLE_MS)
        upstream_connection_close(pool->idle_last);
    if (!pool->idle_last) uv_timer_stop(timer);
}

struct upstream_pool *upstream_pool_create(uv_loop_t *loop, uint64_t connect_timeout_ms)
{
    struct upstream_pool *pool = mem_zalloc(sizeof(*pool));
    pool->loop = loop;
    pool->connect_timeout_ms = connect_timeout_ms;
    pool->refs = 1;
    uv_timer_init(loop, &pool->sweep);
    pool->sweep.data = pool;
    return pool;
}

static void on_sweep_closed(uv_handle_t *handle)
{
    unref_pool(handle->data);
}

void upstream_pool_destroy(struct upstream_pool *pool)
{
    if (!pool) return;
    pool->destroyed = true;
    while (pool->idle_first)
        upstream_connection_close(pool->idle_first);
    uv_close((uv_handle_t *)&pool->sweep, on_sweep_closed);
}

static struct upstream_connection *find_idle(const struct upstream_pool *pool, struct str host, uint16_t port,
                                             unsigned *out_count)
{
    struct upstream_connection *found = NULL;
    *out_count = 0;
    for (struct upstream_connection *c = pool->idle_first; c; c = c->next) {
        if (c->port != port || !str_eq(str_c(c->host), host)) continue;
        if (!found) found = c;
        (*out_count)++;
    }
    return found;
}

struct upstream_connection *upstream_pool_take(struct upstream_pool *pool, struct str host, uint16_t port,
                                               uint64_t idle_ms_max, const struct upstream_connection_events *events,
                                               void *arg, bool *out_reused)
{
    unsigned count;
    struct upstream_connection *c = find_idle(pool, host, port, &count); // the newest
    if (c && clock_mono_ms() - c->idle_since_ms >= idle_ms_max) c = NULL;
    *out_reused = c != NULL;
    if (c)
        leave_idle(c);
    else
        c = dial(pool, host, port);
    c->events = *events;
    c->arg = arg;
    return c;
}

void upstream_pool_give(struct upstream_pool *pool, struct upstream_connection *c)
{
    unsigned count;
    bool clean =
        c->has_tcp && !c->closed && !c->end_wanted && !byte_queue_len(&c->queue) && !byte_queue_len(&c->writing);
    find_idle(pool, str_c(c->host), c->port, &count);
    if (!clean || pool->destroyed || count >= UPSTREAM_POOL_IDLE_PER_SERVICE) {
        upstream_connection_close(c);
        return;
    }
    if (pool->idle_count >= UPSTREAM_POOL_IDLE_MAX) upstream_connection_close(pool->idle_last);
    c->arg = NULL;
    c->full = false;
    c->idle = true;
    c->idle_since_ms = clock_mono_ms();
    c->next = pool->idle_first;
    if (c->next) c->next->prev = c;
    pool->idle_first = c;
    if (!pool->idle_last) pool->idle_last = c;
    pool->idle_count++;
    upstream_connection_resume(c);
    if (!uv_is_active((uv_handle_t *)&pool->sweep)) uv_timer_start(&pool->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
}

unsigned upstream_pool_idle_count(const struct upstream_pool *pool)
{
    return pool->idle_count;
}
