#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "database.h"
#include "storage/sessions/session_batch.h"

struct outcome {
    bool is_done;
    enum error_code code;
    char text[512];
    size_t count;
};

static void on_done(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct outcome *outcome = arg;
    (void)results;
    assert_false(outcome->is_done);
    outcome->is_done = true;
    outcome->code = err ? err->code : ERROR_NONE;
    snprintf(outcome->text, sizeof outcome->text, "%s", err ? err->text : "");
    outcome->count = count;
}

static bool is_done(void *arg)
{
    return ((struct outcome *)arg)->is_done;
}

static void add_user(struct pg_batch *batch, const char *account, const char *user_id, const char *name)
{
    pg_add(batch, user_create, .account_id = pg_text(str_c(account)), .user_id = pg_text(str_c(user_id)),
           .name = pg_text(str_c(name)), .email = pg_text(STR("")), .is_admin = pg_text(STR("f")));
}

static enum error_code submit(struct database *database, struct pg_batch *batch, struct outcome *outcome)
{
    *outcome = (struct outcome){0};
    pg_batch_submit(batch, 5000, on_done, outcome);
    assert_false(outcome->is_done); // never inside the call
    database_run_until(database, is_done, outcome, 20);
    return outcome->code;
}

static void a_batch_is_all_or_nothing(void **state)
{
    struct database *database = database_of(state);
    struct outcome outcome;
    char text[64];
    struct pg_batch *batch = pg_batch_create(database->pg, database->account);
    add_user(batch, database->account, "000000000000000000000001", "ada");
    add_user(batch, database->account, "000000000000000000000002", "grace");
    assert_int_equal(pg_batch_count(batch), 2);
    assert_int_equal(submit(database, batch, &outcome), ERROR_NONE);
    assert_int_equal(outcome.count, 2);

    batch = pg_batch_create(database->pg, database->account);
    add_user(batch, database->account, "000000000000000000000003", "edsger");
    add_user(batch, database->account, "000000000000000000000004", "ada");
    assert_int_equal(submit(database, batch, &outcome), ERROR_CONFLICT);
    assert_int_equal(outcome.count, 0);
    assert_non_null(strstr(outcome.text, "exists already"));
    assert_null(strstr(outcome.text, "user"));
    database_query(database->account, "SELECT count(*) FROM users", text, sizeof text);
    assert_string_equal(text, "2");
}

static void errors_have_their_codes(void **state)
{
    struct database *database = database_of(state);
    struct outcome outcome;
    struct pg_batch *batch = pg_batch_create(database->pg, database->account);
    add_user(batch, database->account, "not hex", "ada");
    assert_int_equal(submit(database, batch, &outcome), ERROR_INVALID);

    batch = pg_batch_create(database->pg, database->account);
    pg_add(batch, account_find, .name = pg_text(str_of("a\0b", 3)));
    assert_int_equal(submit(database, batch, &outcome), ERROR_INVALID);

    batch = pg_batch_create(database->pg, database->account);
    pg_add(batch, account_find, .name = pg_text(str_of("\xff", 1)));
    assert_int_equal(submit(database, batch, &outcome), ERROR_INVALID);

    batch = pg_batch_create(database->pg, database->account);
    for (int i = 0; i < 5000; i++)
        pg_add(batch, account_find, .name = pg_text(STR("x")));
    assert_int_equal(submit(database, batch, &outcome), ERROR_TOO_LARGE);

    assert_int_equal(submit(database, pg_batch_create(database->pg, database->account), &outcome), ERROR_INVALID);
    pg_batch_destroy(pg_batch_create(database->pg, NULL));
}

static void the_account_is_set_for_its_transaction_alone(void **state)
{
    struct database *database = database_of(state);
    struct outcome outcome;
    // Row security refuses another account's row even when the statement names that account.
    char other[ID_ACCOUNT_BYTES];
    id_account(other);
    for (int i = 0; i < 20; i++) {
        struct pg_batch *batch = pg_batch_create(database->pg, database->account);
        pg_add(batch, account_find, .name = pg_text(STR("x")));
        assert_int_equal(submit(database, batch, &outcome), ERROR_NONE);
        batch = pg_batch_create(database->pg, NULL);
        pg_add(batch, account_create, .account_id = pg_text(str_c(other)), .name = pg_text(str_c(other)));
        assert_int_equal(submit(database, batch, &outcome), ERROR_INTERNAL);
        assert_non_null(strstr(outcome.text, "row-level security"));
    }
}

static void set_done(void *arg)
{
    ((struct outcome *)arg)->is_done = true;
}

static void on_opened(void *arg, const struct error *err, const struct session_grant *grants)
{
    answer_on_count(arg, err, err ? 0 : grants[0].epoch);
}

