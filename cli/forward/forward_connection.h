// forward_connection: one accepted connection and its way to a TCP service of a runtime: TLS to the
// ingress listener, an upgrade to connect-tcp (docs/ingress.md), then bytes in both directions. Each
// side ends its own direction; a side that breaks breaks the other. At most FORWARD_BUFFER_BYTES
// wait in each direction: what is not taken is not read. Owned by the forward_listener; one thread.
#ifndef CULVERT_CLI_FORWARD_CONNECTION_H
#define CULVERT_CLI_FORWARD_CONNECTION_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { FORWARD_BUFFER_BYTES = 64 * 1024, FORWARD_HEAD_BYTES_MAX = 16 * 1024 };

// Where connections go; lives longer than they do.
struct forward_target {
    const char *url;     // of the ingress listener: scheme, host and port
    const char *ca_file; // NULL: the system's
    const char *request; // the whole head; has the key
    const char *name;    // RUNTIME/SERVICE, for messages
    unsigned timeout_ms; // until the service has accepted
};

struct forward_connection;

// Takes over fd. Begins to connect in multi, whose finished handles go to
// forward_connection_on_connected.
struct forward_connection *forward_connection_create(int fd, CURLM *multi, const struct forward_target *target,
                                                     uint64_t now_ms);
void forward_connection_destroy(struct forward_connection *connection);

// The connection of a handle of multi.
struct forward_connection *forward_connection_of(CURL *curl);
void forward_connection_on_connected(struct forward_connection *connection, CURLcode result);
// Moves what can be moved. False: it is over and may be destroyed; why has been printed to stderr
// if it did not end as its ends wanted.
bool forward_connection_move(struct forward_connection *connection, uint64_t now_ms);
// Appends what it waits for to waits (room for two); returns how many. A socket that it waits
// nothing of is left out: its end would wake the loop for ever.
unsigned forward_connection_waits(const struct forward_connection *connection, struct curl_waitfd *waits);

#endif
