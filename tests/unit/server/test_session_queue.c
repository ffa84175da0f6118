// The queue alone: its database is this file's own and answers when a test has it answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/sessions/session_queue.h"
#include "storage/sessions/session_batch.h"

enum { NAMES_MAX = 600 };

// What the fake database was asked last, and is still to answer.
static struct {
    size_t opens, closes; // transactions so far
    size_t count;
    char names[SESSION_BATCH_MAX][16];
    session_batch_opened on_opened;
    store_count_done on_closed;
    void *arg;
} asked;

static struct {
    size_t opened, refused;
    char last[16];
    uint64_t last_epoch;
} told;

static void note_name(size_t i, struct str name)
{
    snprintf(asked.names[i], sizeof asked.names[i], "%.*s", STR_ARG(name));
    if (i) assert_true(strcmp(asked.names[i - 1], asked.names[i]) < 0); // in order, none twice
}

static void open_batch(struct pg *pg, struct str replica, const struct session_new *sessions, size_t count,
                       session_batch_opened on_done, void *arg)
{
    assert_null(pg);
    assert_true(str_eq(replica, STR("replica")));
    assert_null(asked.on_opened); // one at a time
    for (size_t i = 0; i < count; i++)
        note_name(i, sessions[i].runtime);
    asked.opens++;
    asked.count = count;
    asked.on_opened = on_done;
    asked.arg = arg;
}

static void close_batch(struct pg *pg, const struct session_over *sessions, size_t count, store_count_done on_done,
                        void *arg)
{
    assert_null(pg);
    assert_null(asked.on_closed);
    for (size_t i = 0; i < count; i++)
        note_name(i, sessions[i].runtime);
    asked.closes++;
    asked.count = count;
    asked.on_closed = on_done;
    asked.arg = arg;
}

static void answer_opened(const struct error *err)
{
    struct session_grant grants[SESSION_BATCH_MAX];
    session_batch_opened on_opened = asked.on_opened;
    assert_non_null(on_opened);
    asked.on_opened = NULL;
    for (size_t i = 0; i < asked.count; i++)
        grants[i] = (struct session_grant){.epoch = 7};
    on_opened(asked.arg, err, err ? NULL : grants);
}

static void answer_closed(const struct error *err)
{
    store_count_done on_closed = asked.on_closed;
    assert_non_null(on_closed);
    asked.on_closed = NULL;
    on_closed(asked.arg, err, 0);
}

static void on_opened(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct error *err, struct session_grant grant)
{
    assert_null(ctx);
    assert_non_null(node);
    if (err)
        told.refused++;
    else
        told.opened++;
    told.last_epoch = grant.epoch;
    snprintf(told.last, sizeof told.last, "%.15s", session->identity.runtime);
}

struct fixture {
    struct loop *loop;
    struct session_queue *queue;
    atomic_bool may_open;
    struct tunnel_node *node; // never looked into
};

static int set_up(void **state)
{
    memset(&asked, 0, sizeof asked);
    memset(&told, 0, sizeof told);
    struct fixture *f = mem_zalloc(sizeof *f);
    f->loop = loop_create("test", 0);
    f->node = (struct tunnel_node *)f;
    atomic_init(&f->may_open, true);
    f->queue = session_queue_create(f->loop, &(struct session_queue_options){.replica = "replica",
                                                                             .may_open = &f->may_open,
                                                                             .ends_max = 4,
                                                                             .open = open_batch,
                                                                             .close = close_batch,
                                                                             .on_opened = on_opened});
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    const struct error closing = {.code = ERROR_CANCELLED};
    session_queue_stop(f->queue);
    if (asked.on_opened) answer_opened(&closing);
    while (asked.on_closed)
        answer_closed(&closing);
    session_queue_destroy(f->queue);
    uv_run(loop_uv(f->loop), UV_RUN_NOWAIT); // its timer is closed
    loop_destroy(f->loop);
    mem_free(f);
    return 0;
}

static struct tunnel_session_info info_of(unsigned number)
{
    struct tunnel_session_info info = {.ref = {.node = 0, .id = number + 1}};
    snprintf(info.identity.account_id, sizeof info.identity.account_id, "account");
    snprintf(info.identity.runtime, sizeof info.identity.runtime, "r-%05u", number);
    return info;
}

static void open_some(struct fixture *f, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        struct tunnel_session_info info = info_of(i);
        session_queue_open(f->queue, f->node, &info);
    }
}

