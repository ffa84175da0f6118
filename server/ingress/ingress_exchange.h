// ingress_exchange: one request and its answer, whatever it came over: finds the route, has the credential checked,
// opens the call in the tunnel, streams the body in and the answer out. Its front (an HTTP/1.1 connection, an HTTP/2
// stream) reads the request and knows how an answer looks on the wire. Owned by its front, on the door's loop.
#ifndef CULVERT_SERVER_INGRESS_EXCHANGE_H
#define CULVERT_SERVER_INGRESS_EXCHANGE_H

#include "base/http1/http1.h"
#include "server/ingress/ingress_connection.h"
#include "tunnel/broker.h"

struct ingress_exchange;

// Why its front would not have a request carried.
enum ingress_refused { INGRESS_REFUSED_NOT, INGRESS_REFUSED_TOO_LARGE, INGRESS_REFUSED_BAD };

// A request's head as its front has read it. Views stay valid as long as the exchange lives.
struct ingress_request {
    struct str method, target, host;
    struct str protocol; // what an upgrade or an extended CONNECT asks for: "websocket", "connect-tcp"; else empty
    struct str expect;   // the Expect field where it has a meaning
    const struct http_header *headers;
    size_t header_count;
    bool complete;   // no body follows
    bool has_length; // Content-Length holds
    enum ingress_refused refused;
};

// The head of an answer.
struct ingress_answer_head {
    int status;                        // 200..599; for an upgrade that was accepted, too
    const struct http_header *headers; // lower case, without framing; valid during the call
    size_t header_count;
    struct str request_id;
    uint64_t length; // UINT64_MAX: unknown
    bool last;       // the request is not read any further, or must not be followed by another
};

// How an answer leaves. Called on the loop, at times inside the tunnel's callbacks: nothing here may destroy the
// exchange.
struct ingress_front {
    void (*on_info)(void *front, int status); // 1xx but 101
    void (*on_head)(void *front, const struct ingress_answer_head *head);
    // False: the client takes no more for now; ingress_exchange_took() says when it has taken the bytes.
    bool (*on_data)(void *front, const uint8_t *at, size_t len);
    void (*on_half_end)(void *front); // upgraded: the service sends no more, the client may go on
    void (*on_end)(void *front, const struct http_header *trailers, size_t count); // whole
    void (*on_cut)(void *front, const char *reason); // not whole, and the client must see that
    void (*on_ready)(void *front);                   // ingress_exchange_wants() may have become true
};

// request is copied; front stays where it is.
struct ingress_exchange *ingress_exchange_create(struct ingress_connection *connection,
                                                 const struct ingress_request *request,
                                                 const struct ingress_front *front, void *front_arg);
// Answers by itself from here on; the front's functions may be called from in here.
void ingress_exchange_start(struct ingress_exchange *exchange);
// Cancels what runs. NULL is fine. Not inside a callback of its call.
void ingress_exchange_destroy(struct ingress_exchange *exchange);

// May bytes of the body (or of an upgraded connection) be fed now?
bool ingress_exchange_wants(const struct ingress_exchange *exchange);
void ingress_exchange_feed(struct ingress_exchange *exchange, const char *at, size_t len);
// The body is whole (upgraded: the client sends no more, the other direction may go on). Trailers are filtered here.
void ingress_exchange_feed_end(struct ingress_exchange *exchange, const struct http_header *trailers, size_t count);
// The body cannot be read: 400, or a cut when the answer has begun.
void ingress_exchange_feed_broken(struct ingress_exchange *exchange, const char *detail);
// The client took so many bytes of what on_data() handed over and said "no more" to; SIZE_MAX: all.
void ingress_exchange_took(struct ingress_exchange *exchange, size_t len);
// We were what held the client's bytes back: its pace is measured anew.
void ingress_exchange_restart_pace(struct ingress_exchange *exchange);
// Looks at what waits (for a 100 Continue, for a body that comes too slowly); returns when to come again, 0: not.
uint64_t ingress_exchange_on_time(struct ingress_exchange *exchange, uint64_t now_ms);

bool ingress_exchange_is_over(const struct ingress_exchange *exchange);     // answered whole
bool ingress_exchange_has_begun(const struct ingress_exchange *exchange);   // its answer has
bool ingress_exchange_is_received(const struct ingress_exchange *exchange); // nothing of the request is to come
// Which loop has the session that answers? The door's own where none is known.
unsigned ingress_exchange_home(const struct ingress_exchange *exchange);
// Have both sides switched protocols? Otherwise a client that ends its direction has left.
bool ingress_exchange_is_raw(const struct ingress_exchange *exchange);
// Does the exchange wait for the client's bytes, so that silence is a stall?
bool ingress_exchange_awaits_body(const struct ingress_exchange *exchange);
// May the client take nothing for as long as it likes (server-sent events, upgraded connections)? Not once all is said.
bool ingress_exchange_is_patient(const struct ingress_exchange *exchange);

#endif
