#include "tests/support/listener_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

struct errand {
    struct listener_fixture *fixture;
    loop_fn fn;
    void *arg;
};

static void run_errand(void *arg)
{
    const struct errand *errand = arg;
    errand->fn(errand->arg);
    sem_post(&errand->fixture->done);
}

void listener_fixture_run(struct listener_fixture *f, loop_fn fn, void *arg)
{
    struct errand errand = {f, fn, arg};
    loop_post(f->loop, run_errand, &errand);
    sem_wait(&f->done);
}

void listener_fixture_start(struct listener_fixture *f, const char *address)
{
    struct error err;
    sem_init(&f->done, 0, 0);
    sem_init(&f->accepted, 0, 0);
    snprintf(f->address, sizeof f->address, "%s", address);
    f->loop = loop_create("listener-test", 0);
    assert_int_equal(loop_start(f->loop, &err), ERROR_NONE);
}

void listener_fixture_stop(struct listener_fixture *f)
{
    loop_stop(f->loop);
    loop_join(f->loop);
    loop_destroy(f->loop);
    sem_destroy(&f->done);
    sem_destroy(&f->accepted);
}

void listener_fixture_count(struct listener_fixture *f)
{
    sem_post(&f->accepted);
}

bool listener_fixture_comes(struct listener_fixture *f, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    return sem_timedwait(&f->accepted, &until) == 0;
}

int listener_fixture_dial(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}
