// worker_ingress: the worker's ingress door: made from the settings, with credentials checked by the API's auth. On the
// worker's loop.
#ifndef CULVERT_SERVER_WORKER_INGRESS_H
#define CULVERT_SERVER_WORKER_INGRESS_H

#include "base/error.h"
#include "server/ingress/ingress.h"
#include "server/worker.h"

// Needs the worker's auth and tunnel node.
struct ingress *worker_ingress_create(struct worker *worker, struct error *err);

#endif
