// byte_queue: first in, first out, within its bound, no memory while empty.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/loop/byte_queue.h"

static void test_bound(void **state)
{
    (void)state;
    struct byte_queue queue;
    byte_queue_init(&queue, 100000);
    uint8_t next_in = 0, next_out = 0;
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[97];
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = next_in++;
        assert_true(byte_queue_add(&queue, bytes, sizeof(bytes)));
        size_t take = (size_t)(round % 2 ? 97 * 2 - 60 : 60);
        if (take > byte_queue_len(&queue)) take = byte_queue_len(&queue);
        for (size_t i = 0; i < take; i++)
            assert_int_equal(byte_queue_front(&queue)[i], next_out++);
        byte_queue_drop(&queue, take);
    }
    byte_queue_drop(&queue, byte_queue_len(&queue));
    assert_null(queue.at); // empty: no memory
    static uint8_t big[100001];
    assert_false(byte_queue_add(&queue, big, sizeof(big)));
    assert_true(byte_queue_add(&queue, big, 100000));
    assert_false(byte_queue_add(&queue, big, 1));
    byte_queue_finish(&queue);
}

// Without a bound of its own, zeroed: what the owner asks for, in order, across growth.
static void test_zeroed(void **state)
{
    (void)state;
    enum { PIECE = 5000, PIECES = 60 };
    struct byte_queue queue = {.at = NULL};
    static uint8_t piece[PIECE];
    assert_int_equal(byte_queue_len(&queue), 0);
    assert_null(byte_queue_front(&queue));
    byte_queue_drop(&queue, 0);
    for (int i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < PIECE; k++)
            piece[k] = (uint8_t)i;
        assert_true(byte_queue_add(&queue, piece, PIECE));
        assert_true(byte_queue_add(&queue, NULL, 0));
    }
    assert_int_equal(byte_queue_len(&queue), PIECE * PIECES);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(byte_queue_front(&queue)[0], i);
        assert_int_equal(byte_queue_front(&queue)[PIECE - 1], i);
        byte_queue_drop(&queue, PIECE);
    }
    assert_null(queue.at);
    assert_true(byte_queue_add(&queue, "again", 5));
    assert_memory_equal(byte_queue_front(&queue), "again", 5);
    byte_queue_finish(&queue);
    assert_int_equal(byte_queue_len(&queue), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_zeroed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
