// signals: SIGTERM and SIGINT (drain; a second one ends at once), SIGHUP (reload); SIGPIPE is ignored. On the main
// loop.
#ifndef CULVERT_SERVER_SIGNALS_H
#define CULVERT_SERVER_SIGNALS_H

#include "base/loop/loop.h"

struct signals;

struct signals *signals_create(struct loop *loop, loop_fn on_terminate, loop_fn on_reload, void *arg);
void signals_destroy(struct signals *signals); // the handles close in the loop's next turns

#endif
