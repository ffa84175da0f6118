// h2o_listener_state: what h2o_listener.c (connections) and h2o_request.c (requests) share. Private
// to h2o_*.c.
#ifndef CULVERT_SERVER_HTTP_H2O_LISTENER_STATE_H
#define CULVERT_SERVER_HTTP_H2O_LISTENER_STATE_H

#include "base/connection_limiter.h"
#include "base/loop/timer.h"
#include "base/quota.h"
#include "server/http/h2o_gate.h"
#include "server/http/h2o_listener.h"
#include "server/http/lingering_close.h"
#include "server/proxy/trusted_proxies.h"

enum { H2O_LISTENER_ACCOUNT_BYTES = 64 };

struct metric;
struct metric_family;

struct listener_handler {
    h2o_handler_t super;
    struct h2o_listener *listener;
};

struct h2o_listener {
    struct loop *loop;
    struct h2o_listener_options options;
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
    struct tcp_listener *listener; // NULL once closed
    struct trusted_proxies proxies;
    struct quota own_quota;
    struct listener_connection *first;
    struct timer sweep;
    size_t connections, requests;
    bool stopped;
    bool winding_down; // each answer is the last of its connection
    loop_fn on_closed;
    void *on_closed_arg;
    struct metric *open_connections, *in_flight, *seconds, *refused;
    struct metric_family *answers;
};

// An accepted connection, so that closing the listener can reach those that h2o does not count as
// requests.
struct listener_connection {
    uv_tcp_t tcp; // first: the listener allocates it, and h2o takes its data pointer for itself
    struct listener_connection *next, **link;
    struct h2o_listener *listener;
    struct h2o_gate gate;
    h2o_socket_t *handshaking;      // the socket while TLS is being set up
    uint64_t since_ms;              // of the connection
    char network[INET6_ADDRSTRLEN]; // the peer's for the connection limiter
    bool counted;
    struct connection_limiter *accounts; // where it is counted, too; NULL: nowhere
    char account[H2O_LISTENER_ACCOUNT_BYTES];
    struct lingering_close *lingering_close; // of a refused one
    unsigned handles_open;
};

// h2o's handler: every request of the listener.
int h2o_request_on_handler(h2o_handler_t *handler, h2o_req_t *req);

#endif
