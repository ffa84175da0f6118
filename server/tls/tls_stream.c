#include "server/tls/tls_stream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "base/tls/tls_connection.h"
#include "server/tls/hangup_watch.h"

enum {
    PATIENCE_MS = 15 * 60 * 1000,
    PAUSE_MS = 50, // without reading: what lasts longer is watched
    RECORD_BYTES = 16 * 1024,
    PENDING_BYTES_MAX = 8 * 1024 * 1024, // twice what a stream of a tunnel may have on its way
    SPARE_BYTES_MAX = 96 * 1024,         // a larger buffer is given back to the system
};

enum tls_stream_state {
    TLS_STREAM_OPENING, // in the handshake; plain: until the next turn
    TLS_STREAM_OPEN,
    TLS_STREAM_BROKEN, // on_fail comes at the end of the turn
    TLS_STREAM_FAILED, // and was called
    TLS_STREAM_CLOSED, // freed once libuv has let go of its handles
};

// Our direction's end.
enum tls_stream_shut {
    TLS_STREAM_SHUT_NOT,
    TLS_STREAM_SHUT_WANTED,   // what was written leaves first
    TLS_STREAM_SHUT_NOTIFIED, // close_notify is sealed
    TLS_STREAM_SHUT_SENT,     // asked of the kernel
    TLS_STREAM_SHUT_DONE,
};

struct tls_stream {
    struct tls_stream_pool *pool;
    uv_tcp_t *tcp;
    uv_timer_t timer;           // the handshake's limit; later the length of a pause
    struct hangup_watch *watch; // in a pause that lasts, and once the peer has ended its direction
    bool is_plain;
    struct tls_connection tls; // not of a plain one
    struct tls_stream_events events;
    void *arg;
    struct turn_item turn_item;
    struct byte_queue gathered; // written by the owner, not yet a record
    struct byte_queue leaving;  // records (plain: bytes) for the kernel
    uv_write_t write;
    struct byte_queue writing; // what uv holds; empty: no write in flight
    uint64_t handed_bytes;     // to the kernel or to uv
    uv_shutdown_t shutdown;
    struct error error;
    unsigned handles_open;
    void (*on_closed)(void *arg);
    void *closed_arg;
    enum tls_stream_state state;
    enum tls_stream_shut shut;
    bool reading;      // the owner reads
    bool tcp_reading;  // libuv reads: also in the handshake
    bool tcp_eof;      // the peer has ended its direction of the TCP connection
    bool eof_reported; // on_eof was called
    bool was_full;     // on_drain is due
    bool read_wanted;  // reading was started: what is here already comes in the turn's end
};

static const char *const out_of_bound = "queue passed its bound";

static void run_turn(struct turn_item *item);

static void set_state(struct tls_stream *stream, enum tls_stream_state state)
{
    // clang-format off
    static const unsigned allowed[] = {
        [TLS_STREAM_OPENING] = 1u << TLS_STREAM_OPEN | 1u << TLS_STREAM_BROKEN | 1u << TLS_STREAM_CLOSED,
        [TLS_STREAM_OPEN] = 1u << TLS_STREAM_BROKEN | 1u << TLS_STREAM_CLOSED,
        [TLS_STREAM_BROKEN] = 1u << TLS_STREAM_FAILED | 1u << TLS_STREAM_CLOSED,
        [TLS_STREAM_FAILED] = 1u << TLS_STREAM_CLOSED,
        [TLS_STREAM_CLOSED] = 0,
    };
    // clang-format on
    assert(allowed[stream->state] & 1u << state);
    stream->state = state;
}

static void set_shut(struct tls_stream *stream, enum tls_stream_shut shut)
{
    assert(shut == stream->shut + 1); // they come in the order of the enum
    stream->shut = shut;
}

static bool is_over(const struct tls_stream *stream)
{
    return stream->state >= TLS_STREAM_BROKEN;
}

static void wake(struct tls_stream *stream)
{
    if (stream->state != TLS_STREAM_CLOSED) turn_add(&stream->pool->turn, &stream->turn_item);
}

static __attribute__((format(printf, 3, 4))) void fail(struct tls_stream *stream, enum error_code code,
                                                       const char *format, ...)
{
    va_list args;
    if (is_over(stream)) return;
    va_start(args, format);
    vsnprintf(stream->error.text, sizeof stream->error.text, format, args);
    va_end(args);
    stream->error.code = code;
    set_state(stream, TLS_STREAM_BROKEN);
    wake(stream);
}

