#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "database.h"
#include "storage/sessions/session_batch.h"

struct opened {
    struct answer answer;
    struct session_grant grants[SESSION_BATCH_MAX];
    size_t count;
};

static void on_opened(void *arg, const struct error *err, const struct session_grant *grants)
{
    struct opened *opened = arg;
    if (!err) memcpy(opened->grants, grants, opened->count * sizeof *grants);
    answer_on_count(&opened->answer, err, 0);
}

static void open_all(struct database *database, const struct session_new *sessions, size_t count, uint64_t *out_epochs)
{
    struct opened opened = {.count = count};
    answer_init(&opened.answer, database);
    session_batch_open(database->pg, STR("replica"), sessions, count, on_opened, &opened);
    answer_wait(&opened.answer);
    if (opened.answer.code != ERROR_NONE) fail_msg("%s", opened.answer.text);
    for (size_t i = 0; i < count; i++)
        out_epochs[i] = opened.grants[i].epoch;
    answer_finish(&opened.answer);
}

static struct session_new session_of(const char *account, const char *runtime, const char *id)
{
    return (struct session_new){.account_id = account,
                                .runtime = str_c(runtime),
                                .runtime_id = str_c(id),
                                .session_id = STR("0-1"),
                                .instance_id = STR("pod \"0\"\\ \xff"), // of an agent: anything, UTF-8 or not
                                .boot_id = STR("boot"),
                                .agent_version = STR("1"),
                                .remote = STR("127.0.0.1:1")};
}

static void check(const char *account, const char *sql, const char *expected)
{
    char text[128];
    database_query(account, sql, text, sizeof text);
    assert_string_equal(text, expected);
}

struct runtime_made {
    char name[16], id[ID_UUID_BYTES];
};

static void accounts_share_a_transaction(void **state)
{
    enum { EACH = 3 };
    struct database *database = database_of(state);
    char accounts[2][ID_ACCOUNT_BYTES];
    struct runtime_made made[2][EACH];
    for (int a = 0; a < 2; a++) {
        if (a) database = database_of(state); // another account
        memcpy(accounts[a], database->account, sizeof accounts[a]);
        for (int i = 0; i < EACH; i++) {
            snprintf(made[a][i].name, sizeof made[a][i].name, "r-%d", i);
            database_make_runtime(database, made[a][i].name, made[a][i].id);
        }
    }
    int low = strcmp(accounts[0], accounts[1]) < 0 ? 0 : 1;
    struct session_new sessions[2 * EACH];
    uint64_t epochs[2 * EACH];
    for (int i = 0; i < 2 * EACH; i++) {
        int a = i < EACH ? low : 1 - low;
        sessions[i] = session_of(accounts[a], made[a][i % EACH].name, made[a][i % EACH].id);
    }
    open_all(database, sessions, 2 * EACH, epochs);
    for (int i = 0; i < 2 * EACH; i++)
        assert_int_equal(epochs[i], 1);
    // One alone goes ahead of the others, then all again: each counts for itself.
    open_all(database, &sessions[EACH], 1, epochs);
    assert_int_equal(epochs[0], 2);
    open_all(database, sessions, 2 * EACH, epochs);
    for (int i = 0; i < 2 * EACH; i++)
        assert_int_equal(epochs[i], i == EACH ? 3 : 2);
    for (int a = 0; a < 2; a++) {
        check(accounts[a], "SELECT count(*) FROM tunnel_sessions WHERE closed_at IS NULL", "3");
        check(accounts[a], "SELECT count(*) FROM tunnel_sessions WHERE close_reason = 'superseded' AND epoch = 1", "3");
        check(accounts[a], "SELECT count(*) FROM runtimes WHERE first_session_at IS NOT NULL", "3");
        check(accounts[a], "SELECT instance_id FROM tunnel_sessions LIMIT 1", "pod \"0\"\\ \xef\xbf\xbd");
    }
}

static void runtimes_that_are_gone_get_none(void **state)
{
    struct database *database = database_of(state);
    struct runtime_made made[2];
    for (int i = 0; i < 2; i++) {
        snprintf(made[i].name, sizeof made[i].name, "r-%d", i * 2);
        database_make_runtime(database, made[i].name, made[i].id);
    }
    const struct session_new sessions[] = {
        session_of(database->account, "r-0", made[0].id), session_of(database->account, "r-1", made[0].id),
        session_of(database->account, "r-2", made[0].id), // of another runtime of that name
    };
    uint64_t epochs[3];
    open_all(database, sessions, 3, epochs);
    assert_int_equal(epochs[0], 1);
    assert_int_equal(epochs[1], 0);
    assert_int_equal(epochs[2], 0);
    check(database->account, "SELECT string_agg(runtime, ',') FROM tunnel_sessions", "r-0");
}