static void a_wait_for_a_lock_ends(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    PGconn *holder = PQconnectdb(getenv("CULVERT_TEST_DATABASE_URL"));
    const char *account = database->account;
    PQclear(PQexecParams(holder, "SELECT set_config('app.account_id', $1, false)", 1, NULL, &account, NULL, NULL, 0));
    PQclear(PQexec(holder, "BEGIN"));
    PGresult *locked = PQexec(holder, "SELECT FROM culvert.runtimes FOR UPDATE");
    assert_int_equal(PQntuples(locked), 1);
    PQclear(locked);
    struct pg *pg = pg_create(database->loop, &(struct pg_options){.conninfo = getenv("CULVERT_TEST_DATABASE_APP_URL"),
                                                                   .connections = 1,
                                                                   .queue_max = 10,
                                                                   .statement_timeout_ms = 1000});
    struct answer answer;
    answer_init(&answer, database);
    struct session_new session = {.account_id = account, .runtime = STR("prod"), .runtime_id = str_c(id)};
    session_batch_open(pg, STR("replica"), &session, 1, on_opened, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_TIMEOUT);
    // The connection goes on.
    struct outcome outcome;
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(STR("x")));
    assert_int_equal(submit(database, batch, &outcome), ERROR_NONE);
    PQfinish(holder);
    struct outcome closed = {0};
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
}

static void on_slow(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct outcome *outcome = arg;
    on_done(arg, err, results, count);
    if (count == 2) snprintf(outcome->text, sizeof outcome->text, "%.*s", STR_ARG(pg_rows_get(&results[0], 0, 0)));
}

// What waits for somebody's row stands on one connection; the others go on beside it, also when there are many.
static void nobody_waits_behind_a_slow_batch(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    PGconn *holder = PQconnectdb(getenv("CULVERT_TEST_DATABASE_URL"));
    const char *account = database->account;
    PQclear(PQexecParams(holder, "SELECT set_config('app.account_id', $1, false)", 1, NULL, &account, NULL, NULL, 0));
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "SELECT FROM culvert.runtimes FOR UPDATE"));
    struct pg *pg = pg_create(database->loop, &(struct pg_options){.conninfo = getenv("CULVERT_TEST_DATABASE_APP_URL"),
                                                                   .connections = 2,
                                                                   .queue_max = 100,
                                                                   .statement_timeout_ms = 60000,
                                                                   .slow_statement_timeout_ms = 70000});
    struct outcome slow[2] = {0}, quick[20] = {0};
    for (int i = 0; i < 2; i++) {
        struct pg_batch *batch = pg_batch_create(pg, account);
        pg_batch_slow(batch);
        pg_add(batch, report_open, .account_id = pg_text(str_c(account)), .runtime = pg_text(STR("prod")),
               .epoch = pg_text(STR("0")), .sequence = pg_text(STR("0")), .tunnel_observed_at = pg_null(),
               .http_observed_at = pg_null());
        pg_batch_submit(batch, 60000, on_slow, &slow[i]);
    }
    for (int i = 0; i < 20; i++) {
        struct pg_batch *batch = pg_batch_create(pg, NULL);
        pg_add(batch, account_find, .name = pg_text(STR("x")));
        pg_batch_submit(batch, 60000, on_done, &quick[i]);
    }
    // Before the second connection was up some may have gone to the first.
    database_run_until(database, is_done, &quick[19], 20);
    assert_int_equal(quick[19].code, ERROR_NONE);
    assert_false(slow[0].is_done || slow[1].is_done);
    PQfinish(holder);
    database_run_until(database, is_done, &slow[1], 20);
    for (int i = 0; i < 20; i++)
        database_run_until(database, is_done, &quick[i], 20);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(slow[i].code, ERROR_NONE);
        assert_string_equal(slow[i].text, "70s"); // as PostgreSQL writes it
    }
    struct outcome closed = {0};
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
}

static void without_a_server_batches_wait_and_fail(void **state)
{
    struct database *database = database_of(state);
    struct pg *pg = pg_create(database->loop, &(struct pg_options){.conninfo = "host=127.0.0.1 port=1 dbname=x user=x",
                                                                   .connections = 2,
                                                                   .queue_max = 2,
                                                                   .statement_timeout_ms = 1000});
    struct outcome outcomes[4] = {0};
    uint64_t start = clock_mono_ms();
    for (int i = 0; i < 3; i++) {
        struct pg_batch *batch = pg_batch_create(pg, NULL);
        pg_add(batch, account_find, .name = pg_text(STR("x")));
        pg_batch_submit(batch, 400, on_done, &outcomes[i]);
    }
    assert_false(pg_is_ready(pg));
    database_run_until(database, is_done, &outcomes[2], 5); // over the queue's bound: at once
    assert_int_equal(outcomes[2].code, ERROR_UNAVAILABLE);
    assert_true(clock_mono_ms() - start < 300);
    database_run_until(database, is_done, &outcomes[0], 5);
    database_run_until(database, is_done, &outcomes[1], 5);
    assert_int_equal(outcomes[0].code, ERROR_UNAVAILABLE);
    assert_true(clock_mono_ms() - start >= 400);

    struct outcome last = {0}, closed = {0};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(STR("x")));
    pg_batch_submit(batch, 60000, on_done, &last);
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
    assert_int_equal(last.code, ERROR_CANCELLED);
}

