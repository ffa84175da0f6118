#include "agent/link.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/byte_queue.h"
#include "agent/dialer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

enum {
    READ_BYTES = 32 * 1024,
    HEAD_BYTES_MAX = 16 * 1024,
    NOTSENT_BYTES = 64 * 1024, // what the kernel may hold unsent: the rest waits where it can still be reordered
    CONTROL_BYTES_MAX = 3 * (WS_FRAME_CONTROL_BYTES_MAX + 6),
    OUT_BYTES = CONTROL_BYTES_MAX + WS_FRAME_HEADER_BYTES_MAX + AGENT_LINK_FILL_BYTES,
    HANDLES = 4,
};

enum link_phase { PHASE_DIAL, PHASE_PROXY, PHASE_TLS, PHASE_UPGRADE, PHASE_OPEN, PHASE_ENDED };

struct agent_link {
    uv_loop_t *loop;
    struct agent_link_events events;
    void *arg;
    enum link_phase phase;
    struct agent_dialer *dialer;
    int fd;
    SSL *ssl;
    uv_poll_t poll;
    int poll_events;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t timer; // opening, then liveness
    unsigned handles; // open
    unsigned depth;   // inside our own functions: memory stays
    bool has_poll, dirty;
    bool muted; // closed by the owner: no event any more

    bool through_proxy;
    char key[WS_HANDSHAKE_KEY_BYTES];
    struct strbuf request; // proxy's CONNECT, then the upgrade
    struct strbuf upgrade; // until it is its turn
    size_t request_sent;   // to the proxy
    struct strbuf answer;

    struct ws_frame_decoder decoder;
    struct ws_frame_masks masks;
    uint8_t control[CONTROL_BYTES_MAX]; // control frames that wait
    size_t control_len;
    uint8_t *out;           // where one message is laid out
    struct byte_queue wire; // TLS records that wait for the socket
    uint8_t in[READ_BYTES];

    uint64_t last_in_ms, ping_at_us;
    bool ping_waits;
};

// ---- end -------------------------------------------------------------------------------------------------------

static void free_link(struct agent_link *link)
{
    agent_tls_connection_free(link->ssl);
    byte_queue_finish(&link->wire);
    strbuf_finish(&link->request);
    strbuf_finish(&link->answer);
    strbuf_finish(&link->upgrade);
    mem_free(link->out);
    mem_free(link);
}

static void maybe_free(struct agent_link *link)
{
    if (link->phase == PHASE_ENDED && !link->handles && !link->depth) free_link(link);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct agent_link *link = handle->data;
    link->handles--;
    maybe_free(link);
}

static void shut(struct agent_link *link)
{
    if (link->phase == PHASE_ENDED) return;
    link->phase = PHASE_ENDED;
    if (link->dialer) agent_dialer_cancel(link->dialer);
    link->dialer = NULL;
    if (link->has_poll) uv_close((uv_handle_t *)&link->poll, on_handle_closed);
    uv_close((uv_handle_t *)&link->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&link->check, on_handle_closed);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
    byte_queue_finish(&link->wire);
    // The request holds the credential.
    if (link->request.at) explicit_bzero(link->request.at, link->request.cap);
    if (link->upgrade.at) explicit_bzero(link->upgrade.at, link->upgrade.cap);
}

static void end(struct agent_link *link, const struct agent_link_end *why)
{
    if (link->phase == PHASE_ENDED) return;
    shut(link);
    if (!link->muted) link->events.on_end(link->arg, why);
}

static void end_error(struct agent_link *link, const struct error *err)
{
    struct agent_link_end why = {.retry_after_ms = -1, .error = *err};
    end(link, &why);
}

// ---- poll ------------------------------------------------------------------------------------------------------

static void on_poll(uv_poll_t *poll, int status, int events);

static void want(struct agent_link *link, int events)
{
    if (link->phase == PHASE_ENDED || link->poll_events == events) return;
    link->poll_events = events;
    uv_poll_start(&link->poll, events, on_poll);
}

// Gives what TLS wrote to the socket. False: it does not take all now (the poll will go on), or it failed.
static bool flush_wire(struct agent_link *link)
{
    while (link->phase != PHASE_ENDED && byte_queue_len(&link->wire)) {
        ssize_t n = send(link->fd, byte_queue_front(&link->wire), byte_queue_len(&link->wire), MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            want(link, UV_READABLE | UV_WRITABLE);
            return false;
        }
        if (n < 0) {
            struct error err = {0};
            error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(errno));
            end_error(link, &err);
            return false;
        }
        byte_queue_drop(&link->wire, (size_t)n);
    }
    if (link->phase == PHASE_ENDED) return false;
    want(link, UV_READABLE);
    return true;
}

