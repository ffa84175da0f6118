#include "agent/tunnel/link_state.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

// ---- end -------------------------------------------------------------------------------------------------------

void agent_link_free(struct agent_link *link)
{
    agent_tls_connection_finish(&link->tls);
    byte_queue_finish(&link->wire_out);
    mem_free(link->wire_in);
    strbuf_finish(&link->request);
    strbuf_finish(&link->answer);
    strbuf_finish(&link->upgrade);
    explicit_bzero(&link->proof, sizeof(link->proof));
    mem_free(link->out);
    mem_free(link);
}

void agent_link_maybe_free(struct agent_link *link)
{
    if (link->phase == PHASE_ENDED && !link->handles && !link->depth) agent_link_free(link);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct agent_link *link = handle->data;
    link->handles--;
    agent_link_maybe_free(link);
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
    byte_queue_finish(&link->wire_out);
    // The request holds the credential.
    if (link->request.at) explicit_bzero(link->request.at, link->request.cap);
    if (link->upgrade.at) explicit_bzero(link->upgrade.at, link->upgrade.cap);
}

void agent_link_finish(struct agent_link *link, const struct agent_link_end *why)
{
    if (link->phase == PHASE_ENDED) return;
    shut(link);
    if (!link->muted) link->events.on_end(link->arg, why);
}

void agent_link_end_error(struct agent_link *link, const struct error *err)
{
    struct agent_link_end why = {.retry_after_ms = -1, .error = *err};
    agent_link_finish(link, &why);
}

// ---- socket ------------------------------------------------------------------------------------------------------

void agent_link_want(struct agent_link *link, int events)
{
    if (link->phase == PHASE_ENDED || link->poll_events == events) return;
    link->poll_events = events;
    uv_poll_start(&link->poll, events, agent_link_on_poll);
}

// Gives what TLS wrote to the socket. False: it does not take all now (the poll will go on), or it
// failed.
bool agent_link_flush(struct agent_link *link)
{
    struct byte_queue *wire = &link->wire_out;
    while (link->phase != PHASE_ENDED && byte_queue_len(wire)) {
        ssize_t n = send(link->fd, byte_queue_front(wire), byte_queue_len(wire), MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            agent_link_want(link, UV_READABLE | UV_WRITABLE);
            return false;
        }
        if (n < 0) {
            struct error err = {0};
            error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(errno));
            agent_link_end_error(link, &err);
            return false;
        }
        link->sent_bytes += (uint64_t)n;
        agent_life_said(&link->life, clock_mono_ms());
        if ((size_t)n < byte_queue_len(wire))
            byte_queue_drop(wire, (size_t)n);
        else
            byte_queue_clear(wire); // the next message needs the memory again
    }
    if (link->phase == PHASE_ENDED) return false;
    if (link->phase != PHASE_OPEN) agent_link_want(link, UV_READABLE); // later it is pump_write() that stops waiting
    return true;
}

// A short read has emptied the socket: no second call only to get EAGAIN.
bool agent_link_fill(struct agent_link *link)
{
    if (link->reads_left == 0 || link->tls.input_ended) return false;
    link->reads_left--;
    if (!link->wire_in) link->wire_in = mem_alloc(WIRE_READ_BYTES);
    ssize_t n = recv(link->fd, link->wire_in, WIRE_READ_BYTES, 0);
    if (n < WIRE_READ_BYTES) link->reads_left = 0;
    if (n > 0) tls_connection_feed(&link->tls, link->wire_in, (size_t)n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) link->read_errno = errno;
    link->tls.input_ended = n == 0 || link->read_errno;
    return n > 0 || link->tls.input_ended;
}

// After a call that did not succeed: waiting for input is fine, all else ends the link.
void agent_link_tls_stopped(struct agent_link *link, enum tls_result result)
{
    struct error err = {0};
    agent_link_flush(link); // handshake messages, alerts
    if (result == TLS_AGAIN || link->phase == PHASE_ENDED) return;
    if (link->read_errno)
        error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(link->read_errno));
    else
        agent_tls_error(&link->tls, &err);
    agent_link_end_error(link, &err);
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

