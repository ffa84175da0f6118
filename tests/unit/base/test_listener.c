// The listener at its limits: the owner's cap, the end of descriptors, two loops on one address.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/loop/listener.h"
#include "base/mem.h"
#include "tests/support/listener_fixture.h"

enum { TAKEN_MAX = 64 };

struct fixture {
    struct listener_fixture base;
    struct listener *listener;
    size_t cap; // 0: none
    enum error_code code;
    struct error err;
    int taken[TAKEN_MAX];
    char remote[LISTENER_REMOTE_BYTES]; // of the last one
    size_t count;
    double cpu_seconds;
};

static bool has_room(void *ctx)
{
    const struct fixture *f = ctx;
    return f->cap == 0 || f->count < f->cap;
}

static void on_accept(void *ctx, int fd, const char *remote)
{
    struct fixture *f = ctx;
    f->taken[f->count++] = fd;
    snprintf(f->remote, sizeof f->remote, "%s", remote);
    listener_fixture_count(&f->base);
}

static void run_create(void *arg)
{
    struct fixture *f = arg;
    const struct listener_options options = {
        .address = str_c(f->base.address),
        .user_timeout_ms = 60 * 1000,
        .unsent_bytes = 64 * 1024,
        .ctx = f,
        .has_room = has_room,
        .on_accept = on_accept,
    };
    f->code = listener_create(f->base.loop, &options, &f->listener, &f->err);
}

static void run_close_one(void *arg)
{
    struct fixture *f = arg;
    close(f->taken[--f->count]);
    listener_resume(f->listener);
}

static void run_resume(void *arg)
{
    struct fixture *f = arg;
    listener_resume(f->listener); // there is no room: nothing happens
}

static void run_destroy(void *arg)
{
    struct fixture *f = arg;
    while (f->count > 0)
        close(f->taken[--f->count]);
    listener_destroy(f->listener);
}

static void run_measure(void *arg)
{
    struct fixture *f = arg;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    f->cpu_seconds = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_loop(struct fixture *f, loop_fn fn)
{
    listener_fixture_run(&f->base, fn, f);
}

static struct fixture *open_listener(const char *address, size_t cap)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    f->cap = cap;
    listener_fixture_start(&f->base, address);
    on_loop(f, run_create);
    return f;
}

static void close_listener(struct fixture *f)
{
    on_loop(f, run_destroy);
    listener_fixture_stop(&f->base);
    mem_free(f);
}

static void test_cap(void **state)
{
    (void)state;
    struct fixture *f = open_listener("127.0.0.1:0", 2);
    assert_non_null(f->listener);
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = listener_fixture_dial(listener_port(f->listener));
    assert_true(listener_fixture_comes(&f->base, 10) && listener_fixture_comes(&f->base, 10));
    // A turn of the loop later the others still wait in the kernel.
    on_loop(f, run_resume);
    on_loop(f, run_measure);
    assert_int_equal(f->count, 2);
    on_loop(f, run_close_one);
    assert_true(listener_fixture_comes(&f->base, 10));
    on_loop(f, run_measure);
    assert_int_equal(f->count, 2);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close_listener(f);
}

// At the limit it neither spins nor forgets: once there is room again, who waits is served.
static void test_no_descriptors(void **state)
{
    (void)state;
    struct fixture *f = open_listener("127.0.0.1:0", 0);
    struct rlimit old, tight;
    int waiting = listener_fixture_dial(listener_port(f->listener));
    assert_true(listener_fixture_comes(&f->base, 10));
    int next = listener_fixture_dial(listener_port(f->listener)); // takes the last descriptor that the new limit leaves
    assert_true(listener_fixture_comes(&f->base, 10));
    int third = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)third + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    on_loop(f, run_measure);
    double before = f->cpu_seconds;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(listener_port(f->listener))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(third, (struct sockaddr *)&address, sizeof address), 0);
    assert_false(listener_fixture_comes(&f->base, 1));
    on_loop(f, run_measure);
    assert_true(f->cpu_seconds - before < 0.2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(listener_fixture_comes(&f->base, 10));
    close(waiting);
    close(next);
    close(third);
    close_listener(f);
}

// What is handed over does not block, has its options set, and comes with who it is.
static void test_handed_over(void **state)
{
    (void)state;
    struct fixture *f = open_listener("127.0.0.1:0", 0);
    int fd = listener_fixture_dial(listener_port(f->listener));
    assert_true(listener_fixture_comes(&f->base, 10));
    on_loop(f, run_measure);
    assert_true(fcntl(f->taken[0], F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(f->taken[0], F_GETFD) & FD_CLOEXEC);
    int value = 0;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(f->taken[0], IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
    assert_int_equal(value, 1);
    assert_int_equal(getsockopt(f->taken[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len), 0);
    assert_int_equal(value, 60 * 1000);
    struct sockaddr_in mine = {0};
    socklen_t mine_len = sizeof mine;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&mine, &mine_len), 0);
    char expected[LISTENER_REMOTE_BYTES];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", ntohs(mine.sin_port));
    assert_string_equal(f->remote, expected);
    close(fd);
    close_listener(f);
}

static void test_two_share_an_address(void **state)
{
    (void)state;
    struct fixture *one = open_listener("127.0.0.1:0", 0);
    char address[64];
    snprintf(address, sizeof address, "localhost:%u", listener_port(one->listener));
    struct fixture *two = open_listener(address, 0);
    assert_non_null(two->listener);
    int fds[TAKEN_MAX];
    for (int i = 0; i < TAKEN_MAX; i++)
        fds[i] = listener_fixture_dial(listener_port(one->listener));
    for (int i = 0; i < TAKEN_MAX; i++)
        while (sem_trywait(&one->base.accepted) != 0 && sem_trywait(&two->base.accepted) != 0)
            poll(NULL, 0, 1);
    on_loop(one, run_measure);
    on_loop(two, run_measure);
    assert_true(one->count > 0 && two->count > 0);
    assert_int_equal(one->count + two->count, TAKEN_MAX);
    for (int i = 0; i < TAKEN_MAX; i++)
        close(fds[i]);
    close_listener(one);
    close_listener(two);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"", "127.0.0.1", "example.com:1", "127.0.0.1:x", "::1:1", "203.0.113.1:1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fixture *f = open_listener(bad[i], 0);
        if (f->listener) print_error("%s\n", bad[i]);
        assert_null(f->listener);
        assert_int_equal(f->code, f->err.code);
        assert_true(strlen(f->err.text) > 0);
        close_listener(f);
    }
    struct fixture *f = open_listener(":0", 0);
    assert_non_null(f->listener);
    int fd = listener_fixture_dial(listener_port(f->listener));
    assert_true(listener_fixture_comes(&f->base, 10));
    close(fd);
    close_listener(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),         cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_handed_over), cmocka_unit_test(test_two_share_an_address),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
