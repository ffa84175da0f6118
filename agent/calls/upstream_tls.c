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
    if (why == SSL_ERROR_WANT_READ || c->closed) return;
    if (why == SSL_ERROR_ZERO_RETURN && c->established) {
        upstream_connection_pause(c);
        c->read_ended = true;
        if (c->idle)
            upstream_connection_close(c);
        else if (!c->lingers)
            c->events.on_eof(c->arg);
        return;
    }
    agent_tls_error(c->ssl, why, &reason);
    error_set(&err, c->established ? ERROR_IO : ERROR_UNAVAILABLE, "%s:%u: %s", c->host, (unsigned)c->port,
              reason.text);
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
    upstream_connection_shaken(c);
    c->established = true;
    upstream_connection_mark_dirty(c); // what waited for it
    if (!c->idle && !c->lingers) c->events.on_connected(c->arg);
    return !c->closed;
}

void upstream_tls_pump(struct upstream_connection *c)
{
    char *plain = c->pool->buffer;
    if (c->closed || !c->has_tcp || (!c->established && !shake_hands(c))) return;
    while (c->reading && !c->closed) {
        ERR_clear_error();
        errno = 0;
        int n = SSL_read(c->ssl, plain, sizeof(c->pool->buffer));
        if (n <= 0) {
            stopped(c, n);
            return;
        }
        if (c->idle)
            upstream_connection_close(c);
        else if (!c->lingers)
            c->events.on_read(c->arg, plain, (size_t)n);
    }
}

void upstream_tls_seal(struct upstream_connection *c)
{
    if (!c->ssl || !c->established) return;
    ERR_clear_error();
    size_t len = byte_queue_len(&c->plain);
    // The pipe takes everything; a connection that broke tells it on the reading side.
    if (len && SSL_write(c->ssl, byte_queue_front(&c->plain), (int)len) <= 0) c->write_failed = true;
    byte_queue_finish(&c->plain);
    if (!c->end_wanted || c->notified) return;
    c->notified = true;
    SSL_shutdown(c->ssl);
}
