// ingress_exchange_state: what the two halves of an exchange share: ingress_exchange.c carries the request,
// ingress_exchange_answer.c the answer. Private to them.
#ifndef CULVERT_SERVER_INGRESS_EXCHANGE_STATE_H
#define CULVERT_SERVER_INGRESS_EXCHANGE_STATE_H

#include "base/arena.h"
#include "server/ingress/ingress_exchange.h"
#include "server/ingress/ingress_request_id.h"
#include "server/ingress/ingress_route.h"

enum { INGRESS_TRAILERS_MAX = 16 };

// A question to authenticate() that outlives an exchange whose client has left.
struct ingress_authentication {
    struct ingress *ingress;
    struct ingress_exchange *exchange; // NULL: nobody waits
};

struct ingress_exchange {
    struct ingress_connection *connection;
    struct ingress *ingress;
    const struct ingress_front *front;
    void *front_arg;
    struct arena *arena;
    struct ingress_request request;
    struct ingress_route route;
    struct ingress_authentication *authentication; // while it is pending
    struct tunnel_call *call;                      // while it runs
    struct grant grant;                            // of the credential
    uint64_t since_us;
    char request_id[INGRESS_REQUEST_ID_BYTES];
    unsigned home; // the loop of the session that answers; the door's own until it is known

    // The request's body.
    bool received;                      // nothing of the request is to come
    bool call_blocked;                  // the tunnel has no room
    uint64_t pace_since_ms, pace_bytes; // the window in which the body's pace is measured, and what came in it
    bool unpaced;                       // it may be as slow as it likes
    uint64_t refuse_at_ms;              // when an anonymous request that reached no service is refused; 0: not
    uint64_t continue_at_ms;            // when a client that waits for 100 Continue gets ours; 0: it does not wait

    // The answer.
    int status;    // 0: not begun
    bool bodyless; // whatever its length says
    bool raw;      // switched protocols: bytes as they are
    bool over;     // whole, or given up
    bool last;     // no request shall follow: the client is refused for its form, or for being too many
    bool patient;
    bool client_blocked;
    uint64_t answer_left; // UINT64_MAX: unknown
    size_t unconsumed;    // bytes the client has still to take before the tunnel gets its credit back
    struct http_header trailers[INGRESS_TRAILERS_MAX];
    size_t trailer_count;
};

// How the tunnel's answer becomes the client's; the argument is the exchange.
extern const struct tunnel_call_events ingress_exchange_events;

// The whole answer to a request that is not carried (further).
void ingress_exchange_answer_problem(struct ingress_exchange *exchange, int status, const char *code,
                                     const char *detail);
// The answer to a webhook that reached no service, whatever the cause: in a moment, so that neither it nor the time it
// takes shows whether the runtime exists, is connected, or has such a webhook.
void ingress_exchange_refuse_anonymous(struct ingress_exchange *exchange);
// Sends 100 Continue to a client that waits for one.
void ingress_exchange_continue(struct ingress_exchange *exchange);

#endif
