#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/tunnel/life.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/swarm.h"
#include "tunnel/wire/handshake.h"

enum {
    OPEN_TIMEOUT_MS = 15000,
    HELLO_TIMEOUT_MS = 15000,
    // What agent/tunnel/life.c waits before it asks beside a word.
    SOON_MS = 3000,
    SOON_WITH_WORDS_MS = 500,
    PLAIN_BYTES_MAX = 1024 * 1024,
};

static void watch(struct swarm_link *link, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    epoll_ctl(link->swarm->epoll, operation, link->fd, &event);
}

static void want_out(struct swarm_link *link, bool wanted)
{
    if (link->wants_out == wanted || link->stalled) return;
    link->wants_out = wanted;
    watch(link, EPOLL_CTL_MOD, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// ---- ends --------------------------------------------------------------------------------------------------------

void swarm_link_end(struct swarm_link *link, const struct swarm_end *end)
{
    if (link->fd < 0) return;
    close(link->fd);
    link->fd = -1;
    *link->link = link->next;
    if (link->next) link->next->link = link->link;
    link->swarm->link_count--;
    link->next = link->swarm->ended; // events of this turn may still name it
    link->swarm->ended = link;
    if (end) swarm_agent_on_end(link->agent, link, end);
}

void swarm_link_free(struct swarm_link *link)
{
    // A connection that is freed without a shutdown takes the ticket it brought with it; an agent wants to keep that.
    if (link->ssl) SSL_set_shutdown(link->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(link->ssl);
    strbuf_finish(&link->answer);
    strbuf_finish(&link->plain);
    strbuf_finish(&link->out);
    swarm_http2_finish(&link->http2);
    mem_free(link);
}

static void fail(struct swarm_link *link)
{
    swarm_link_end(link, &(struct swarm_end){.retry_after_ms = -1});
}

// ---- writing -----------------------------------------------------------------------------------------------------

// False: the link has ended.
static bool tls_stopped(struct swarm_link *link, int rc)
{
    int why = SSL_get_error(link->ssl, rc);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        want_out(link, why == SSL_ERROR_WANT_WRITE);
        return true;
    }
    fail(link);
    return false;
}

static void add_frame(struct swarm_link *link, enum ws_frame_opcode opcode, const void *at, size_t len)
{
    uint8_t head[WS_FRAME_HEADER_BYTES_MAX], mask[WS_FRAME_MASK_BYTES];
    ws_frame_masks_next(&link->swarm->masks, mask);
    strbuf_add(&link->out, head, ws_frame_header(head, opcode, len, mask));
    size_t begin = link->out.len;
    if (strbuf_add(&link->out, at, len)) ws_frame_apply_mask((uint8_t *)link->out.at + begin, len, mask, 0);
}

void swarm_link_flush(struct swarm_link *link)
{
    if (link->fd < 0 || link->phase < SWARM_IN_HELLO || link->stalled) return;
    if (link->plain.len) {
        add_frame(link, WS_FRAME_BINARY, link->plain.at, link->plain.len);
        strbuf_finish(&link->plain);
        strbuf_init(&link->plain, PLAIN_BYTES_MAX);
    }
    while (link->out.len) {
        int n = SSL_write(link->ssl, link->out.at, (int)link->out.len);
        if (n <= 0) {
            tls_stopped(link, n);
            return;
        }
        strbuf_drop_front(&link->out, (size_t)n);
    }
    strbuf_shrink(&link->out);
    want_out(link, false);
}

// ---- reading -----------------------------------------------------------------------------------------------------

static bool take_event(struct swarm_link *link, const struct ws_frame_event *event)
{
    switch (event->type) {
    case WS_FRAME_EVENT_DATA:
        if (swarm_http2_feed(link, event->at, event->len)) return true;
        swarm_count(link->swarm, SWARM_PROTOCOL_ERRORS);
        return false;
    case WS_FRAME_EVENT_PING: add_frame(link, WS_FRAME_PONG, event->at, event->len); return true;
    case WS_FRAME_EVENT_PONG:
        if (event->len == 0) link->hears_words = true;
        return true;
    case WS_FRAME_EVENT_CLOSE: return false;
    default: return true;
    }
}

static void take_bytes(struct swarm_link *link, uint8_t *at, size_t len)
{
    link->received_at_ms = clock_mono_ms();
    while (len && link->fd >= 0) {
        struct ws_frame_event event;
        size_t used = 0;
        if (ws_frame_decode(&link->decoder, at, len, &used, &event, NULL) != ERROR_NONE) {
            swarm_count(link->swarm, SWARM_PROTOCOL_ERRORS);
            fail(link);
            return;
        }
        if (event.type != WS_FRAME_EVENT_NONE && !take_event(link, &event)) {
            fail(link);
            return;
        }
        if (event.type == WS_FRAME_EVENT_NONE && used == 0) break;
        at += used;
        len -= used;
    }
}

static void ping(struct swarm_link *link)
{
    link->pinged_at_ms = link->said_at_ms = clock_mono_ms();
    add_frame(link, WS_FRAME_PING, &link->pinged_at_ms, sizeof(link->pinged_at_ms));
}

static void count_refusal(struct swarm *swarm, int status)
{
    switch (status) {
    case 401: swarm_count(swarm, SWARM_REFUSED_401); break;
    case 403: swarm_count(swarm, SWARM_REFUSED_403); break;
    case 429: swarm_count(swarm, SWARM_REFUSED_429); break;
    case 503: swarm_count(swarm, SWARM_REFUSED_503); break;
    default: swarm_count(swarm, SWARM_REFUSED_OTHER);
    }
}

static void take_answer(struct swarm_link *link, uint8_t *at, size_t len)
{
    struct ws_handshake_answer answer;
    size_t head_bytes = 0;
    if (!strbuf_add(&link->answer, at, len)) {
        fail(link);
        return;
    }
    enum error_code code = ws_handshake_read(link->answer.at, link->answer.len, str_c(link->key),
                                             STR(WIRE_TUNNEL_SUBPROTOCOL), &answer, &head_bytes, NULL);
    if (code == ERROR_AGAIN) return;
    if (code != ERROR_NONE) {
        fail(link);
        return;
    }
    if (answer.status != 101) {
        count_refusal(link->swarm, answer.status);
        swarm_link_end(link, &(struct swarm_end){.status = answer.status, .retry_after_ms = answer.retry_after_ms});
        return;
    }
    size_t rest = link->answer.len - head_bytes; // the head was incomplete before
    strbuf_finish(&link->answer);
    swarm_count(link->swarm, SWARM_UPGRADED);
    link->phase = SWARM_IN_HELLO;
    link->deadline_ms = clock_mono_ms() + HELLO_TIMEOUT_MS;
    swarm_http2_start(link);
    ping(link); // the agent's first round-trip time
    take_bytes(link, at + len - rest, rest);
}

static void read_all(struct swarm_link *link)
{
    while (link->fd >= 0 && !link->stalled) {
        int n = SSL_read(link->ssl, link->swarm->buffer, sizeof(link->swarm->buffer));
        if (n <= 0) {
            if (!tls_stopped(link, n)) return;
            break;
        }
        if (link->phase == SWARM_IN_UPGRADE)
            take_answer(link, link->swarm->buffer, (size_t)n);
        else
            take_bytes(link, link->swarm->buffer, (size_t)n);
    }
    swarm_link_flush(link);
}

int swarm_link_on_tls_session(SSL *ssl, SSL_SESSION *session)
{
    struct swarm_link *link = SSL_get_app_data(ssl);
    SSL_SESSION_free(link->agent->tls_session);
    link->agent->tls_session = session;
    return 1; // the reference is ours
}

// ---- opening -----------------------------------------------------------------------------------------------------

static void send_upgrade(struct swarm_link *link)
{
    struct swarm_agent *agent = link->agent;
    struct strbuf request;
    char authorization[TOKEN_TEXT_BYTES + 8];
    snprintf(authorization, sizeof(authorization), "Bearer %s", agent->token_text);
    const struct http_header headers[] = {
        {STR("Authorization"), str_c(authorization)},
        {STR(WIRE_HEADER_RUNTIME), str_c(agent->runtime)},
        {STR(WIRE_HEADER_INSTANCE_ID), str_c(agent->instance_id)},
        {STR(WIRE_HEADER_BOOT_ID), str_c(link->boot_id)},
        {STR(WIRE_HEADER_AGENT_VERSION), STR(CULVERT_VERSION)},
        {STR("User-Agent"), STR("culvert-agent/" CULVERT_VERSION)},
    };
    const struct ws_handshake_request upgrade = {.host = str_c(link->swarm->host),
                                                 .path = STR(WIRE_TUNNEL_PATH),
                                                 .subprotocol = STR(WIRE_TUNNEL_SUBPROTOCOL),
                                                 .headers = headers,
                                                 .header_count = sizeof(headers) / sizeof(headers[0])};
    strbuf_init(&request, 4096);
    ws_handshake_key(link->key);
    bool sent = ws_handshake_write(&upgrade, str_c(link->key), &request, NULL) == ERROR_NONE &&
                SSL_write(link->ssl, request.at, (int)request.len) == (int)request.len;
    strbuf_finish(&request);
    if (!sent) {
        fail(link);
        return;
    }
    link->phase = SWARM_IN_UPGRADE;
    want_out(link, false);
    read_all(link);
}

static void go_on_with_tls(struct swarm_link *link)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(link->ssl);
    if (rc != 1) {
        tls_stopped(link, rc);
        return;
    }
    swarm_count(link->swarm, SWARM_TLS);
    if (SSL_session_reused(link->ssl)) swarm_count(link->swarm, SWARM_TLS_RESUMED);
    send_upgrade(link);
}

static void on_connected(struct swarm_link *link)
{
    int failure = 0;
    socklen_t len = sizeof(failure);
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failure, &len);
    link->ssl = failure ? NULL : SSL_new(link->swarm->tls);
    if (!link->ssl || !SSL_set_fd(link->ssl, link->fd) || !SSL_set1_host(link->ssl, link->swarm->name) ||
        !SSL_set_tlsext_host_name(link->ssl, link->swarm->name)) {
        fail(link);
        return;
    }
    SSL_set_app_data(link->ssl, link);
    SSL_set_connect_state(link->ssl);
    if (link->agent->tls_session) SSL_set_session(link->ssl, link->agent->tls_session);
    link->phase = SWARM_IN_TLS;
    go_on_with_tls(link);
}

