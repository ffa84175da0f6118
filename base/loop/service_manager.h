// service_manager: tells systemd that the service is ready, alive and ending, where it was started
// with Type=notify; elsewhere it does nothing. The loop's thread. Source: sd_notify(3).
#ifndef CULVERT_BASE_LOOP_SERVICE_MANAGER_H
#define CULVERT_BASE_LOOP_SERVICE_MANAGER_H

#include "base/loop/timer.h"

// Zeroed: no service manager.
struct service_manager {
    int fd; // 0: none
    struct timer watchdog;
};

// Takes $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. An address that cannot be used is logged,
// and is no error: the service runs on.
void service_manager_init(struct service_manager *manager, uv_loop_t *loop);
// READY=1. From now on WATCHDOG=1 is sent from the loop twice in the interval that systemd set: a
// loop that stands still is restarted.
void service_manager_ready(struct service_manager *manager);
// RELOADING=1 before a reload, READY=1 after it.
void service_manager_reloading(struct service_manager *manager);
// STOPPING=1; the watchdog is not fed any more.
void service_manager_stopping(struct service_manager *manager);
void service_manager_finish(struct service_manager *manager);

#endif
