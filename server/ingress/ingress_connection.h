// ingress_connection: one client of the ingress listener: its socket, TLS, clock and end. What is
// spoken on it is a protocol: ingress_http1 or ingress_http2, chosen by ALPN. On its listener's
// loop.
//
// Private to the ingress files: they share struct ingress.
#ifndef CULVERT_SERVER_INGRESS_CONNECTION_H
#define CULVERT_SERVER_INGRESS_CONNECTION_H

#include <arpa/inet.h>
#include <uv.h>

#include "base/metrics/metrics.h"
#include "server/ingress/ingress_options.h"
#include "server/tls/tcp_listener.h"
#include "server/tls/tls_stream.h"

enum {
    INGRESS_GOODBYE_MS = 1000, // how long clients are heard after they were told that the listener closes
    INGRESS_LINGER_MS = 2000,  // how long a client may take to see our end of the connection
    INGRESS_ACCOUNT_KEY_BYTES = 64,
};

struct ingress_protocol;

struct ingress {
    struct loop *loop;
    struct ingress_options options; // strings are ours
    SSL_CTX *tls;
    struct tls_stream_pool pool;
    struct quota no_cap; // counted in when there is none
    struct tcp_listener *listener;
    struct ingress_connection *first;
    const struct ingress_protocol *http1, *http2; // of what ALPN chooses
    struct call_proxy calls;
    size_t connections;
    size_t buffered_bytes; // of request bodies that HTTP/2 streams hold
    bool stopped, closing, pool_closed;
    bool winding_down; // each answer is the last of its connection
    uint64_t stopped_ms;
    loop_fn on_closed;
    void *on_closed_arg;
    char hsts[32]; // value of Strict-Transport-Security; empty: none
    struct metric *open_connections, *in_flight, *seconds, *transfers;
    struct metric_family *answers, *cuts, *refused, *by_protocol;
    struct metric *answers_by_status[600]; // of answers, looked up once each
};

struct ingress_connection;

// What is spoken on a connection. Every other function gets the front that these make.
struct ingress_protocol {
    const char *name;
    void *(*create)(struct ingress_connection *connection); // the front
    void *(*resume)(struct ingress_connection *connection); // of a connection that served before; NULL: none is
    void (*on_data)(void *front, const char *at, size_t len);
    void (*on_eof)(void *front);
    void (*on_drain)(void *front);  // what was queued has left
    void (*on_hangup)(void *front); // the client ended its direction while we do not read
    void (*on_turn)(void *front);   // after ingress_connection_wake()
    // The connection was cut: writes why, if the protocol has a frame for it. True: it is delivered before the
    // connection is closed. NULL: never.
    bool (*on_cut)(void *front);
    // The time has come; returns when to come again, 0: not by itself.
    uint64_t (*on_time)(void *front, uint64_t now_ms);
    void (*stop)(void *front);          // the listener stops: no further request
    bool (*is_busy)(const void *front); // is a request being carried out?
    void (*destroy)(void *front);       // cancels what runs
};

enum ingress_connection_state {
    INGRESS_OPENING,   // handshake
    INGRESS_SERVING,   // the protocol has it
    INGRESS_LINGERING, // our last byte is on its way; what still comes is dropped
    INGRESS_CLOSED,
};

struct ingress_connection {
    struct ingress *ingress;
    struct ingress_connection *next, **link;
    struct tls_stream *stream;
    uv_timer_t timer;
    uint64_t timer_due_ms; // 0: not running
    struct turn_item turn_item;
    enum ingress_connection_state state;
    uint64_t linger_since_ms;
    const struct ingress_protocol *protocol; // while serving
    void *front;
    unsigned handles_open;
    uint64_t sent_bytes, sent_at_ms; // progress of the client's reading, as last seen
    bool eof;                        // the client sends no more
    bool counted;                    // in the connection limiter of addresses
    bool patient;
    const char *cut_reason;                  // set: to be cut in the turn's end
    char account[INGRESS_ACCOUNT_KEY_BYTES]; // whose connection limiter it is in; empty: nobody's yet
    char peer[INET6_ADDRSTRLEN];
    char network[INET6_ADDRSTRLEN]; // the peer's for the connection limiter: one with IPv6 has a /64 at least
};

// Takes the socket over.
void ingress_connection_create(struct ingress *ingress, uv_tcp_t *tcp);
// Goes on with one that another listener has opened, in HTTP/1.1 and between two requests. What it
// counts in is the caller's to fill in.
struct ingress_connection *ingress_connection_resume(struct ingress *ingress, uv_tcp_t *tcp, SSL *ssl);
// Cuts at once; also out of the connection's own callbacks (not out of its calls').
void ingress_connection_close(struct ingress_connection *connection);
// The listener stops.
void ingress_connection_stop(struct ingress_connection *connection);

// ---- for the protocols ---------------------------------------------------------------------------------------

uint64_t ingress_connection_now_ms(const struct ingress_connection *connection);
// Has on_turn called in the turn's end.
void ingress_connection_wake(struct ingress_connection *connection);
// Has on_time called then, or earlier.
void ingress_connection_arm(struct ingress_connection *connection, uint64_t due_ms);
// Sends what is queued, then our end of the connection, and drops what the client still sends. The protocol ends here.
void ingress_connection_linger(struct ingress_connection *connection);
// Cuts in the turn's end without a proper end of the answer, so that the client sees that it is not whole.
void ingress_connection_cut(struct ingress_connection *connection, const char *reason);
// Has the client taken nothing of what is queued for that long? Nothing queued counts as progress.
bool ingress_connection_has_stalled(struct ingress_connection *connection, uint64_t limit_ms);
void ingress_connection_forget_progress(struct ingress_connection *connection);
// The client may take nothing for a long time: events, WebSocket.
void ingress_connection_be_patient(struct ingress_connection *connection);
// Counts the connection for this account. False: the account has too many.
bool ingress_connection_take_account(struct ingress_connection *connection, struct str account_id);

// ---- of the listener --------------------------------------------------------------------------

void ingress_count_answer(struct ingress *ingress, int status);
// Looks whether everything is closed.
void ingress_check_closed(struct ingress *ingress);

#endif
