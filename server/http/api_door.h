// api_door: the HTTPS door of the API on one loop: libh2o in front, api/ behind. Finds the route, authenticates, hands
// the request to it, writes its answer; `/runtimes/<name>/proxy/` goes to runtime_proxy. On its loop.
#ifndef CULVERT_SERVER_HTTP_API_DOOR_H
#define CULVERT_SERVER_HTTP_API_DOOR_H

#include <openssl/ssl.h>

#include "base/error.h"
#include "server/worker.h"

struct api_door;

struct api_door *api_door_create(struct worker *worker, SSL_CTX *tls, struct error *err);
void api_door_set_tls(struct api_door *door, SSL_CTX *tls);
void api_door_wind_down(struct api_door *door); // see server/http/h2o_door.h
void api_door_stop_accepting(struct api_door *door);
bool api_door_is_idle(const struct api_door *door);
void api_door_close(struct api_door *door, loop_fn on_closed, void *arg);
void api_door_destroy(struct api_door *door); // outside any callback of the loop

#endif
