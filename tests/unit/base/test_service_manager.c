// What systemd is sent, on a real datagram socket.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop/loop.h"
#include "base/loop/service_manager.h"

struct systemd {
    int fd;
    char path[64];
};

static void listen_on(struct systemd *systemd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(systemd->path, sizeof systemd->path, "/tmp/notify.%ld", (long)getpid());
    unlink(systemd->path);
    strcpy(address.sun_path, systemd->path);
    systemd->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(systemd->fd, (struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", systemd->path, 1);
}

static void expect(const struct systemd *systemd, const char *text)
{
    char got[200];
    ssize_t len = recv(systemd->fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(len > 0);
    got[len] = '\0';
    assert_memory_equal(got, text, strlen(text));
}

static void its_life_is_reported(void **state)
{
    (void)state;
    struct systemd systemd;
    struct service_manager manager;
    struct loop *loop = loop_create("test", 0);
    listen_on(&systemd);
    setenv("WATCHDOG_USEC", "20000", 1);
    unsetenv("WATCHDOG_PID");
    service_manager_init(&manager, loop_uv(loop));
    service_manager_ready(&manager);
    expect(&systemd, "READY=1");
    uv_run(loop_uv(loop), UV_RUN_ONCE); // until the timer is due
    expect(&systemd, "WATCHDOG=1");
    service_manager_reloading(&manager);
    expect(&systemd, "RELOADING=1\nMONOTONIC_USEC=");
    service_manager_stopping(&manager);
    expect(&systemd, "STOPPING=1");
    assert_false(timer_is_active(&manager.watchdog));
    service_manager_finish(&manager);
    loop_destroy(loop);
    close(systemd.fd);
    unlink(systemd.path);
}

static void a_watchdog_of_another_process_is_not_fed(void **state)
{
    (void)state;
    struct systemd systemd;
    struct service_manager manager;
    struct loop *loop = loop_create("test", 0);
    listen_on(&systemd);
    setenv("WATCHDOG_USEC", "20000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    service_manager_init(&manager, loop_uv(loop));
    service_manager_ready(&manager);
    expect(&systemd, "READY=1");
    assert_false(timer_is_active(&manager.watchdog));
    service_manager_finish(&manager);
    loop_destroy(loop);
    close(systemd.fd);
    unlink(systemd.path);
}

static void without_systemd_nothing_happens(void **state)
{
    (void)state;
    static const char *const addresses[] = {NULL, "", "relative", "/nowhere/at/all"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct service_manager manager;
        struct loop *loop = loop_create("test", 0);
        if (addresses[i]) {
            setenv("NOTIFY_SOCKET", addresses[i], 1);
        } else {
            unsetenv("NOTIFY_SOCKET");
        }
        service_manager_init(&manager, loop_uv(loop));
        service_manager_ready(&manager);
        service_manager_stopping(&manager);
        service_manager_finish(&manager);
        assert_int_equal(manager.fd, 0);
        loop_destroy(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_life_is_reported),
                                       cmocka_unit_test(a_watchdog_of_another_process_is_not_fed),
                                       cmocka_unit_test(without_systemd_nothing_happens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
