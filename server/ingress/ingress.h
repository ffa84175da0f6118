// ingress: the door into clusters, one a loop: HTTPS, a strict HTTP/1.1 server of our own and HTTP/2 (libnghttp2,
// chosen by ALPN), both streaming both ways; gRPC, WebSocket (by Upgrade or extended CONNECT) and TCP connections
// (connect-tcp). `https://<account>-<runtime>.<tunnel domain>/...` and `/runtimes/<runtime>/proxy/...` on the
// platform's own host are carried through the runtime's tunnel. Every request is authenticated and authorised by
// itself, whatever the connection carried before; the account of the credential must be that of the host, and a foreign
// runtime looks like a missing one. Only /webhooks/ passes without a credential, limited per runtime. Errors are
// application/problem+json.
//
// Everything on its loop; callbacks too.
#ifndef CULVERT_SERVER_INGRESS_H
#define CULVERT_SERVER_INGRESS_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/census.h"
#include "base/error.h"
#include "base/loop/loop.h"
#include "base/quota.h"
#include "base/str.h"
#include "server/chores/grants.h"
#include "tunnel/broker.h"

struct ingress;
struct ingress_transfer; // a connection between the doors of two loops

// Whose credential it is.
struct ingress_principal {
    struct str account_id, user_id, user_name;
    struct str token_id; // of the key, as struct grants knows it
};

// The answer to authenticate(), once, on the same loop, now or later. err NULL: the credential is good. Else principal
// is NULL, and ERROR_UNAUTHENTICATED -> 401, ERROR_FORBIDDEN -> 403, ERROR_UNAVAILABLE -> 503, others -> 500. Views are
// valid during the call.
typedef void (*ingress_authenticated)(void *arg, const struct error *err, const struct ingress_principal *principal);

struct ingress_options {
    const char *listen;                  // host:port, numeric
    const char *tunnel_domain;           // lower case
    const char *platform_host;           // lower case, without port; NULL or empty: no proxy paths here
    SSL_CTX *tls;                        // NULL: plain, behind a proxy that ends TLS (and in tests)
    struct tunnel_node *node;            // of the same loop
    struct quota *connections;           // that the process may have open; NULL: no cap
    atomic_size_t *open;                 // how many this door has, for other threads to see; NULL: nobody looks
    struct census *addresses, *accounts; // of the process: connections of each; NULL: no cap
    const char *trusted_proxies;         // networks whose X-Forwarded-* are believed; NULL: none
    unsigned http2_streams_max;          // at once on a connection; 0: 100
    size_t buffered_bytes_max;           // request bytes that HTTP/2 clients may have waiting here; 0: 16 MiB
    size_t head_bytes_max;               // 0: 32 KiB
    uint64_t hsts_max_age_ms;            // Strict-Transport-Security where there is TLS; 0: none
    uint64_t head_timeout_ms;            // a head, and a handshake, must have arrived; 0: 10,000
    uint64_t idle_timeout_ms;            // between requests; 0: 60,000
    uint64_t
        stall_timeout_ms; // a client that takes nothing of its answer, or stops in the middle of its body; 0: 60,000
    // What a client must send of a body that waits for nothing but it, over each window; 0: no least, and 60,000.
    uint64_t body_bytes_per_second_min, body_rate_window_ms;
    unsigned webhooks_per_second; // per runtime; 0: 20
    // What ends when its credential is not valid any more: of the same loop. NULL: nothing does.
    struct grants *grants;
    // Whose credential is this? token: text without scheme, and the client's address; valid during the call.
    void (*authenticate)(void *ctx, unsigned loop_index, struct str token, struct str remote,
                         ingress_authenticated done, void *arg);
    // HTTP/1.1 connections that rest may go to the door of the loop where the session is that they call. May one go
    // there now? And: hand it to ingress_take_over() there, later. NULL, both: none goes anywhere.
    bool (*may_transfer)(void *ctx, unsigned loop_index);
    void (*transfer)(void *ctx, unsigned loop_index, struct ingress_transfer *transfer);
    void *ctx;
};

// options are copied, strings too. NULL on error.
struct ingress *ingress_create(struct loop *loop, const struct ingress_options *options, struct error *err);
uint16_t ingress_port(const struct ingress *ingress);
void ingress_set_tls(struct ingress *ingress,
                     SSL_CTX *tls); // for connections from now on; takes a reference of its own
// Goes on with a connection of another door; a door that has stopped ends it.
void ingress_take_over(struct ingress *ingress, struct ingress_transfer *transfer);
void ingress_transfer_drop(struct ingress_transfer *transfer); // any thread: nobody takes it over
// Serves on, and ends each connection with its next answer, so that clients make others before the door stops.
void ingress_wind_down(struct ingress *ingress);
// Takes no more connections; idle ones end, the others after their answer. (WebSockets stay until ingress_close.)
void ingress_stop_accepting(struct ingress *ingress);
bool ingress_is_idle(const struct ingress *ingress); // no request is being answered, or on its way to a door that stops
// Cuts what is left. on_closed once all handles are closed and no authentication is pending: then ingress_destroy().
void ingress_close(struct ingress *ingress, loop_fn on_closed, void *arg);
void ingress_destroy(struct ingress *ingress); // NULL is fine

#endif
