// The version of an account: whatever an answer may show changes it, and nothing else does.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/cache/answer_store.h"
#include "api/compile/binding.h"
#include "base/clock.h"
#include "culvert_reads.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"
#include "storage/sessions/session_batch.h"

struct version {
    char text[128];
};

static struct version ask(struct database *database)
{
    struct version version;
    struct answer answer;
    answer_init(&answer, database);
    answer_store_version(database->pg, database->account, answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_true(strlen(answer.node) > 8);
    snprintf(version.text, sizeof version.text, "%s", answer.node);
    answer_finish(&answer);
    return version;
}

// It has changed since `version`, and from now on it does not.
static void assert_moved(struct database *database, struct version *version, const char *by)
{
    struct version now = ask(database), again = ask(database);
    if (strcmp(now.text, version->text) == 0) fail_msg("%s went unnoticed", by);
    assert_string_equal(now.text, again.text);
    *version = now;
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

static struct report object_of(struct database *database, enum report_source source, uint64_t epoch, uint64_t sequence)
{
    return (struct report){.type = REPORT_OBJECT,
                           .source = source,
                           .account_id = str_c(database->account),
                           .runtime = STR("prod"),
                           .epoch = epoch,
                           .sequence = sequence,
                           .ref.version = STR("v1"),
                           .ref.kind = STR("ConfigMap"),
                           .ref.ns = STR("shop"),
                           .ref.name = STR("settings"),
                           .ref.uid = STR("uid"),
                           .cluster = STR("in-cluster"),
                           .observed_at_ms = clock_wall_ms(),
                           .manifest = STR("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                                           "\"settings\",\"namespace\":\"shop\",\"uid\":\"uid\"}}")};
}

static void every_report_moves_it(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    struct version version = ask(database);
    database_make_runtime(database, "prod", id);
    assert_moved(database, &version, "a runtime");
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    assert_moved(database, &version, "a session");

    struct report report = object_of(database, REPORT_FROM_TUNNEL, epoch, 1);
    apply(database, &report);
    assert_moved(database, &version, "an object");
    apply(database, &report);
    assert_moved(database, &version, "an object said again"); // costs a hit, and is simple
    report = object_of(database, REPORT_FROM_HTTP, 0, 0);
    apply(database, &report);
    assert_moved(database, &version, "a report over HTTP");
    apply(database, &report);
    assert_moved(database, &version, "another one of that moment");
    report = object_of(database, REPORT_FROM_TUNNEL, epoch, 2);
    report.type = REPORT_DELETED;
    apply(database, &report);
    assert_moved(database, &version, "a deletion");
    static const enum report_type marks[] = {REPORT_SNAPSHOT_BEGIN, REPORT_SNAPSHOT_END};
    for (size_t i = 0; i < 2; i++) {
        report = object_of(database, REPORT_FROM_TUNNEL, epoch, 3 + i);
        report.type = marks[i];
        apply(database, &report);
        assert_moved(database, &version, "a snapshot");
    }
    report = object_of(database, REPORT_FROM_TUNNEL, epoch, 5);
    report.type = REPORT_CLUSTER;
    report.manifest = STR("{\"name\":\"in-cluster\",\"server\":\"https://kubernetes.default.svc\",\"connectionState\":{"
                          "\"status\":\"Successful\"}}");
    apply(database, &report);
    assert_moved(database, &version, "a cluster");
}

static void each_turn_of_freshness_moves_it(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], replica[64], ignored[8], sql[256];
    snprintf(replica, sizeof replica, "replica-%s", database->account);
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, replica);
    struct version version = ask(database);

