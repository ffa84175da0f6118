// Reports over HTTP about one object that come in the wrong order: twice, late, over two connections, from replicas
// whose clocks differ. What carries no time of its own is ordered by the object itself.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "database.h"
#include "storage/reports/report_store.h"

enum { HOUR_MS = 3600 * 1000 };

#define OLD_UID "00000000-0000-0000-0000-00000000000a"
#define NEW_UID "00000000-0000-0000-0000-00000000000b"

struct word {
    const char *uid, *version, *created_at;
    bool is_deleted;
    int64_t at_ms;      // from some time in the past
    const char *status; // of synchronisation: only Argo CD says it
    const char *mark;   // in the manifest
};

static int64_t start_ms(void)
{
    return clock_wall_ms() - INT64_C(200) * HOUR_MS;
}

static enum report_result say(struct database *database, bool is_application, struct word word)
{
    char manifest[512];
    snprintf(manifest, sizeof manifest,
             "{\"metadata\":{\"uid\":\"%s\",\"creationTimestamp\":\"%s\",\"annotations\":{\"mark\":\"%s\"}}}", word.uid,
             word.created_at, word.mark ? word.mark : "");
    struct report report = {.type = word.is_deleted ? REPORT_DELETED : REPORT_OBJECT,
                            .source = REPORT_FROM_HTTP,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .ref.group = STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = is_application ? STR("Application") : STR("Rollout"),
                            .ref.ns = STR("shop"),
                            .ref.name = STR("web"),
                            .ref.uid = str_c(word.uid),
                            .cluster = STR("in-cluster"),
                            .resource_version = str_c(word.version),
                            .created_at = str_c(word.created_at),
                            .sync_status = word.status ? str_c(word.status) : STR_EMPTY,
                            .observed_at_ms = start_ms() + word.at_ms,
                            .manifest = word.is_deleted ? STR_EMPTY : str_c(manifest)};
    return database_apply(database, report);
}

static const char early[] = "2026-01-01T00:00:00Z", late[] = "2026-01-01T00:00:07Z";