static void one_waits_for_nobody_and_many_share(void **state)
{
    struct fixture *f = *state;
    open_some(f, 0, NAMES_MAX);
    assert_int_equal(asked.opens, 1);
    assert_int_equal(asked.count, 1);
    answer_opened(NULL);
    assert_int_equal(told.opened, 1);
    assert_int_equal(told.last_epoch, 7);
    assert_int_equal(asked.count, SESSION_BATCH_MAX);
    answer_opened(NULL);
    answer_opened(NULL);
    assert_int_equal(asked.count, NAMES_MAX - 1 - 2 * SESSION_BATCH_MAX);
    answer_opened(NULL);
    assert_int_equal(told.opened, NAMES_MAX);
    assert_int_equal(asked.opens, 4);
}

static void a_runtime_is_never_in_a_transaction_twice(void **state)
{
    struct fixture *f = *state;
    open_some(f, 99, 1);
    open_some(f, 0, 3);
    struct tunnel_session_info again = info_of(1);
    again.ref.id = 1000;
    session_queue_open(f->queue, f->node, &again);
    answer_opened(NULL);
    assert_int_equal(asked.count, 3);
    answer_opened(NULL);
    assert_int_equal(asked.count, 1);
    assert_string_equal(asked.names[0], "r-00001");
    answer_opened(NULL);
    assert_int_equal(told.opened, 5);
}

static void what_is_refused_ends_alone(void **state)
{
    struct fixture *f = *state;
    const struct error bad = {.code = ERROR_INVALID};
    open_some(f, 99, 1);
    open_some(f, 0, 20); // of them, r-00013 is what the database does not take
    answer_opened(NULL);
    while (asked.on_opened) {
        bool has_it = false;
        for (size_t i = 0; i < asked.count; i++)
            has_it |= strcmp(asked.names[i], "r-00013") == 0;
        bool alone = has_it && asked.count == 1;
        answer_opened(has_it ? &bad : NULL);
        if (alone) assert_string_equal(told.last, "r-00013");
        assert_true(asked.opens < 20);
    }
    assert_int_equal(told.opened, 20);
    assert_int_equal(told.refused, 1);
}

static void all_are_refused_when_the_database_is_away(void **state)
{
    struct fixture *f = *state;
    const struct error away = {.code = ERROR_UNAVAILABLE};
    open_some(f, 0, 10);
    answer_opened(&away);
    assert_int_equal(told.refused, 10);
    assert_null(asked.on_opened);
}

static void openings_wait_until_they_may(void **state)
{
    struct fixture *f = *state;
    atomic_store(&f->may_open, false);
    open_some(f, 0, 3);
    assert_null(asked.on_opened);
    atomic_store(&f->may_open, true);
    while (!asked.on_opened)
        uv_run(loop_uv(f->loop), UV_RUN_ONCE);
    assert_int_equal(asked.count, 3);
}

static void who_left_meanwhile_is_closed_again(void **state)
{
    struct fixture *f = *state;
    open_some(f, 0, 2);
    session_queue_forget(f->queue, (struct tunnel_session_ref){.id = 1}); // under way
    session_queue_forget(f->queue, (struct tunnel_session_ref){.id = 2}); // waiting: it is never sent
    answer_opened(NULL);
    assert_int_equal(told.opened, 0);
    assert_int_equal(asked.opens, 1);
    assert_int_equal(asked.closes, 1);
    assert_string_equal(asked.names[0], "r-00000");
}

static void ends_are_kept_until_they_are_written(void **state)
{
    struct fixture *f = *state;
    const struct error away = {.code = ERROR_UNAVAILABLE}, bad = {.code = ERROR_INTERNAL};
    for (unsigned i = 0; i < 3; i++) {
        struct tunnel_session_info info = info_of(i);
        session_queue_close(f->queue, &info, 5, "over");
    }
    answer_closed(&away);
    assert_null(asked.on_closed); // not at once
    while (!asked.on_closed)
        uv_run(loop_uv(f->loop), UV_RUN_ONCE);
    assert_int_equal(asked.count, 3);
    answer_closed(&bad); // halves
    assert_int_equal(asked.count, 2);
    answer_closed(NULL);
    assert_int_equal(asked.count, 1);
    answer_closed(&bad); // alone: there is no use in trying again
    assert_null(asked.on_closed);
}

static void ends_that_wait_are_bounded(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 9; i++) {
        struct tunnel_session_info info = info_of(i);
        session_queue_close(f->queue, &info, 5, "over");
    }
    answer_closed(NULL);
    assert_int_equal(asked.count, 4);
    assert_string_equal(asked.names[0], "r-00005"); // the newest of them
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_waits_for_nobody_and_many_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_runtime_is_never_in_a_transaction_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_refused_ends_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_are_refused_when_the_database_is_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(openings_wait_until_they_may, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_left_meanwhile_is_closed_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_are_kept_until_they_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_that_wait_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
