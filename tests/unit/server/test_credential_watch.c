// credential_watch: what a key opened ends when the key does, and nothing else does. The store is a
// fake.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/chores/credential_watch.h"

enum { KEYS = 2500, ASK_MAX = 1000, GRACE_MS = 60 * 60 * 1000 };

struct opened {
    struct watched_credential grant;
    unsigned voids;
    bool is_unchecked;
    struct opened *removes; // when its own end comes
};

struct bench {
    struct loop *loop;
    struct credential_watch *credential_watch;
    valid_tokens_done on_done; // the question that waits for its answer
    void *arg;
    char ids[ASK_MAX][32];
    size_t count, questions, asked;
    struct opened all[KEYS];
};

static struct bench *bench;

static void valid_tokens(struct pg *pg, const char *const *token_ids, size_t count, valid_tokens_done on_done,
                         void *arg)
{
    (void)pg;
    assert_null(bench->on_done); // one at a time
    assert_in_range(count, 1, ASK_MAX);
    for (size_t i = 0; i < count; i++)
        snprintf(bench->ids[i], sizeof bench->ids[i], "%s", token_ids[i]);
    bench->on_done = on_done;
    bench->arg = arg;
    bench->count = count;
    bench->asked += count;
    bench->questions++;
}

static void set_up(uint64_t grace_ms)
{
    bench = mem_zalloc(sizeof *bench);
    bench->loop = loop_create("test", 0);
    bench->credential_watch = credential_watch_create(
        bench->loop,
        &(struct credential_watch_options){.interval_ms = 1, .grace_ms = grace_ms, .valid_tokens = valid_tokens});
}

static void tear_down(void)
{
    for (size_t i = 0; i < KEYS; i++)
        credential_watch_remove(&bench->all[i].grant);
    credential_watch_stop(bench->credential_watch);
    loop_stop(bench->loop);
    loop_run(bench->loop);
    loop_destroy(bench->loop);
    credential_watch_destroy(bench->credential_watch);
    mem_free(bench);
}

static void on_void(void *arg, bool is_unchecked)
{
    struct opened *opened = arg;
    opened->voids++;
    opened->is_unchecked = is_unchecked;
    assert_null(opened->grant.key);
    if (opened->removes) credential_watch_remove(&opened->removes->grant);
}

static struct opened *open_with(size_t i, const char *token_id)
{
    struct opened *opened = &bench->all[i];
    credential_watch_add(bench->credential_watch, &opened->grant, str_c(token_id), on_void, opened);
    return opened;
}

static void run_until_asked(void)
{
    while (!bench->on_done)
        uv_run(loop_uv(bench->loop), UV_RUN_ONCE);
}

// All that were asked for are valid, but this one.
static void answer_with(const char *not_valid, uint64_t rights)
{
    struct valid_token *valid = mem_array(ASK_MAX, sizeof *valid);
    size_t count = 0;
    for (size_t i = 0; i < bench->count; i++)
        if (!not_valid || strcmp(bench->ids[i], not_valid) != 0)
            valid[count++] = (struct valid_token){str_c(bench->ids[i]), rights};
    valid_tokens_done on_done = bench->on_done;
    assert_non_null(on_done);
    bench->on_done = NULL;
    // Its views may be of memory that the next question reuses.
    char(*copies)[32] = mem_array(ASK_MAX, sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        memcpy(copies[i], valid[i].id.at, valid[i].id.len);
        valid[i].id.at = copies[i];
    }
    on_done(bench->arg, NULL, valid, count);
    mem_free(copies);
    mem_free(valid);
}

static void answer(const char *not_valid)
{
    answer_with(not_valid, 0);
}

static void answer_away(void)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the database is away");
    valid_tokens_done on_done = bench->on_done;
    bench->on_done = NULL;
    on_done(bench->arg, &err, NULL, 0);
}

