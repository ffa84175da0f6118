#include "agent/calls/upstream_tls.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

static void free_connection(struct upstream_connection *c)
{
    upstream_pool_unref(c->pool);
    upstream_tls_free(c);
    byte_queue_finish(&c->out);
    byte_queue_finish(&c->writing);
    mem_free(c->host);
    mem_free(c);
}

static void on_closed(uv_handle_t *handle)
{
    free_connection(handle->data);
}

static void forget_dirty(struct upstream_connection *c)
{
    if (!c->dirty_link) return;
    *c->dirty_link = c->next_dirty;
    if (c->next_dirty) c->next_dirty->dirty_link = c->dirty_link;
    c->dirty_link = NULL;
}

void upstream_connection_mark_dirty(struct upstream_connection *c)
{
    struct upstream_pool *pool = c->pool;
    if (c->dirty_link || c->state == UPSTREAM_CONNECTION_CLOSED) return;
    c->next_dirty = pool->dirty;
    if (c->next_dirty) c->next_dirty->dirty_link = &c->next_dirty;
    c->dirty_link = &pool->dirty;
    pool->dirty = c;
}

static void list_add(struct upstream_list *list, struct upstream_connection *c)
{
    c->prev = NULL;
    c->next = list->first;
    if (c->next) c->next->prev = c;
    list->first = c;
    if (!list->last) list->last = c;
    list->count++;
}

static void list_remove(struct upstream_list *list, struct upstream_connection *c)
{
    assert(list->count > 0);
    list->count--;
    if (c->prev) c->prev->next = c->next;
    if (!c->prev) list->first = c->next;
    if (c->next) c->next->prev = c->prev;
    if (!c->next) list->last = c->prev;
    c->next = c->prev = NULL;
}

static struct upstream_list *list_of(struct upstream_pool *pool, enum upstream_connection_state state)
{
    switch (state) {
    case UPSTREAM_CONNECTION_SHAKING: return &pool->shaking;
    case UPSTREAM_CONNECTION_IDLE: return &pool->idle;
    case UPSTREAM_CONNECTION_LINGERING: return &pool->lingering;
    default: return NULL;
    }
}

void upstream_connection_set_state(struct upstream_connection *c, enum upstream_connection_state state)
{
    // clang-format off
    static const unsigned allowed[] = {
        [UPSTREAM_CONNECTION_DIALING] = 1u << UPSTREAM_CONNECTION_SHAKING | 1u << UPSTREAM_CONNECTION_OPEN |
                                        1u << UPSTREAM_CONNECTION_CLOSED,
        [UPSTREAM_CONNECTION_SHAKING] = 1u << UPSTREAM_CONNECTION_OPEN | 1u << UPSTREAM_CONNECTION_CLOSED,
        [UPSTREAM_CONNECTION_OPEN] = 1u << UPSTREAM_CONNECTION_IDLE | 1u << UPSTREAM_CONNECTION_LINGERING |
                                     1u << UPSTREAM_CONNECTION_CLOSED,
        [UPSTREAM_CONNECTION_IDLE] = 1u << UPSTREAM_CONNECTION_OPEN | 1u << UPSTREAM_CONNECTION_CLOSED,
        [UPSTREAM_CONNECTION_LINGERING] = 1u << UPSTREAM_CONNECTION_CLOSED,
        [UPSTREAM_CONNECTION_CLOSED] = 0,
    };
    // clang-format on
    assert(allowed[c->state] & 1u << state);
    struct upstream_list *before = list_of(c->pool, c->state), *after = list_of(c->pool, state);
    if (before) list_remove(before, c);
    c->state = state;
    if (!after) return;
    c->since_ms = clock_mono_ms();
    list_add(after, c);
    upstream_pool_sweep_soon(c->pool);
}

void upstream_connection_set_sending(struct upstream_connection *c, enum upstream_sending sending)
{
    assert(sending > c->sending || sending == UPSTREAM_SENDING_FAILED); // they come in the order of the enum
    c->sending = sending;
}

// There is a socket to read from and to write to.
static bool is_connected(const struct upstream_connection *c)
{
    return c->state != UPSTREAM_CONNECTION_DIALING && c->state != UPSTREAM_CONNECTION_CLOSED;
}

