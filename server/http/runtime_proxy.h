// runtime_proxy: `/runtimes/<runtime>/proxy/...` of the API, for people without wildcard DNS: the call
// goes through the tunnel of that runtime in the account of the credential. A thin front of
// server/proxy/call_exchange.h, as the ingress listener is. libh2o has the whole request by then (its
// body is bounded by the endpoint); the answer is streamed with back-pressure. Longer uploads, 1xx,
// WebSocket and TCP go through the ingress listener. On its loop.
#ifndef CULVERT_SERVER_HTTP_RUNTIME_PROXY_H
#define CULVERT_SERVER_HTTP_RUNTIME_PROXY_H

#include "server/http/h2o_listener.h"
#include "server/proxy/call_proxy.h"

struct runtime_proxy;

// options are copied, without the endpoint's callbacks. accounts: as in api_listener.h. NULL on
// error.
struct runtime_proxy *runtime_proxy_create(struct loop *loop, const struct call_proxy_options *options,
                                           struct connection_limiter *accounts, struct error *err);
// target: path and query as sent, without the base path.
void runtime_proxy_take(struct runtime_proxy *proxy, struct listener_request *request, struct str target);
// When no request can come any more: on_closed (posted) once none is under way, then runtime_proxy_destroy().
void runtime_proxy_close(struct runtime_proxy *proxy, loop_fn on_closed, void *arg);
void runtime_proxy_destroy(struct runtime_proxy *proxy); // NULL is fine

#endif
