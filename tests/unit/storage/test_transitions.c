// Changes of state as rows: one for a change and none for a repetition, with its cause; merged
// where an object changes too often; removed by age and number; read by the account alone.
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

static struct report report_of(const struct database *database, const char *kind, const char *manifest)
{
    bool is_application = strcmp(kind, "Application") == 0;
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = ++sequence,
                            .ref.group = strcmp(kind, "Deployment") == 0 ? STR("apps") : STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = is_application ? STR("argocd") : STR("shop"),
                            .ref.name = STR("web"),
                            .ref.uid = STR("uid-1"),
                            .application_ns = is_application ? STR_EMPTY : STR("argocd"),
                            .application_name = is_application ? STR_EMPTY : STR("web"),
                            .observed_at_ms = clock_wall_ms() + (int64_t)sequence,
                            .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), report.content_hash);
    return report;
}

static void apply(struct database *database, struct report report)
{
    assert_int_not_equal(database_apply(database, report), REPORT_REFUSED);
}

// An application as Argo CD writes it. operation: the member operationState, or "".
static void apply_application(struct database *database, uint64_t epoch, const char *sync, const char *health,
                              const char *operation)
{
    char manifest[1024];
    snprintf(
        manifest, sizeof manifest,
        "{\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"sync\":{\"status\":\"%s\",\"revision\":\"r1\"},\"health\":"
        "{\"status\":\"%s\",\"message\":\"because\"}%s}}",
        sync, health, operation);
    struct report report = report_of(database, "Application", manifest);
    report.epoch = epoch;
    apply(database, report);
}

static const char *query(const struct database *database, const char *sql)
{
    static char text[1 << 16];
    database_query(database->account, sql, text, sizeof text);
    return text;
}

// In the order of their numbers.
static const char *changes(const struct database *database)
{
    return query(database, "SELECT string_agg(concat_ws(' ', kind, field, coalesce(from_value, '-'), to_value, cause, "
                           "actor), ', ' ORDER BY number) FROM transitions");
}

static struct database *begin(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    sequence = 0;
    return database;
}

static void only_changes_are_rows(void **state)
{
    struct database *database = begin(state);
    apply_application(database, 1, "Synced", "Healthy", "");
    assert_string_equal(changes(database), "Application PRESENCE - PRESENT REPORT");
    apply_application(database, 1, "Synced", "Degraded", "");
    apply_application(database, 1, "Synced", "Degraded", "");
    assert_string_equal(query(database,
                              "SELECT concat_ws(' ', number > 0, from_value, to_value, message, observed_at > "
                              "recorded_at - interval '1 minute', application_namespace, application_name) "
                              "FROM transitions WHERE field = 'HEALTH'"),
                        "t HEALTHY DEGRADED because t argocd web");
    // Another agent, or another session, sends all of it again.
    sequence = 0;
    apply_application(database, 2, "Synced", "Degraded", "");
    assert_string_equal(changes(database),
                        "Application PRESENCE - PRESENT REPORT, Application HEALTH HEALTHY DEGRADED REPORT");
    // What an older session still had is no change.
    apply_application(database, 1, "OutOfSync", "Missing", "");
    assert_string_equal(query(database, "SELECT count(*) FROM transitions"), "2");
}

static void snapshot(struct database *database, enum report_type type, uint64_t count)
{
    struct report report = report_of(database, "Application", "{}");
    report.type = type;
    report.epoch = 2;
    report.count = count;
    report.manifest = STR_EMPTY;
    apply(database, report);
}

static void a_snapshot_writes_what_differs(void **state)
{
    struct database *database = begin(state);
    apply_application(database, 2, "Synced", "Healthy", "");
    snapshot(database, REPORT_SNAPSHOT_BEGIN, 0);
    apply_application(database, 2, "Synced", "Healthy", "");
    snapshot(database, REPORT_SNAPSHOT_END, 1);
    assert_string_equal(changes(database), "Application PRESENCE - PRESENT REPORT");
    // It is not in the next one, and comes back after that.
    snapshot(database, REPORT_SNAPSHOT_BEGIN, 0);
    snapshot(database, REPORT_SNAPSHOT_END, 0);
    apply_application(database, 2, "Synced", "Progressing", "");
    assert_string_equal(changes(database),
                        "Application PRESENCE - PRESENT REPORT, Application PRESENCE PRESENT DELETED SWEEP, "
                        "Application PRESENCE DELETED PRESENT REPORT, Application HEALTH HEALTHY PROGRESSING REPORT");
    struct report gone = report_of(database, "Application", "{}");
    gone.type = REPORT_DELETED;
    gone.epoch = 2;
    apply(database, gone);
    assert_string_equal(query(database, "SELECT concat_ws(' ', field, to_value, cause) FROM transitions "
                                        "ORDER BY number DESC LIMIT 1"),
                        "PRESENCE DELETED REPORT");
    // Nothing of the runtime outlives it.
    database_query(database->account, "DELETE FROM runtimes", (char[8]){0}, 8);
    assert_string_equal(query(database, "SELECT count(*) FROM transitions"), "0");
}

