// api_door: the HTTPS endpoint of the API on one loop: libh2o in front, api/ behind. Finds the route,
// hands the request to it, writes its answer; `/runtimes/<name>/proxy/` goes to runtime_proxy. On its
// loop.
#ifndef CULVERT_SERVER_HTTP_API_DOOR_H
#define CULVERT_SERVER_HTTP_API_DOOR_H

#include "server/http/h2o_door.h"
#include "server/proxy/call_proxy.h"

struct api;
struct api_door;

struct api_door_options {
    struct h2o_door_options http; // without on_request and ctx
    struct api *api;
    struct call_proxy_options calls; // without the endpoint's callbacks
    const struct ui_files *ui;       // of the process; NULL: the web UI is not served
    struct census *accounts;         // of the process: connections of each that call; NULL: no cap
};

// options are copied; the strings of `http` must outlive it. NULL on error.
struct api_door *api_door_create(struct loop *loop, const struct api_door_options *options, struct error *err);
void api_door_set_tls(struct api_door *door, SSL_CTX *tls);
void api_door_wind_down(struct api_door *door); // see server/http/h2o_door.h
void api_door_stop_accepting(struct api_door *door);
bool api_door_is_idle(const struct api_door *door);
void api_door_close(struct api_door *door, loop_fn on_closed, void *arg);
void api_door_destroy(struct api_door *door); // outside any callback of the loop

#endif
