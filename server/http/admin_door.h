// admin_door: the listener for operators and probes, plain HTTP, on one loop: /livez, /readyz, /healthz, /metrics,
// /version. Liveness never depends on PostgreSQL or Redis. ?verbose lists the checks, ?exclude=redis leaves one out,
// /readyz/redis asks for one alone.
#ifndef CULVERT_SERVER_HTTP_ADMIN_DOOR_H
#define CULVERT_SERVER_HTTP_ADMIN_DOOR_H

#include "base/error.h"
#include "base/loop/loop.h"

struct admin_door;

// ready() says whether the check holds now; it runs on the door's loop. optional: shown, but readiness does not need
// it.
struct admin_check {
    const char *name;
    bool optional;
    bool (*ready)(void *ctx);
};

struct admin_door_options {
    const char *listen;
    const struct admin_check *checks; // must outlive the door
    size_t check_count;
    void *ctx;
};

struct admin_door *admin_door_create(struct loop *loop, const struct admin_door_options *options, struct error *err);
void admin_door_close(struct admin_door *door, loop_fn on_closed, void *arg);
void admin_door_destroy(struct admin_door *door);

#endif
