// From an accepted socket to 101 or a refusal.
#include <openssl/crypto.h>
#include <stdio.h>

#include "base/http1/http1.h"
#include "base/log/log.h"
#include "tunnel/listener/ws_listener.h"

enum { TLS_RECORD_HANDSHAKE = 22 }; // first byte of every TLS connection (RFC 8446 section 5.1)

static void forget_request(struct tunnel_ws *ws)
{
    if (ws->head.at) OPENSSL_cleanse(ws->head.at, ws->head.cap); // the runtime's token is in it
    strbuf_finish(&ws->head);
}

void ws_opening_fail(struct tunnel_ws *ws, const char *why)
{
    ws->server->options.on_handshake_failed(ws->server->options.ctx, why);
    forget_request(ws);
    ws_drop(ws);
}

void ws_opening_refuse(struct tunnel_ws *ws, int status, unsigned retry_after_s, const struct error *err)
{
    struct strbuf answer;
    log_limited(LOG_INFO, "tunnel", "handshake_refused", str_c(err->text), STR_EMPTY, log_c("remote", ws->remote),
                log_int("status", status), log_err(err));
    strbuf_init(&answer, UPGRADE_ANSWER_BYTES_MAX);
    tunnel_upgrade_answer(status, retry_after_s, err, &answer);
    forget_request(ws);
    if (ws->state == WS_TLS)
        tls_pipe_write_plain(&ws->pipe, answer.at, answer.len);
    else
        (void)tls_pipe_write(&ws->pipe, answer.at, answer.len); // the end comes in any case
    strbuf_finish(&answer);
    ws_linger(ws);
}

// The gate was not asked.
static void refuse_early(struct tunnel_ws *ws, int status, const struct error *err)
{
    char why[16];
    snprintf(why, sizeof(why), "%d", status);
    ws->server->options.on_handshake_failed(ws->server->options.ctx, why);
    ws_opening_refuse(ws, status, 0, err);
}

bool ws_opening_handshake(struct tunnel_ws *ws, const uint8_t *at, size_t len)
{
    struct error err = {0};
    if (!SSL_in_before(ws->pipe.tls.ssl) || at[0] == TLS_RECORD_HANDSHAKE) {
        enum tls_result result = tls_pipe_handshake(&ws->pipe, &err);
        if (result == TLS_OK) ws->state = WS_HEAD;
        if (result != TLS_FAILED) return result == TLS_OK;
        log_debug("tunnel", "tls_refused", log_c("remote", ws->remote), log_err(&err));
        ws->server->options.on_handshake_failed(ws->server->options.ctx, "tls");
        ws_linger(ws); // behind the alert
        return false;
    }
    // The client forgot the s of https: a plain-text answer helps more than an alert.
    bool is_http = len > 0 && at[0] >= 'A' && at[0] <= 'z';
    (void)error_set(&err, ERROR_INVALID, "TLS is required");
    if (is_http)
        refuse_early(ws, 400, &err);
    else
        ws_opening_fail(ws, "tls");
    return false;
}

static void open_tunnel(struct tunnel_ws *ws, struct str key, const struct tunnel_ws_admission *admission)
{
    struct strbuf answer;
    strbuf_init(&answer, UPGRADE_ANSWER_BYTES_MAX);
    tunnel_upgrade_accept(key, str_c(admission->proof), &answer);
    bool written = tls_pipe_write(&ws->pipe, answer.at, answer.len);
    strbuf_finish(&answer);
    forget_request(ws);
    ws->state = WS_OPEN;
    ws_frame_decoder_init(&ws->decoder, true);
    ws->decoder.binary_only = true; // the pipe carries bytes
    ws_opened(ws);
    ws->server->options.on_open(ws->server->options.ctx, admission->user, ws);
    if (!written) ws_drop(ws);
}

void ws_opening_take(struct tunnel_ws *ws, const uint8_t *at, size_t len)
{
    const struct tunnel_ws_options *options = &ws->server->options;
    struct tunnel_upgrade upgrade;
    struct error err = {0};
    enum error_code code = ERROR_TOO_LARGE;
    size_t before = ws->head.len;
    bool fits = strbuf_add(&ws->head, at, len);
    // A head that comes in drops is not parsed at each of them.
    if (fits && !http1_head_is_due(ws->head.at, ws->head.len, before, WS_HEAD_BYTES_MAX)) return;
    if (fits)
        code = tunnel_upgrade_parse(ws->head.at, ws->head.len, WS_HEAD_BYTES_MAX, &upgrade, &err);
    else
        (void)error_set(&err, code, "the request's head is over %d bytes", WS_HEAD_BYTES_MAX);
    if (code == ERROR_AGAIN) return;
    if (code) {
        refuse_early(ws, code == ERROR_TOO_LARGE ? 431 : 400, &err);
        return;
    }
    struct tunnel_ws_admission admission = {0};
    uint8_t binding[WIRE_BINDING_BYTES];
    upgrade.remote = ws->remote;
    upgrade.binding = wire_proof_bind(ws->pipe.tls.ssl, binding) ? binding : NULL;
    int status = options->on_upgrade(options->ctx, &upgrade, &admission, &err);
    if (status == 101)
        open_tunnel(ws, upgrade.websocket_key, &admission);
    else
        ws_opening_refuse(ws, status, admission.retry_after_s, &err);
}

void ws_opening_expire(struct tunnel_ws *ws)
{
    struct error err;
    if (ws->state == WS_HEAD) {
        (void)error_set(&err, ERROR_TIMEOUT, "the request did not arrive in time");
        refuse_early(ws, 408, &err);
        ws_send_pending(ws);
    } else {
        ws_opening_fail(ws, "timeout");
    }
}
