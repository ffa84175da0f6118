#include "agent/calls/upstream_http2.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>

#include "agent/calls/upstream_http2_call.h"
#include "base/clock.h"
#include "base/http2/http2_session.h"
#include "base/mem.h"

// Connections: which one serves a call, and how bytes come and go on it. The calls are upstream_http2_call.c's.

enum { CONNECTION_WINDOW = 0x7fffffff, SETTINGS_MAX = 16, SWEEP_MS = 5000 };

// ---- end -------------------------------------------------------------------------------------------------------

static void forget(struct http2_connection *c)
{
    struct http2_connection **at = &c->owner->first;
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at) *at = c->next;
}

static void maybe_free(struct http2_connection *c)
{
    if (!c->dead || c->depth || c->calls) return;
    forget(c);
    nghttp2_session_del(c->h2);
    mem_free(c->host);
    mem_free(c);
}

// Every call of it fails. Those that the service has not begun are told so by nghttp2 (REFUSED_STREAM), when it says.
static void end_connection(struct http2_connection *c, const struct error *err)
{
    if (c->dead) return;
    c->dead = true;
    if (c->transport) upstream_connection_close(c->transport);
    c->transport = NULL;
    c->depth++;
    struct upstream_http2_call *next;
    for (struct upstream_http2_call *call = c->calls; call; call = next) {
        next = call->next;
        http2_call_fail(call, err);
    }
    c->depth--;
}

static void leave(struct http2_connection *c)
{
    c->depth--;
    maybe_free(c);
}

// ---- bytes -----------------------------------------------------------------------------------------------------

void http2_connection_send(struct http2_connection *c)
{
    const uint8_t *at;
    if (c->busy) return; // inside nghttp2: whoever called it sends when it is back
    c->depth++;
    c->busy = true;
    while (c->connected && !c->dead && !c->full) {
        ssize_t n = nghttp2_session_mem_send(c->h2, &at);
        struct str part = str_of((const char *)at, n > 0 ? (size_t)n : 0);
        if (n <= 0) break;
        c->full = !upstream_connection_write(c->transport, &part, 1);
    }
    c->busy = false;
    leave(c);
}

static void on_connected(void *arg)
{
    struct http2_connection *c = arg;
    c->connected = true;
    http2_connection_send(c);
}

static void on_read(void *arg, const char *at, size_t len)
{
    struct http2_connection *c = arg;
    c->depth++;
    c->busy = true;
    ssize_t n = nghttp2_session_mem_recv(c->h2, (const uint8_t *)at, len);
    c->busy = false;
    if (n < 0) {
        struct error err = {0};
        error_set(&err, ERROR_PROTOCOL, "%s:%u: %s", c->host, (unsigned)c->port, nghttp2_strerror((int)n));
        end_connection(c, &err);
    }
    http2_connection_send(c);
    if (!c->dead && !nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2)) {
        struct error err = {0};
        error_set(&err, ERROR_IO, "%s:%u: the connection was closed", c->host, (unsigned)c->port);
        end_connection(c, &err);
    }
    leave(c);
}

static void on_error(void *arg, const struct error *err)
{
    struct http2_connection *c = arg;
    c->depth++;
    end_connection(c, err);
    leave(c);
}

static void on_eof(void *arg)
{
    const struct http2_connection *c = arg;
    struct error err = {0};
    error_set(&err, ERROR_PROTOCOL, "%s:%u: closed the connection early", c->host, (unsigned)c->port);
    on_error(arg, &err);
}

static void on_room(void *arg)
{
    struct http2_connection *c = arg;
    c->full = false;
    http2_connection_send(c);
}

// ---- connections -----------------------------------------------------------------------------------------------

static nghttp2_session *create_session(struct http2_connection *c)
{
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, UPSTREAM_HTTP2_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP2_HEAD_BYTES_MAX},
    };
    return http2_session_create(&(struct http2_session_options){
        .set_callbacks = http2_call_set_callbacks,
        .arg = c,
        .settings_max = SETTINGS_MAX,
        .settings = entries,
        .setting_count = sizeof entries / sizeof *entries,
        .window_bytes = CONNECTION_WINDOW,
    });
}

static struct http2_connection *open_connection(struct upstream_http2 *http2, struct str host, uint16_t port)
{
    static const struct upstream_connection_events events = {
        .on_connected = on_connected,
        .on_read = on_read,
        .on_eof = on_eof,
        .on_room = on_room,
        .on_error = on_error,
    };
    struct http2_connection *c = mem_zalloc(sizeof(*c));
    bool reused;
    c->owner = http2;
    c->host = mem_strndup(host.at, host.len);
    c->port = port;
    c->h2 = create_session(c);
    c->next = http2->first;
    http2->first = c;
    c->transport = upstream_pool_take(http2->pool, host, port, false, 0, &events, c, &reused);
    if (!timer_is_active(&http2->sweep)) timer_start(&http2->sweep, SWEEP_MS, SWEEP_MS);
    return c;
}

static bool takes_calls(const struct http2_connection *c)
{
    return !c->dead && !c->going_away && c->call_count < UPSTREAM_HTTP2_CALLS_MAX;
}

// The least busy one; another when that one has as many streams as the service allows at once.
struct http2_connection *upstream_http2_choose(struct upstream_http2 *http2, struct str host, uint16_t port)
{
    struct http2_connection *best = NULL;
    unsigned count = 0;
    for (struct http2_connection *c = http2->first; c; c = c->next) {
        if (c->dead || c->port != port || !str_eq(str_c(c->host), host)) continue;
        count++;
        if (takes_calls(c) && (!best || c->call_count < best->call_count)) best = c;
    }
    uint32_t at_once =
        best ? nghttp2_session_get_remote_settings(best->h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) : 0;
    bool busy = best && best->connected && best->call_count >= at_once;
    if ((!best || busy) && count < UPSTREAM_HTTP2_CONNECTIONS_MAX) return open_connection(http2, host, port);
    return best;
}

static void on_sweep(void *arg)
{
    struct upstream_http2 *http2 = arg;
    uint64_t now = clock_mono_ms();
    struct error err = {0};
    struct http2_connection *next;
    error_set(&err, ERROR_IO, "idle");
    for (struct http2_connection *c = http2->first; c; c = next) {
        next = c->next;
        if (c->calls || (!c->going_away && now - c->idle_since_ms < UPSTREAM_HTTP2_IDLE_MS)) continue;
        on_error(c, &err);
    }
    if (!http2->first) timer_stop(&http2->sweep);
}

void http2_connection_call_gone(struct http2_connection *c)
{
    c->call_count--;
    c->idle_since_ms = clock_mono_ms();
    maybe_free(c);
}

// ---- life ------------------------------------------------------------------------------------------------------

struct upstream_http2 *upstream_http2_create(struct upstream_pool *pool)
{
    struct upstream_http2 *http2 = mem_zalloc(sizeof(*http2));
    http2->pool = pool;
    timer_init(&http2->sweep, upstream_pool_loop(pool), on_sweep, http2);
    return http2;
}

void upstream_http2_destroy(struct upstream_http2 *http2)
{
    struct error err = {0};
    if (!http2) return;
    error_set(&err, ERROR_CANCELLED, "the agent is shutting down");
    while (http2->first) {
        assert(!http2->first->calls);
        on_error(http2->first, &err);
    }
    timer_finish(&http2->sweep);
    mem_free(http2);
}
