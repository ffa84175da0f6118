// admin_listener: the listener for operators and probes, plain HTTP, on one loop: /livez, /readyz,
// /healthz, /metrics, /version. Liveness never depends on PostgreSQL or Redis. ?verbose lists the
// checks, ?exclude=redis leaves one out, /readyz/redis asks for one alone.
#ifndef CULVERT_SERVER_HTTP_ADMIN_LISTENER_H
#define CULVERT_SERVER_HTTP_ADMIN_LISTENER_H

#include "base/error.h"
#include "base/loop/loop.h"

struct admin_listener;

// ready() says whether the check holds now; it runs on the listener's loop. optional: shown, but
// readiness does not need it.
struct admin_check {
    const char *name;
    bool optional;
    bool (*ready)(void *ctx);
};

struct admin_listener_options {
    const char *listen;
    const struct admin_check *checks; // must outlive the listener
    size_t check_count;
    void *ctx;
};

struct admin_listener *admin_listener_create(struct loop *loop, const struct admin_listener_options *options,
                                             struct error *err);
void admin_listener_close(struct admin_listener *listener, loop_fn on_closed, void *arg);
void admin_listener_destroy(struct admin_listener *listener);

#endif