static void fail_tls(struct tls_stream *stream, const char *what)
{
    fail(stream, ERROR_PROTOCOL, "TLS %s: %s", what, tls_connection_error(&stream->tls));
}

// ---- buffers -------------------------------------------------------------------------------------------------

// A stream holds a buffer only between a write and the end of the turn; growing a new one each time
// would cost more than the encryption of a small answer.
static void take_spare(struct tls_stream_spares *spares, struct byte_queue *buffer)
{
    if (buffer->cap > 0 || spares->count == 0) return;
    size_t max = buffer->bytes_max;
    *buffer = spares->buffers[--spares->count];
    buffer->bytes_max = max;
}

static void give_spare(struct tls_stream_spares *spares, struct byte_queue *buffer)
{
    if (byte_queue_len(buffer) > 0 || buffer->cap == 0) return;
    if (buffer->cap <= SPARE_BYTES_MAX && spares->count < TLS_STREAM_SPARES) {
        byte_queue_clear(buffer);
        spares->buffers[spares->count++] = *buffer;
        byte_queue_init(buffer, buffer->bytes_max);
    } else {
        byte_queue_finish(buffer);
    }
}

static void free_spares(struct tls_stream_spares *spares)
{
    while (spares->count > 0)
        byte_queue_finish(&spares->buffers[--spares->count]);
}

// ---- writing -------------------------------------------------------------------------------------------------

// Encrypts what was gathered.
static void seal(struct tls_stream *stream, const void *at, size_t len)
{
    take_spare(&stream->pool->sealed, &stream->leaving);
    if (stream->is_plain) {
        if (!byte_queue_add(&stream->leaving, at, len)) fail(stream, ERROR_TOO_LARGE, "write %s", out_of_bound);
    } else if (!tls_connection_write(&stream->tls, at, len)) {
        fail_tls(stream, "write");
    }
}

static void seal_gathered(struct tls_stream *stream)
{
    if (byte_queue_len(&stream->gathered) == 0 || stream->state != TLS_STREAM_OPEN) return;
    seal(stream, byte_queue_front(&stream->gathered), byte_queue_len(&stream->gathered));
    byte_queue_clear(&stream->gathered);
}

// Whole records at once, straight from where they are; the rest waits for company until the turn
// ends.
static void gather(struct tls_stream *stream, const char *at, size_t len)
{
    struct byte_queue *gathered = &stream->gathered;
    if (gathered->len >= RECORD_BYTES) seal_gathered(stream); // written before the handshake was done
    while (stream->state == TLS_STREAM_OPEN && gathered->len + len >= RECORD_BYTES) {
        size_t take = RECORD_BYTES - gathered->len;
        if (gathered->len == 0) {
            take = len - len % RECORD_BYTES;
            seal(stream, at, take);
        } else {
            byte_queue_add(gathered, at, take);
            seal_gathered(stream);
        }
        at += take;
        len -= take;
    }
    if (len == 0) return;
    take_spare(&stream->pool->gathered, gathered);
    if (gathered->cap == 0) byte_queue_reserve(gathered, RECORD_BYTES);
    if (!byte_queue_add(gathered, at, len)) fail(stream, ERROR_TOO_LARGE, "write %s", out_of_bound);
}

static void on_written(uv_write_t *request, int status);

// Hands records to the kernel; what it does not take now, uv keeps and writes when it can.
static void hand_over(struct tls_stream *stream)
{
    size_t len = byte_queue_len(&stream->leaving);
    if (len == 0 || byte_queue_len(&stream->writing) > 0) return;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)byte_queue_front(&stream->leaving), (unsigned)len);
    int sent = uv_try_write((uv_stream_t *)stream->tcp, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        fail(stream, ERROR_IO, "write: %s", uv_strerror(sent));
        return;
    }
    size_t taken = sent > 0 ? (size_t)sent : 0;
    stream->handed_bytes += len;
    if (taken == len) {
        byte_queue_clear(&stream->leaving);
        return;
    }
    stream->writing = stream->leaving;
    byte_queue_init(&stream->leaving, PENDING_BYTES_MAX);
    buffer = uv_buf_init(buffer.base + taken, (unsigned)(len - taken));
    stream->write.data = stream;
    int code = uv_write(&stream->write, (uv_stream_t *)stream->tcp, &buffer, 1, on_written);
    if (code == 0) return;
    byte_queue_finish(&stream->writing);
    fail(stream, ERROR_IO, "write: %s", uv_strerror(code));
}