#define AT_TEN ",\"operationState\":{\"startedAt\":\"2026-02-01T10:00:00Z\","
#define BEGUN  AT_TEN "\"operation\":{\"initiatedBy\":{\"username\":\"ann\"},\"sync\":{}},\"phase\":"

static void a_change_of_a_sync_has_the_operation(void **state)
{
    struct database *database = begin(state);
    apply_application(database, 1, "OutOfSync", "Healthy", "");
    apply_application(database, 1, "OutOfSync", "Healthy", BEGUN "\"Running\"}");
    apply_application(database, 1, "Synced", "Progressing", BEGUN "\"Running\"}");
    apply_application(database, 1, "Synced", "Progressing",
                      BEGUN "\"Succeeded\",\"finishedAt\":\"2026-02-01T10:00:09Z\"}");
    apply_application(database, 1, "Synced", "Healthy", BEGUN "\"Succeeded\",\"finishedAt\":\"2026-02-01T10:00:09Z\"}");
    assert_string_equal(changes(database),
                        "Application PRESENCE - PRESENT REPORT, Application OPERATION - Running OPERATION ann, "
                        "Application SYNC OUT_OF_SYNC SYNCED OPERATION ann, "
                        "Application HEALTH HEALTHY PROGRESSING OPERATION ann, "
                        "Application OPERATION Running Succeeded OPERATION ann, "
                        "Application HEALTH PROGRESSING HEALTHY REPORT");
    assert_string_equal(query(database, "SELECT string_agg(to_char(observed_at, 'SS'), ' ' ORDER BY number) FROM "
                                        "transitions WHERE field = 'OPERATION'"),
                        "00 09");
    // The next one, of which only the end is seen, ends alike.
    apply_application(database, 1, "Synced", "Healthy",
                      ",\"operationState\":{\"startedAt\":\"2026-02-01T11:00:00Z\",\"phase\":\"Succeeded\"}");
    assert_string_equal(query(database, "SELECT concat_ws(' ', from_value, to_value) FROM transitions ORDER BY number "
                                        "DESC LIMIT 1"),
                        "Succeeded Succeeded");
}

static void apply_health(struct database *database, const char *health)
{
    struct report report = report_of(database, "Deployment", "{\"metadata\":{\"uid\":\"uid-1\"}}");
    report.health_status = str_c(health);
    apply(database, report);
}

static void resources_and_rollouts_have_their_own(void **state)
{
    struct database *database = begin(state);
    apply_health(database, "Progressing");
    apply_health(database, "Healthy");
    apply(database,
          report_of(database, "Rollout", "{\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"phase\":\"Paused\"}}"));
    apply(database,
          report_of(database, "Rollout", "{\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"phase\":\"Healthy\"}}"));
    assert_string_equal(changes(database),
                        "Deployment HEALTH PROGRESSING HEALTHY REPORT, Rollout PHASE Paused Healthy REPORT");
    assert_string_equal(query(database, "SELECT count(*) FROM transitions WHERE application_name = 'web' AND "
                                        "application_namespace = 'argocd'"),
                        "2");
}

