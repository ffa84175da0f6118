// ingress_exchange: one request and its answer: finds the route, has the credential checked, opens the call in the
// tunnel, streams the body in and the answer out. Owned by its connection, at most one at a time.
#ifndef CULVERT_SERVER_INGRESS_EXCHANGE_H
#define CULVERT_SERVER_INGRESS_EXCHANGE_H

#include "base/http1.h"
#include "server/ingress_connection.h"

// head_text: heap, becomes the exchange's; head's views point into it. Answers by itself from here on.
struct ingress_exchange *ingress_exchange_create(struct ingress_connection *connection, char *head_text,
                                                 const struct http1_head *head);
// Cancels what runs. NULL is fine. Not inside a callback of its call.
void ingress_exchange_destroy(struct ingress_exchange *exchange);

// Bytes of the body (or of an upgraded connection); returns how many were taken.
size_t ingress_exchange_feed(struct ingress_exchange *exchange, const char *at, size_t len);
// The client sends no more (upgraded connections: the other direction may go on).
void ingress_exchange_feed_end(struct ingress_exchange *exchange);
// The client took what was queued.
void ingress_exchange_drained(struct ingress_exchange *exchange);
// The door stops: no further request on this connection.
void ingress_exchange_last(struct ingress_exchange *exchange);

bool ingress_exchange_is_over(const struct ingress_exchange *exchange); // answered whole
bool ingress_exchange_keeps_alive(const struct ingress_exchange *exchange);
// Have both sides switched protocols? Otherwise a client that ends its direction has left.
bool ingress_exchange_is_raw(const struct ingress_exchange *exchange);
// Does the exchange wait for the client's bytes, so that silence is a stall?
bool ingress_exchange_awaits_body(const struct ingress_exchange *exchange);
// May the client be silent for as long as it likes (server-sent events, WebSocket)?
bool ingress_exchange_is_patient(const struct ingress_exchange *exchange);

// Writes a whole problem answer for a request that has no exchange (a head that could not be read). The connection is
// closed after it.
void ingress_exchange_refuse(struct ingress_connection *connection, int status, const char *code, const char *detail);

#endif
