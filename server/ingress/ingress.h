// ingress: the listener into clusters, one a loop: HTTPS, a strict HTTP/1.1 server of our own and
// HTTP/2 (libnghttp2, chosen by ALPN), both streaming both ways; gRPC, WebSocket (by Upgrade or
// extended CONNECT) and TCP connections (connect-tcp). `https://<account>-<runtime>.<tunnel
// domain>/...` and `/runtimes/<runtime>/proxy/...` on the platform's own host are carried through
// the runtime's tunnel. Every request is authenticated and authorised by itself, whatever the
// connection carried before; the account of the credential must be that of the host, and a foreign
// runtime looks like a missing one. Only /webhooks/ passes without a credential, limited per
// runtime. Errors are application/problem+json.
//
// Everything on its loop; callbacks too.
#ifndef CULVERT_SERVER_INGRESS_H
#define CULVERT_SERVER_INGRESS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "server/ingress/ingress_options.h"

struct ingress;

// options are copied, strings too. NULL on error.
struct ingress *ingress_create(struct loop *loop, const struct ingress_options *options, struct error *err);
uint16_t ingress_port(const struct ingress *ingress);
void ingress_set_tls(struct ingress *ingress,
                     SSL_CTX *tls); // for connections from now on; takes a reference of its own
// Serves on, and ends each connection with its next answer, so that clients make others before the
// listener stops.
void ingress_wind_down(struct ingress *ingress);
// Takes no more connections; idle ones end, the others after their answer. (WebSockets stay until
// ingress_close.)
void ingress_stop_accepting(struct ingress *ingress);
bool ingress_is_idle(
    const struct ingress *ingress); // no request is being answered, or on its way to a listener that stops
// Cuts what is left. on_closed once all handles are closed and no authentication is pending: then
// ingress_destroy().
void ingress_close(struct ingress *ingress, loop_fn on_closed, void *arg);
void ingress_destroy(struct ingress *ingress); // NULL is fine

#endif
