#include "agent/calls/upstream_tls.h"

#include "base/mem.h"

enum error_code upstream_tls_start(struct upstream_connection *c, struct error *err)
{
    if (!c->pool->tls) return error_set(err, ERROR_UNAVAILABLE, "%s: TLS to services is not configured", c->host);
    enum error_code code = agent_tls_connect(c->pool->tls, str_c(c->host), &c->out, &c->tls, err);
    if (code) return error_set(err, ERROR_UNAVAILABLE, "%s: TLS cannot be started", c->host);
    c->tls.end_is_notified = true; // an answer that ends with the connection may be cut short
    return ERROR_NONE;
}

void upstream_tls_free(struct upstream_connection *c)
{
    agent_tls_connection_finish(&c->tls);
    mem_free(c->wire_in);
    byte_queue_finish(&c->plain);
}

bool upstream_tls_has_input(const struct upstream_connection *c)
{
    return c->tls.ssl && tls_connection_has_input(&c->tls);
}

static void stopped(struct upstream_connection *c, enum tls_result result)
{
    struct error reason = {0}, err = {0};
    bool is_shaking = c->state == UPSTREAM_CONNECTION_SHAKING;
    if (byte_queue_len(&c->out)) upstream_connection_mark_dirty(c);
    if (result == TLS_AGAIN || c->state == UPSTREAM_CONNECTION_CLOSED) return;
    if (result == TLS_END) {
        upstream_connection_pause(c);
        c->read_ended = true;
        if (c->state == UPSTREAM_CONNECTION_IDLE)
            upstream_connection_close(c);
        else if (c->state == UPSTREAM_CONNECTION_OPEN)
            c->events.on_eof(c->arg);
        return;
    }
    agent_tls_error(&c->tls, &reason);
    error_set(&err, is_shaking ? ERROR_UNAVAILABLE : ERROR_IO, "%s:%u: %s", c->host, (unsigned)c->port, reason.text);
    upstream_connection_fail(c, &err);
}

static bool shake_hands(struct upstream_connection *c)
{
    struct error err = {0};
    enum tls_result result = tls_connection_handshake(&c->tls);
    if (result != TLS_OK) {
        stopped(c, result);
        return false;
    }
    if (agent_tls_established(&c->tls, &err)) {
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
    enum tls_result result = TLS_OK;
    if (c->state == UPSTREAM_CONNECTION_DIALING || c->state == UPSTREAM_CONNECTION_CLOSED) return;
    if (c->state == UPSTREAM_CONNECTION_SHAKING && !shake_hands(c)) return;
    while (result == TLS_OK && c->reading && c->state != UPSTREAM_CONNECTION_CLOSED) {
        size_t len;
        result = tls_connection_read(&c->tls, c->pool->buffer, sizeof(c->pool->buffer), &len);
        if (len == 0) continue;
        if (c->state == UPSTREAM_CONNECTION_IDLE)
            upstream_connection_close(c);
        else if (c->state == UPSTREAM_CONNECTION_OPEN)
            c->events.on_read(c->arg, c->pool->buffer, len);
    }
    // What comes behind the bytes waits for an exchange that reads.
    if (result != TLS_OK && c->reading && c->state != UPSTREAM_CONNECTION_CLOSED)
        stopped(c, result);
    else if (byte_queue_len(&c->out))
        upstream_connection_mark_dirty(c);
}

void upstream_tls_seal(struct upstream_connection *c)
{
    if (!c->tls.ssl || c->state == UPSTREAM_CONNECTION_SHAKING) return;
    size_t len = byte_queue_len(&c->plain);
    // The queue takes everything; of a connection that broke reading reports the error.
    if (len && !tls_connection_write(&c->tls, byte_queue_front(&c->plain), len))
        upstream_connection_set_sending(c, UPSTREAM_SENDING_FAILED);
    byte_queue_finish(&c->plain);
    if (c->sending != UPSTREAM_SENDING_ENDING) return;
    upstream_connection_set_sending(c, UPSTREAM_SENDING_NOTIFIED);
    tls_connection_end(&c->tls);
}
