// ingress_connection: one client of the ingress door: a strict HTTP/1.1 server that reads one request at a time, keeps
// the connection alive between them, and watches the read side while an answer runs, so that a client who leaves ends
// the call in the cluster at once. Requests themselves are ingress_exchange. On its door's loop.
//
// Private to the ingress files: they share struct ingress.
#ifndef CULVERT_SERVER_INGRESS_CONNECTION_H
#define CULVERT_SERVER_INGRESS_CONNECTION_H

#include <arpa/inet.h>
#include <uv.h>

#include "base/metrics.h"
#include "base/strbuf.h"
#include "server/ingress.h"
#include "server/ingress_limiter.h"
#include "server/tcp_listener.h"
#include "server/tls_stream.h"

struct ingress_exchange;

enum {
    INGRESS_INPUT_BYTES = 64 * 1024, // read ahead of what can be used; then reading pauses
    INGRESS_LINGER_MS = 2000,        // how long a client may take to see our end of the connection
};

struct ingress {
    struct loop *loop;
    struct ingress_options options; // strings are ours
    SSL_CTX *tls;
    struct tls_stream_pool pool;
    struct ingress_limiter limiter;
    struct tcp_listener *listener;
    struct ingress_connection *first;
    size_t connections, exchanges, authentications;
    bool stopped, closing, pool_closed;
    loop_fn on_closed;
    void *on_closed_arg;
    struct metric *open_connections, *in_flight, *seconds;
    struct metric_family *answers, *cuts;
    struct metric *answers_by_status[600]; // of answers, looked up once each
};

enum ingress_connection_state {
    INGRESS_OPENING,   // handshake
    INGRESS_IDLE,      // nothing of the next request has come
    INGRESS_HEAD,      // a part of a head has come
    INGRESS_EXCHANGE,  // a request is being carried out
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
    uint64_t since_ms; // of the state
    struct strbuf in;  // arrived, not used
    struct ingress_exchange *exchange;
    unsigned requests, handles_open;
    uint64_t sent_bytes, sent_at_ms; // progress of the client's reading, as last seen
    uint64_t read_at_ms;             // when the client last sent something
    bool eof;                        // the client sends no more
    const char *cut_reason;          // set: to be cut in the turn's end
    char peer[INET6_ADDRSTRLEN];
};

// Takes the socket over.
void ingress_connection_create(struct ingress *ingress, uv_tcp_t *tcp);
// Nothing of a request is there: end it in peace.
void ingress_connection_end_if_idle(struct ingress_connection *connection);
// Cuts at once; also out of the connection's own callbacks (not out of its call's).
void ingress_connection_close(struct ingress_connection *connection);

// ---- for the exchange ----------------------------------------------------------------------------------------

// Has the connection looked after in the turn's end: the exchange made progress or is over.
void ingress_connection_wake(struct ingress_connection *connection);
// Answers end here: sends what is queued, then our end of the connection, and drops what the client still sends.
void ingress_connection_linger(struct ingress_connection *connection);
// Cuts in the turn's end without a proper end of the answer, so that the client sees that it is not whole.
void ingress_connection_cut(struct ingress_connection *connection, const char *reason);
void ingress_count_answer(struct ingress *ingress, int status);
// Looks whether everything is closed.
void ingress_check_closed(struct ingress *ingress);

#endif