static void ends_are_of_their_epoch_alone(void **state)
{
    struct database *database = database_of(state);
    struct runtime_made made[3];
    struct session_new sessions[3];
    struct session_over over[3];
    uint64_t epochs[3];
    for (int i = 0; i < 3; i++) {
        snprintf(made[i].name, sizeof made[i].name, "r-%d", i);
        database_make_runtime(database, made[i].name, made[i].id);
        sessions[i] = session_of(database->account, made[i].name, made[i].id);
        over[i] = (struct session_over){database->account,    str_c(made[i].name), i == 1 ? 9 : 1,
                                        STR("it's \"over\""), STR("PINGS_MISSED"), 15000};
    }
    open_all(database, sessions, 3, epochs);
    struct answer answer;
    answer_init(&answer, database);
    session_batch_close(database->pg, over, 3, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
    check(database->account, "SELECT string_agg(runtime, ',') FROM tunnel_sessions WHERE closed_at IS NULL", "r-1");
    check(database->account, "SELECT close_reason FROM tunnel_sessions WHERE closed_at IS NOT NULL LIMIT 1",
          "it's \"over\"");
}

static void lags_are_of_their_epoch_alone(void **state)
{
    struct database *database = database_of(state);
    struct runtime_made made[3];
    struct session_new sessions[3];
    struct session_lag lags[3];
    uint64_t epochs[3];
    for (int i = 0; i < 3; i++) {
        snprintf(made[i].name, sizeof made[i].name, "r-%d", i);
        database_make_runtime(database, made[i].name, made[i].id);
        sessions[i] = session_of(database->account, made[i].name, made[i].id);
        lags[i] = (struct session_lag){database->account, str_c(made[i].name), i == 1 ? 9 : 1, i == 2 ? 0 : 10000,
                                       i == 2 ? 90000 : 0};
    }
    open_all(database, sessions, 3, epochs);
    // In steps of 20 s: however slow the machine is.
    const char *sql =
        "SELECT string_agg(concat(runtime, ' ', trunc(extract(epoch FROM now() - behind_since) / 20), ' ', "
        "trunc(extract(epoch FROM now() - blind_since) / 20)), ', ' ORDER BY runtime) FROM tunnel_sessions";
    struct answer answer;
    answer_init(&answer, database);
    session_batch_lag(database->pg, lags, 3, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    check(database->account, sql, "r-0 0 , r-1  , r-2  4");
    answer_finish(&answer);
    lags[0].behind_ms = 0;
    answer_init(&answer, database);
    session_batch_lag(database->pg, lags, 1, answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    check(database->account, sql, "r-0  , r-1  , r-2  4");
}

static void only_the_last_sessions_are_kept(void **state)
{
    struct database *database = database_of(state);
    struct runtime_made made;
    uint64_t epoch = 0;
    snprintf(made.name, sizeof made.name, "prod");
    database_make_runtime(database, made.name, made.id);
    const struct session_new session = session_of(database->account, made.name, made.id);
    for (int i = 0; i < 203; i++)
        open_all(database, &session, 1, &epoch);
    assert_int_equal(epoch, 203);
    check(database->account, "SELECT min(epoch) || '-' || max(epoch) FROM tunnel_sessions", "4-203");
}

// ---- rivals --------------------------------------------------------------------------------------------------------

struct rivalry {
    struct database *database;
    struct runtime_made made;
};

static void begin_rivalry(struct rivalry *rivalry, void **state)
{
    rivalry->database = database_of(state);
    snprintf(rivalry->made.name, sizeof rivalry->made.name, "prod");
    database_make_runtime(rivalry->database, rivalry->made.name, rivalry->made.id);
    // However long the test takes, the replica lives.
    char nothing[8];
    database_query(rivalry->database->account,
                   "INSERT INTO replica_leases (replica, expires_at) VALUES ('rivals', now() + interval '1 hour') "
                   "ON CONFLICT (replica) DO UPDATE SET expires_at = excluded.expires_at RETURNING 1",
                   nothing, sizeof nothing);
}

// The epoch that the instance got; negative: it has to stand by for that one.
static int ask(const struct rivalry *rivalry, const char *instance, bool waits)
{
    struct session_new session = session_of(rivalry->database->account, rivalry->made.name, rivalry->made.id);
    session.instance_id = str_c(instance);
    session.waits = waits;
    struct opened opened = {.count = 1};
    answer_init(&opened.answer, rivalry->database);
    session_batch_open(rivalry->database->pg, STR("rivals"), &session, 1, on_opened, &opened);
    answer_wait(&opened.answer);
    if (opened.answer.code != ERROR_NONE) fail_msg("%s", opened.answer.text);
    answer_finish(&opened.answer);
    int epoch = (int)opened.grants[0].epoch;
    return opened.grants[0].stands_by ? -epoch : epoch;
}

static void close_epoch(const struct rivalry *rivalry, uint64_t epoch)
{
    database_close_session(rivalry->database, rivalry->made.name, epoch, "closed");
}

static void the_third_take_over_makes_rivals(void **state)
{
    struct rivalry r;
    begin_rivalry(&r, state);
    assert_int_equal(ask(&r, "pod-a", false), 1);
    assert_int_equal(ask(&r, "pod-b", false), 2);
    assert_int_equal(ask(&r, "pod-a", false), 3);
    assert_int_equal(ask(&r, "pod-b", false), -3); // the lower id stays
    assert_int_equal(ask(&r, "pod-b", true), -3);
    assert_int_equal(ask(&r, "pod-a", false), 4);  // itself again, as ever
    assert_int_equal(ask(&r, "pod-c", false), -4); // whoever comes while they are rivals
    assert_int_equal(ask(&r, "pod-A", false), 5);  // and a lower one serves
    assert_int_equal(ask(&r, "pod-a", false), -5);
    check(r.database->account, "SELECT count(*) FROM tunnel_sessions WHERE closed_at IS NULL", "1");
    check(r.database->account, "SELECT count(*) FROM tunnel_sessions", "5");
    // It has gone: the first spare that asks serves, and no other spare takes that from it,
    // whatever its id.
    close_epoch(&r, 5);
    assert_int_equal(ask(&r, "pod-c", true), 6);
    assert_int_equal(ask(&r, "pod-a", true), -6);
    // Those whose replica is not alive count for nothing.
    char nothing[8];
    database_query(r.database->account, "UPDATE tunnel_sessions SET replica = 'gone' WHERE epoch = 6 RETURNING 1",
                   nothing, sizeof nothing);
    assert_int_equal(ask(&r, "pod-a", true), 7);
}

static void the_higher_one_that_serves_gives_way(void **state)
{
    struct rivalry r;
    begin_rivalry(&r, state);
    assert_int_equal(ask(&r, "pod-b", false), 1);
    assert_int_equal(ask(&r, "pod-a", false), 2);
    assert_int_equal(ask(&r, "pod-b", false), 3);
    assert_int_equal(ask(&r, "pod-a", false), 4);
    assert_int_equal(ask(&r, "pod-b", false), -4);
}

// New pods take over from old ones, however often; so does whoever comes when nobody lives.
static void updates_make_no_rivals(void **state)
{
    struct rivalry r;
    begin_rivalry(&r, state);
    for (int i = 0; i < 6; i++) {
        char instance[16];
        snprintf(instance, sizeof instance, "pod-%d", i);
        assert_int_equal(ask(&r, instance, false), i + 1);
    }
    for (int i = 6; i < 12; i++) {
        close_epoch(&r, (uint64_t)i);
        assert_int_equal(ask(&r, i % 2 ? "pod-0" : "pod-1", false), i + 1);
    }
}

static void slow_take_overs_make_no_rivals_and_rivals_are_forgotten(void **state)
{
    struct rivalry r;
    char nothing[8];
    begin_rivalry(&r, state);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ask(&r, i % 2 ? "pod-b" : "pod-a", false), i + 1);
        database_query(r.database->account,
                       "WITH old AS (UPDATE tunnel_sessions SET closed_at = closed_at - interval '31 seconds' "
                       "RETURNING 1) SELECT 1",
                       nothing, sizeof nothing);
    }
    assert_int_equal(ask(&r, "pod-a", false), 7);
    assert_int_equal(ask(&r, "pod-b", false), -7);
    database_query(r.database->account,
                   "WITH o AS (UPDATE runtime_epochs SET rivals_until = now() RETURNING 1), "
                   "s AS (UPDATE tunnel_sessions SET closed_at = closed_at - interval '1 minute' RETURNING 1) SELECT 1",
                   nothing, sizeof nothing);
    assert_int_equal(ask(&r, "pod-b", true), -7); // who waits, waits
    assert_int_equal(ask(&r, "pod-b", false), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_share_a_transaction),
        cmocka_unit_test(runtimes_that_are_gone_get_none),
        cmocka_unit_test(ends_are_of_their_epoch_alone),
        cmocka_unit_test(lags_are_of_their_epoch_alone),
        cmocka_unit_test(only_the_last_sessions_are_kept),
        cmocka_unit_test(the_third_take_over_makes_rivals),
        cmocka_unit_test(the_higher_one_that_serves_gives_way),
        cmocka_unit_test(updates_make_no_rivals),
        cmocka_unit_test(slow_take_overs_make_no_rivals_and_rivals_are_forgotten),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
