#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/tunnel/connect_proxy.h"
#include "agent/tunnel/link_state.h"
#include "base/mem.h"
#include "base/parse.h"
#include "tunnel/wire/handshake.h"

// How a link opens: TCP, the proxy's CONNECT, TLS, the upgrade.

// What the platform answers to an upgrade that it refuses: the first line of its body, as far as it
// came with the head. For people.
static struct str refusal_of(const struct strbuf *answer, size_t head_bytes)
{
    enum { REASON_BYTES_MAX = 200 };
    struct str body = str_of(answer->at + head_bytes, answer->len - head_bytes);
    size_t len = 0;
    while (len < body.len && len < REASON_BYTES_MAX && body.at[len] >= ' ' && body.at[len] <= '~')
        len++;
    return str_first(body, len);
}

// Bytes of the upgrade's answer.
void agent_link_on_answer(struct agent_link *link, uint8_t *at, size_t len)
{
    struct ws_handshake_answer answer;
    struct error err = {0};
    size_t head_bytes;
    if (!strbuf_add(&link->answer, at, len)) {
        error_set(&err, ERROR_TOO_LARGE, "answer to the upgrade is too long");
        agent_link_end_error(link, &err);
        return;
    }
    enum error_code code = ws_handshake_read(link->answer.at, link->answer.len, str_c(link->key),
                                             STR(WIRE_TUNNEL_SUBPROTOCOL), &answer, &head_bytes, &err);
    if (code == ERROR_AGAIN) return;
    if (code) {
        agent_link_end_error(link, &err);
        return;
    }
    if (answer.status != 101) {
        struct agent_link_end why = {.status = answer.status, .retry_after_ms = answer.retry_after_ms};
        struct str reason = refusal_of(&link->answer, head_bytes);
        error_set(&why.error, ERROR_UNAVAILABLE, "the platform answered %d%s%.*s", answer.status,
                  reason.len ? ": " : "", STR_ARG(reason));
        agent_link_finish(link, &why);
        return;
    }
    const struct token_proof *proof = &link->proof;
    if (proof->is_wanted && !wire_proof_is_good(str_c(answer.proof), proof->key, proof->binding)) {
        error_set(&err, ERROR_UNAUTHENTICATED,
                  "the platform did not prove that it knows the runtime token: it is another platform, or an "
                  "intermediary terminates TLS (platform.sealed_token)");
        agent_link_end_error(link, &err);
        return;
    }
    size_t rest = link->answer.len - head_bytes; // of at..len: the head was incomplete before
    agent_link_opened(link);
    agent_link_decode(link, at + len - rest, rest);
}

// What the platform needs to create the runtime.
static enum error_code say_enrollment(struct agent_link *link, struct error *err)
{
    struct token_proof *proof = &link->proof;
    struct token token;
    uint8_t hash[ID_SHA256_BYTES];
    char sealed[TOKEN_TEXT_BYTES], hex[ID_SHA256_HEX_BYTES];
    enum error_code code = token_parse(str_c(proof->enrollment), &token, err);
    if (code == ERROR_NONE) code = wire_proof_seal(str_c(proof->enrollment), proof->binding, sealed, err);
    explicit_bzero(proof->enrollment, sizeof(proof->enrollment));
    if (code) return code;
    memcpy(hash, proof->key, sizeof(hash));
    wire_proof_cover(hash, token.secret_sha256, proof->binding);
    format_hex(hash, sizeof(hash), hex);
    code = ws_handshake_add(&link->request, STR(WIRE_HEADER_ENROLLMENT), str_c(sealed), err);
    return code ? code : ws_handshake_add(&link->request, STR(WIRE_HEADER_ENROLLMENT_HASH), str_c(hex), err);
}

// The token's place in the request, now that there is something to seal it with.
static enum error_code say_token(struct agent_link *link, struct error *err)
{
    struct token_proof *proof = &link->proof;
    char sealed[TOKEN_TEXT_BYTES], value[TOKEN_TEXT_BYTES + 8];
    if (!wire_proof_bind(link->tls.ssl, proof->binding))
        return error_set(err, ERROR_PROTOCOL,
                         "the platform offers a TLS version with which the token cannot be sealed");
    enum error_code code = wire_proof_seal(str_c(proof->token), proof->binding, sealed, err);
    explicit_bzero(proof->token, sizeof(proof->token));
    if (code) return code;
    snprintf(value, sizeof(value), "Culvert %s", sealed);
    code = ws_handshake_add(&link->request, STR("Authorization"), str_c(value), err);
    return code || !proof->enrollment[0] ? code : say_enrollment(link, err);
}

static void pump_tls(struct agent_link *link)
{
    link->reads_left = READS_A_TURN;
    enum tls_result result = tls_connection_handshake(&link->tls);
    while (result == TLS_AGAIN && agent_link_fill(link))
        result = tls_connection_handshake(&link->tls);
    if (result != TLS_OK) {
        agent_link_tls_stopped(link, result);
        return;
    }
    struct error err = {0};
    if (agent_tls_established(&link->tls, &err) || (link->proof.token[0] && say_token(link, &err))) {
        agent_link_end_error(link, &err);
        return;
    }
    if (!tls_connection_write(&link->tls, link->request.at, link->request.len)) {
        agent_link_tls_stopped(link, TLS_FAILED);
        return;
    }
    link->phase = PHASE_UPGRADE;
    agent_link_flush(link);
    agent_link_read(link);
}

