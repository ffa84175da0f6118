// upstream_tls: TLS between an upstream_connection and its socket: the certificate is checked against the given or the
// system's CAs and the service's name, and a body that ends with the connection must end with close_notify. The inside
// of upstream_connection.c, apart because it is another noun. One loop.
#ifndef CULVERT_AGENT_UPSTREAM_TLS_H
#define CULVERT_AGENT_UPSTREAM_TLS_H

#include "agent/calls/upstream_connection.h"

// Before it connects. ERROR_UNAVAILABLE: this agent cannot do TLS to services.
MUST_CHECK enum error_code upstream_tls_start(struct upstream_connection *connection, struct error *err);
void upstream_tls_free(struct upstream_connection *connection);
// The socket is connected, gave bytes (they lie in the pipe), has ended, or reading goes on: gives events.
void upstream_tls_pump(struct upstream_connection *connection);
// Plain bytes that wait become records in the pipe; with close_notify behind them once the end is wanted.
void upstream_tls_seal(struct upstream_connection *connection);
bool upstream_tls_has_input(const struct upstream_connection *connection); // that was not looked at yet

#endif