void swarm_link_on_events(struct swarm_link *link, uint32_t events)
{
    if (link->fd < 0 || link->stalled) return;
    switch (link->phase) {
    case SWARM_CONNECTING: on_connected(link); return;
    case SWARM_IN_TLS: go_on_with_tls(link); return;
    default: break;
    }
    if (events & ~(uint32_t)EPOLLOUT)
        read_all(link);
    else
        swarm_link_flush(link);
}

// A socket from the next source address: one address has not enough ports.
static int open_socket(struct swarm *swarm)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes)); // the port is chosen with the destination
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr = htonl(0x7f000000u + swarm->first_source + swarm->next_source++ % swarm->source_count);
    bool ok = bind(fd, (struct sockaddr *)&source, sizeof(source)) == 0 &&
              (connect(fd, (struct sockaddr *)&swarm->platform, sizeof(swarm->platform)) == 0 || errno == EINPROGRESS);
    if (ok) return fd;
    close(fd);
    return -1;
}

struct swarm_link *swarm_link_dial(struct swarm_agent *agent)
{
    struct swarm *swarm = agent->swarm;
    swarm_count(swarm, SWARM_DIALS);
    int fd = open_socket(swarm);
    if (fd < 0) {
        swarm_count(swarm, SWARM_FAILED_CONNECT);
        return NULL;
    }
    struct swarm_link *link = mem_zalloc(sizeof(*link));
    link->swarm = swarm;
    link->agent = agent;
    link->fd = fd;
    link->deadline_ms = clock_mono_ms() + OPEN_TIMEOUT_MS;
    id_uuid7(link->boot_id);
    strbuf_init(&link->answer, WS_HANDSHAKE_ANSWER_BYTES_MAX);
    strbuf_init(&link->plain, PLAIN_BYTES_MAX);
    strbuf_init(&link->out, 2 * PLAIN_BYTES_MAX);
    ws_frame_decoder_init(&link->decoder, false);
    swarm_http2_init(&link->http2);
    link->next = swarm->links;
    link->link = &swarm->links;
    if (link->next) link->next->link = &link->next;
    swarm->links = link;
    swarm->link_count++;
    link->wants_out = true;
    watch(link, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
    return link;
}

// ---- time --------------------------------------------------------------------------------------------------------

void swarm_link_stall(struct swarm_link *link, bool stalled)
{
    if (link->stalled == stalled) return;
    link->stalled = stalled;
    // Hang-ups are always told: a stalled link must not be in the set at all.
    if (stalled)
        epoll_ctl(link->swarm->epoll, EPOLL_CTL_DEL, link->fd, NULL);
    else
        watch(link, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
    link->wants_out = !stalled;
}

void swarm_link_tick(struct swarm_link *link, uint64_t now_ms)
{
    if (link->stalled) return;
    if (link->phase < SWARM_SERVING || link->phase == SWARM_RETIRING) {
        if (now_ms >= link->deadline_ms) fail(link);
        return;
    }
    uint64_t silent_ms = now_ms - link->received_at_ms;
    bool asked = link->pinged_at_ms > link->received_at_ms;
    if (asked && now_ms - link->pinged_at_ms >= AGENT_LIFE_DEAD_AFTER_MS) {
        fail(link);
        return;
    }
    bool say = now_ms - link->said_at_ms >= AGENT_LIFE_SAY_AFTER_MS;
    uint64_t soon_ms = link->hears_words ? SOON_WITH_WORDS_MS : SOON_MS;
    bool measure = say && now_ms - link->pinged_at_ms >= AGENT_LIFE_MEASURE_AFTER_MS;
    if (!asked && (measure || silent_ms + (say ? soon_ms : 0) >= AGENT_LIFE_ASK_AFTER_MS)) {
        ping(link);
        swarm_link_flush(link);
    } else if (say) {
        link->said_at_ms = now_ms;
        add_frame(link, WS_FRAME_PONG, NULL, 0);
        swarm_link_flush(link);
    }
    swarm_http2_tick(link, now_ms);
}
