#include "tunnel/listener/ws.h"

#include <assert.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "tunnel/listener/ws_listener.h"

enum {
    CLOSE_MS = 3000,                   // from tunnel_ws_close() to the peer's Close frame
    LINGER_MS = 2000,                  // for the peer to read the last message
    UNCONFIRMED_BYTES_MAX = 64 * 1024, // then the kernel is asked whether it has room (TCP_NOTSENT_LOWAT)
    // An empty, masked control frame in a record of TLS 1.3 (RFC 8446 section 5.2, 16 bytes of
    // tag). A frame of HTTP/2 has 9 bytes more, so all of them wake.
    WORD_BYTES = 5 + (2 + 4) + 1 + 16,
    CACHE_LINE_BYTES = 64,
    UNREAD_MAX = 512, // with more than that in the kernel, the next byte wakes
};

static void wake(struct tunnel_ws *ws)
{
    turn_add(&ws->server->turn, &ws->turn_item);
}

void ws_drop(struct tunnel_ws *ws)
{
    if (ws->state == WS_DEAD) return;
    ws->state = WS_DEAD;
    uv_poll_stop(&ws->poll);
    wake(ws);
}

static void on_poll(uv_poll_t *poll, int status, int events);

void ws_watch(struct tunnel_ws *ws)
{
    if (ws->state == WS_DEAD) return;
    bool blocked = byte_queue_len(&ws->pipe.unsent) > 0;
    int wanted = UV_READABLE | (blocked || ws->wants_room ? UV_WRITABLE : 0);
    if (wanted == ws->polled) return;
    ws->polled = wanted;
    if (uv_poll_start(&ws->poll, wanted, on_poll) != 0) ws_drop(ws);
}

// ---- the end -------------------------------------------------------------------------------------------------

static void finish(struct tunnel_ws *ws)
{
    struct tunnel_ws_server *server = ws->server;
    ws_unlink(ws);
    server->connections--;
    ws_end_handshake(ws);
    uv_close((uv_handle_t *)&ws->poll, ws_on_handle_closed);
    tls_pipe_finish(&ws->pipe);
    strbuf_finish(&ws->head);
    byte_queue_finish(&ws->control);
    if (!server->destroyed) server->options.on_room(server->options.ctx);
}

static void write_turn(struct tunnel_ws *ws);

void ws_on_turn(struct turn_item *item)
{
    struct tunnel_ws *ws = (struct tunnel_ws *)((char *)item - offsetof(struct tunnel_ws, turn_item));
    if (ws->user && (ws->state == WS_LINGER || ws->state == WS_DEAD)) {
        void *user = ws->user;
        ws->user = NULL;
        ws->server->options.on_closed(user);
    }
    if (ws->state == WS_DEAD)
        finish(ws);
    else
        write_turn(ws);
}

void ws_linger(struct tunnel_ws *ws)
{
    if (ws->state == WS_LINGER || ws->state == WS_DEAD) return;
    if (ws->state != WS_TLS) tls_pipe_write_end(&ws->pipe);
    ws->state = WS_LINGER;
    ws->shut_wanted = true;
    ws->wants_room = false;
    ws_set_deadline(ws, LINGER_MS);
    if (ws->user) wake(ws);
}

// ---- writing -------------------------------------------------------------------------------------------------

// What was encrypted leaves, or waits for the socket.
static void flush(struct tunnel_ws *ws)
{
    if (ws->server->pool.leaving.len) ws->said_ms = clock_mono_ms();
    enum tls_result result = tls_pipe_flush(&ws->pipe);
    if (ws->state == WS_DEAD) return;
    if (result == TLS_FAILED) {
        ws_drop(ws);
        return;
    }
    if (result == TLS_OK && ws->shut_wanted && !ws->shut) {
        ws->shut = true;
        (void)shutdown(ws->pipe.fd, SHUT_WR);
    }
    ws_watch(ws);
}

