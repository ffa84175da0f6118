#include "agent/upstream_pool.h"

#include <string.h>
#include <unistd.h>

#include "agent/byte_queue.h"
#include "agent/dialer.h"
#include "base/clock.h"
#include "base/mem.h"

enum { READ_BYTES = 64 * 1024, SWEEP_MS = 1000 };

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
    struct byte_queue queue; // what the socket did not take
    size_t writing;          // bytes at its front that `write` holds
    bool has_tcp, idle, reading, full, end_wanted, ended, closed;
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
    byte_queue_drop(&c->queue, c->writing);
    c->writing = 0;
    if (c->closed) return;
    if (status < 0) {
        fail(c, ERROR_IO, status);
        return;
    }
    flush(c);
    if (c->full && !byte_queue_len(&c->queue)) {
        c->full = false;
        c->events.on_drained(c->arg);
    }
}

static void flush(struct upstream_connection *c)
{
    if (!c->has_tcp || c->writing || c->closed) return;
    if (byte_queue_len(&c->queue)) {
        // byte_queue_add() may move the block while uv holds it: see upstream_connection_write().
        uv_buf_t buf = uv_buf_init((char *)(uintptr_t)byte_queue_front(&c->queue), (unsigned)byte_queue_len(&c->queue));
        int n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
        if (n > 0) byte_queue_drop(&c->queue, (size_t)n);
    }
    if (byte_queue_len(&c->queue)) return;
    if (c->end_wanted && !c->ended) {
        c->ended = true;
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown);
    }
}
