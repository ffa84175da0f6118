#include "base/loop/service_manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/parse.h"

static void notify(const struct service_manager *manager, const char *text)
{
    if (!manager->fd) return;
    if (send(manager->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_warn("main", "service_manager_unreachable", log_c("error", strerror(errno)));
}

// A path, or a name of the abstract namespace that begins with @.
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof address.sun_path) return -1;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, bytes) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void on_due(void *arg)
{
    notify(arg, "WATCHDOG=1");
}

void service_manager_init(struct service_manager *manager, uv_loop_t *loop)
{
    *manager = (struct service_manager){0};
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || !*path) return;
    int fd = connect_to(path);
    if (fd < 0) {
        log_warn("main", "service_manager_unreachable", log_c("address", path));
        return;
    }
    manager->fd = fd;
    timer_init(&manager->watchdog, loop, on_due, manager);
}

// 0: none is wanted, or it is meant for another process.
static uint64_t watchdog_ms(void)
{
    const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t us, of;
    if (!interval || parse_u64(str_c(interval), 1, UINT64_MAX, &us, NULL) != ERROR_NONE) return 0;
    bool is_ours = !pid || (parse_u64(str_c(pid), 1, UINT64_MAX, &of, NULL) == ERROR_NONE && of == (uint64_t)getpid());
    return is_ours ? us / 1000 : 0;
}

void service_manager_ready(struct service_manager *manager)
{
    if (!manager->fd) return;
    notify(manager, "READY=1");
    uint64_t interval_ms = watchdog_ms();
    if (interval_ms > 1) timer_start(&manager->watchdog, interval_ms / 2, interval_ms / 2);
}

void service_manager_reloading(struct service_manager *manager)
{
    char text[80];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_mono_us());
    notify(manager, text);
}

void service_manager_stopping(struct service_manager *manager)
{
    notify(manager, "STOPPING=1");
    if (manager->fd) timer_stop(&manager->watchdog);
}

void service_manager_finish(struct service_manager *manager)
{
    if (!manager->fd) return;
    timer_finish(&manager->watchdog);
    close(manager->fd);
    manager->fd = 0;
}