void upstream_connection_close(struct upstream_connection *c)
{
    if (c->state == UPSTREAM_CONNECTION_CLOSED) return;
    upstream_connection_set_state(c, UPSTREAM_CONNECTION_CLOSED);
    forget_dirty(c);
    if (c->dialer) agent_dialer_cancel(c->dialer);
    c->dialer = NULL;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void upstream_connection_fail(struct upstream_connection *c, const struct error *err)
{
    switch (c->state) {
    case UPSTREAM_CONNECTION_CLOSED: return;
    case UPSTREAM_CONNECTION_IDLE:
    case UPSTREAM_CONNECTION_LINGERING: upstream_connection_close(c); return;
    default: c->events.on_error(c->arg, err);
    }
    assert(c->state == UPSTREAM_CONNECTION_CLOSED); // by its exchange
}

static void fail(struct upstream_connection *c, enum error_code code, int status)
{
    struct error err = {0};
    error_set(&err, code, "%s:%u: %s", c->host, (unsigned)c->port, uv_strerror(status));
    upstream_connection_fail(c, &err);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct upstream_connection *c = handle->data;
    (void)suggested;
    bool is_tls = c->tls.ssl;
    if (is_tls && !c->wire_in) c->wire_in = mem_alloc(UPSTREAM_TLS_READ_BYTES);
    *out = is_tls ? uv_buf_init(c->wire_in, UPSTREAM_TLS_READ_BYTES)
                  : uv_buf_init(c->pool->buffer, sizeof(c->pool->buffer));
}

static void on_plain(struct upstream_connection *c, ssize_t n, const uv_buf_t *buf)
{
    if (c->state == UPSTREAM_CONNECTION_IDLE) { // nothing may come on an idle connection but its end
        upstream_connection_close(c);
    } else if (c->state == UPSTREAM_CONNECTION_LINGERING) { // has no exchange, but the other end may still read
        if (n == UV_EOF) upstream_connection_pause(c);
        if (n < 0 && n != UV_EOF) upstream_connection_close(c);
    } else if (n > 0) {
        c->events.on_read(c->arg, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        upstream_connection_pause(c);
        c->read_ended = true;
        c->events.on_eof(c->arg);
    } else {
        fail(c, ERROR_IO, (int)n);
    }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct upstream_connection *c = stream->data;
    if (n == 0) return;
    if (!c->tls.ssl || (n < 0 && n != UV_EOF)) {
        on_plain(c, n, buf);
        return;
    }
    if (n > 0) tls_connection_feed(&c->tls, buf->base, (size_t)n);
    c->tls.input_ended = n == UV_EOF;
    if (c->tls.input_ended) uv_read_stop(stream);
    upstream_tls_pump(c);
}

void upstream_connection_pause(struct upstream_connection *c)
{
    if (c->reading && is_connected(c)) uv_read_stop((uv_stream_t *)&c->tcp);
    c->reading = false;
}

void upstream_connection_resume(struct upstream_connection *c)
{
    if (c->state == UPSTREAM_CONNECTION_CLOSED || c->reading) return;
    c->reading = true;
    if (upstream_tls_has_input(c)) { // first what has been read off the socket
        c->pump_wanted = true;
        upstream_connection_mark_dirty(c);
    } else if (is_connected(c)) {
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    }
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; // a failed half-close shows as a failed read
}

static void flush(struct upstream_connection *c);

static void on_written(uv_write_t *write, int status)
{
    struct upstream_connection *c = write->data;
    byte_queue_finish(&c->writing);
    if (c->state == UPSTREAM_CONNECTION_CLOSED) return;
    if (status < 0) { // reading reports how the exchange ends, unless it has ended
        upstream_connection_set_sending(c, UPSTREAM_SENDING_FAILED);
        byte_queue_finish(&c->out);
        if (c->read_ended) {
            fail(c, ERROR_IO, status);
            return;
        }
    }
    flush(c);
}

// The queue's memory goes where the next one comes from.
static void empty_queue(struct upstream_connection *c)
{
    struct upstream_pool *pool = c->pool;
    if (pool->spare_count == UPSTREAM_SPARES_MAX || c->out.cap > UPSTREAM_SPARE_BYTES_MAX) {
        byte_queue_finish(&c->out);
        return;
    }
    byte_queue_clear(&c->out);
    pool->spares[pool->spare_count++] = c->out;
    c->out = (struct byte_queue){.at = NULL};
}

static void end_writing(struct upstream_connection *c)
{
    if (c->sending == UPSTREAM_SENDING_ENDING || c->sending == UPSTREAM_SENDING_NOTIFIED) {
        upstream_connection_set_sending(c, UPSTREAM_SENDING_ENDED);
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown);
    }
    if (c->state == UPSTREAM_CONNECTION_LINGERING) {
        upstream_connection_close(c);
    } else if (c->full) {
        c->full = false;
        c->events.on_room(c->arg);
    }
}

// Gives the socket what it takes now, and libuv the rest to wait with. No event comes from here.
static void send_queue(struct upstream_connection *c)
{
    if (!is_connected(c) || byte_queue_len(&c->writing)) return;
    upstream_tls_seal(c);
    size_t len = byte_queue_len(&c->out);
    if (!len) return;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)byte_queue_front(&c->out), (unsigned)len);
    int n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
    if (n > 0 && (size_t)n == len) {
        empty_queue(c);
        return;
    }
    if (n > 0) byte_queue_drop(&c->out, (size_t)n);
    c->writing = c->out;
    c->out = (struct byte_queue){.at = NULL};
    buf = uv_buf_init((char *)(uintptr_t)byte_queue_front(&c->writing), (unsigned)byte_queue_len(&c->writing));
    c->write.data = c;
    int rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
    if (rc < 0) byte_queue_finish(&c->writing); // closed under us: reading reports it
}

