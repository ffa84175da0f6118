// dialer: a TCP connection to a name: resolves it off the loop, tries the addresses one after the
// other, gives a connected non-blocking socket. Freed by itself after on_done, or by
// agent_dialer_cancel(). One loop.
#ifndef CULVERT_AGENT_DIALER_H
#define CULVERT_AGENT_DIALER_H

#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/str.h"

struct agent_dialer;

// fd >= 0: connected, TCP_NODELAY set, the receiver's to close. fd < 0: err has the reason, naming
// host and port. Never called inside agent_dialer_start().
typedef void (*agent_dialer_done_fn)(void *arg, int fd, const struct error *err);

// timeout_ms is for resolving and connecting together.
struct agent_dialer *agent_dialer_start(uv_loop_t *loop, struct str host, uint16_t port, uint64_t timeout_ms,
                                        agent_dialer_done_fn on_done, void *arg);
void agent_dialer_cancel(struct agent_dialer *dialer); // on_done will not come

#endif
