// The lag that agents report, on its way to PostgreSQL, which is this file's own here and answers
// when a test has it answer.
#include "server/sessions/session_lags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/metrics/metrics.h"
#include "base/strbuf.h"
#include "storage/sessions/session_batch.h"

static struct {
    unsigned writes;
    char rows[1024]; // of the last: "account/runtime epoch behind blind, " in seconds
    store_count_done on_done;
    void *arg;
} database;

static void write_lags(struct pg *pg, const struct session_lag *lags, size_t count, store_count_done on_done, void *arg)
{
    (void)pg;
    assert_null(database.on_done);
    database.writes++;
    database.rows[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(database.rows);
        snprintf(database.rows + used, sizeof database.rows - used, "%s/%.*s %u %u %u, ", lags[i].account_id,
                 STR_ARG(lags[i].runtime), (unsigned)lags[i].epoch, (unsigned)(lags[i].behind_ms / 1000),
                 (unsigned)(lags[i].blind_ms / 1000));
    }
    database.on_done = on_done;
    database.arg = arg;
}

static void answer(bool good)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "away");
    store_count_done on_done = database.on_done;
    assert_non_null(on_done);
    database.on_done = NULL;
    on_done(database.arg, good ? NULL : &err, 0);
}

struct world {
    struct loop *loop;
    struct session_lags *lags;
};

static void begin(struct world *world)
{
    memset(&database, 0, sizeof database);
    world->loop = loop_create("test", 0);
    world->lags = session_lags_create(world->loop, &(struct session_lags_options){.write = write_lags});
}

static void end(struct world *world)
{
    session_lags_stop(world->lags);
    session_lags_destroy(world->lags);
    loop_destroy(world->loop);
}

static void say(struct world *world, const char *runtime, uint64_t id, uint64_t behind_ms, uint64_t blind_ms)
{
    struct tunnel_session_info session = {.ref = {.node = 0, .id = id}, .epoch = id + 100};
    snprintf(session.identity.account_id, sizeof session.identity.account_id, "a");
    snprintf(session.identity.runtime, sizeof session.identity.runtime, "%s", runtime);
    session_lags_take(world->lags, &session, behind_ms, blind_ms);
}

static bool metric_has(const char *text)
{
    struct strbuf out;
    strbuf_init(&out, 1 << 20);
    metrics_render(&out, false);
    bool found = strstr(out.at, text) != NULL;
    strbuf_finish(&out);
    return found;
}

static void only_what_lags_is_written(void **state)
{
    (void)state;
    struct world world;
    begin(&world);
    say(&world, "one", 1, 300, 0);
    assert_int_equal(database.writes, 0);
    say(&world, "one", 1, 7000, 0);
    assert_string_equal(database.rows, "a/one 101 7 0, ");
    assert_true(metric_has("culvert_runtime_lag_seconds{account=\"a\",runtime=\"one\"} 7."));
    answer(true);
    say(&world, "one", 1, 0, 0);
    assert_string_equal(database.rows, "a/one 101 0 0, ");
    assert_false(metric_has("culvert_runtime_lag_seconds{"));
    answer(true);
    say(&world, "one", 1, 0, 0); // was told
    assert_int_equal(database.writes, 2);
    // Longer than anything has been running: bounded, and it stays the oldest.
    say(&world, "one", 1, 0, UINT64_MAX);
    assert_int_equal(database.writes, 3);
    answer(true);
    end(&world);
    assert_false(metric_has("culvert_runtime_lag_seconds{"));
}

static void what_comes_meanwhile_goes_together_and_newest(void **state)
{
    (void)state;
    struct world world;
    begin(&world);
    say(&world, "two", 2, 5000, 0);
    say(&world, "two", 2, 9000, 0);
    say(&world, "three", 3, 0, 4000);
    say(&world, "one", 1, 3000, 2000);
    say(&world, "four", 4, 3000, 2000);
    session_lags_forget(world.lags, (struct tunnel_session_ref){0, 4}); // its session has ended
    assert_int_equal(database.writes, 1);
    answer(true);
    assert_string_equal(database.rows, "a/one 101 3 2, a/three 103 0 4, a/two 102 9 0, ");
    answer(true);
    assert_int_equal(database.writes, 2);
    end(&world);
}

static void what_could_not_be_written_is_tried_again(void **state)
{
    (void)state;
    struct world world;
    begin(&world);
    say(&world, "one", 1, 5000, 0);
    say(&world, "two", 2, 5000, 0);
    session_lags_forget(world.lags, (struct tunnel_session_ref){0, 2});
    answer(false);
    assert_int_equal(database.writes, 1);
    while (database.writes == 1)
        uv_run(loop_uv(world.loop), UV_RUN_ONCE);
    assert_memory_equal(database.rows, "a/one 101 ", 10); // and older by now
    say(&world, "one", 1, 0, 0);
    answer(false);
    session_lags_stop(world.lags); // nothing is begun any more
    say(&world, "one", 1, 8000, 0);
    assert_int_equal(database.writes, 2);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_lags_is_written),
        cmocka_unit_test(what_comes_meanwhile_goes_together_and_newest),
        cmocka_unit_test(what_could_not_be_written_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
