// ingress_options: what the ingress listener is made with (server/ingress/ingress.h).
#ifndef CULVERT_SERVER_INGRESS_OPTIONS_H
#define CULVERT_SERVER_INGRESS_OPTIONS_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "base/connection_limiter.h"
#include "base/quota.h"
#include "server/proxy/call_proxy.h"

struct ingress_transfer; // a connection between the listeners of two loops

struct ingress_options {
    const char *listen;        // host:port, numeric
    SSL_CTX *tls;              // NULL: plain, behind a proxy that ends TLS (and in tests)
    struct quota *connections; // that the process may have open; NULL: no cap
    atomic_size_t *open;       // how many this listener has, for other threads to see; NULL: nobody looks
    struct connection_limiter *addresses, *accounts; // of the process: connections of each; NULL: no cap
    unsigned http2_streams_max;                      // at once on a connection; 0: 100
    size_t buffered_bytes_max; // request bytes that HTTP/2 clients may have waiting here; 0: 16 MiB
    size_t head_bytes_max;     // 0: 32 KiB
    uint64_t hsts_max_age_ms;  // Strict-Transport-Security where there is TLS; 0: none
    uint64_t head_timeout_ms;  // a head, and a handshake, must have arrived; 0: 10,000
    uint64_t idle_timeout_ms;  // between requests; 0: 60,000
    uint64_t
        stall_timeout_ms; // a client that takes nothing of its answer, or stops in the middle of its body; 0: 60,000
    // HTTP/1.1 connections that rest may go to the listener of the loop where the session is that
    // they call. May one go there now? And: hand it to ingress_take_over() there, later. NULL,
    // both: none goes anywhere.
    bool (*may_transfer)(void *ctx, unsigned loop_index);
    void (*transfer)(void *ctx, unsigned loop_index, struct ingress_transfer *transfer);
    void *ctx;
    // Of the calls: its endpoint's callbacks are the listener's own. Without a platform_host there
    // are no proxy paths here; connections of trusted proxies have no cap by address.
    struct call_proxy_options calls;
};

#endif
