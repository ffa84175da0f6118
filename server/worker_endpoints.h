// worker_endpoints: the two HTTPS endpoints of a worker through which clients come, the API and the
// ingress listener: made from the settings. Both carry calls into clusters, with the same credential
// check and the same limits. On the worker's loop.
#ifndef CULVERT_SERVER_WORKER_ENDPOINTS_H
#define CULVERT_SERVER_WORKER_ENDPOINTS_H

#include "base/error.h"
#include "server/http/api_door.h"
#include "server/ingress/ingress.h"
#include "server/worker.h"

// Both need the worker's auth and tunnel node. NULL on error.
struct ingress *worker_ingress_create(struct worker *worker, struct error *err);
struct api_door *worker_api_create(struct worker *worker, struct error *err);

#endif