// Takes what there is to send, up to a message.
static size_t gather(struct tunnel_ws *ws, uint8_t *out)
{
    size_t used = 0;
    ws->writing = true;
    while (ws->user && TUNNEL_WS_WRITE_BYTES - used >= TUNNEL_WS_ROOM_BYTES) {
        size_t len = ws->server->options.on_writable(ws->user, out + used, TUNNEL_WS_WRITE_BYTES - used);
        assert(len <= TUNNEL_WS_WRITE_BYTES - used);
        if (len == 0) break;
        used += len;
    }
    ws->writing = false;
    return used;
}

static bool write_message(struct tunnel_ws *ws, uint8_t *payload, size_t len)
{
    uint8_t header[WS_FRAME_HEADER_BYTES_MAX];
    size_t header_len = ws_frame_header(header, WS_FRAME_BINARY, len, NULL);
    memcpy(payload - header_len, header, header_len);
    return tls_pipe_write(&ws->pipe, payload - header_len, header_len + len);
}

static bool write_control(struct tunnel_ws *ws)
{
    size_t len = byte_queue_len(&ws->control);
    if (len == 0) return true;
    bool ok = tls_pipe_write(&ws->pipe, byte_queue_front(&ws->control), len);
    byte_queue_finish(&ws->control);
    return ok;
}

static bool write_close(struct tunnel_ws *ws, uint16_t status)
{
    uint8_t frame[2 + WS_FRAME_CONTROL_BYTES_MAX + WS_FRAME_MASK_BYTES];
    size_t len = status == WS_FRAME_CLOSE_NONE ? ws_frame_control(frame, WS_FRAME_CLOSE, NULL, 0, NULL)
                                               : ws_frame_close(frame, status, STR_EMPTY, NULL);
    return tls_pipe_write(&ws->pipe, frame, len);
}

// One message, one SSL_write, one write() a turn. While the socket takes no more, nothing is made.
static void write_turn(struct tunnel_ws *ws)
{
    if (ws->state != WS_OPEN || byte_queue_len(&ws->pipe.unsent)) return;
    uint8_t *payload = ws->server->message + WS_FRAME_HEADER_BYTES_MAX;
    bool ok = write_control(ws);
    size_t used = gather(ws, payload);
    if (ws->state != WS_OPEN) {
        flush(ws); // the shared buffer must not keep what was encrypted
        return;
    }
    bool more = TUNNEL_WS_WRITE_BYTES - used < TUNNEL_WS_ROOM_BYTES;
    if (used) ok = ok && write_message(ws, payload, used);
    if (ws->closing && !more) {
        ok = ok && write_close(ws, ws->close_status);
        ws->state = WS_CLOSING;
    }
    ws->unconfirmed += used;
    ws->wants_room = ws->state == WS_OPEN && (more || ws->unconfirmed >= UNCONFIRMED_BYTES_MAX);
    if (!ok) ws_drop(ws);
    flush(ws);
}

static void on_socket_writable(struct tunnel_ws *ws)
{
    ws->unconfirmed = 0;
    ws->wants_room = false;
    if (byte_queue_len(&ws->pipe.unsent)) flush(ws);
    write_turn(ws);
    ws_watch(ws);
}

void ws_send_pending(struct tunnel_ws *ws)
{
    write_turn(ws);
    flush(ws);
}

void tunnel_ws_want_write(struct tunnel_ws *ws)
{
    // Inside on_writable it is asked again anyway, and so it is when the socket has room.
    if (ws->state == WS_OPEN && !ws->writing && !(ws->polled & UV_WRITABLE)) wake(ws);
}

void tunnel_ws_speak_first(struct tunnel_ws *ws)
{
    ws->speaks_first = true;
}

void tunnel_ws_close(struct tunnel_ws *ws, uint16_t status, bool now)
{
    if (now) {
        ws_drop(ws);
        return;
    }
    if (ws->closing || ws->state != WS_OPEN) return;
    ws->closing = true;
    ws->close_status = status;
    ws_set_deadline(ws, CLOSE_MS); // should the socket never become writable, or the peer never answer
    wake(ws);
}