// After a call that did not succeed: waiting for input is fine, all else ends the link.
static void ssl_stopped(struct agent_link *link, int rc)
{
    int reason = SSL_get_error(link->ssl, rc), error = errno;
    struct error err = {0};
    flush_wire(link); // handshake messages, alerts
    if (reason == SSL_ERROR_WANT_READ || link->phase == PHASE_ENDED) return;
    if (reason == SSL_ERROR_SYSCALL && error)
        error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(error));
    else
        agent_tls_error(link->ssl, reason, &err);
    end_error(link, &err);
}

// ---- writing ---------------------------------------------------------------------------------------------------

static void add_control(struct agent_link *link, enum ws_frame_opcode opcode, const void *payload, size_t len)
{
    uint8_t mask[WS_FRAME_MASK_BYTES];
    if (link->control_len + len + 6 > sizeof(link->control)) return; // only the newest ping must be answered
    ws_frame_masks_next(&link->masks, mask);
    link->control_len += ws_frame_control(link->control + link->control_len, opcode, payload, len, mask);
    link->dirty = true;
}

// One message into TLS: control frames, header, payload in a row, the header ending where the payload begins.
static bool write_message(struct agent_link *link)
{
    uint8_t mask[WS_FRAME_MASK_BYTES];
    uint8_t *payload = link->out + CONTROL_BYTES_MAX + WS_FRAME_HEADER_BYTES_MAX, *start = payload;
    size_t len = link->events.on_fill(link->arg, payload, AGENT_LINK_FILL_BYTES);
    if (link->phase != PHASE_OPEN || len + link->control_len == 0) return false;
    if (len) {
        ws_frame_masks_next(&link->masks, mask);
        start -= ws_frame_header_bytes(len, true);
        ws_frame_header(start, WS_FRAME_BINARY, len, mask);
        ws_frame_apply_mask(payload, len, mask, 0);
    }
    start -= link->control_len;
    memcpy(start, link->control, link->control_len);
    link->control_len = 0;
    ERR_clear_error();
    errno = 0;
    int total = (int)(payload + len - start), n = SSL_write(link->ssl, start, total);
    if (n != total) ssl_stopped(link, n); // the queue takes everything: only a broken connection stops it
    return n == total;
}

static void pump_write(struct agent_link *link)
{
    link->dirty = false;
    while (link->phase == PHASE_OPEN && flush_wire(link) && write_message(link))
        continue;
}

static void flush_dirty(struct agent_link *link)
{
    if (!link->dirty || link->phase != PHASE_OPEN) return;
    if (link->poll_events & UV_WRITABLE) return; // the poll will call
    link->depth++;
    pump_write(link);
    link->depth--;
    maybe_free(link);
}

// Before the loop sleeps, and after it handled what woke it: whatever became due in this turn leaves together.
static void on_prepare(uv_prepare_t *prepare)
{
    flush_dirty(prepare->data);
}

static void on_check(uv_check_t *check)
{
    flush_dirty(check->data);
}

void agent_link_wake(struct agent_link *link)
{
    link->dirty = true;
}

// ---- reading ---------------------------------------------------------------------------------------------------

static void on_pong(struct agent_link *link, const struct ws_frame_event *event)
{
    uint64_t sent_us;
    if (event->len != sizeof(sent_us) || !link->ping_waits) return;
    memcpy(&sent_us, event->at, sizeof(sent_us));
    if (sent_us != link->ping_at_us) return;
    link->ping_waits = false;
    link->events.on_rtt(link->arg, clock_mono_us() - sent_us);
}

static void on_peer_close(struct agent_link *link, const struct ws_frame_event *event)
{
    struct error err = {0};
    uint8_t code[2] = {(uint8_t)(event->close_code >> 8), (uint8_t)event->close_code};
    error_set(&err, ERROR_IO, "the platform closed the tunnel: %u %.*s", (unsigned)event->close_code, (int)event->len,
              (const char *)event->at);
    add_control(link, WS_FRAME_CLOSE, code, event->close_code == WS_FRAME_CLOSE_NONE ? 0 : sizeof(code));
    pump_write(link); // section 5.5.1: echo it
    end_error(link, &err);
}

