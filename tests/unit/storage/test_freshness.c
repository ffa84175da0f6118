// The view runtime_freshness: how fresh a runtime's entities are, since when, and why it is not connected.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "database.h"
#include "storage/reports/report_store.h"
#include "storage/sessions/session_batch.h"

static char *look(struct database *database, const char *what)
{
    static char text[256];
    char sql[512];
    snprintf(sql, sizeof sql, "SELECT concat_ws(' ', %s) FROM runtime_freshness", what);
    database_query(database->account, sql, text, sizeof text);
    return text;
}

static void change(struct database *database, const char *sql)
{
    char ignored[8];
    database_query(database->account, sql, ignored, sizeof ignored);
}

static void apply(struct database *database, const struct report *report)
{
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
}

static void report(struct database *database, enum report_type type, uint64_t epoch, uint64_t sequence)
{
    struct report mark = {.type = type,
                          .source = REPORT_FROM_TUNNEL,
                          .account_id = str_c(database->account),
                          .runtime = STR("prod"),
                          .epoch = epoch,
                          .sequence = sequence,
                          .observed_at_ms = 1000};
    apply(database, &mark);
}

static void close_session(struct database *database, uint64_t epoch, const char *cause, uint64_t silent_ms)
{
    struct session_over over = {.account_id = database->account,
                                .runtime = STR("prod"),
                                .epoch = epoch,
                                .reason = STR("in words"),
                                .cause = str_c(cause),
                                .silent_ms = silent_ms};
    struct answer answer;
    answer_init(&answer, database);
    session_batch_close(database->pg, &over, 1, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
}

static void each_cause_is_told(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], replica[64], sql[256];
    snprintf(replica, sizeof replica, "replica-%s", database->account);
    database_make_runtime(database, "prod", id);
    assert_string_equal(look(database, "online, disconnect_cause, freshness, lag IS NULL"),
                        "f NEVER_CONNECTED disconnected t");
    uint64_t epoch = database_open_session(database, "prod", id, replica);
    assert_string_equal(look(database, "online, disconnect_cause, freshness, since = opened_at"), "t live t");

    close_session(database, epoch, "PINGS_MISSED", 15000);
    assert_string_equal(look(database, "online, disconnect_cause, freshness, since = closed_at, "
                                       "round(extract(epoch FROM closed_at - last_seen_at)), lag >= '15 seconds'"),
                        "f PINGS_MISSED disconnected t 15 t");

    // The replica's lease runs out, or the replica comes back and finds what it left.
    epoch = database_open_session(database, "prod", id, replica);
    snprintf(sql, sizeof sql, "UPDATE replica_leases SET expires_at = now() - interval '1 s' WHERE replica = '%s'",
             replica);
    change(database, sql);
    assert_string_equal(look(database, "online, disconnect_cause, freshness, since < now()"),
                        "f REPLICA_DIED disconnected t");
    close_session(database, epoch, "CLOSED_BY_AGENT", 0);
    assert_string_equal(look(database, "disconnect_cause"), "CLOSED_BY_AGENT");
    change(database, "UPDATE tunnel_sessions SET close_reason = 'replica restarted', close_cause = NULL");
    assert_string_equal(look(database, "disconnect_cause"), "REPLICA_DIED");
    change(database, "UPDATE tunnel_sessions SET close_reason = 'silent', close_cause = NULL"); // an older version's
    assert_string_equal(look(database, "disconnect_cause"), "UNKNOWN");
}

static void an_inventory_under_way_is_not_live(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    const char *row = "freshness, entity_freshness(1, confirmed_epoch, tunnel_freshness, unconfirmed_freshness, "
                      "http_freshness), entity_freshness(0, confirmed_epoch, tunnel_freshness, unconfirmed_freshness, "
                      "http_freshness)";
    report(database, REPORT_SNAPSHOT_BEGIN, epoch, 1);
    assert_string_equal(look(database, row), "lagging live disconnected");
    report(database, REPORT_SNAPSHOT_END, epoch, 2);
    assert_string_equal(look(database, row), "live live disconnected");

    // Another session: what it has not named yet is old until its inventory is complete.
    epoch = database_open_session(database, "prod", id, database->account);
    assert_string_equal(look(database, row), "lagging lagging disconnected");
    change(database, "UPDATE tunnel_sessions SET opened_at = now() - interval '61 seconds'");
    assert_string_equal(look(database, row), "stale stale disconnected");
    assert_string_equal(look(database, "lag > '60 seconds'"), "t");
    report(database, REPORT_SNAPSHOT_BEGIN, epoch, 1);
    report(database, REPORT_SNAPSHOT_END, epoch, 2);
    assert_string_equal(look(database, row), "live live disconnected");
    assert_string_equal(look(database, "lag"), "00:00:00");

    // Even a confirmed inventory is no better than the agent's sight of its cluster.
    change(database, "UPDATE tunnel_sessions SET blind_since = now() - interval '10 seconds'");
    assert_string_equal(look(database, row), "lagging lagging disconnected");
}

static void http_goes_by_its_last_word(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    change(database, "INSERT INTO report_positions (account_id, runtime, http_observed_at, http_received_at) "
                     "SELECT account_id, runtime, now(), now() FROM runtimes");
    static const struct {
        const char *age, *freshness;
    } steps[] = {{"4 minutes", "t live"},
                 {"6 minutes", "t lagging"},
                 {"11 minutes", "t stale"},
                 {"21 minutes", "f disconnected"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char sql[256];
        snprintf(sql, sizeof sql, "UPDATE report_positions SET http_received_at = now() - interval '%s'", steps[i].age);
        change(database, sql);
        assert_string_equal(look(database, "available, freshness"), steps[i].freshness);
        assert_string_equal(look(database, "lag > '3 minutes'"), "t");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_is_told),
        cmocka_unit_test(an_inventory_under_way_is_not_live),
        cmocka_unit_test(http_goes_by_its_last_word),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