// ---- reading -------------------------------------------------------------------------------------------------

// RFC 6455 section 7.1.7: the peer gets the reason, and that is all.
static void fail(struct tunnel_ws *ws, uint16_t status, const char *why)
{
    log_debug("tunnel", "websocket_failed", log_c("remote", ws->remote), log_int("status", status), log_c("why", why));
    if (ws->state == WS_OPEN) (void)write_close(ws, status);
    ws_linger(ws);
}

// Any byte is life, a ping as well.
static void tell_alive(struct tunnel_ws *ws, const struct ws_frame_event *event)
{
    if (ws->user && ws->state == WS_OPEN && !ws->closing) ws->server->options.on_bytes(ws->user, event->at, 0);
}

static void wake_at(struct tunnel_ws *ws, int bytes)
{
    if (ws->wake_at == bytes) return;
    ws->wake_at = bytes;
    tls_pipe_wake_at(&ws->pipe, bytes);
}

// Thousands of idle peers send a keepalive each ten seconds; waking for each is most of what they
// cost. So a peer that sends keepalives is read when more than a keepalive is there that was not
// there at the last look. Only an empty Ping would be delayed by that, and such a peer does not
// send it. The first keepalive is answered by one, so that the peer knows that it will get more of
// them, and need not ask.
static void take_word(struct tunnel_ws *ws)
{
    uint8_t frame[2 + WS_FRAME_CONTROL_BYTES_MAX + WS_FRAME_MASK_BYTES];
    if (ws->says_words) return;
    if (ws->state == WS_OPEN &&
        byte_queue_add(&ws->control, frame, ws_frame_control(frame, WS_FRAME_PONG, NULL, 0, NULL)))
        wake(ws);
    ws->says_words = true;
}

static void take_frame(struct tunnel_ws *ws, const struct ws_frame_event *event)
{
    uint8_t frame[2 + WS_FRAME_CONTROL_BYTES_MAX + WS_FRAME_MASK_BYTES];
    switch (event->type) {
    case WS_FRAME_EVENT_DATA:
        if (ws->user && ws->state == WS_OPEN && !ws->closing)
            ws->server->options.on_bytes(ws->user, event->at, event->len);
        break;
    case WS_FRAME_EVENT_PING:
        // Section 5.5.3: of many pings the last may stand for all; here the first that fit.
        if (ws->state != WS_OPEN) break;
        if (byte_queue_add(&ws->control, frame, ws_frame_control(frame, WS_FRAME_PONG, event->at, event->len, NULL)))
            wake(ws);
        tell_alive(ws, event);
        break;
    case WS_FRAME_EVENT_PONG:
        if (event->len == 0) take_word(ws);
        tell_alive(ws, event);
        break;
    case WS_FRAME_EVENT_CLOSE:
        if (ws->state == WS_OPEN) (void)(write_control(ws) && write_close(ws, event->close_code));
        ws_linger(ws);
        break;
    default: break;
    }
}

static void take_frames(struct tunnel_ws *ws, uint8_t *at, size_t len)
{
    while (len && (ws->state == WS_OPEN || ws->state == WS_CLOSING)) {
        struct ws_frame_event event;
        struct error err;
        size_t used = 0;
        if (ws_frame_decode(&ws->decoder, at, len, &used, &event, &err)) {
            fail(ws, ws->decoder.fail_code, err.text);
            return;
        }
        at += used;
        len -= used;
        take_frame(ws, &event);
    }
}

static bool is_listening(const struct tunnel_ws *ws)
{
    return ws->state != WS_LINGER && ws->state != WS_DEAD;
}

static void on_end(struct tunnel_ws *ws)
{
    if (ws->state == WS_TLS || ws->state == WS_HEAD)
        ws_opening_fail(ws, "closed");
    else
        ws_drop(ws);
}

