// A door's listener: counts up to its cap, hands over handles with room for the owner's own fields.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/tls/tcp_listener.h"

enum { TAKEN_MAX = 64, OWNERS_BYTES = 3000 };

struct fixture {
    struct loop *loop;
    struct tcp_listener *listener;
    char address[64];
    size_t cap;
    struct error err;
    uv_tcp_t *taken[TAKEN_MAX];
    size_t count;
    bool own_not_zero;
    sem_t done, accepted;
};

static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    struct fixture *f = ctx;
    const unsigned char *own = (const unsigned char *)(tcp + 1);
    for (size_t i = 0; i < OWNERS_BYTES; i++)
        if (own[i]) f->own_not_zero = true;
    f->taken[f->count++] = tcp;
    sem_post(&f->accepted);
}

static void run_create(void *arg)
{
    struct fixture *f = arg;
    f->listener = tcp_listener_create(f->loop, f->address, f->cap, on_accepted, f, &f->err);
    if (f->listener) tcp_listener_set_handle_bytes(f->listener, sizeof(uv_tcp_t) + OWNERS_BYTES);
    sem_post(&f->done);
}

static void on_tcp_closed(uv_handle_t *handle)
{
    tcp_listener_connection_closed(handle->data);
    mem_free(handle);
}

static void run_close_one(void *arg)
{
    struct fixture *f = arg;
    uv_tcp_t *tcp = f->taken[--f->count];
    tcp->data = f->listener;
    uv_close((uv_handle_t *)tcp, on_tcp_closed);
    sem_post(&f->done);
}

static void drop(uv_handle_t *handle)
{
    mem_free(handle);
}

static void run_destroy(void *arg)
{
    struct fixture *f = arg;
    while (f->count > 0)
        uv_close((uv_handle_t *)f->taken[--f->count], drop);
    tcp_listener_destroy(f->listener);
    sem_post(&f->done);
}

static void run_nothing(void *arg)
{
    struct fixture *f = arg;
    sem_post(&f->done);
}

static void on_loop(struct fixture *f, loop_fn fn)
{
    loop_post(f->loop, fn, f);
    sem_wait(&f->done);
}

static struct fixture *open_listener(const char *address, size_t cap)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    sem_init(&f->done, 0, 0);
    sem_init(&f->accepted, 0, 0);
    snprintf(f->address, sizeof f->address, "%s", address);
    f->cap = cap;
    f->loop = loop_create("listener-test", 0);
    assert_int_equal(loop_start(f->loop, &f->err), ERROR_NONE);
    on_loop(f, run_create);
    return f;
}

static void close_listener(struct fixture *f)
{
    on_loop(f, run_destroy);
    loop_stop(f->loop);
    loop_join(f->loop);
    loop_destroy(f->loop);
    sem_destroy(&f->done);
    sem_destroy(&f->accepted);
    mem_free(f);
}

static int dial(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool comes(struct fixture *f, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    return sem_timedwait(&f->accepted, &until) == 0;
}

static void test_cap(void **state)
{
    (void)state;
    struct fixture *f = open_listener("127.0.0.1:0", 2);
    assert_non_null(f->listener);
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = dial(tcp_listener_port(f->listener));
    assert_true(comes(f, 10) && comes(f, 10));
    // A turn of the loop later the others still wait in the kernel.
    on_loop(f, run_nothing);
    assert_int_equal(f->count, 2);
    on_loop(f, run_close_one);
    assert_true(comes(f, 10));
    on_loop(f, run_nothing);
    assert_int_equal(f->count, 2);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    assert_false(f->own_not_zero);
    close_listener(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
