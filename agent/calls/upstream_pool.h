// upstream_pool: connections to services in the cluster: opens them, keeps idle ones for a while, hands them out again.
// A connection moves bytes and knows nothing of HTTP. One loop.
#ifndef CULVERT_AGENT_UPSTREAM_POOL_H
#define CULVERT_AGENT_UPSTREAM_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/str.h"

struct agent_tls;
struct upstream_pool;
struct upstream_connection;

enum {
    UPSTREAM_POOL_IDLE_MAX = 256, // all services
    UPSTREAM_POOL_IDLE_PER_SERVICE = 64,
    UPSTREAM_POOL_IDLE_MS = 15000, // below the idle limit of most servers; early closes are noticed
    UPSTREAM_CONNECTION_PARTS_MAX = 4,
    UPSTREAM_CONNECTION_QUEUE_BYTES = 64 * 1024, // upstream_connection_write() says "full" from here on
};

// tls: for https services, outlives the pool; NULL: there are none. connect_timeout_ms is for TCP and once more for
// TLS.
struct upstream_pool *upstream_pool_create(uv_loop_t *loop, uint64_t connect_timeout_ms, struct agent_tls *tls);
void upstream_pool_destroy(struct upstream_pool *pool); // connections that are in use live on; NULL is fine

// All from the loop, never inside the calls below.
struct upstream_connection_events {
    void (*on_connected)(void *arg);                        // a fresh one only
    void (*on_read)(void *arg, const char *at, size_t len); // lives for the call
    void (*on_eof)(void *arg);
    void (*on_room)(void *arg);                           // the queue is empty after it was full
    void (*on_error)(void *arg, const struct error *err); // ERROR_UNAVAILABLE: could not connect
};

// A connection to host:port: one that is idle for at most idle_ms_max (*out_reused), or else a new one that is being
// dialed; writes wait for it. idle_ms_max 0: a new one.
struct upstream_connection *upstream_pool_take(struct upstream_pool *pool, struct str host, uint16_t port, bool tls,
                                               uint64_t idle_ms_max, const struct upstream_connection_events *events,
                                               void *arg, bool *out_reused);
// The exchange is complete and the other end keeps the connection open.
void upstream_pool_give(struct upstream_pool *pool, struct upstream_connection *connection);
uv_loop_t *upstream_pool_loop(const struct upstream_pool *pool);
unsigned upstream_pool_idle_count(const struct upstream_pool *pool);

// Copies; what a turn of the loop wrote leaves together at its end. False: the queue is full, stop until on_room;
// the bytes were taken. After the other end stopped reading bytes are dropped: what it answered is still to be read.
bool upstream_connection_write(struct upstream_connection *connection, const struct str *parts, size_t count);
void upstream_connection_end(struct upstream_connection *connection); // half-close when the queue is empty
void upstream_connection_pause(struct upstream_connection *connection);
void upstream_connection_resume(struct upstream_connection *connection);
// Closes at once (the kernel sends what it holds); no event follows. May be called inside an event.
void upstream_connection_close(struct upstream_connection *connection);
// Closes when what was written has left, within a few seconds; no event follows. May be called inside an event.
void upstream_connection_finish(struct upstream_connection *connection);

#endif
