// A listener's listener: counts up to its cap, hands over handles with room for the owner's own
// fields.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/tls/tcp_listener.h"
#include "tests/support/listener_fixture.h"

enum { TAKEN_MAX = 64, OWNERS_BYTES = 3000 };

struct fixture {
    struct listener_fixture base;
    struct tcp_listener *listener;
    struct quota own, *quota; // quota: its own, or another's
    struct error err;
    uv_tcp_t *taken[TAKEN_MAX];
    size_t count;
    bool own_not_zero;
};

static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    struct fixture *f = ctx;
    const unsigned char *own = (const unsigned char *)(tcp + 1);
    for (size_t i = 0; i < OWNERS_BYTES; i++)
        if (own[i]) f->own_not_zero = true;
    f->taken[f->count++] = tcp;
    listener_fixture_count(&f->base);
}

static void run_create(void *arg)
{
    struct fixture *f = arg;
    f->listener = tcp_listener_create(f->base.loop, f->base.address, f->quota, on_accepted, f, &f->err);
    if (f->listener) tcp_listener_set_handle_bytes(f->listener, sizeof(uv_tcp_t) + OWNERS_BYTES);
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
}

static void run_nothing(void *arg)
{
    (void)arg;
}

static void on_loop(struct fixture *f, loop_fn fn)
{
    listener_fixture_run(&f->base, fn, f);
}

static struct fixture *open_listener(const char *address, size_t cap, struct quota *shared)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    f->own.max = cap;
    f->quota = shared ? shared : &f->own;
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
    struct fixture *f = open_listener("127.0.0.1:0", 2, NULL);
    assert_non_null(f->listener);
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = listener_fixture_dial(tcp_listener_port(f->listener));
    assert_true(listener_fixture_comes(&f->base, 10) && listener_fixture_comes(&f->base, 10));
    // A turn of the loop later the others still wait in the kernel.
    on_loop(f, run_nothing);
    assert_int_equal(f->count, 2);
    on_loop(f, run_close_one);
    assert_true(listener_fixture_comes(&f->base, 10));
    on_loop(f, run_nothing);
    assert_int_equal(f->count, 2);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    assert_false(f->own_not_zero);
    close_listener(f);
}

// What one loop gives back another one takes, though nobody tells it.
static void test_cap_of_two_loops(void **state)
{
    (void)state;
    struct quota quota = {.max = 2};
    struct fixture *a = open_listener("127.0.0.1:0", 0, &quota), *b = open_listener("127.0.0.1:0", 0, &quota);
    int fds[3] = {listener_fixture_dial(tcp_listener_port(a->listener)),
                  listener_fixture_dial(tcp_listener_port(a->listener)), -1};
    assert_true(listener_fixture_comes(&a->base, 10) && listener_fixture_comes(&a->base, 10));
    fds[2] = listener_fixture_dial(tcp_listener_port(b->listener));
    on_loop(b, run_nothing);
    assert_int_equal(b->count, 0);
    on_loop(a, run_close_one);
    assert_true(listener_fixture_comes(&b->base, 10));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close_listener(a);
    close_listener(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_cap_of_two_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