static void on_event(struct agent_link *link, const struct ws_frame_event *event)
{
    struct error err = {0};
    switch (event->type) {
    case WS_FRAME_EVENT_DATA:
        if (!event->text) {
            link->events.on_bytes(link->arg, event->at, event->len);
            break;
        }
        error_set(&err, ERROR_PROTOCOL, "text message in a tunnel");
        end_error(link, &err);
        break;
    case WS_FRAME_EVENT_PING: add_control(link, WS_FRAME_PONG, event->at, event->len); break;
    case WS_FRAME_EVENT_PONG: on_pong(link, event); break;
    case WS_FRAME_EVENT_CLOSE: on_peer_close(link, event); break;
    case WS_FRAME_EVENT_NONE: break;
    }
}

static void decode(struct agent_link *link, uint8_t *at, size_t len)
{
    while (len && link->phase == PHASE_OPEN) {
        struct ws_frame_event event;
        struct error err = {0};
        size_t used;
        if (ws_frame_decode(&link->decoder, at, len, &used, &event, &err)) {
            end_error(link, &err);
            return;
        }
        at += used;
        len -= used;
        on_event(link, &event);
    }
}

static void send_ping(struct agent_link *link)
{
    link->ping_at_us = clock_mono_us();
    link->ping_waits = true;
    add_control(link, WS_FRAME_PING, &link->ping_at_us, sizeof(link->ping_at_us));
}

static void on_liveness(uv_timer_t *timer);

static void opened(struct agent_link *link)
{
    link->phase = PHASE_OPEN;
    strbuf_finish(&link->answer);
    explicit_bzero(link->request.at, link->request.cap);
    strbuf_finish(&link->request);
    link->out = mem_alloc(OUT_BYTES);
    ws_frame_decoder_init(&link->decoder, false);
    ws_frame_masks_init(&link->masks);
    uv_timer_start(&link->timer, on_liveness, AGENT_LINK_PING_AFTER_MS, 0);
    send_ping(link); // the first round-trip time
    link->events.on_open(link->arg);
    link->dirty = true;
}

// Bytes of the upgrade's answer.
static void on_answer(struct agent_link *link, uint8_t *at, size_t len)
{
    struct ws_handshake_answer answer;
    struct error err = {0};
    size_t head_bytes;
    if (!strbuf_add(&link->answer, at, len)) {
        error_set(&err, ERROR_TOO_LARGE, "answer to the upgrade is too long");
        end_error(link, &err);
        return;
    }
    enum error_code code = ws_handshake_read(link->answer.at, link->answer.len, str_c(link->key),
                                             STR(WIRE_TUNNEL_SUBPROTOCOL), &answer, &head_bytes, &err);
    if (code == ERROR_AGAIN) return;
    if (code) {
        end_error(link, &err);
        return;
    }
    if (answer.status != 101) {
        struct agent_link_end why = {.status = answer.status, .retry_after_ms = answer.retry_after_ms};
        error_set(&why.error, ERROR_UNAVAILABLE, "the platform answered %d", answer.status);
        end(link, &why);
        return;
    }
    size_t rest = link->answer.len - head_bytes; // of at..len: the head was incomplete before
    opened(link);
    decode(link, at + len - rest, rest);
}

static void pump_read(struct agent_link *link)
{
    while (link->phase == PHASE_OPEN || link->phase == PHASE_UPGRADE) {
        ERR_clear_error();
        errno = 0;
        int n = SSL_read(link->ssl, link->in, sizeof(link->in));
        if (n <= 0) {
            ssl_stopped(link, n);
            return;
        }
        link->last_in_ms = clock_mono_ms();
        if (link->phase == PHASE_OPEN)
            decode(link, link->in, (size_t)n);
        else
            on_answer(link, link->in, (size_t)n);
    }
}

