// agent: the process put together: tunnel, calls, reporter, admin listener, in the order in which
// they need each other. Owned by main; one loop.
#ifndef CULVERT_AGENT_AGENT_H
#define CULVERT_AGENT_AGENT_H

#include "agent/config.h"
#include "base/error.h"
#include "base/loop/loop.h"

struct agent;

// config outlives the agent. NULL with *err when a setting cannot work. A kubeconfig that cannot be
// used is none of these: it is read again every kubeconfig.retry_interval, and until it can be used
// there is no tunnel, and /readyz has the reason.
struct agent *agent_create(struct loop *loop, const struct config *config, struct error *err);
void agent_start(struct agent *agent);
void agent_reload(struct agent *agent); // SIGHUP: token file, CA file; the outcome is logged
// SIGTERM: readiness goes, calls finish within shutdown.deadline, then on_done. Once.
void agent_drain(struct agent *agent, loop_fn on_done, void *arg);
void agent_destroy(struct agent *agent); // NULL is fine; handles close in the loop's next turns

#endif