// One message into TLS: control frames, header, payload in a row, the header ending where the
// payload begins. Returns the payload's length in *out_len; false: nothing was due, or the link has
// ended.
static bool write_message(struct agent_link *link, size_t *out_len)
{
    uint8_t mask[WS_FRAME_MASK_BYTES];
    uint8_t *payload = link->out + CONTROL_BYTES_MAX + WS_FRAME_HEADER_BYTES_MAX, *start = payload;
    size_t len = link->events.on_fill(link->arg, payload, AGENT_LINK_FILL_BYTES);
    *out_len = len;
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
    // The queue takes everything: only a broken connection stops it.
    bool written = tls_connection_write(&link->tls, start, (size_t)(payload + len - start));
    if (!written) agent_link_tls_stopped(link, TLS_FAILED);
    return written;
}

// After a big message the kernel is asked for room (TCP_NOTSENT_LOWAT) before the next is made:
// what is decided late can still be the more urgent thing.
static void pump_write(struct agent_link *link)
{
    bool more = false;
    size_t len;
    link->dirty = false;
    if (link->phase != PHASE_OPEN || !agent_link_flush(link)) return;
    while (!more && write_message(link, &len)) {
        if (!agent_link_flush(link)) return;
        more = len >= AGENT_LINK_FILL_BYTES / 2;
    }
    agent_link_want(link, more ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void flush_dirty(struct agent_link *link)
{
    if (!link->dirty || link->phase != PHASE_OPEN) return;
    if (link->poll_events & UV_WRITABLE) return; // the poll will call
    link->depth++;
    pump_write(link);
    link->depth--;
    agent_link_maybe_free(link);
}

// Before the loop sleeps, and after it handled what woke it: whatever became due in this turn
// leaves together.
void agent_link_on_prepare(uv_prepare_t *prepare)
{
    flush_dirty(prepare->data);
}

void agent_link_on_check(uv_check_t *check)
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
    if (event->len == 0) agent_life_heard_word(&link->life);
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
    agent_link_end_error(link, &err);
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
        agent_link_end_error(link, &err);
        break;
    case WS_FRAME_EVENT_PING: add_control(link, WS_FRAME_PONG, event->at, event->len); break;
    case WS_FRAME_EVENT_PONG: on_pong(link, event); break;
    case WS_FRAME_EVENT_CLOSE: on_peer_close(link, event); break;
    case WS_FRAME_EVENT_NONE: break;
    }
}

