// upstream: one HTTP/1.1 exchange with a service in the cluster, streamed both ways: any length, both directions at
// once, 1xx, trailers, upgrade to WebSocket. The answer's head is read strictly (base/http1/http1.h); whatever is
// ambiguous ends the exchange and its connection. Owned by the call it serves until upstream_destroy(); one loop.
#ifndef CULVERT_AGENT_UPSTREAM_H
#define CULVERT_AGENT_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/calls/upstream_pool.h"
#include "base/error.h"
#include "base/http1/http1.h"
#include "base/str.h"

struct upstream;

enum upstream_mode {
    UPSTREAM_HTTP,
    UPSTREAM_WEBSOCKET, // GET with an upgrade; bytes both ways after 101, and none to the service without it
    UPSTREAM_RAW,       // no HTTP: bytes both ways once connected
};

struct upstream_request { // read during upstream_start() only
    struct str host;      // where to connect
    uint16_t port;
    bool tls;
    enum upstream_mode mode;
    struct str method, path;
    const struct http_header *headers; // neither hop-by-hop nor framing nor Host
    size_t header_count;
    bool has_body;
    int64_t content_length; // of the body; -1: not known, so it goes chunked
};

struct upstream_events { // from the loop, never inside upstream_start(); upstream_destroy() may be called in any
    void (*on_info)(void *arg, const struct http1_head *head); // 1xx
    // The head; views live for the call. 101 of a WebSocket has been checked; RAW gives 200 without headers.
    void (*on_head)(void *arg, const struct http1_head *head);
    // Part of the body. False: stop reading until upstream_resume().
    bool (*on_data)(void *arg, const char *at, size_t len);
    // The answer is complete. Of an upgraded connection: the service's half; on_fail may follow when it takes no more.
    void (*on_end)(void *arg, const struct http_header *trailers, size_t count);
    void (*on_room)(void *arg);
    // ERROR_UNAVAILABLE: could not connect; ERROR_PROTOCOL or ERROR_IO: it broke its protocol or closed early.
    void (*on_fail)(void *arg, const struct error *err);
};

// NULL with ERROR_INVALID when method or a header cannot be written.
struct upstream *upstream_start(struct upstream_pool *pool, const struct upstream_request *request,
                                const struct upstream_events *events, void *arg, struct error *err);
// Aborts what is not finished, at once. No event follows.
void upstream_destroy(struct upstream *upstream); // NULL is fine
// Body bytes. False: full, stop until on_room; the bytes were taken. Of a WebSocket before its head: on_fail.
bool upstream_write(struct upstream *upstream, const void *at, size_t len);
// The request body is complete; trailers go with a chunked one and are dropped otherwise.
void upstream_end(struct upstream *upstream, const struct http_header *trailers, size_t count);
void upstream_resume(struct upstream *upstream);

#endif