// Each begins with an empty runtime; the words are said one after the other, and `is_taken` is of the last.
static const struct {
    const char *name;
    struct word words[4];
    bool is_taken;
} cases[] = {
    {"an old update overtakes nothing, though it comes later",
     {{OLD_UID, "11", early, false, 1000, NULL, "b"}, {OLD_UID, "9", early, false, 2000, NULL, "a"}},
     false},
    {"a new one counts, though its clock is behind",
     {{OLD_UID, "9", early, false, 5000, NULL, "a"}, {OLD_UID, "11", early, false, 1000, NULL, "b"}},
     true},
    {"numbers are compared as numbers, up to 20 digits",
     {{OLD_UID, "9999999999999999999", early, false, 5000, NULL, "a"},
      {OLD_UID, "10000000000000000000", early, false, 1000, NULL, "b"}},
     true},
    {"what is no number says nothing",
     {{OLD_UID, "11", early, false, 1000, NULL, "b"}, {OLD_UID, "0x9", early, false, 2000, NULL, "a"}},
     true},
    {"nor does one with leading zeros",
     {{OLD_UID, "11", early, false, 1000, NULL, "b"}, {OLD_UID, "009", early, false, 2000, NULL, "a"}},
     true},
    {"nor one of more digits",
     {{OLD_UID, "11", early, false, 2000, NULL, "b"},
      {OLD_UID, "111111111111111111111", early, false, 1000, NULL, "a"}},
     false},
    {"a retry brings nothing back",
     {{OLD_UID, "9", early, false, 1000, NULL, "a"},
      {OLD_UID, "11", early, true, 2000, NULL, NULL},
      {OLD_UID, "9", early, false, 3000, NULL, "a"}},
     false},
    {"nor does one of the very version that was deleted",
     {{OLD_UID, "11", early, false, 1000, NULL, "a"},
      {OLD_UID, "11", early, true, 2000, NULL, NULL},
      {OLD_UID, "11", early, false, 3000, NULL, "a"}},
     false},
    {"a deletion that says no version keeps the one there was",
     {{OLD_UID, "11", early, false, 1000, NULL, "a"},
      {"", "", "", true, 2000, NULL, NULL},
      {OLD_UID, "10", early, false, 3000, NULL, "a"}},
     false},
    {"but Argo CD may take back that something is pruned",
     {{OLD_UID, "11", early, false, 1000, "Synced", "a"},
      {OLD_UID, "11", early, true, 2000, "OutOfSync", NULL},
      {OLD_UID, "11", early, false, 3000, "Synced", "a"}},
     true},
    {"and a deleted object that lives on is one again",
     {{OLD_UID, "11", early, true, 2000, NULL, NULL}, {OLD_UID, "12", early, false, 1000, NULL, "a"}},
     true},
    {"the old one's deletion leaves the new one alone",
     {{OLD_UID, "9", early, false, 1000, NULL, "a"},
      {NEW_UID, "12", late, false, 2000, NULL, "b"},
      {OLD_UID, "11", early, true, 3000, NULL, NULL}},
     false},
    {"also when both were made in one second",
     {{NEW_UID, "12", early, false, 2000, NULL, "b"}, {OLD_UID, "11", early, true, 3000, NULL, NULL}},
     false},
    {"the old one's last update does, too",
     {{NEW_UID, "12", late, false, 2000, NULL, "b"}, {OLD_UID, "10", early, false, 3000, NULL, "a"}},
     false},
    {"the new one comes although the deletion's clock was ahead",
     {{OLD_UID, "9", early, false, 1000, NULL, "a"},
      {OLD_UID, "11", early, true, 9000, NULL, NULL},
      {NEW_UID, "12", late, false, 2000, NULL, "b"}},
     true},
    {"the old one does not come back after the new one was deleted",
     {{OLD_UID, "9", early, false, 1000, NULL, "a"},
      {NEW_UID, "12", late, true, 2000, NULL, NULL},
      {OLD_UID, "10", early, false, 3000, NULL, "a"}},
     false},
    {"its own deletion still works",
     {{NEW_UID, "12", late, false, 2000, NULL, "b"}, {NEW_UID, "13", late, true, 1000, NULL, NULL}},
     true},
    {"a deletion that names no object goes by time",
     {{NEW_UID, "12", late, false, 2000, NULL, "b"}, {"", "", "", true, 3000, NULL, NULL}},
     true},
    {"the same version again goes by time, as Argo CD says more than the object",
     {{OLD_UID, "11", early, false, 2000, "Synced", "a"}, {OLD_UID, "11", early, false, 3000, "OutOfSync", "a"}},
     true},
    {"a cluster that was restored is believed after a day",
     {{OLD_UID, "99", early, false, 1000, NULL, "b"}, {OLD_UID, "9", early, false, 25 * HOUR_MS, NULL, "a"}},
     true},
    {"but brings nothing back",
     {{OLD_UID, "99", early, true, 1000, NULL, NULL}, {OLD_UID, "9", early, false, 25 * HOUR_MS, NULL, "a"}},
     false},
};

static void run_all(void **state, bool is_application)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], text[64];
    database_make_runtime(database, "prod", id);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_version_alone = strstr(cases[i].name, "very version");
        if (is_application && is_version_alone) continue; // Argo CD alone tells of applications, with a time
        enum report_result result = REPORT_UNCHANGED;
        bool is_deleted = false;
        for (size_t w = 0; w < 4 && cases[i].words[w].uid; w++) {
            struct word word = cases[i].words[w];
            result = say(database, is_application, word);
            is_deleted = word.is_deleted;
        }
        if ((result == REPORT_APPLIED) != cases[i].is_taken) fail_msg("%s", cases[i].name);
        if (cases[i].is_taken) {
            database_query(database->account,
                           is_application ? "SELECT is_deleted FROM applications" : "SELECT is_deleted FROM resources",
                           text, sizeof text);
            assert_string_equal(text, is_deleted ? "t" : "f");
        }
        database_query(database->account,
                       "WITH a AS (DELETE FROM applications RETURNING 1), r AS (DELETE FROM resources RETURNING 1)"
                       " SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM r)",
                       text, sizeof text);
        assert_string_equal(text, "1");
    }
}

static void resources_by_version(void **state)
{
    run_all(state, false);
}

static void applications_by_version(void **state)
{
    run_all(state, true);
}