static void send_sealed(struct tls_stream *stream)
{
    if (!is_over(stream)) hand_over(stream);
}

static void on_written(uv_write_t *request, int status)
{
    struct tls_stream *stream = request->data;
    byte_queue_finish(&stream->writing);
    if (stream->state == TLS_STREAM_CLOSED) return;
    if (status != 0) fail(stream, ERROR_IO, "write: %s", uv_strerror(status));
    wake(stream);
}

static void end_shutdown(struct tls_stream *stream)
{
    set_shut(stream, TLS_STREAM_SHUT_DONE);
    if (stream->events.on_shut) stream->events.on_shut(stream->arg);
}

static void on_shutdown_done(uv_shutdown_t *request, int status)
{
    struct tls_stream *stream = request->data;
    (void)status; // the connection may be gone already: then, too, nothing more leaves
    if (stream->state != TLS_STREAM_CLOSED) end_shutdown(stream);
}

static void finish_writing(struct tls_stream *stream)
{
    if (stream->shut == TLS_STREAM_SHUT_NOT || stream->state != TLS_STREAM_OPEN) return;
    if (stream->shut == TLS_STREAM_SHUT_WANTED) {
        if (!stream->is_plain) tls_connection_end(&stream->tls);
        set_shut(stream, TLS_STREAM_SHUT_NOTIFIED);
    }
    send_sealed(stream);
    if (byte_queue_len(&stream->writing) > 0 || stream->shut != TLS_STREAM_SHUT_NOTIFIED || is_over(stream)) return;
    set_shut(stream, TLS_STREAM_SHUT_SENT);
    stream->shutdown.data = stream;
    if (uv_shutdown(&stream->shutdown, (uv_stream_t *)stream->tcp, on_shutdown_done) != 0) end_shutdown(stream);
}

bool tls_stream_write(struct tls_stream *stream, const void *at, size_t len)
{
    if (is_over(stream) || stream->shut != TLS_STREAM_SHUT_NOT) return true;
    gather(stream, at, len);
    wake(stream);
    bool full = tls_stream_queued(stream) >= TLS_STREAM_QUEUE_HIGH;
    if (full) {
        // Perhaps the kernel has room: then the owner need not wait.
        seal_gathered(stream);
        if (stream->state == TLS_STREAM_OPEN) send_sealed(stream);
        full = tls_stream_queued(stream) >= TLS_STREAM_QUEUE_HIGH;
    }
    if (full) stream->was_full = true;
    return !full;
}

void tls_stream_shutdown(struct tls_stream *stream)
{
    if (stream->state == TLS_STREAM_CLOSED || stream->shut != TLS_STREAM_SHUT_NOT) return;
    seal_gathered(stream);
    set_shut(stream, TLS_STREAM_SHUT_WANTED);
    wake(stream);
}

size_t tls_stream_queued(const struct tls_stream *stream)
{
    return byte_queue_len(&stream->gathered) + byte_queue_len(&stream->leaving) +
           (byte_queue_len(&stream->writing) > 0 ? uv_stream_get_write_queue_size((const uv_stream_t *)stream->tcp)
                                                 : 0);
}