static void test_a_revoked_key_ends_all_it_opened_and_nothing_else(void **state)
{
    (void)state;
    set_up(GRACE_MS);
    struct opened *first = open_with(0, "revoked"), *second = open_with(1, "revoked"), *other = open_with(2, "good");
    struct opened *third = open_with(3, "revoked");
    third->removes = first; // one end may be that of another
    run_until_asked();
    assert_int_equal(bench->count, 2);
    answer(NULL);
    assert_int_equal(first->voids + second->voids + third->voids + other->voids, 0);
    run_until_asked();
    struct opened *late = open_with(4, "revoked"); // while the answer is on its way
    answer("revoked");
    assert_int_equal(second->voids, 1);
    assert_int_equal(third->voids, 1);
    assert_int_equal(late->voids, 1);
    assert_int_equal(first->voids, 0);
    assert_int_equal(other->voids, 0);
    assert_false(second->is_unchecked);
    run_until_asked();
    assert_int_equal(bench->count, 1);
    assert_string_equal(bench->ids[0], "good");
    tear_down();
}

static void test_what_watches_rights_ends_when_they_change(void **state)
{
    (void)state;
    set_up(GRACE_MS);
    struct opened *call = open_with(0, "key"), *stream = &bench->all[1], *same = &bench->all[2],
                  *third = &bench->all[3];
    credential_watch_add_rights(bench->credential_watch, &stream->grant, STR("key"), 7, on_void, stream);
    credential_watch_add_rights(bench->credential_watch, &same->grant, STR("key"), 8, on_void, same);
    credential_watch_add_rights(bench->credential_watch, &third->grant, STR("key"), 7, on_void, third);
    stream->removes = third; // one end may be that of another
    third->removes = stream;
    run_until_asked();
    answer_with(NULL, 8);
    assert_int_equal(stream->voids + third->voids, 1);
    assert_int_equal(call->voids + same->voids, 0);
    run_until_asked();
    answer_with(NULL, 9);
    assert_int_equal(same->voids, 1);
    assert_int_equal(call->voids, 0);
    tear_down();
}

static void test_what_has_ended_is_not_asked_for(void **state)
{
    (void)state;
    set_up(GRACE_MS);
    open_with(0, "over");
    credential_watch_remove(&bench->all[0].grant);
    open_with(1, "open");
    run_until_asked();
    assert_int_equal(bench->count, 1);
    assert_string_equal(bench->ids[0], "open");
    credential_watch_remove(&bench->all[1].grant); // in the middle of the question
    answer("open");
    assert_int_equal(bench->all[1].voids, 0);
    // Nothing is open: nobody is woken any more. A turn that might wait would do so for ever when
    // it ends that.
    while (uv_backend_timeout(loop_uv(bench->loop)) != -1) {
        poll(NULL, 0, 5);
        uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
    }
    assert_int_equal(bench->questions, 1);
    tear_down();
}

static void test_many_keys_take_several_questions(void **state)
{
    (void)state;
    set_up(GRACE_MS);
    char id[32];
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(id, sizeof id, "key-%zu", i);
        open_with(i, id);
    }
    size_t ended = 0;
    while (!bench->all[1234].voids || !bench->all[KEYS - 1].voids) {
        run_until_asked();
        answer(bench->all[1234].voids ? "key-2499" : "key-1234");
    }
    for (size_t i = 0; i < KEYS; i++)
        ended += bench->all[i].voids;
    assert_int_equal(ended, 2);
    tear_down();
}

static void test_without_a_database_all_goes_on_for_a_while(void **state)
{
    (void)state;
    set_up(GRACE_MS);
    struct opened *opened = open_with(0, "key");
    for (int i = 0; i < 3; i++) {
        run_until_asked();
        answer_away();
    }
    assert_int_equal(opened->voids, 0);
    run_until_asked();
    answer("key");
    assert_int_equal(opened->voids, 1);
    tear_down();

    set_up(400);
    opened = open_with(0, "key");
    while (!opened->voids) // no answer ever comes
        uv_run(loop_uv(bench->loop), UV_RUN_ONCE);
    assert_true(opened->is_unchecked);
    if (bench->on_done) answer_away();
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_revoked_key_ends_all_it_opened_and_nothing_else),
        cmocka_unit_test(test_what_watches_rights_ends_when_they_change),
        cmocka_unit_test(test_what_has_ended_is_not_asked_for),
        cmocka_unit_test(test_many_keys_take_several_questions),
        cmocka_unit_test(test_without_a_database_all_goes_on_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