// What comes too late to be the state adds nothing to it either.
static void late_words_enrich_nothing(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], text[256];
    database_make_runtime(database, "prod", id);
    say(database, false, (struct word){OLD_UID, "11", early, false, 1000, "Synced", "a"});
    database_query(database->account, "SELECT source_observed_at = observed_at FROM resources", text, sizeof text);
    assert_string_equal(text, "t");
    assert_int_equal(say(database, false, (struct word){OLD_UID, "9", early, false, 2000, NULL, "b"}),
                     REPORT_UNCHANGED);
    database_query(database->account, "SELECT source_observed_at = observed_at FROM resources", text, sizeof text);
    assert_string_equal(text, "t");
}

// A tunnel's words have an order of their own.
static void tunnels_do_not_look_at_versions(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], text[64];
    database_make_runtime(database, "prod", id);
    say(database, false, (struct word){OLD_UID, "11", early, false, 1000, NULL, "a"});
    struct report report = {.type = REPORT_DELETED,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = 1,
                            .ref.group = STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = STR("Rollout"),
                            .ref.ns = STR("shop"),
                            .ref.name = STR("web"),
                            .ref.uid = STR(OLD_UID),
                            .cluster = STR("in-cluster"),
                            .resource_version = STR("3"),
                            .observed_at_ms = start_ms()};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.outcomes[0].result, REPORT_APPLIED);
    assert_int_equal(say(database, false, (struct word){OLD_UID, "99", early, false, 1000, NULL, "a"}),
                     REPORT_UNCHANGED);
    database_query(database->account, "SELECT is_deleted FROM resources", text, sizeof text);
    assert_string_equal(text, "t");
}

struct waiting {
    const struct database *database;
    char sql[160];
};

static bool is_waiting(void *arg)
{
    const struct waiting *waiting = arg;
    char text[16];
    database_query(waiting->database->account, waiting->sql, text, sizeof text);
    return text[0] == 't';
}

static void take_commit(PGconn *conn, const char *account, const char *revision)
{
    const char *values[] = {account, revision};
    PGresult *result = PQexecParams(conn,
                                    "INSERT INTO culvert.commits (account_id, revision, repo_url, author) "
                                    "VALUES ($1, $2, 'git', 'x')",
                                    2, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s", PQerrorMessage(conn));
    PQclear(result);
}

// Commits belong to the whole account: whoever waits for one holds none that comes behind it.
static void commits_are_taken_in_one_order(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    PGconn *holder = PQconnectdb(getenv("CULVERT_TEST_DATABASE_URL"));
    const char *account = database->account;
    PQclear(PQexecParams(holder, "SELECT set_config('app.account_id', $1, false)", 1, NULL, &account, NULL, NULL, 0));
    PQclear(PQexec(holder, "BEGIN"));
    take_commit(holder, account, "aaa");
    struct report reports[2];
    for (int i = 0; i < 2; i++)
        reports[i] = (struct report){.type = REPORT_OBJECT,
                                     .source = REPORT_FROM_HTTP,
                                     .account_id = str_c(account),
                                     .runtime = STR("prod"),
                                     .ref.group = STR("apps"),
                                     .ref.version = STR("v1"),
                                     .ref.kind = STR("Deployment"),
                                     .ref.name = i ? STR("second") : STR("first"),
                                     .repo_url = STR("git"),
                                     .revision = i ? STR("aaa") : STR("bbb"),
                                     .commit_author = STR("ann"),
                                     .observed_at_ms = start_ms(),
                                     .manifest = STR("{}")};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), reports, 2, answer_on_reports, &answer);
    struct waiting waiting = {.database = database};
    snprintf(waiting.sql, sizeof waiting.sql, "SELECT bool_or(%d = ANY (pg_blocking_pids(pid))) FROM pg_stat_activity",
             PQbackendPID(holder));
    database_run_until(database, is_waiting, &waiting, 20);
    PQclear(PQexec(holder, "SET lock_timeout = '1s'"));
    take_commit(holder, account, "bbb");
    PQclear(PQexec(holder, "COMMIT"));
    PQfinish(holder);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    char text[64];
    database_query(account, "SELECT string_agg(revision || author, ' ' ORDER BY revision) FROM commits", text,
                   sizeof text);
    assert_string_equal(text, "aaaann bbbann");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources_by_version),           cmocka_unit_test(applications_by_version),
        cmocka_unit_test(late_words_enrich_nothing),      cmocka_unit_test(tunnels_do_not_look_at_versions),
        cmocka_unit_test(commits_are_taken_in_one_order),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
