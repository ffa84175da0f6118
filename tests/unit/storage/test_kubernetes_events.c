// Kubernetes Events as rows: one an Event, only of an object that is there, the newest 50 of it,
// gone with it; removed by age and number; read by the account alone.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "database.h"
#include "questions.h"

static uint64_t sequence;

static struct report report_of(const struct database *database, enum report_type type, const char *kind,
                               const char *manifest)
{
    bool is_application = strcmp(kind, "Application") == 0;
    struct report report = {.type = type,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = ++sequence,
                            .ref.group = is_application ? STR("argoproj.io") : STR_EMPTY,
                            .ref.version = STR("v1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = is_application ? STR("argocd") : STR("shop"),
                            .ref.name = STR("web"),
                            .ref.uid = STR("uid-1"),
                            .application_ns = is_application ? STR_EMPTY : STR("argocd"),
                            .application_name = is_application ? STR_EMPTY : STR("web"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), report.content_hash);
    return report;
}

static void apply_object(struct database *database, const char *kind)
{
    database_apply(database, report_of(database, REPORT_OBJECT, kind, "{\"metadata\":{\"uid\":\"uid-1\"}}"));
}

static enum report_result apply_event(struct database *database, const char *kind, const char *uid, int count,
                                      const char *last_at)
{
    char manifest[512];
    snprintf(
        manifest, sizeof manifest,
        "{\"uid\":\"%s\",\"type\":\"Warning\",\"reason\":\"Failed\",\"message\":\"pull\",\"component\":\"kubelet\","
        "\"count\":%d,\"firstAt\":\"2026-03-01T10:00:00Z\",\"lastAt\":\"%s\"}",
        uid, count, last_at);
    return database_apply(database, report_of(database, REPORT_KUBERNETES_EVENT, kind, manifest));
}

static const char *query(const struct database *database, const char *sql)
{
    static char text[1 << 16];
    database_query(database->account, sql, text, sizeof text);
    return text;
}

static const char *rows(const struct database *database)
{
    return query(database, "SELECT string_agg(concat_ws(' ', event_uid, kind, name, application_name, type, reason, "
                           "message, component, count, to_char(last_at AT TIME ZONE 'UTC', 'HH24:MI:SS.MS')), ', ' "
                           "ORDER BY event_uid) FROM kubernetes_events");
}

static struct database *begin(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    sequence = 0;
    return database;
}

static void a_repetition_raises_the_count(void **state)
{
    struct database *database = begin(state);
    apply_object(database, "Pod");
    assert_int_equal(apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z"), REPORT_APPLIED);
    assert_int_equal(apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z"), REPORT_UNCHANGED);
    assert_int_equal(apply_event(database, "Pod", "e1", 7, "2026-03-01T10:05:00.250000Z"), REPORT_APPLIED);
    assert_string_equal(rows(database), "e1 Pod web web Warning Failed pull kubelet 7 10:05:00.250");
    // What is older comes late.
    assert_int_equal(apply_event(database, "Pod", "e1", 6, "2026-03-01T10:04:00Z"), REPORT_UNCHANGED);
    // Of a clock that is ahead, and a time that cannot be read: now.
    assert_int_equal(apply_event(database, "Pod", "e2", 1, "2999-03-01T10:04:00Z"), REPORT_APPLIED);
    assert_int_equal(apply_event(database, "Pod", "e3", 1, "later"), REPORT_APPLIED);
    assert_string_equal(query(database, "SELECT count(*) FROM kubernetes_events WHERE last_at <= now()"), "3");
}

static void only_of_an_object_that_is_there(void **state)
{
    struct database *database = begin(state);
    assert_int_equal(apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z"), REPORT_UNCHANGED);
    apply_object(database, "Pod");
    apply_object(database, "Application");
    apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z");
    apply_event(database, "Application", "e2", 1, "2026-03-01T10:00:00Z");
    assert_string_equal(query(database, "SELECT count(*) FROM kubernetes_events WHERE application_name = 'web' AND "
                                        "application_namespace = 'argocd'"),
                        "2");
    database_apply(database, report_of(database, REPORT_DELETED, "Pod", ""));
    assert_string_equal(query(database, "SELECT string_agg(event_uid, ' ') FROM kubernetes_events"), "e2");
    database_apply(database, report_of(database, REPORT_DELETED, "Application", ""));
    assert_string_equal(rows(database), "");
    apply_object(database, "Pod");
    apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z");
    query(database, "DELETE FROM runtimes WHERE runtime = 'prod'");
    assert_string_equal(rows(database), "");
}

static void what_is_no_event_is_refused(void **state)
{
    struct database *database = begin(state);
    static char large[20000];
    apply_object(database, "Pod");
    assert_int_equal(apply_event(database, "Pod", "", 1, ""), REPORT_REFUSED);
    memset(large, ' ', sizeof large - 1);
    const char *const bad[] = {"[]", "{", "{\"uid\":1}", large};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(database_apply(database, report_of(database, REPORT_KUBERNETES_EVENT, "Pod", bad[i])),
                         REPORT_REFUSED);
    assert_string_equal(rows(database), "");
}

static void an_object_has_its_newest(void **state)
{
    struct database *database = begin(state);
    apply_object(database, "Pod");
    for (int i = 0; i < 60; i++) {
        char uid[16], at[64];
        snprintf(uid, sizeof uid, "e%d", i);
        snprintf(at, sizeof at, "2026-03-01T10:%02d:00Z", i);
        apply_event(database, "Pod", uid, 1, at);
    }
    assert_string_equal(query(database, "SELECT count(*) || ' ' || min(to_char(last_at AT TIME ZONE 'UTC', 'MI')) "
                                        "FROM kubernetes_events"),
                        "50 10");
}

// As the sweeper does, through culvertd's login; another replica may be at it.
static void trim_to(const struct database *database, const char *count)
{
    uint64_t deadline = clock_mono_ms() + 20000;
    PGconn *conn = PQconnectdb(getenv("CULVERT_TEST_DATABASE_APP_URL"));
    PQclear(PQexec(conn, "SET search_path = culvert"));
    do {
        PGresult *result = PQexec(conn, "SELECT kubernetes_events_trim(7, 1000, 100000)");
        if (PQresultStatus(result) != PGRES_TUPLES_OK) fail_msg("%s", PQerrorMessage(conn));
        PQclear(result);
    } while (strcmp(query(database, "SELECT count(*) FROM kubernetes_events"), count) != 0 &&
             clock_mono_ms() < deadline);
    PQfinish(conn);
    assert_string_equal(query(database, "SELECT count(*) FROM kubernetes_events"), count);
}

static void old_ones_and_too_many_are_removed(void **state)
{
    struct database *database = begin(state);
    char sql[1024];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO kubernetes_events (account_id, runtime, cluster, event_uid, api_group, kind, namespace, name, "
        "application_namespace, application_name, type, count, first_at, last_at) SELECT '%s', 'prod', 'c', i, '', "
        "'Pod', 'n', 'p' || i, '', '', 'Normal', 1, now(), now() - i * interval '1 second' - CASE WHEN i > 1500 "
        "THEN interval '8 days' ELSE interval '0' END FROM generate_series(1, 1510) i",
        database->account);
    query(database, sql);
    trim_to(database, "1000");
    assert_string_equal(query(database, "SELECT max(event_uid::integer) FROM kubernetes_events"), "1000");
}

static void clients_read_the_newest_first(void **state)
{
    struct database *database = begin(state);
    static const char list[] = "{ kubernetesEvents(filters: {types: [WARNING], name: \"web\"}, pagination: {first: 1}) "
                               "{ edges { node { uid type count lastAt } } pageInfo { hasNextPage } } }";
    apply_object(database, "Pod");
    apply_object(database, "Application");
    apply_event(database, "Pod", "e1", 1, "2026-03-01T10:00:00Z");
    apply_event(database, "Application", "e2", 3, "2026-03-01T11:00:00Z");
    json_t *slice = question_field(database, list, NULL, "kubernetesEvents");
    char *text = json_dumps(slice, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"edges\":[{\"node\":{\"count\":3,\"lastAt\":\"2026-03-01T11:00:00.000Z\",\"type\":"
                              "\"WARNING\",\"uid\":\"e2\"}}],\"pageInfo\":{\"hasNextPage\":true}}");
    free(text);
    json_decref(slice);
    json_t *application = question_field(
        database, "{ application(runtime: \"prod\", name: \"web\") { events { uid kind reason count } } }", NULL,
        "application");
    text = json_dumps(application, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"events\":[{\"uid\":\"e2\",\"kind\":\"Application\",\"reason\":\"Failed\",\"count\":3},"
                        "{\"uid\":\"e1\",\"kind\":\"Pod\",\"reason\":\"Failed\",\"count\":1}]}");
    free(text);
    json_decref(application);
    struct database *other = database_of(state);
    slice = question_field(other, list, NULL, "kubernetesEvents");
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 0);
    json_decref(slice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repetition_raises_the_count),     cmocka_unit_test(only_of_an_object_that_is_there),
        cmocka_unit_test(what_is_no_event_is_refused),       cmocka_unit_test(an_object_has_its_newest),
        cmocka_unit_test(old_ones_and_too_many_are_removed), cmocka_unit_test(clients_read_the_newest_first),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
