// api_listener: the HTTPS endpoint of the API on one loop: libh2o in front, api/ behind. Finds the
// route, hands the request to it, writes its answer; `/runtimes/<name>/proxy/` goes to
// runtime_proxy. On its loop.
#ifndef CULVERT_SERVER_HTTP_API_LISTENER_H
#define CULVERT_SERVER_HTTP_API_LISTENER_H

#include "server/http/h2o_listener.h"
#include "server/proxy/call_proxy.h"

struct api;
struct api_listener;

struct api_listener_options {
    struct h2o_listener_options http; // without on_request and ctx
    struct api *api;
    struct call_proxy_options calls;     // without the endpoint's callbacks
    const struct ui_files *ui;           // of the process; NULL: the web UI is not served
    struct connection_limiter *accounts; // of the process: connections of each that call; NULL: no cap
};

// options are copied; the strings of `http` must outlive it. NULL on error.
struct api_listener *api_listener_create(struct loop *loop, const struct api_listener_options *options,
                                         struct error *err);
void api_listener_set_tls(struct api_listener *listener, SSL_CTX *tls);
void api_listener_wind_down(struct api_listener *listener); // see server/http/h2o_listener.h
void api_listener_stop_accepting(struct api_listener *listener);
bool api_listener_is_idle(const struct api_listener *listener);
void api_listener_close(struct api_listener *listener, loop_fn on_closed, void *arg);
void api_listener_destroy(struct api_listener *listener); // outside any callback of the loop

#endif
