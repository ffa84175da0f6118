// forward_listener: a local listener whose connections are carried to one TCP service, until a
// signal ends it. One thread.
#ifndef CULVERT_CLI_FORWARD_LISTENER_H
#define CULVERT_CLI_FORWARD_LISTENER_H

#include "cli/forward/forward_connection.h"

// More than so many wait in the kernel's queue until one of them ends.
enum { FORWARD_CONNECTIONS_MAX = 64 };

struct forward_listener;

// Binds. port 0: a free one. ERROR_INVALID: the address cannot be listened on.
MUST_CHECK enum error_code forward_listener_create(const char *host, uint16_t port, const struct forward_target *target,
                                                   struct forward_listener **out, struct error *err);
void forward_listener_destroy(struct forward_listener *listener);
// "127.0.0.1:5432", "[::1]:5432"
const char *forward_listener_address(const struct forward_listener *listener);
// Serves until SIGINT or SIGTERM; then what is open is closed.
MUST_CHECK enum error_code forward_listener_run(struct forward_listener *listener, struct error *err);

#endif