    // A lease that is good for long may be renewed; one that is about to run out counts.
    static const char *const leases[] = {"14 seconds", "13 seconds", "4 seconds", "3 seconds", "-1 seconds"};
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        snprintf(sql, sizeof sql, "UPDATE replica_leases SET expires_at = now() + interval '%s' WHERE replica = '%s'",
                 leases[i], replica);
        database_query(database->account, sql, ignored, sizeof ignored);
        if (i < 2)
            assert_string_equal(ask(database).text, version.text);
        else
            assert_moved(database, &version, leases[i]);
    }
    epoch = database_open_session(database, "prod", id, replica);
    assert_moved(database, &version, "another session");
    struct session_lag lag = {database->account, STR("prod"), epoch, 6000, 0};
    struct answer answer;
    answer_init(&answer, database);
    session_batch_lag(database->pg, &lag, 1, answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    assert_moved(database, &version, "an agent that is behind");
    database_close_session(database, "prod", epoch, "gone");
    assert_moved(database, &version, "the end of a session");
    answer_init(&answer, database);
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    assert_moved(database, &version, "the end of a runtime");
}

static void time_alone_moves_it(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], ignored[8];
    database_make_runtime(database, "prod", id);
    database_open_session(database, "prod", id, database->account);
    database_query(database->account, "UPDATE tunnel_sessions SET behind_since = now() - interval '4900 milliseconds'",
                   ignored, sizeof ignored);
    struct version version = ask(database);
    struct version now = version;
    for (int i = 0; i < 1000 && strcmp(now.text, version.text) == 0; i++)
        now = ask(database); // each takes its while; it turns after a tenth of a second
    assert_string_not_equal(now.text, version.text);
}

static void others_do_not_move_it(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    struct version version = ask(database);
    char account[sizeof database->account];
    snprintf(account, sizeof account, "%s", database->account);
    struct database *other = database_of(state); // the same, with another account
    database_make_runtime(other, "prod", id);
    struct report report = object_of(other, REPORT_FROM_TUNNEL, epoch, 1);
    apply(other, &report);
    snprintf(database->account, sizeof database->account, "%s", account);
    assert_string_equal(ask(database).text, version.text);
}

// What is kept must be made of nothing but what the version covers: rows that only transactions of
// reports show, change or take away. Old transitions expire besides; an answer that still shows one
// for its own short life is not wrong.
static void reads_covered_alone(const char *name, const char *sql)
{
    static const char covered[] = " applications clusters resources rollouts replica_sets analysis_runs runtimes "
                                  "runtime_freshness transitions ";
    static const char own[] = " page r LATERAL jsonb_each_text jsonb_array_elements_text jsonb_object_keys "
                              "jsonb_array_elements ";
    for (const char *at = sql; sql && *at; at++) {
        bool reads = strncmp(at, "FROM ", 5) == 0 || strncmp(at, "JOIN ", 5) == 0;
        if (!reads || at == sql || (at[-1] != ' ' && at[-1] != '\n' && at[-1] != '(')) continue;
        char word[64] = " ";
        const char *from = at + 5;
        if (strncmp(from, "culvert.", 8) == 0) from += 8;
        size_t len = strcspn(from, " (),\n");
        if (len == 0 || len + 3 > sizeof word) continue; // a subquery, whose own FROM is looked at
        memcpy(word + 1, from, len);
        word[len + 1] = ' ';
        word[len + 2] = '\0';
        if (!strstr(covered, word) && !strstr(own, word)) fail_msg("%s reads%s", name, word);
    }
}

// What is kept must be made of nothing but what the version covers: rows that only transactions of
// reports show, change or take away.
static void kept_lists_read_nothing_else(void **state)
{
    (void)state;
    size_t found = 0;
    for (size_t i = 0; i < declared_rollouts_count; i++) {
        if (!declared_rollouts[i].is_versioned) continue;
        const struct bound_query *query = declared_rollouts[i].with;
        reads_covered_alone(query->field, query->binding->from);
        for (const struct bound_field *field = query->binding->fields; field->path; field++)
            if (field->kind != BOUND_MANIFEST) reads_covered_alone(field->path, field->sql);
        for (const struct bound_join *join = query->binding->joins; join->name; join++)
            reads_covered_alone(join->name, join->query);
        found++;
    }
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_report_moves_it),        cmocka_unit_test(each_turn_of_freshness_moves_it),
        cmocka_unit_test(time_alone_moves_it),          cmocka_unit_test(others_do_not_move_it),
        cmocka_unit_test(kept_lists_read_nothing_else),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