static void closing_ends_what_is_in_flight(void **state)
{
    struct database *database = database_of(state);
    struct pg *pg = pg_create(database->loop, &(struct pg_options){.conninfo = getenv("CULVERT_TEST_DATABASE_APP_URL"),
                                                                   .connections = 1,
                                                                   .queue_max = 100,
                                                                   .statement_timeout_ms = 1000});
    struct outcome first = {0}, many[20] = {0}, closed = {0};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(STR("x")));
    pg_batch_submit(batch, 5000, on_done, &first);
    database_run_until(database, is_done, &first, 5);
    assert_int_equal(first.code, ERROR_NONE);
    for (int i = 0; i < 20; i++) {
        batch = pg_batch_create(pg, NULL);
        pg_add(batch, account_find, .name = pg_text(STR("x")));
        pg_batch_submit(batch, 5000, on_done, &many[i]);
    }
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
    for (int i = 0; i < 20; i++)
        assert_true(many[i].is_done);
    assert_int_equal(many[19].code, ERROR_CANCELLED);
}

static void a_server_that_may_lose_data_is_refused(void **state)
{
    struct database *database = database_of(state);
    struct error err;
    const char *url = getenv("CULVERT_TEST_DATABASE_APP_URL");
    assert_int_equal(pg_server_check(url, true, &err), ERROR_NONE);
    AUTO_FREE char *loose = mem_printf("%s?options=-csynchronous_commit%%3Doff", url);
    assert_int_equal(pg_server_check(loose, true, &err), ERROR_FORBIDDEN);
    assert_non_null(strstr(err.text, "synchronous_commit"));
    assert_int_equal(pg_server_check("host=127.0.0.1 port=1 dbname=x user=x", true, &err), ERROR_UNAVAILABLE);
    struct pg *pg = pg_create(
        database->loop,
        &(struct pg_options){.conninfo = loose, .connections = 1, .queue_max = 10, .statement_timeout_ms = 1000});
    struct outcome outcome = {0}, closed = {0};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(STR("x")));
    pg_batch_submit(batch, 500, on_done, &outcome);
    database_run_until(database, is_done, &outcome, 5);
    assert_int_equal(outcome.code, ERROR_UNAVAILABLE);
    assert_false(pg_is_ready(pg));
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
}

static void a_login_with_more_than_it_needs_is_refused(void **state)
{
    (void)database_of(state);
    struct error err;
    const char *owner = getenv("CULVERT_TEST_DATABASE_URL");
    assert_int_equal(pg_server_check(owner, false, &err), ERROR_NONE);
    assert_int_equal(pg_server_check(owner, true, &err), ERROR_FORBIDDEN);
    assert_non_null(strstr(err.text, "ownership of the database, ownership of the schema culvert"));
    // The login counts, not the role that it takes.
    AUTO_FREE char *hidden = mem_printf("%s?options=-crole%%3Dculvert_roles", owner);
    assert_int_equal(pg_server_check(hidden, true, &err), ERROR_FORBIDDEN);
    struct outcome outcome = {0}, closed = {0};
    struct database *database = database_of(state);
    struct pg *pg = pg_create(
        database->loop,
        &(struct pg_options){
            .conninfo = owner, .connections = 1, .queue_max = 10, .checks_login = true, .statement_timeout_ms = 1000});
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(STR("x")));
    pg_batch_submit(batch, 500, on_done, &outcome);
    database_run_until(database, is_done, &outcome, 5);
    assert_int_equal(outcome.code, ERROR_UNAVAILABLE);
    pg_close(pg, set_done, &closed);
    database_run_until(database, is_done, &closed, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_all_or_nothing),
        cmocka_unit_test(errors_have_their_codes),
        cmocka_unit_test(the_account_is_set_for_its_transaction_alone),
        cmocka_unit_test(a_wait_for_a_lock_ends),
        cmocka_unit_test(nobody_waits_behind_a_slow_batch),
        cmocka_unit_test(without_a_server_batches_wait_and_fail),
        cmocka_unit_test(closing_ends_what_is_in_flight),
        cmocka_unit_test(a_server_that_may_lose_data_is_refused),
        cmocka_unit_test(a_login_with_more_than_it_needs_is_refused),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