static void start_tls(struct agent_link *link)
{
    if (link->request.at) explicit_bzero(link->request.at, link->request.cap); // the proxy's credential
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
    agent_link_end_error(link, &err);
}

static void pump_proxy_answer(struct agent_link *link)
{
    struct error err = {0};
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
    enum error_code code = connect_proxy_answer(link->answer.at, link->answer.len, &err);
    if (code == ERROR_AGAIN) return;
    if (code) {
        agent_link_end_error(link, &err);
        return;
    }
    strbuf_clear(&link->answer);
    start_tls(link);
}

static void pump_proxy(struct agent_link *link)
{
    while (link->request_sent < link->request.len) {
        ssize_t n =
            send(link->fd, link->request.at + link->request_sent, link->request.len - link->request_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            agent_link_want(link, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (n < 0) {
            proxy_failed(link, strerror(errno));
            return;
        }
        link->request_sent += (size_t)n;
    }
    agent_link_want(link, UV_READABLE);
    pump_proxy_answer(link);
}

void agent_link_open_step(struct agent_link *link)
{
    if (link->phase == PHASE_PROXY) {
        pump_proxy(link);
    } else if (link->phase == PHASE_TLS) {
        pump_tls(link);
    } else if (link->phase == PHASE_UPGRADE) {
        agent_link_flush(link);
        agent_link_read(link);
    }
}

static void on_dialed(void *arg, int fd, const struct error *err)
{
    struct agent_link *link = arg;
    int bytes = NOTSENT_BYTES;
    link->dialer = NULL;
    if (fd < 0) {
        agent_link_end_error(link, err);
        return;
    }
    link->depth++;
    link->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
    uv_poll_init(link->loop, &link->poll, fd);
    link->has_poll = true;
    link->handles++;
    agent_link_want(link, UV_READABLE);
    if (link->through_proxy) {
        link->phase = PHASE_PROXY;
        pump_proxy(link);
    } else {
        start_tls(link);
    }
    link->depth--;
    agent_link_maybe_free(link);
}

static void on_open_timeout(uv_timer_t *timer)
{
    static const char *const phase_names[] = {"connecting", "the proxy", "the TLS handshake", "the upgrade", "", ""};
    struct agent_link *link = timer->data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, "timed out in %s", phase_names[link->phase]);
    agent_link_end_error(link, &err);
}

static enum error_code take_token(struct agent_link *link, struct str text, struct str enrollment, struct error *err)
{
    struct token token;
    enum error_code code = enrollment.len ? token_parse(enrollment, &token, err) : ERROR_NONE;
    if (!code) code = token_parse(text, &token, err);
    if (code) return code;
    snprintf(link->proof.enrollment, sizeof(link->proof.enrollment), "%.*s", STR_ARG(enrollment));
    memcpy(link->proof.token, text.at, text.len);
    memcpy(link->proof.key, token.secret_sha256, sizeof(link->proof.key));
    link->proof.is_wanted = true;
    return ERROR_NONE;
}

static enum error_code write_requests(struct agent_link *link, const struct agent_link_target *target,
                                      struct error *err)
{
    char host[300];
    bool v6 = str_has_byte(target->host, ':');
    int n = snprintf(host, sizeof(host), v6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(target->host), (unsigned)target->port);
    if (n < 0 || (size_t)n >= sizeof(host)) return error_set(err, ERROR_INVALID, "platform host name is too long");
    struct str authority = str_of(host, (size_t)n);
    if (link->through_proxy) {
        enum error_code code = connect_proxy_request(authority, target->proxy_credential, &link->request, err);
        if (code) return code;
    }
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
    if (!code && target->sealed_token.len)
        code = take_token(link, target->sealed_token, target->sealed_enrollment, err);
    if (!code) code = agent_tls_connect(tls, target->host, &link->wire_out, &link->tls, err);
    if (code) {
        agent_link_free(link);
        return code;
    }
    uv_prepare_init(loop, &link->prepare);
    uv_check_init(loop, &link->check);
    uv_timer_init(loop, &link->timer);
    link->prepare.data = link->check.data = link->timer.data = link->poll.data = link;
    link->handles = HANDLES - 1;
    uv_prepare_start(&link->prepare, agent_link_on_prepare);
    uv_check_start(&link->check, agent_link_on_check);
    uv_timer_start(&link->timer, on_open_timeout, AGENT_LINK_OPEN_TIMEOUT_MS, 0);
    link->dialer = agent_dialer_start(loop, link->through_proxy ? target->proxy_host : target->host,
                                      link->through_proxy ? target->proxy_port : target->port,
                                      AGENT_LINK_OPEN_TIMEOUT_MS, on_dialed, link);
    *out = link;
    return ERROR_NONE;
}
