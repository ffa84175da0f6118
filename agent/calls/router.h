// router: which service a call goes to: a path table and an allow-list out of the agent's own configuration. The
// platform can ask for nothing that is not named there. Immutable after creation; any thread.
#ifndef CULVERT_AGENT_ROUTER_H
#define CULVERT_AGENT_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct router_settings;
struct agent_router;

enum agent_route_kind {
    AGENT_ROUTE_REFUSED,   // status and cause say why
    AGENT_ROUTE_APP_PROXY, // answered by the agent itself
    AGENT_ROUTE_REPORTS,   // the reports stream
    AGENT_ROUTE_SERVICE,   // host and port
};

enum agent_route_protocol {
    AGENT_ROUTE_HTTP,  // HTTP/1.1
    AGENT_ROUTE_HTTPS, // the same over TLS, the certificate being checked
    AGENT_ROUTE_H2C,   // HTTP/2 with prior knowledge: gRPC
    AGENT_ROUTE_TCP,   // bytes and no HTTP: only for `:protocol connect-tcp`
};

struct agent_route {
    enum agent_route_kind kind;
    int status;        // REFUSED
    const char *cause; // REFUSED: value of culvert-cause
    bool anonymous;    // needs no culvert-identity: a webhook
    const char *label; // bounded vocabulary for metrics: "app-proxy", "service", "webhook", "workflows", ...
    struct str host;   // SERVICE; lives with the router
    uint16_t port;
    enum agent_route_protocol protocol; // SERVICE
    struct str path;                    // SERVICE, APP_PROXY: what to ask for, a view into the request's path (or "/")
};

// ERROR_INVALID names the setting and the entry.
struct agent_router *agent_router_create(const struct router_settings *settings, struct error *err);
void agent_router_destroy(struct agent_router *router);         // NULL is fine
bool agent_router_needs_tls(const struct agent_router *router); // there is an https:// among the services

// authority: "culvert", "runtime" or empty: the path table; else "<service>.<namespace>" or an entry's name, looked up
// in router.services. path: origin-form with query; /tcp/<name> is an entry of tcp.allow.
void agent_router_route(const struct agent_router *router, struct str method, struct str authority, struct str path,
                        struct agent_route *out);

// May this path be routed? Origin-form of visible ASCII without empty segments, without "." and ".." segments however
// they and the slashes around them are encoded, and without encoded NUL.
bool agent_router_path_ok(struct str path);

#endif
