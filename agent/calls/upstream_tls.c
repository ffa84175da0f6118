#include "agent/calls/upstream_tls.h"

#include <errno.h>
#include <openssl/err.h>

#include "base/mem.h"

enum error_code upstream_tls_start(struct upstream_connection *c, struct error *err)
{
    if (!c->pool->tls) return error_set(err, ERROR_UNAVAILABLE, "%s: TLS to services is not configured", c->host);
    enum error_code code = agent_tls_connection(c->pool->tls, str_c(c->host), &c->pipe, &c->ssl, err);
    if (code) return error_set(err, ERROR_UNAVAILABLE, "%s: TLS cannot be started", c->host);
    SSL_clear_options(c->ssl, SSL_OP_IGNORE_UNEXPECTED_EOF); // an answer that ends with the connection may be cut short
    return ERROR_NONE;
}

void upstream_tls_free(struct upstream_connection *c)
{
    agent_tls_connection_free(c->ssl);
    byte_queue_finish(&c->plain);
}

bool upstream_tls_has_input(const struct upstream_connection *c)
{
    return c->ssl && (c->pipe.in_at < c->pipe.in_len || c->pipe.eof || SSL_pending(c->ssl) > 0);
}

static void stopped(struct upstream_connection *c, int rc)
{
    struct error reason = {0}, err = {0};
    int why = SSL_get_error(c->ssl, rc);
    if (byte_queue_len(&c->pipe.out)) upstream_connection_mark_dirty(c);
    if (why == SSL_ERROR_WANT_READ || c->state == UPSTREAM_CONNECTION_CLOSED) return;
    if (why == SSL_ERROR_ZERO_RETURN && c->state != UPSTREAM_CONNECTION_SHAKING) {
        upstream_connection_pause(c);
        c->read_ended = true;
        if (c->state == UPSTREAM_CONNECTION_IDLE)
            upstream_connection_close(c);
        else if (c->state == UPSTREAM_CONNECTION_OPEN)
            c->events.on_eof(c->arg);
        return;
    }
    agent_tls_error(c->ssl, why, &reason);
    bool is_shaking = c->state == UPSTREAM_CONNECTION_SHAKING;
    error_set(&err, is_shaking ? ERROR_UNAVAILABLE : ERROR_IO, "%s:%u: %s", c->host, (unsigned)c->port, reason.text);
    upstream_connection_fail(c, &err);
}

static bool shake_hands(struct upstream_connection *c)
{
    struct error err = {0};
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(c->ssl);
    if (rc != 1) {
        stopped(c, rc);
        return false;
    }
    if (agent_tls_established(c->ssl, &err)) {
        upstream_connection_fail(c, &err);
        return false;
    }
    upstream_connection_set_state(c, UPSTREAM_CONNECTION_OPEN);
    upstream_connection_mark_dirty(c); // what waited for it
    c->events.on_connected(c->arg);
    return c->state != UPSTREAM_CONNECTION_CLOSED;
}

void upstream_tls_pump(struct upstream_connection *c)
{
    char *plain = c->pool->buffer;
    if (c->state == UPSTREAM_CONNECTION_DIALING || c->state == UPSTREAM_CONNECTION_CLOSED) return;
    if (c->state == UPSTREAM_CONNECTION_SHAKING && !shake_hands(c)) return;
    while (c->reading && c->state != UPSTREAM_CONNECTION_CLOSED) {
        ERR_clear_error();
        errno = 0;
        int n = SSL_read(c->ssl, plain, sizeof(c->pool->buffer));
        if (n <= 0) {
            stopped(c, n);
            return;
        }
        if (c->state == UPSTREAM_CONNECTION_IDLE)
            upstream_connection_close(c);
        else if (c->state == UPSTREAM_CONNECTION_OPEN)
            c->events.on_read(c->arg, plain, (size_t)n);
    }
}

void upstream_tls_seal(struct upstream_connection *c)
{
    if (!c->ssl || c->state == UPSTREAM_CONNECTION_SHAKING) return;
    ERR_clear_error();
    size_t len = byte_queue_len(&c->plain);
    // The pipe takes everything; of a connection that broke reading reports the error.
    if (len && SSL_write(c->ssl, byte_queue_front(&c->plain), (int)len) <= 0)
        upstream_connection_set_sending(c, UPSTREAM_SENDING_FAILED);
    byte_queue_finish(&c->plain);
    if (c->sending != UPSTREAM_SENDING_ENDING) return;
    upstream_connection_set_sending(c, UPSTREAM_SENDING_NOTIFIED);
    SSL_shutdown(c->ssl);
}