// What lies in the kernel, which may be megabytes.
static uint64_t unacknowledged_bytes(const struct tls_stream *stream)
{
    uv_os_fd_t fd;
    int bytes = 0;
    if (uv_fileno((const uv_handle_t *)stream->tcp, &fd) != 0 || ioctl(fd, SIOCOUTQ, &bytes) != 0) return 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t tls_stream_sent_bytes(const struct tls_stream *stream)
{
    uint64_t handed = stream->handed_bytes - uv_stream_get_write_queue_size((const uv_stream_t *)stream->tcp);
    uint64_t unacknowledged = unacknowledged_bytes(stream);
    return handed > unacknowledged ? handed - unacknowledged : 0;
}

bool tls_stream_is_shut(const struct tls_stream *stream)
{
    return stream->shut == TLS_STREAM_SHUT_DONE;
}

// ---- reading -------------------------------------------------------------------------------------------------

static void report_eof(struct tls_stream *stream)
{
    if (stream->eof_reported || !stream->reading || stream->state == TLS_STREAM_CLOSED) return;
    stream->eof_reported = true;
    stream->events.on_eof(stream->arg);
}

static void handshake(struct tls_stream *stream)
{
    switch (tls_connection_handshake(&stream->tls)) {
    case TLS_OK:
        set_state(stream, TLS_STREAM_OPEN);
        uv_timer_stop(&stream->timer);
        stream->events.on_open(stream->arg);
        return;
    case TLS_FAILED:
        fail_tls(stream, "handshake");
        hand_over(stream); // the alert with the reason; the connection ends in any case
        return;
    case TLS_AGAIN:
    case TLS_END: return;
    }
}

// Decrypts what has arrived for as long as the owner reads.
static void deliver_tls(struct tls_stream *stream)
{
    enum tls_result result = TLS_OK;
    if (stream->state == TLS_STREAM_OPENING) handshake(stream);
    while (result == TLS_OK && stream->state == TLS_STREAM_OPEN && stream->reading) {
        size_t len;
        result = tls_connection_read(&stream->tls, stream->pool->plain, TLS_STREAM_READ_BYTES, &len);
        if (len > 0) stream->events.on_data(stream->arg, stream->pool->plain, len);
    }
    if (stream->state != TLS_STREAM_OPEN || !stream->reading) return; // an end comes again
    if (result == TLS_END) report_eof(stream);
    if (result == TLS_FAILED) fail_tls(stream, "read");
}

static void update_tcp_reading(struct tls_stream *stream);
static void watch_later(struct tls_stream *stream);

static void on_tcp_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct tls_stream *stream = handle->data;
    (void)suggested;
    *out = uv_buf_init(stream->pool->cipher, TLS_STREAM_READ_BYTES);
}

static void on_tcp_read(uv_stream_t *tcp, ssize_t len, const uv_buf_t *buffer)
{
    struct tls_stream *stream = tcp->data;
    if (len == 0) return;
    if (len < 0) {
        stream->tcp_eof = true;
        uv_read_stop(tcp);
        stream->tcp_reading = false;
        if (stream->state == TLS_STREAM_OPEN) watch_later(stream);
        if (len != UV_EOF) fail(stream, ERROR_IO, "read: %s", uv_strerror((int)len));
    }
    if (stream->is_plain) {
        if (len > 0)
            stream->events.on_data(stream->arg, buffer->base, (size_t)len);
        else if (len == UV_EOF)
            report_eof(stream);
    } else {
        if (len > 0) tls_connection_feed(&stream->tls, buffer->base, (size_t)len);
        if (len == UV_EOF) stream->tls.input_ended = true;
        if (len > 0 || len == UV_EOF) deliver_tls(stream);
        if (!tls_connection_hold(&stream->tls)) fail(stream, ERROR_TOO_LARGE, "read %s", out_of_bound);
        if (byte_queue_len(&stream->leaving) > 0) wake(stream); // handshake, key updates, alerts
    }
    update_tcp_reading(stream);
}

// Reads from TCP during the handshake and while the owner reads; what is decrypted late is held,
// which is one read at most.
static void update_tcp_reading(struct tls_stream *stream)
{
    bool takes = stream->state == TLS_STREAM_OPENING || (stream->state == TLS_STREAM_OPEN && stream->reading);
    bool want = takes && !stream->tcp_eof;
    if (want == stream->tcp_reading) return;
    stream->tcp_reading = want;
    if (!want) {
        uv_read_stop((uv_stream_t *)stream->tcp);
        return;
    }
    int code = uv_read_start((uv_stream_t *)stream->tcp, on_tcp_alloc, on_tcp_read);
    if (code != 0) fail(stream, ERROR_IO, "read: %s", uv_strerror(code));
}

// ---- a peer that leaves while nobody reads -------------------------------------------------------------------

static void stop_watch(struct tls_stream *stream)
{
    hangup_watch_destroy(stream->watch);
    stream->watch = NULL;
}

static void on_hangup(void *arg, bool reset)
{
    struct tls_stream *stream = arg;
    if (reset)
        fail(stream, ERROR_IO, "connection reset by the peer");
    else if (stream->events.on_hangup)
        stream->events.on_hangup(stream->arg);
}

static void on_long_pause(uv_timer_t *timer)
{
    struct tls_stream *stream = timer->data;
    bool watched = stream->tcp_eof || !stream->reading;
    if (!watched || is_over(stream) || stream->watch) return;
    stream->watch = hangup_watch_create(stream->tcp, stream->tcp_eof, on_hangup, stream);
}

static void watch_later(struct tls_stream *stream)
{
    uv_timer_start(&stream->timer, on_long_pause, PAUSE_MS, 0);
}

