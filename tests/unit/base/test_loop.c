// loop: messages from many threads arrive once, in each sender's order, on the loop's thread.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/loop/loop.h"
#include "base/mem.h"

enum { SENDERS = 4, LETTERS = 20000 };

struct tally {
    struct loop *loop;
    unsigned next[SENDERS];
    unsigned total;
    bool wrong_order, wrong_thread;
};

struct message {
    struct tally *tally;
    unsigned sender, number;
};

static void on_message(void *arg)
{
    struct message *message = arg;
    struct tally *tally = message->tally;
    if (!loop_is_current(tally->loop)) tally->wrong_thread = true;
    if (tally->next[message->sender]++ != message->number) tally->wrong_order = true;
    if (++tally->total == SENDERS * LETTERS) loop_stop(tally->loop);
    mem_free(message);
}

struct sender {
    struct tally *tally;
    unsigned number;
    uv_thread_t thread;
};

static void send_all(void *arg)
{
    struct sender *sender = arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        struct message *message = mem_alloc(sizeof *message);
        *message = (struct message){.tally = sender->tally, .sender = sender->number, .number = i};
        loop_post(sender->tally->loop, on_message, message);
    }
}

static void test_posts_from_threads(void **state)
{
    (void)state;
    struct tally tally = {.loop = loop_create("test", 0)};
    struct error err;
    assert_int_equal(loop_start(tally.loop, &err), ERROR_NONE);
    struct sender senders[SENDERS];
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.tally = &tally, .number = i};
        assert_int_equal(uv_thread_create(&senders[i].thread, send_all, &senders[i]), 0);
    }
    for (unsigned i = 0; i < SENDERS; i++)
        uv_thread_join(&senders[i].thread);
    loop_join(tally.loop);
    assert_int_equal(tally.total, SENDERS * LETTERS);
    assert_false(tally.wrong_order);
    assert_false(tally.wrong_thread);
    loop_destroy(tally.loop);
}

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

static void test_messages_after_the_stop_are_not_lost(void **state)
{
    (void)state;
    struct loop *loop = loop_create("test", 0);
    unsigned seen = 0;
    loop_stop(loop);
    loop_run(loop);
    loop_post(loop, count, &seen);
    loop_post(loop, count, &seen);
    loop_destroy(loop);
    assert_int_equal(seen, 2);
}

static void spin(void *arg)
{
    const atomic_bool *released = arg;
    while (!atomic_load(released))
        sched_yield();
}

static bool is_busier(struct loop *loop, unsigned percent)
{
    return loop_busy_percent(loop) > percent;
}

static void wait_until_busier(struct loop *loop, unsigned percent, bool wanted)
{
    uint64_t until = clock_mono_ms() + 20000;
    while (is_busier(loop, percent) != wanted && clock_mono_ms() < until)
        sched_yield();
    assert_int_equal(is_busier(loop, percent), wanted);
}

static void test_busy_is_what_the_thread_uses(void **state)
{
    (void)state;
    struct error err;
    atomic_bool released = false;
    struct loop *loop = loop_create("test", 0);
    assert_int_equal(loop_busy_percent(loop), 100); // nothing is known
    assert_int_equal(loop_start(loop, &err), ERROR_NONE);
    wait_until_busier(loop, 5, false);
    unsigned admitted = 0;
    for (unsigned i = 0; i < 1000; i++)
        admitted += loop_admit(loop, 50);
    assert_in_range(admitted, 1, 500); // each counts
    loop_post(loop, spin, &released);
    wait_until_busier(loop, 5, true);
    atomic_store(&released, true);
    wait_until_busier(loop, 5, false);
    loop_stop(loop);
    loop_join(loop);
    assert_int_equal(loop_busy_percent(loop), 100);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_from_threads),
        cmocka_unit_test(test_messages_after_the_stop_are_not_lost),
        cmocka_unit_test(test_busy_is_what_the_thread_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
