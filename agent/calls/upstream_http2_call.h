// upstream_http2_call: what upstream_http2.c (connections) and upstream_http2_call.c (calls) share, the inside of
// upstream_http2.h. Nobody else includes this.
#ifndef CULVERT_AGENT_UPSTREAM_HTTP2_CALL_H
#define CULVERT_AGENT_UPSTREAM_HTTP2_CALL_H

#include <nghttp2/nghttp2.h>

#include "agent/calls/upstream_http2.h"
#include "base/arena.h"
#include "base/loop/byte_queue.h"
#include "base/loop/timer.h"

enum { HTTP2_HEAD_BYTES_MAX = 64 * 1024, HTTP2_BODY_QUEUE_BYTES = 64 * 1024 };

struct http2_connection {
    struct upstream_http2 *owner;
    struct http2_connection *next;
    struct upstream_connection *transport; // NULL once it is closed
    nghttp2_session *h2;
    char *host;
    uint16_t port;
    struct upstream_http2_call *calls;
    unsigned call_count;
    uint64_t idle_since_ms;
    unsigned depth; // inside our own functions: memory stays
    bool busy;      // inside nghttp2, which must not be entered twice
    bool connected, full, going_away, dead;
};

struct upstream_http2 {
    struct upstream_pool *pool;
    struct http2_connection *first;
    struct timer sweep;
};

struct upstream_http2_call {
    struct http2_connection *connection;
    struct upstream_http2_call *next, *prev;
    int32_t id;
    struct upstream_events events;
    void *arg;
    struct arena *arena; // the head that is arriving, then the trailers
    struct http1_head head;
    size_t head_bytes;
    bool answered, over; // over: the last event was given, or nobody wants one
    struct byte_queue body;
    bool body_ended, deferred, full, closed;
    nghttp2_nv *trailers;
    size_t trailer_count;
    bool paused;
    size_t withheld; // bytes that were given and not credited yet
    unsigned depth;
    bool destroyed;
};

// ---- upstream_http2.c
void http2_connection_send(struct http2_connection *connection); // may free it
void http2_connection_call_gone(struct http2_connection *connection);
struct http2_connection *upstream_http2_choose(struct upstream_http2 *http2, struct str host, uint16_t port);

// ---- upstream_http2_call.c
void http2_call_set_callbacks(nghttp2_session_callbacks *callbacks);
void http2_call_fail(struct upstream_http2_call *call, const struct error *err); // may free it

#endif