// Any byte that came in is life; a ping after ten seconds of silence, the end five seconds later.
static void on_liveness(uv_timer_t *timer)
{
    struct agent_link *link = timer->data;
    uint64_t now = clock_mono_ms(), silent = now - link->last_in_ms;
    if (silent >= AGENT_LINK_PING_AFTER_MS + AGENT_LINK_DEAD_AFTER_MS) {
        struct error err = {0};
        error_set(&err, ERROR_TIMEOUT, "the platform was silent for %llu ms", (unsigned long long)silent);
        end_error(link, &err);
    } else if (silent >= AGENT_LINK_PING_AFTER_MS) {
        send_ping(link);
        uv_timer_start(timer, on_liveness, AGENT_LINK_PING_AFTER_MS + AGENT_LINK_DEAD_AFTER_MS - silent, 0);
    } else {
        uv_timer_start(timer, on_liveness, AGENT_LINK_PING_AFTER_MS - silent, 0);
    }
}

// ---- opening ---------------------------------------------------------------------------------------------------

static void pump_tls(struct agent_link *link)
{
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(link->ssl);
    if (rc != 1) {
        ssl_stopped(link, rc);
        return;
    }
    rc = SSL_write(link->ssl, link->request.at, (int)link->request.len);
    if (rc != (int)link->request.len) {
        ssl_stopped(link, rc);
        return;
    }
    link->phase = PHASE_UPGRADE;
    flush_wire(link);
    pump_read(link);
}

static void start_tls(struct agent_link *link)
{
    if (!SSL_set_rfd(link->ssl, link->fd)) {
        struct error err = {0};
        agent_tls_error(link->ssl, SSL_ERROR_SSL, &err);
        end_error(link, &err);
        return;
    }
    strbuf_finish(&link->request);
    link->request = link->upgrade;
    strbuf_init(&link->upgrade, HEAD_BYTES_MAX);
    link->request_sent = 0;
    link->phase = PHASE_TLS;
    pump_tls(link);
}

static void proxy_failed(struct agent_link *link, const char *reason)
{
    struct error err = {0};
    error_set(&err, ERROR_IO, "proxy: %s", reason);
    end_error(link, &err);
}

static void pump_proxy_answer(struct agent_link *link)
{
    struct http1_head head;
    struct error err = {0};
    size_t head_bytes;
    ssize_t n = read(link->fd, link->in, 4096);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        proxy_failed(link, n < 0 ? strerror(errno) : "closed the connection");
        return;
    }
    if (!strbuf_add(&link->answer, link->in, (size_t)n)) {
        proxy_failed(link, "answer is too long");
        return;
    }
    enum error_code code = http1_parse_response(link->answer.at, link->answer.len, HEAD_BYTES_MAX, STR("CONNECT"),
                                                &head, &head_bytes, &err);
    if (code == ERROR_AGAIN) return;
    if (code) {
        proxy_failed(link, err.text);
    } else if (head.status / 100 != 2) {
        error_set(&err, ERROR_IO, "proxy: answered %d to CONNECT", head.status);
        end_error(link, &err);
    } else if (head_bytes != link->answer.len) {
        proxy_failed(link, "sent bytes before the TLS handshake");
    } else {
        strbuf_clear(&link->answer);
        start_tls(link);
    }
}

static void pump_proxy(struct agent_link *link)
{
    while (link->request_sent < link->request.len) {
        ssize_t n =
            send(link->fd, link->request.at + link->request_sent, link->request.len - link->request_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            want(link, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (n < 0) {
            proxy_failed(link, strerror(errno));
            return;
        }
        link->request_sent += (size_t)n;
    }
    want(link, UV_READABLE);
    pump_proxy_answer(link);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct agent_link *link = poll->data;
    struct error err = {0};
    link->depth++;
    if (status < 0) { // libuv says EBADF for every failed socket: the socket itself knows why
        int error = 0;
        socklen_t len = sizeof(error);
        if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || !error) error = -status;
        error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(error));
        end_error(link, &err);
    }
    switch (link->phase) {
    case PHASE_PROXY: pump_proxy(link); break;
    case PHASE_TLS: pump_tls(link); break;
    case PHASE_UPGRADE:
        flush_wire(link);
        pump_read(link);
        break;
    case PHASE_OPEN:
        if (events & UV_READABLE) pump_read(link);
        if (events & UV_WRITABLE) pump_write(link);
        break;
    case PHASE_DIAL:
    case PHASE_ENDED: break;
    }
    link->depth--;
    maybe_free(link);
}