// As the sweeper does, through culvertd's login.
static void sweep(const char *sql)
{
    PGconn *conn = PQconnectdb(getenv("CULVERT_TEST_DATABASE_APP_URL"));
    PQclear(PQexec(conn, "SET search_path = culvert"));
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void what_flaps_is_merged(void **state)
{
    struct database *database = begin(state);
    enum { CHANGES = 75 };
    sweep("SELECT transitions_count_merged()");
    int64_t before = atoll(query(database, "SELECT merged_counted FROM transition_limits"));
    for (int i = 0; i <= CHANGES; i++)
        apply_health(database, i % 2 ? "Degraded" : "Healthy");
    assert_string_equal(query(database,
                              "SELECT concat_ws(' ', count(*) = (SELECT per_hour_max FROM transition_limits), "
                              "count(*) + sum(merged), count(*) FILTER (WHERE merged > 0)) FROM transitions"),
                        "t 75 1");
    assert_string_equal(
        query(database, "SELECT concat_ws(' ', from_value, to_value) FROM transitions WHERE merged > 0"),
        "DEGRADED DEGRADED");
    sweep("SELECT transitions_count_merged()");
    assert_true(atoll(query(database, "SELECT merged_counted FROM transition_limits")) >= before + CHANGES - 60);
}

// One replica does it at a time: others give up.
static void trim_to(const struct database *database, const char *rows)
{
    uint64_t deadline = clock_mono_ms() + 20000;
    do
        sweep("SELECT transitions_trim(7, 1000, 100000)");
    while (strcmp(query(database, "SELECT count(*) FROM transitions"), rows) != 0 && clock_mono_ms() < deadline);
    assert_string_equal(query(database, "SELECT count(*) FROM transitions"), rows);
}

static void old_ones_and_too_many_are_removed(void **state)
{
    struct database *database = begin(state);
    char sql[1024];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO transitions (account_id, recorded_at, observed_at, runtime, cluster, api_group, kind, "
        "namespace, name, uid, application_namespace, application_name, field, cause) SELECT '%s', now() - CASE "
        "WHEN i <= 10 THEN interval '40 days' ELSE interval '0' END, now(), 'prod', 'c', '', 'Pod', 'n', 'p' || i, "
        "'u', '', '', 'HEALTH', 'REPORT' FROM generate_series(1, 1510) i",
        database->account);
    query(database, sql);
    trim_to(database, "1000");
    assert_string_equal(query(database,
                              "SELECT count(*) FILTER (WHERE recorded_at < now() - interval '1 day') || ' ' || "
                              "min(substr(name, 2)::integer) FROM transitions"),
                        "0 511");
    // Weeks.
    query(database, "CREATE TABLE transitions_20200106 (LIKE transitions INCLUDING ALL)");
    query(database, "ALTER TABLE transitions ATTACH PARTITION transitions_20200106 FOR VALUES FROM ('2020-01-06') TO "
                    "('2020-01-13')");
    uint64_t deadline = clock_mono_ms() + 20000;
    do
        sweep("SELECT transitions_partitions(7, 60)");
    while (*query(database, "SELECT to_regclass('transitions_20200106')") && clock_mono_ms() < deadline);
    assert_string_equal(query(database, "SELECT to_regclass('transitions_20200106')"), "");
    assert_string_equal(query(database, "SELECT count(*) > 8 FROM pg_inherits WHERE inhparent = "
                                        "'transitions'::regclass"),
                        "t");
}

static const char list[] =
    "{ transitions(filters: {applicationName: \"web\"}) { edges { node { kind field from to cause actor } } } }";

static void clients_read_the_newest_first(void **state)
{
    struct database *database = begin(state);
    apply_application(database, 1, "Synced", "Healthy", "");
    apply_application(database, 1, "Synced", "Degraded", "");
    apply_health(database, "Healthy");
    apply_health(database, "Degraded");
    json_t *slice = question_field(database, list, NULL, "transitions");
    json_t *edges = json_object_get(slice, "edges");
    assert_int_equal(json_array_size(edges), 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json_array_get(edges, 0), "node"), "kind")),
                        "Deployment");
    json_decref(slice);
    slice = question_field(database,
                           "{ transitions(filters: {fields: [HEALTH], to: [\"DEGRADED\"], kind: \"Application\"}, "
                           "pagination: {first: 1}) { edges { node { from } } pageInfo { hasNextPage } } }",
                           NULL, "transitions");
    char *text = json_dumps(slice, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"edges\":[{\"node\":{\"from\":\"HEALTHY\"}}],\"pageInfo\":{\"hasNextPage\":false}}");
    free(text);
    json_decref(slice);
    json_t *application =
        question_field(database, "{ application(runtime: \"prod\", name: \"web\") { transitions { field from to } } }",
                       NULL, "application");
    text = json_dumps(application, JSON_COMPACT);
    assert_string_equal(text, "{\"transitions\":[{\"field\":\"HEALTH\",\"from\":\"HEALTHY\",\"to\":\"DEGRADED\"},"
                              "{\"field\":\"PRESENCE\",\"from\":null,\"to\":\"PRESENT\"}]}");
    free(text);
    json_decref(application);
    struct database *other = database_of(state);
    slice = question_field(other, list, NULL, "transitions");
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 0);
    json_decref(slice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_changes_are_rows),
        cmocka_unit_test(a_snapshot_writes_what_differs),
        cmocka_unit_test(a_change_of_a_sync_has_the_operation),
        cmocka_unit_test(resources_and_rollouts_have_their_own),
        cmocka_unit_test(what_flaps_is_merged),
        cmocka_unit_test(old_ones_and_too_many_are_removed),
        cmocka_unit_test(clients_read_the_newest_first),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
