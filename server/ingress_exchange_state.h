// ingress_exchange_state: what the two halves of an exchange share: ingress_exchange.c carries the request,
// ingress_exchange_answer.c the answer. Private to them.
#ifndef CULVERT_SERVER_INGRESS_EXCHANGE_STATE_H
#define CULVERT_SERVER_INGRESS_EXCHANGE_STATE_H

#include "base/arena.h"
#include "server/ingress_exchange.h"
#include "server/ingress_route.h"

enum { INGRESS_TRAILERS_MAX = 16 };

// A question to authenticate() that outlives an exchange whose client has left.
struct ingress_authentication {
    struct ingress *ingress;
    struct ingress_exchange *exchange; // NULL: nobody waits
};

struct ingress_exchange {
    struct ingress_connection *connection;
    struct ingress *ingress;
    struct arena *arena;
    char *head_text;
    struct http1_head head;
    struct ingress_route route;
    struct ingress_authentication *authentication; // while it is pending
    struct tunnel_call *call;                      // while it runs
    uint64_t since_us;
    char request_id[65];

    // The request's body.
    bool websocket;
    bool received;     // nothing of the request is to come
    bool call_blocked; // the tunnel has no room
    uint64_t body_left;
    struct http1_chunked chunked;

    // The answer.
    int status; // 0: not begun
    enum http1_body answer_body;
    bool raw;  // switched protocols: bytes as they are
    bool over; // written whole
    bool close;
    bool patient;
    bool client_blocked;
    uint64_t answer_left;
    size_t unconsumed; // bytes the client has still to take before the tunnel gets its credit back
    struct tunnel_header trailers[INGRESS_TRAILERS_MAX];
    size_t trailer_count;
};

// How the tunnel's answer becomes the client's; the argument is the exchange.
extern const struct tunnel_call_events ingress_exchange_events;

// The whole answer to a request that is not carried (further).
void ingress_exchange_answer_problem(struct ingress_exchange *exchange, int status, const char *code,
                                     const char *detail);
// Nothing more of the request is to come: tells the tunnel.
void ingress_exchange_end_request(struct ingress_exchange *exchange);

#endif
