// runtime_proxy: `/runtimes/<runtime>/proxy/...` on the API door, for people without wildcard DNS: the call goes
// through the tunnel of that runtime in the account of the API key. libh2o has read the request body by then (bounded
// by the door); the answer is streamed with back-pressure. Longer uploads and WebSockets go through the ingress door,
// which streams both ways. On the worker's loop.
#ifndef CULVERT_SERVER_HTTP_RUNTIME_PROXY_H
#define CULVERT_SERVER_HTTP_RUNTIME_PROXY_H

#include "server/http/h2o_door.h"
#include "server/worker.h"

void runtime_proxy_take(struct worker *worker, struct door_request *request);

#endif
