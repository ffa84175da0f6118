// admin: the agent's own small HTTP listener, for probes and Prometheus: /livez, /readyz, /metrics, /version. One
// answer a connection, few connections, five seconds each. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_ADMIN_H
#define CULVERT_AGENT_ADMIN_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

struct agent_admin;

// Why the agent is not ready goes to *why; true: it is, and *why has warnings, if any.
typedef bool (*agent_admin_ready_fn)(void *arg, struct strbuf *why);

// listen: host:port with a literal address. NULL with *err when it cannot listen there.
struct agent_admin *agent_admin_create(uv_loop_t *loop, struct str listen, agent_admin_ready_fn is_ready, void *arg,
                                       struct error *err);
void agent_admin_destroy(struct agent_admin *admin); // NULL is fine
uint16_t agent_admin_port(const struct agent_admin *admin);

#endif
