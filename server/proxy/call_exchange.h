// call_exchange: one call into a cluster: a request and its answer, whatever it came over: has the
// credential checked, opens the call in the tunnel, streams the body in and the answer out. Its
// front (an HTTP/1.1 connection, an HTTP/2 stream, a request of the API) reads the request and
// knows how an answer looks on the wire. Owned by its front, on the proxy's loop.
#ifndef CULVERT_SERVER_CALL_EXCHANGE_H
#define CULVERT_SERVER_CALL_EXCHANGE_H

#include "server/proxy/call_head.h"
#include "server/proxy/call_proxy.h"

struct call_exchange;

// The head of an answer.
struct call_answer_head {
    int status;                        // 200..599; for an upgrade that was accepted, too
    const struct http_header *headers; // lower case, without framing; valid during the call
    size_t header_count;
    struct str request_id;
    uint64_t length; // UINT64_MAX: unknown
    bool last;       // the request is not read any further, or must not be followed by another
};

// How an answer leaves. Called on the loop, at times inside the tunnel's callbacks: nothing here
// may destroy the exchange.
struct call_front {
    void (*on_info)(void *front, int status); // 1xx but 101
    void (*on_head)(void *front, const struct call_answer_head *head);
    // False: the client takes no more for now; call_exchange_took() says when it has taken the
    // bytes.
    bool (*on_data)(void *front, const uint8_t *at, size_t len);
    void (*on_half_end)(void *front); // upgraded: the service sends no more, the client may go on
    void (*on_end)(void *front, const struct http_header *trailers, size_t count); // whole
    void (*on_fail)(void *front, const char *reason); // not whole, and the client must see that
    void (*on_room)(void *front);                     // call_exchange_wants() may have become true
    // Counts the client's connection for this account. False: the account has too many.
    bool (*take_account)(void *front, struct str account_id);
    // The client may take nothing for a long time (server-sent events, WebSocket). NULL: it always
    // may.
    void (*be_patient)(void *front);
    // Has call_exchange_on_time() called then, or earlier. NULL: the front has the whole body
    // before it begins, so that nothing ever waits for the client.
    void (*arm)(void *front, uint64_t due_ms);
};

// head is copied; front stays where it is.
struct call_exchange *call_exchange_create(struct call_proxy *proxy, const struct call_head *head,
                                           const struct call_front *front, void *front_arg);
// Answers by itself from here on; the front's functions may be called from in here.
void call_exchange_start(struct call_exchange *exchange);
// Calls its front no more, and reads no view of its head; call_exchange_destroy() follows. Also
// inside the front's functions.
void call_exchange_abandon(struct call_exchange *exchange);
// Cancels what runs. NULL is fine. Not inside a callback of its call, nor of its front.
void call_exchange_destroy(struct call_exchange *exchange);

// May bytes of the body (or of an upgraded connection) be fed now?
bool call_exchange_wants(const struct call_exchange *exchange);
void call_exchange_feed(struct call_exchange *exchange, const char *at, size_t len);
// The body is whole (upgraded: the client sends no more, the other direction may go on). Trailers
// are filtered here.
void call_exchange_feed_end(struct call_exchange *exchange, const struct http_header *trailers, size_t count);
// The body cannot be read: 400, or a cut when the answer has begun.
void call_exchange_feed_broken(struct call_exchange *exchange, const char *detail);
// The client took so many bytes of what on_data() handed over and said "no more" to; SIZE_MAX: all.
void call_exchange_took(struct call_exchange *exchange, size_t len);
// We were what held the client's bytes back: its pace is measured anew.
void call_exchange_restart_pace(struct call_exchange *exchange);
// Looks at what waits (for a 100 Continue, for a body that comes too slowly); returns when to come
// again, 0: not.
uint64_t call_exchange_on_time(struct call_exchange *exchange, uint64_t now_ms);

bool call_exchange_is_over(const struct call_exchange *exchange);     // answered whole
bool call_exchange_has_begun(const struct call_exchange *exchange);   // its answer has
bool call_exchange_is_received(const struct call_exchange *exchange); // nothing of the request is to come
// Which loop has the session that answers? The proxy's own where none is known.
unsigned call_exchange_home(const struct call_exchange *exchange);
// Have both sides switched protocols? Otherwise a client that ends its direction has left.
bool call_exchange_is_raw(const struct call_exchange *exchange);
// Does the exchange wait for the client's bytes, so that silence is a stall?
bool call_exchange_awaits_body(const struct call_exchange *exchange);
// May the client take nothing for as long as it likes (server-sent events, upgraded connections)?
// Not once all is said.
bool call_exchange_is_patient(const struct call_exchange *exchange);

#endif
