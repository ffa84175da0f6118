// upstream_connection: what upstream_connection.c (one connection), upstream_tls.c and upstream_pool.c
// (all of them) share, the inside of upstream_pool.h. Private to these three.
//
//   DIALING --connected, https--> SHAKING --handshake done--> OPEN
//   DIALING --connected, http--> OPEN
//   OPEN --given back--> IDLE --taken--> OPEN
//   OPEN --finished with bytes to send--> LINGERING
//   any state --closed by its exchange, error, time-out--> CLOSED, freed in a later turn
//
// Writes are gathered: they queue up, and once the loop's turn has handled what woke it each
// connection sends what it has in one system call. An upload that arrives as many frames leaves as
// few writes.
#ifndef CULVERT_AGENT_UPSTREAM_CONNECTION_H
#define CULVERT_AGENT_UPSTREAM_CONNECTION_H

#include "agent/calls/upstream_pool.h"
#include "agent/tunnel/dialer.h"
#include "agent/tunnel/tls.h"
#include "base/loop/timer.h"

enum {
    UPSTREAM_READ_BYTES = 4 * 16320, // what one message of the tunnel takes (AGENT_STREAM_FRAME_BYTES)
    UPSTREAM_TLS_READ_BYTES = 32 * 1024,
    UPSTREAM_SPARES_MAX = 16,
    UPSTREAM_SPARE_BYTES_MAX = 256 * 1024,
    UPSTREAM_LINGER_MS = 10000,
};

enum upstream_connection_state {
    UPSTREAM_CONNECTION_DIALING,
    UPSTREAM_CONNECTION_SHAKING,   // connected, in the TLS handshake; in pool->shaking
    UPSTREAM_CONNECTION_OPEN,      // an exchange uses it
    UPSTREAM_CONNECTION_IDLE,      // in pool->idle
    UPSTREAM_CONNECTION_LINGERING, // without an exchange, sends what is queued; in pool->lingering
    UPSTREAM_CONNECTION_CLOSED,
};

// Our direction. OPEN -> ENDING -> NOTIFIED (https) -> ENDED; any of them -> FAILED.
enum upstream_sending {
    UPSTREAM_SENDING_OPEN,
    UPSTREAM_SENDING_ENDING,   // ends once the queue is empty
    UPSTREAM_SENDING_NOTIFIED, // close_notify is in the queue
    UPSTREAM_SENDING_ENDED,    // half-closed
    UPSTREAM_SENDING_FAILED,   // what is written is dropped; an answer may still be read
};

struct upstream_connection {
    struct upstream_pool *pool;
    enum upstream_connection_state state;
    enum upstream_sending sending;
    struct upstream_connection *next, *prev; // in the list of its state
    struct upstream_connection *next_dirty, **dirty_link;
    char *host;
    uint16_t port;
    struct upstream_connection_events events;
    void *arg;
    struct agent_dialer *dialer; // while it is being dialed
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct byte_queue out;     // what the socket did not take yet, of plain connections, too
    struct byte_queue writing; // what `write` holds: apart, so that the queue may move while it grows
    struct tls_connection tls; // without SSL: plain; what follows is upstream_tls.c's
    char *wire_in;             // UPSTREAM_TLS_READ_BYTES, from the first read on
    struct byte_queue plain;   // waits for the handshake, then for the end of the turn
    bool is_https;             // as it was requested: a kept connection serves only its like
    bool reading;              // the exchange takes bytes
    bool read_ended;           // the other end has ended its direction
    bool pump_wanted;          // reading was resumed: what has been read off the socket comes first
    bool full;                 // on_room is due
    uint64_t since_ms;         // in a state that has a list
};

struct upstream_list {
    struct upstream_connection *first, *last; // newest first
    unsigned count;
};

struct upstream_pool {
    uv_loop_t *loop;
    uint64_t connect_timeout_ms;
    struct agent_tls *tls; // NULL: no https
    struct upstream_list idle, lingering, shaking;
    struct upstream_connection *dirty;             // have something to send
    struct byte_queue spares[UPSTREAM_SPARES_MAX]; // empty, with memory: queues fill and run empty all the time
    unsigned spare_count;
    struct timer sweep;
    uv_prepare_t prepare;
    uv_check_t check;
    unsigned refs; // itself, its handles, and its connections
    bool destroyed;
    char
        buffer[UPSTREAM_READ_BYTES]; // of whichever connection reads right now: what is read is used up in the callback
};

void upstream_pool_unref(struct upstream_pool *pool);
void upstream_pool_sweep_soon(struct upstream_pool *pool);

struct upstream_connection *upstream_connection_dial(struct upstream_pool *pool, struct str host, uint16_t port,
                                                     bool tls);
// ERROR_UNAVAILABLE: not connected yet; all others: an exchange breaks off.
void upstream_connection_fail(struct upstream_connection *connection, const struct error *err);
// Moves it between the lists; each of the two checks that the transition is one of those above.
void upstream_connection_set_state(struct upstream_connection *connection, enum upstream_connection_state state);
void upstream_connection_set_sending(struct upstream_connection *connection, enum upstream_sending sending);
void upstream_connection_mark_dirty(struct upstream_connection *connection);
bool upstream_connection_is_clean(const struct upstream_connection *connection); // nothing is under way
void upstream_connection_flush_dirty(struct upstream_pool *pool);

#endif