void tls_stream_read_start(struct tls_stream *stream)
{
    if (stream->reading || stream->state == TLS_STREAM_CLOSED) return;
    stream->reading = true;
    if (!stream->tcp_eof) {
        stop_watch(stream);
        if (stream->state == TLS_STREAM_OPEN) uv_timer_stop(&stream->timer);
    }
    stream->read_wanted = true;
    wake(stream);
}

void tls_stream_read_stop(struct tls_stream *stream)
{
    if (!stream->reading || stream->state == TLS_STREAM_CLOSED) return;
    stream->reading = false;
    if (stream->state == TLS_STREAM_OPEN) watch_later(stream);
    update_tcp_reading(stream);
}

// ---- the end of the turn -------------------------------------------------------------------------------------

static void run_turn(struct turn_item *item)
{
    struct tls_stream *stream = (struct tls_stream *)((char *)item - offsetof(struct tls_stream, turn_item));
    if (stream->is_plain && stream->state == TLS_STREAM_OPENING) {
        set_state(stream, TLS_STREAM_OPEN);
        stream->events.on_open(stream->arg);
    } else if (!stream->is_plain && stream->state == TLS_STREAM_OPEN && stream->reading && stream->read_wanted) {
        stream->read_wanted = false;
        deliver_tls(stream);
    }
    if (stream->is_plain && stream->tcp_eof && !is_over(stream)) report_eof(stream);
    if (stream->state == TLS_STREAM_CLOSED) return;
    seal_gathered(stream);
    send_sealed(stream);
    finish_writing(stream);
    if (stream->state == TLS_STREAM_CLOSED) return;
    update_tcp_reading(stream);
    // Sealing adds to it: an owner that on_drain notified of room may find none.
    if (tls_stream_queued(stream) >= TLS_STREAM_QUEUE_HIGH) stream->was_full = true;
    if (stream->was_full && !is_over(stream) && tls_stream_queued(stream) <= TLS_STREAM_QUEUE_LOW) {
        stream->was_full = false;
        stream->events.on_drain(stream->arg);
        if (stream->state == TLS_STREAM_CLOSED) return;
    }
    give_spare(&stream->pool->gathered, &stream->gathered);
    give_spare(&stream->pool->sealed, &stream->leaving);
    if (stream->state == TLS_STREAM_BROKEN) {
        set_state(stream, TLS_STREAM_FAILED);
        update_tcp_reading(stream);
        stream->events.on_fail(stream->arg, &stream->error);
    }
}

// ---- life ----------------------------------------------------------------------------------------------------

static void on_handshake_timeout(uv_timer_t *timer)
{
    fail(timer->data, ERROR_TIMEOUT, "TLS handshake took too long");
}

static struct tls_stream *create(struct tls_stream_pool *pool, uv_tcp_t *tcp, const struct tls_stream_events *events,
                                 void *arg)
{
    struct tls_stream *stream = mem_zalloc(sizeof *stream);
    stream->pool = pool;
    stream->tcp = tcp;
    stream->events = *events;
    stream->arg = arg;
    stream->turn_item.run = run_turn;
    stream->handles_open = 2;
    byte_queue_init(&stream->gathered, PENDING_BYTES_MAX);
    byte_queue_init(&stream->leaving, PENDING_BYTES_MAX);
    tcp->data = stream;
    uv_timer_init(tcp->loop, &stream->timer);
    stream->timer.data = stream;
    return stream;
}

struct tls_stream *tls_stream_create(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL_CTX *ssl,
                                     uint64_t handshake_timeout_ms, const struct tls_stream_events *events, void *arg)
{
    struct tls_stream *stream = create(pool, tcp, events, arg);
    if (ssl) {
        bool is_client = SSL_CTX_get_ssl_method(ssl) == TLS_client_method();
        if (is_client)
            tls_connection_connect(&stream->tls, pool->bio_method, ssl, &stream->leaving);
        else
            tls_connection_accept(&stream->tls, pool->bio_method, ssl, &stream->leaving);
        uv_timer_start(&stream->timer, on_handshake_timeout, handshake_timeout_ms, 0);
        if (is_client) { // it speaks first
            handshake(stream);
            wake(stream);
        }
        update_tcp_reading(stream);
    } else {
        stream->is_plain = true;
        wake(stream);
    }
    return stream;
}

