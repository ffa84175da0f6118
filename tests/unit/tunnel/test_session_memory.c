// tunnel/session_memory: what nghttp2 asks for finds its place, once; the rest comes from the heap;
// nothing of one session is seen by the next, and what is not touched is no memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/session/session_memory.h"

enum { FRAME_BYTES = 16394, TABLE_BYTES = 1024, SESSIONS = 200 };

static void test_parts_do_not_overlap(void **state)
{
    (void)state;
    struct session_memory_pool pool;
    session_memory_pool_init(&pool);
    struct session_memory *memory = session_memory_create(&pool);
    nghttp2_mem *m = session_memory_callbacks(memory);
    const size_t sizes[] = {2928, FRAME_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, FRAME_BYTES, 4096, 0, 1};
    uint8_t *blocks[sizeof(sizes) / sizeof(sizes[0])];
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        blocks[i] = i % 2 ? m->malloc(sizes[i], m->mem_user_data) : m->calloc(1, sizes[i], m->mem_user_data);
        assert_non_null(blocks[i]);
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(blocks[i][k], i + 1);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        m->free(blocks[i], m->mem_user_data);
    m->free(NULL, m->mem_user_data);
    session_memory_destroy(memory);
    session_memory_pool_finish(&pool);
}

static void test_growing_out_of_a_part(void **state)
{
    (void)state;
    struct session_memory_pool pool;
    session_memory_pool_init(&pool);
    struct session_memory *memory = session_memory_create(&pool);
    nghttp2_mem *m = session_memory_callbacks(memory);
    uint8_t *state_block = m->calloc(1, 100, m->mem_user_data);
    uint8_t *table = m->malloc(TABLE_BYTES, m->mem_user_data);
    memset(table, 7, TABLE_BYTES);
    assert_ptr_equal(m->realloc(table, 10, m->mem_user_data), table);
    uint8_t *bigger = m->realloc(table, 5000, m->mem_user_data);
    assert_ptr_not_equal(bigger, table);
    for (unsigned i = 0; i < TABLE_BYTES; i++)
        assert_int_equal(bigger[i], 7);
    bigger = m->realloc(bigger, 9000, m->mem_user_data);
    assert_ptr_equal(m->malloc(TABLE_BYTES, m->mem_user_data), table); // its place is free again
    m->free(m->realloc(NULL, 50, m->mem_user_data), m->mem_user_data);
    m->free(table, m->mem_user_data);
    m->free(bigger, m->mem_user_data);
    m->free(state_block, m->mem_user_data);
    session_memory_destroy(memory);
    session_memory_pool_finish(&pool);
}

// How many pages of the frame buffer are memory.
static unsigned resident(const void *at, size_t bytes)
{
    unsigned char pages[16];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)at / page * page;
    size_t count = ((uintptr_t)at + bytes - from + page - 1) / page;
    unsigned in = 0;
    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore((void *)from, count * page, pages), 0);
    for (size_t i = 0; i < count; i++)
        in += pages[i] & 1;
    return in;
}

static void test_many_come_and_go(void **state)
{
    (void)state;
    struct session_memory_pool pool;
    session_memory_pool_init(&pool);
    struct session_memory *sessions[SESSIONS];
    uint8_t *frames[SESSIONS];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SESSIONS; i++) {
            sessions[i] = session_memory_create(&pool);
            nghttp2_mem *m = session_memory_callbacks(sessions[i]);
            frames[i] = m->realloc(NULL, FRAME_BYTES, m->mem_user_data); // as nghttp2 does
            assert_int_equal(resident(frames[i], FRAME_BYTES), 0);       // nothing is left of the one before
            frames[i][0] = 1;
            assert_int_equal(frames[i][FRAME_BYTES - 1], 0);
            assert_true(resident(frames[i], FRAME_BYTES) <= 2);
            memset(frames[i], 0xff, FRAME_BYTES);
        }
        assert_int_equal(pool.slots_used, SESSIONS);
        for (unsigned i = 0; i < SESSIONS; i++) {
            unsigned which = (i * 7 + round) % SESSIONS; // 7 and 200 have no common divisor
            nghttp2_mem *m = session_memory_callbacks(sessions[which]);
            m->free(frames[which], m->mem_user_data);
            session_memory_destroy(sessions[which]);
        }
        assert_int_equal(pool.slots_used, 0);
    }
    session_memory_pool_finish(&pool);
}

// The whole point, with nghttp2 itself: one page for its state and its frames.
static void test_nghttp2_lives_in_one_page(void **state)
{
    (void)state;
    struct session_memory_pool pool;
    session_memory_pool_init(&pool);
    struct session_memory *memory = session_memory_create(&pool);
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *h2;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    assert_int_equal(nghttp2_session_client_new3(&h2, callbacks, NULL, NULL, session_memory_callbacks(memory)), 0);
    nghttp2_session_callbacks_del(callbacks);
    const uint8_t *out;
    assert_int_equal(nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    assert_int_equal(nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, NULL), 0);
    while (nghttp2_session_mem_send(h2, &out) > 0) {}
    assert_int_equal(resident(h2, 24 * 1024 - 1), 1);
    nghttp2_session_del(h2);
    session_memory_destroy(memory);
    session_memory_pool_finish(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_do_not_overlap), cmocka_unit_test(test_growing_out_of_a_part),
        cmocka_unit_test(test_many_come_and_go), cmocka_unit_test(test_nghttp2_lives_in_one_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