static size_t queued_bytes(const struct upstream_connection *c)
{
    return byte_queue_len(&c->plain) + byte_queue_len(&c->out) + byte_queue_len(&c->writing);
}

static void flush(struct upstream_connection *c)
{
    if (!is_connected(c)) return;
    if (c->pump_wanted) {
        c->pump_wanted = false;
        upstream_tls_pump(c);
        if (c->state == UPSTREAM_CONNECTION_CLOSED) return;
        if (c->reading && !c->tls.input_ended) uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    }
    send_queue(c);
    if (!queued_bytes(c) && c->state != UPSTREAM_CONNECTION_SHAKING) end_writing(c);
}

void upstream_connection_flush_dirty(struct upstream_pool *pool)
{
    while (pool->dirty) {
        struct upstream_connection *c = pool->dirty;
        forget_dirty(c);
        flush(c);
    }
}

bool upstream_connection_write(struct upstream_connection *c, const struct str *parts, size_t count)
{
    struct upstream_pool *pool = c->pool;
    assert(count <= UPSTREAM_CONNECTION_PARTS_MAX);
    if (c->state == UPSTREAM_CONNECTION_CLOSED || c->sending != UPSTREAM_SENDING_OPEN) return true;
    if (!c->out.cap && pool->spare_count) c->out = pool->spares[--pool->spare_count];
    for (size_t i = 0; i < count; i++)
        byte_queue_add(c->tls.ssl ? &c->plain : &c->out, parts[i].at, parts[i].len);
    if (queued_bytes(c) >= UPSTREAM_CONNECTION_QUEUE_BYTES) send_queue(c); // as much as a turn gathers
    c->full = queued_bytes(c) >= UPSTREAM_CONNECTION_QUEUE_BYTES;
    upstream_connection_mark_dirty(c);
    return !c->full;
}

void upstream_connection_finish(struct upstream_connection *c)
{
    if (c->state == UPSTREAM_CONNECTION_LINGERING) return;
    if (c->state != UPSTREAM_CONNECTION_OPEN || c->sending == UPSTREAM_SENDING_FAILED || !queued_bytes(c)) {
        upstream_connection_close(c);
        return;
    }
    upstream_connection_end(c);
    upstream_connection_set_state(c, UPSTREAM_CONNECTION_LINGERING);
    c->arg = NULL;
    upstream_connection_mark_dirty(c);
}

bool upstream_connection_is_clean(const struct upstream_connection *c)
{
    return c->state == UPSTREAM_CONNECTION_OPEN && c->sending == UPSTREAM_SENDING_OPEN && !queued_bytes(c) &&
           !upstream_tls_has_input(c);
}

void upstream_connection_end(struct upstream_connection *c)
{
    if (c->state == UPSTREAM_CONNECTION_CLOSED || c->sending != UPSTREAM_SENDING_OPEN) return;
    upstream_connection_set_sending(c, UPSTREAM_SENDING_ENDING);
    upstream_connection_mark_dirty(c);
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
        upstream_connection_fail(c, &failed);
        return;
    }
    if (c->is_https && !c->tls.ssl) { // the log has the reason
        error_set(&failed, ERROR_UNAVAILABLE, "%s:%u: TLS cannot be started", c->host, (unsigned)c->port);
        upstream_connection_fail(c, &failed);
        return;
    }
    upstream_connection_set_state(c, c->tls.ssl ? UPSTREAM_CONNECTION_SHAKING : UPSTREAM_CONNECTION_OPEN);
    if (c->reading) uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    upstream_connection_mark_dirty(c);
    if (c->tls.ssl)
        upstream_tls_pump(c);
    else
        c->events.on_connected(c->arg);
}

struct upstream_connection *upstream_connection_dial(struct upstream_pool *pool, struct str host, uint16_t port,
                                                     bool tls)
{
    struct upstream_connection *c = mem_zalloc(sizeof(*c));
    struct error err = {0};
    c->pool = pool;
    pool->refs++;
    c->host = mem_strndup(host.at, host.len);
    c->port = port;
    c->is_https = tls;
    c->reading = true; // an early end is noticed
    uv_tcp_init(pool->loop, &c->tcp);
    c->tcp.data = c;
    if (tls && upstream_tls_start(c, &err)) log_error("upstream", "tls_failed", log_err(&err));
    c->dialer = agent_dialer_start(pool->loop, host, port, pool->connect_timeout_ms, on_dialed, c);
    return c;
}