void agent_link_decode(struct agent_link *link, uint8_t *at, size_t len)
{
    while (len && link->phase == PHASE_OPEN) {
        struct ws_frame_event event;
        struct error err = {0};
        size_t used;
        if (ws_frame_decode(&link->decoder, at, len, &used, &event, &err)) {
            agent_link_end_error(link, &err);
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

void agent_link_opened(struct agent_link *link)
{
    link->phase = PHASE_OPEN;
    strbuf_finish(&link->answer);
    explicit_bzero(link->request.at, link->request.cap);
    strbuf_finish(&link->request);
    link->out = mem_alloc(OUT_BYTES);
    ws_frame_decoder_init(&link->decoder, false);
    ws_frame_masks_init(&link->masks);
    agent_life_init(&link->life, clock_mono_ms());
    agent_life_asked(&link->life, clock_mono_ms());
    send_ping(link); // the first round-trip time
    uv_timer_start(&link->timer, on_liveness, AGENT_LIFE_DEAD_AFTER_MS, 0);
    link->events.on_open(link->arg);
    link->dirty = true;
}

// Plain text of as many records as fit. False: there is no more now, or the link has ended.
static bool read_records(struct agent_link *link, size_t *out_len)
{
    size_t len = 0;
    enum tls_result result = TLS_OK;
    while (result == TLS_OK && len < sizeof(link->in)) {
        size_t got;
        result = tls_connection_read(&link->tls, link->in + len, sizeof(link->in) - len, &got);
        len += got;
        if (result == TLS_AGAIN && agent_link_fill(link)) result = TLS_OK;
    }
    *out_len = len;
    if (result == TLS_OK) return true;
    if (!len)
        agent_link_tls_stopped(link, result);
    else if (byte_queue_len(&link->wire_out))
        link->dirty = true;     // TLS's own messages
    return result != TLS_AGAIN; // an end comes again, behind what was sent before it
}

void agent_link_read(struct agent_link *link)
{
    bool more = true;
    link->reads_left = READS_A_TURN;
    while (more && (link->phase == PHASE_OPEN || link->phase == PHASE_UPGRADE)) {
        size_t len;
        more = read_records(link, &len);
        if (!len) continue;
        agent_life_heard(&link->life, clock_mono_ms());
        if (link->phase == PHASE_OPEN)
            agent_link_decode(link, link->in, len);
        else if (link->phase == PHASE_UPGRADE)
            agent_link_on_answer(link, link->in, len);
    }
}

static struct agent_life_socket look_at_socket(const struct agent_link *link)
{
    int waiting = 0, unsent = 0; // not acknowledged; of them, not even sent
    bool known = ioctl(link->fd, SIOCOUTQ, &waiting) == 0 && ioctl(link->fd, SIOCOUTQNSD, &unsent) == 0;
    return (struct agent_life_socket){
        .sent_bytes = link->sent_bytes,
        .taken_bytes = link->sent_bytes - (known ? (uint64_t)waiting : 0),
        .backlog = unsent > 0 || byte_queue_len(&link->wire_out) || (link->poll_events & UV_WRITABLE),
    };
}

static void give_up(struct agent_link *link, const char *why, uint64_t since_ms)
{
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, "the platform %s for %llu ms", why,
              (unsigned long long)(clock_mono_ms() - since_ms));
    agent_link_end_error(link, &err);
}

static void check_life(struct agent_link *link)
{
    struct agent_life_socket socket = look_at_socket(link);
    uint64_t now_ms = clock_mono_ms(), next_ms = now_ms;
    switch (agent_life_look(&link->life, &socket, now_ms, &next_ms)) {
    case AGENT_LIFE_SILENT: give_up(link, "was silent", link->life.in_ms); return;
    case AGENT_LIFE_CUT: give_up(link, "acknowledged nothing", link->life.out_ms); return;
    case AGENT_LIFE_ASK: send_ping(link); break;
    case AGENT_LIFE_SAY: add_control(link, WS_FRAME_PONG, NULL, 0); break;
    case AGENT_LIFE_WAIT: break;
    }
    uv_timer_start(&link->timer, on_liveness, next_ms - now_ms, 0);
}

// What waits in the socket counts first: it may be this process that stood still.
static void on_liveness(uv_timer_t *timer)
{
    struct agent_link *link = timer->data;
    link->depth++;
    agent_link_read(link);
    if (link->phase == PHASE_OPEN) check_life(link);
    link->depth--;
    agent_link_maybe_free(link);
}

// ---- poll --------------------------------------------------------------------------------------------------------

void agent_link_on_poll(uv_poll_t *poll, int status, int events)
{
    struct agent_link *link = poll->data;
    struct error err = {0};
    link->depth++;
    if (status < 0) { // libuv reports EBADF for every failed socket: the socket itself knows why
        int error = 0;
        socklen_t len = sizeof(error);
        if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || !error) error = -status;
        error_set(&err, ERROR_IO, "connection to the platform: %s", strerror(error));
        agent_link_end_error(link, &err);
    }
    if (link->phase == PHASE_OPEN) {
        if (events & UV_READABLE) agent_link_read(link);
        if (events & UV_WRITABLE) pump_write(link);
    } else {
        agent_link_open_step(link);
    }
    link->depth--;
    agent_link_maybe_free(link);
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
        if (link->phase == PHASE_OPEN && !byte_queue_len(&link->wire_out)) {
            uint8_t frame[WS_FRAME_CONTROL_BYTES_MAX + 6];
            ws_frame_masks_next(&link->masks, mask);
            size_t n = ws_frame_close(frame, code, reason, mask);
            if (tls_connection_write(&link->tls, frame, n)) tls_connection_end(&link->tls);
            agent_link_flush(link);
        }
    }
    shut(link);
    link->depth--;
    agent_link_maybe_free(link);
}
