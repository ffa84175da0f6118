// turn: work put off to the end of the loop's turn runs once, in order, and never blocks the poll.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/loop/turn.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