static void on_dialed(void *arg, int fd, const struct error *err)
{
    struct agent_link *link = arg;
    int bytes = NOTSENT_BYTES;
    link->dialer = NULL;
    if (fd < 0) {
        end_error(link, err);
        return;
    }
    link->depth++;
    link->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
    uv_poll_init(link->loop, &link->poll, fd);
    link->has_poll = true;
    link->handles++;
    want(link, UV_READABLE);
    if (link->through_proxy) {
        link->phase = PHASE_PROXY;
        pump_proxy(link);
    } else {
        start_tls(link);
    }
    link->depth--;
    maybe_free(link);
}

static void on_open_timeout(uv_timer_t *timer)
{
    static const char *const phase_names[] = {"connecting", "the proxy", "the TLS handshake", "the upgrade", "", ""};
    struct agent_link *link = timer->data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, "timed out in %s", phase_names[link->phase]);
    end_error(link, &err);
}

static enum error_code write_requests(struct agent_link *link, const struct agent_link_target *target,
                                      struct error *err)
{
    char host[300];
    bool v6 = str_has_byte(target->host, ':');
    int n = snprintf(host, sizeof(host), v6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(target->host), (unsigned)target->port);
    if (n < 0 || (size_t)n >= sizeof(host)) return error_set(err, ERROR_INVALID, "platform host name is too long");
    struct str authority = str_of(host, (size_t)n);
    if (link->through_proxy && !strbuf_addf(&link->request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host))
        return error_set(err, ERROR_TOO_LARGE, "platform host name is too long");
    if (target->port == 443 && !v6) authority.len = target->host.len; // Host names the port only when it is not 443
    ws_handshake_key(link->key);
    const struct ws_handshake_request request = {
        .host = authority,
        .path = target->path,
        .subprotocol = STR(WIRE_TUNNEL_SUBPROTOCOL),
        .headers = target->headers,
        .header_count = target->header_count,
    };
    return ws_handshake_write(&request, str_c(link->key), &link->upgrade, err);
}

enum error_code agent_link_start(uv_loop_t *loop, struct agent_tls *tls, const struct agent_link_target *target,
                                 const struct agent_link_events *events, void *arg, struct agent_link **out,
                                 struct error *err)
{
    struct agent_link *link = mem_zalloc(sizeof(*link));
    link->loop = loop;
    link->events = *events;
    link->arg = arg;
    link->fd = -1;
    link->through_proxy = target->proxy_host.len > 0;
    strbuf_init(&link->request, HEAD_BYTES_MAX);
    strbuf_init(&link->upgrade, HEAD_BYTES_MAX);
    strbuf_init(&link->answer, HEAD_BYTES_MAX);
    enum error_code code = write_requests(link, target, err);
    if (!code) code = agent_tls_connection(tls, target->host, &link->wire, &link->ssl, err);
    if (code) {
        free_link(link);
        return code;
    }
    uv_prepare_init(loop, &link->prepare);
    uv_check_init(loop, &link->check);
    uv_timer_init(loop, &link->timer);
    link->prepare.data = link->check.data = link->timer.data = link->poll.data = link;
    link->handles = HANDLES - 1;
    uv_prepare_start(&link->prepare, on_prepare);
    uv_check_start(&link->check, on_check);
    uv_timer_start(&link->timer, on_open_timeout, AGENT_LINK_OPEN_TIMEOUT_MS, 0);
    link->dialer = agent_dialer_start(loop, link->through_proxy ? target->proxy_host : target->host,
                                      link->through_proxy ? target->proxy_port : target->port,
                                      AGENT_LINK_OPEN_TIMEOUT_MS, on_dialed, link);
    *out = link;
    return ERROR_NONE;
}

void agent_link_close(struct agent_link *link, uint16_t code, struct str reason)
{
    if (link->phase == PHASE_ENDED) return;
    link->muted = true;
    link->depth++;
    if (link->phase == PHASE_OPEN) {
        uint8_t mask[WS_FRAME_MASK_BYTES];
        link->control_len = 0;
        pump_write(link);
        if (link->phase == PHASE_OPEN && !byte_queue_len(&link->wire)) {
            uint8_t frame[WS_FRAME_CONTROL_BYTES_MAX + 6];
            ws_frame_masks_next(&link->masks, mask);
            size_t n = ws_frame_close(frame, code, reason, mask);
            ERR_clear_error();
            if (SSL_write(link->ssl, frame, (int)n) == (int)n) SSL_shutdown(link->ssl);
            flush_wire(link);
        }
    }
    shut(link);
    link->depth--;
    maybe_free(link);
}