static void decrypt(struct tunnel_ws *ws)
{
    enum tls_result result = TLS_OK;
    while (result == TLS_OK && is_listening(ws)) {
        size_t len = 0;
        result = tls_pipe_read(&ws->pipe, ws->server->plain, WS_PLAIN_BYTES, &len);
        if (len && ws->state == WS_HEAD)
            ws_opening_take(ws, ws->server->plain, len);
        else if (len)
            take_frames(ws, ws->server->plain, len);
    }
    if ((result == TLS_END || result == TLS_FAILED) && is_listening(ws)) {
        (void)tls_pipe_flush(&ws->pipe); // an alert with the reason
        on_end(ws);
    }
}

// Nothing is left in the kernel that a word could join. But what has begun to come may end with
// fewer bytes than a word has, wherever the network cut it.
static void wait_for_more(struct tunnel_ws *ws)
{
    bool whole = ws_frame_decoder_is_between(&ws->decoder) && !tls_connection_in_record(&ws->pipe.tls);
    wake_at(ws, whole ? WORD_BYTES + 1 : 1);
}

static void on_socket_readable(struct tunnel_ws *ws)
{
    const uint8_t *at;
    size_t len;
    if (ws->speaks_first && ws->turn_item.link) write_turn(ws);
    if (ws->state == WS_DEAD) return;
    enum tls_result result = tls_pipe_fill(&ws->pipe, &at, &len);
    if (result == TLS_AGAIN) return;
    if (result != TLS_OK) {
        on_end(ws);
        return;
    }
    bool ready = ws->state != WS_TLS || ws_opening_handshake(ws, at, len);
    if (ready) decrypt(ws);
    if (ws->says_words && ws->state == WS_OPEN) wait_for_more(ws);
    tls_pipe_forget(&ws->pipe); // what is left is of no interest any more
    flush(ws);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct tunnel_ws *ws = poll->data;
    if (status < 0) {
        on_end(ws);
        return;
    }
    if (events & UV_READABLE) on_socket_readable(ws);
    if ((events & UV_WRITABLE) && ws->state != WS_DEAD) on_socket_writable(ws);
}

// ---- the owner's ---------------------------------------------------------------------------------------------

void tunnel_ws_set_user(struct tunnel_ws *ws, void *user)
{
    ws->user = user;
}

const char *tunnel_ws_remote(const struct tunnel_ws *ws)
{
    return ws->remote;
}

bool tunnel_ws_silent_ms(struct tunnel_ws *ws, uint64_t *out_ms)
{
    uint64_t unread = 0;
    if (ws->state == WS_DEAD || !tls_pipe_look(&ws->pipe, out_ms, &unread)) return false;
    bool words = ws->says_words && unread && unread <= UNREAD_MAX && unread % WORD_BYTES == 0;
    if (words) wake_at(ws, (int)unread + WORD_BYTES + 1);
    return true;
}

void tunnel_ws_fetch(const struct tunnel_ws *ws)
{
    const char *at = (const char *)ws;
    __builtin_prefetch(at);
    __builtin_prefetch(at + CACHE_LINE_BYTES);
    __builtin_prefetch(at + 2 * CACHE_LINE_BYTES);
}

bool tunnel_ws_says_words(const struct tunnel_ws *ws, uint64_t *out_said_ms)
{
    *out_said_ms = ws->said_ms;
    return ws->says_words && ws->state == WS_OPEN && !ws->closing;
}

void tunnel_ws_say_word(struct tunnel_ws *ws)
{
    uint8_t frame[2 + WS_FRAME_CONTROL_BYTES_MAX + WS_FRAME_MASK_BYTES];
    if (ws->state != WS_OPEN || ws->closing || byte_queue_len(&ws->pipe.unsent)) return;
    if (!tls_pipe_write(&ws->pipe, frame, ws_frame_control(frame, WS_FRAME_PONG, NULL, 0, NULL))) ws_drop(ws);
    flush(ws);
}

void tunnel_ws_hear_words(struct tunnel_ws *ws)
{
    if (ws->says_words && ws->state == WS_OPEN) on_socket_readable(ws);
}
