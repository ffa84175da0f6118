// The small parts: turn, id_map, queue, cause.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/broker.h"
#include "tunnel/cause.h"
#include "tunnel/id_map.h"
#include "tunnel/queue.h"
#include "tunnel/turn.h"

struct job {
    struct turn_item item;
    struct turn *turn;
    struct job *adds, *removes;
    unsigned runs, again;
};

static void job_run(struct turn_item *item)
{
    struct job *job = (struct job *)((char *)item - offsetof(struct job, item));
    job->runs++;
    if (job->adds) turn_add(job->turn, &job->adds->item);
    if (job->removes) turn_remove(job->turn, &job->removes->item);
    if (job->again) {
        job->again--;
        turn_add(job->turn, item);
    }
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void test_turn(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct turn turn;
    bool closed = false;
    uv_loop_init(&loop);
    turn_init(&turn, &loop);
    struct job jobs[4];
    for (int i = 0; i < 4; i++)
        jobs[i] = (struct job){.item.run = job_run, .turn = &turn};
    jobs[0].adds = &jobs[3];    // runs in the next turn
    jobs[0].removes = &jobs[1]; // of the batch that runs now
    jobs[2].again = 2;
    turn_add(&turn, &jobs[0].item);
    turn_add(&turn, &jobs[0].item); // once is enough
    turn_add(&turn, &jobs[1].item);
    turn_add(&turn, &jobs[2].item);
    uv_run(&loop, UV_RUN_ONCE); // does not block: there is work
    assert_int_equal(jobs[0].runs, 1);
    assert_int_equal(jobs[1].runs, 0);
    assert_int_equal(jobs[2].runs, 1);
    assert_int_equal(jobs[3].runs, 0);
    uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(jobs[3].runs, 1);
    uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(jobs[2].runs, 3);
    turn_add(&turn, &jobs[1].item);
    turn_add(&turn, &jobs[0].item);
    turn_remove(&turn, &jobs[0].item); // the last one: the list's end moves back
    turn_add(&turn, &jobs[2].item);
    turn_close(&turn, set_true, &closed); // runs what is left
    assert_int_equal(jobs[1].runs, 1);
    assert_int_equal(jobs[2].runs, 4);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_id_map(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct id_map map;
    static int values[MANY + 1];
    id_map_init(&map);
    assert_null(id_map_get(&map, 1));
    id_map_remove(&map, 1);
    for (uint64_t i = 1; i <= MANY; i++)
        id_map_put(&map, i % 2 ? i : i | UINT64_C(3) << 48, &values[i]);
    for (uint64_t i = 1; i <= MANY; i += 3)
        id_map_remove(&map, i % 2 ? i : i | UINT64_C(3) << 48);
    for (uint64_t i = 1; i <= MANY; i++) {
        void *found = id_map_get(&map, i % 2 ? i : i | UINT64_C(3) << 48);
        assert_ptr_equal(found, i % 3 == 1 ? NULL : &values[i]);
    }
    assert_int_equal(map.count, MANY - MANY / 3);
    id_map_finish(&map);
}

static void test_queue(void **state)
{
    (void)state;
    struct tunnel_queue queue;
    tunnel_queue_init(&queue, 100000);
    uint8_t next_in = 0, next_out = 0;
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[97];
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = next_in++;
        assert_true(tunnel_queue_add(&queue, bytes, sizeof(bytes)));
        size_t take = (size_t)(round % 2 ? 97 * 2 - 60 : 60);
        if (take > queue.len) take = queue.len;
        for (size_t i = 0; i < take; i++)
            assert_int_equal(tunnel_queue_front(&queue)[i], next_out++);
        tunnel_queue_drop(&queue, take);
    }
    tunnel_queue_drop(&queue, queue.len);
    assert_null(queue.at); // empty: no memory
    static uint8_t big[100001];
    assert_false(tunnel_queue_add(&queue, big, sizeof(big)));
    assert_true(tunnel_queue_add(&queue, big, 100000));
    assert_false(tunnel_queue_add(&queue, big, 1));
    tunnel_queue_finish(&queue);
}

static void test_causes(void **state)
{
    (void)state;
    assert_string_equal(tunnel_cause_name(TUNNEL_CAUSE_NO_TUNNEL), "no-tunnel");
    assert_int_equal(tunnel_cause_status(TUNNEL_CAUSE_HEAD_TIMEOUT), 504);
    assert_int_equal(tunnel_cause_parse(STR("dial-failed")), TUNNEL_CAUSE_DIAL_FAILED);
    assert_int_equal(tunnel_cause_parse(STR("not-allowed")), TUNNEL_CAUSE_NOT_ALLOWED);
    assert_int_equal(tunnel_cause_parse(STR("no-tunnel")), TUNNEL_CAUSE_NONE); // not an agent's to say
    assert_int_equal(tunnel_cause_parse(STR("")), TUNNEL_CAUSE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turn), cmocka_unit_test(test_id_map),
                                       cmocka_unit_test(test_queue), cmocka_unit_test(test_causes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