static bool rests(const struct tls_stream *stream)
{
    bool both_go_on = !stream->tcp_eof && stream->shut == TLS_STREAM_SHUT_NOT;
    bool is_empty = byte_queue_len(&stream->gathered) == 0 && byte_queue_len(&stream->leaving) == 0 &&
                    byte_queue_len(&stream->writing) == 0 && (stream->is_plain || tls_connection_rests(&stream->tls));
    return stream->state == TLS_STREAM_OPEN && both_go_on && is_empty;
}

bool tls_stream_take_apart(struct tls_stream *stream, struct tls_stream_rest *out)
{
    uv_os_fd_t fd;
    if (!rests(stream) || uv_fileno((uv_handle_t *)stream->tcp, &fd) != 0) return false;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); // the connection outlives the handle's descriptor
    if (copy < 0) return false;
    *out = (struct tls_stream_rest){.fd = copy, .ssl = stream->is_plain ? NULL : tls_connection_release(&stream->tls)};
    return true;
}

struct tls_stream *tls_stream_resume(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL *ssl,
                                     const struct tls_stream_events *events, void *arg)
{
    struct tls_stream *stream = create(pool, tcp, events, arg);
    stream->is_plain = !ssl;
    if (ssl) tls_connection_resume(&stream->tls, pool->bio_method, ssl, &stream->leaving);
    set_state(stream, TLS_STREAM_OPEN);
    stream->handed_bytes = unacknowledged_bytes(stream);
    return stream;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct tls_stream *stream = handle->data;
    if (--stream->handles_open > 0) return;
    void (*on_closed)(void *arg) = stream->on_closed;
    void *arg = stream->closed_arg;
    tls_connection_finish(&stream->tls);
    byte_queue_finish(&stream->gathered);
    byte_queue_finish(&stream->leaving);
    byte_queue_finish(&stream->writing);
    mem_free(stream->tcp);
    mem_free(stream);
    if (on_closed) on_closed(arg);
}

void tls_stream_close(struct tls_stream *stream, void (*on_closed)(void *arg), void *arg)
{
    if (stream->state == TLS_STREAM_CLOSED) return;
    turn_remove(&stream->pool->turn, &stream->turn_item);
    stop_watch(stream);
    set_state(stream, TLS_STREAM_CLOSED);
    stream->reading = false;
    stream->on_closed = on_closed;
    stream->closed_arg = arg;
    uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
    uv_close((uv_handle_t *)stream->tcp, on_handle_closed);
}

void tls_stream_be_patient(struct tls_stream *stream)
{
    unsigned timeout_ms = PATIENCE_MS;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)stream->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

struct str tls_stream_protocol(const struct tls_stream *stream)
{
    const unsigned char *name = NULL;
    unsigned len = 0;
    if (stream->tls.ssl) SSL_get0_alpn_selected(stream->tls.ssl, &name, &len);
    return str_of((const char *)name, len);
}

void tls_stream_peer(const struct tls_stream *stream, char *out)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    out[0] = '\0';
    if (uv_tcp_getpeername(stream->tcp, (struct sockaddr *)&address, &len) != 0) return;
    if (address.ss_family == AF_INET) {
        uv_ip4_name((struct sockaddr_in *)&address, out, INET6_ADDRSTRLEN);
    } else if (address.ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
        // An IPv4 client of a socket for both is known by its IPv4 address.
        if (IN6_IS_ADDR_V4MAPPED(in6))
            inet_ntop(AF_INET, in6->s6_addr + 12, out, INET6_ADDRSTRLEN);
        else
            inet_ntop(AF_INET6, in6, out, INET6_ADDRSTRLEN);
    }
}

void tls_stream_pool_init(struct tls_stream_pool *pool, uv_loop_t *loop)
{
    pool->gathered.count = pool->sealed.count = 0;
    pool->cipher = mem_alloc(TLS_STREAM_READ_BYTES);
    pool->plain = mem_alloc(TLS_STREAM_READ_BYTES);
    pool->bio_method = tls_connection_method_create();
    turn_init(&pool->turn, loop);
}

void tls_stream_pool_close(struct tls_stream_pool *pool, void (*on_closed)(void *arg), void *arg)
{
    free_spares(&pool->gathered);
    free_spares(&pool->sealed);
    mem_free(pool->cipher);
    mem_free(pool->plain);
    BIO_meth_free(pool->bio_method);
    pool->cipher = pool->plain = NULL;
    turn_close(&pool->turn, on_closed, arg);
}
