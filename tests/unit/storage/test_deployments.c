// The deployment ledger: every entry once whatever comes, what was live with it, who and why, and how it is read and
// kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "base/clock.h"
#include "database.h"
#include "modules/deployments/deployment_store.h"
#include "modules/images/image_store.h"
#include "questions.h"
#include "storage/reports/report_store.h"

static struct report report_of(const struct database *database, const char *kind, const char *name, uint64_t sequence,
                               const char *manifest)
{
    bool is_application = strcmp(kind, "Application") == 0;
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = sequence,
                            .ref.group = is_application ? STR("argoproj.io") : STR("apps"),
                            .ref.version = is_application ? STR("v1alpha1") : STR("v1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = is_application ? STR("argocd") : STR("shop"),
                            .ref.name = str_c(name),
                            .ref.uid = STR("uid-1"),
                            .application_ns = is_application ? STR_EMPTY : STR("argocd"),
                            .application_name = is_application ? STR_EMPTY : STR("shop"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), report.content_hash);
    return report;
}

static void apply(struct database *database, struct report report)
{
    assert_int_not_equal(database_apply(database, report), REPORT_REFUSED);
}

static const char *query(const struct database *database, const char *sql)
{
    static char text[1 << 16];
    database_query(database->account, sql, text, sizeof text);
    return text;
}

// An application whose status.history holds the ids from first to last, deployed one a day of December 2025 (the year
// 2031 where they are ahead, no time at all where they are timeless).
enum when { IN_TIME, AHEAD, TIMELESS };

static struct report application(struct database *database, const char *uid, uint64_t sequence, int first, int last,
                                 enum when when)
{
    static char manifest[8192];
    int len = snprintf(manifest, sizeof manifest,
                       "{\"metadata\":{\"uid\":\"%s\"},\"status\":{\"sync\":{\"status\":\"Synced\"},\"health\":{"
                       "\"status\":\"Healthy\"},\"history\":[",
                       uid);
    for (int id = first; id <= last; id++) {
        char deployed[64] = "";
        if (when != TIMELESS)
            snprintf(deployed, sizeof deployed, "\"deployedAt\":\"%d-12-%02dT01:00:00Z\",", when == AHEAD ? 2031 : 2025,
                     id);
        len += snprintf(manifest + len, sizeof manifest - (size_t)len,
                        "%s{\"id\":%d,\"revision\":\"r%d\",%s\"deployStartedAt\":\"2025-12-%02dT00:59:00Z\","
                        "\"initiatedBy\":{\"username\":\"ann\",\"automated\":%s},\"source\":{\"repoURL\":"
                        "\"https://git.example/shop.git\"}}",
                        id > first ? "," : "", id, id, deployed, id, id % 2 ? "true" : "false");
    }
    snprintf(
        manifest + len, sizeof manifest - (size_t)len,
        "],\"operationState\":{\"phase\":\"Succeeded\",\"message\":\"done\",\"startedAt\":\"2025-12-%02dT00:59:00Z\","
        "\"finishedAt\":\"2025-12-%02dT01:00:00Z\",\"operation\":{\"initiatedBy\":{\"username\":\"ann\"}},"
        "\"syncResult\":{\"revision\":\"r%d\"}}}}",
        last, last, last);
    struct report report = report_of(database, "Application", "shop", sequence, manifest);
    report.ref.uid = str_c(uid);
    return report;
}

static void make_runtime(struct database *database)
{
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
}

static const char ids_sql[] =
    "SELECT string_agg(uid || ':' || history_id, ' ' ORDER BY uid, history_id) FROM deployments";

static void every_entry_is_there_once(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, application(database, "a", 1, 3, 5, IN_TIME));
    apply(database, application(database, "a", 2, 4, 7, IN_TIME)); // Argo CD forgot the third
    apply(database, application(database, "a", 3, 4, 7, IN_TIME));
    assert_string_equal(query(database, ids_sql), "a:3 a:4 a:5 a:6 a:7");
    // An older report comes late, with what was forgotten before: it is history all the same.
    apply(database, application(database, "a", 1, 1, 4, IN_TIME));
    assert_string_equal(query(database, ids_sql), "a:1 a:2 a:3 a:4 a:5 a:6 a:7");
    // Another incarnation counts from the beginning; the former one's entries stay.
    struct report gone = application(database, "a", 8, 1, 1, IN_TIME);
    gone.type = REPORT_DELETED;
    apply(database, gone);
    apply(database, application(database, "b", 9, 1, 2, IN_TIME));
    assert_string_equal(query(database, ids_sql), "a:1 a:2 a:3 a:4 a:5 a:6 a:7 b:1 b:2");
    // Told again with other times it is the same entry.
    apply(database, application(database, "b", 10, 1, 3, AHEAD));
    apply(database, application(database, "b", 11, 1, 4, TIMELESS));
    apply(database, application(database, "b", 12, 1, 4, IN_TIME));
    assert_string_equal(query(database, "SELECT string_agg(history_id || ' ' || (filed_at = 'epoch'), ', ' ORDER BY "
                                        "history_id) FROM deployments WHERE uid = 'b'"),
                        "1 false, 2 false, 3 true, 4 true");
    assert_string_equal(query(database, "SELECT deployed_at::date FROM deployments WHERE uid = 'b' AND history_id = 3"),
                        "2031-12-03");
    // Who and how; a time that no month has takes nothing away from its neighbours.
    assert_string_equal(query(database, "SELECT string_agg(concat_ws(' ', revision, initiator, is_automated, "
                                        "to_char(deploy_started_at, 'DD')), ', ' ORDER BY history_id) FROM deployments "
                                        "WHERE uid = 'a' AND history_id > 5"),
                        "r6 ann f 06, r7 ann t 07");
}

static void a_deployment_knows_what_was_live(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, report_of(database, "Deployment", "web", 1,
                              "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:1\"}]}}}}"));
    apply(database,
          report_of(database, "ReplicaSet", "web-1", 2,
                    "{\"metadata\":{\"ownerReferences\":[{\"kind\":\"Deployment\",\"name\":\"web\"}]},\"spec\":{"
                    "\"template\":{\"spec\":{\"containers\":[{\"image\":\"old:9\"}]}}}}"));
    apply(database, application(database, "a", 3, 1, 1, IN_TIME));
    static const char live_sql[] =
        "SELECT string_agg(concat_ws(' ', history_id, images, (SELECT jsonb_array_length(objects) FROM manifest_sets s "
        "WHERE s.digest = d.manifests_digest)), ', ' ORDER BY history_id) FROM deployments d";
    assert_string_equal(query(database, live_sql), "1 [\"web:1\"] 1");
    apply(database, report_of(database, "Deployment", "web", 4,
                              "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:2\"}]}}}}"));
    apply(database, application(database, "a", 5, 1, 2, IN_TIME));
    assert_string_equal(query(database, live_sql), "1 [\"web:1\"] 1, 2 [\"web:2\"] 1");
    // What is reported after its deployment is noticed when that has settled; what was live before stays as it was.
    apply(database, report_of(database, "Deployment", "api", 6,
                              "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"api:1\"}]}}}}"));
    query(database, "UPDATE deployments SET recorded_at = now() - interval '1 minute'");
    struct answer answer;
    answer_init(&answer, database);
    deployment_store_settle(database->pg, 1000, answer_on_count, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    assert_string_equal(query(database, live_sql), "1 [\"web:1\"] 1, 2 [\"api:1\", \"web:2\"] 2");
    assert_string_equal(query(database, "SELECT count(*) FROM deployments WHERE NOT is_settled"), "0");
    // Blobs that only the ledger names stay.
    answer_finish(&answer);
    query(database, "UPDATE manifests SET touched_at = now() - interval '2 hours'");
    database_sweep_manifests(database);
    assert_string_equal(query(database,
                              "SELECT count(*) FROM manifest_sets s, unnest(s.sha256s) h LEFT JOIN manifests m "
                              "ON m.sha256 = h WHERE m.sha256 IS NULL"),
                        "0");
    assert_string_equal(
        query(database, "SELECT (SELECT count(DISTINCT h) FROM manifest_sets s, unnest(s.sha256s) h) > 2"), "t");
}

// The releases that the arguments give: their history ids, and the last one's cursor.
static json_t *list(struct database *database, const char *arguments, char *out_ids, char *out_cursor)
{
    char text[4096];
    snprintf(
        text, sizeof text,
        "{gitopsReleases(%s) {edges {node {historyId current result commit {author} operationState {message dryRun}"
        " application {status {healthStatus commitMessage}}} cursor}}}",
        arguments);
    json_t *slice = question_field(database, text, NULL, "gitopsReleases"), *edge, *nodes = json_array();
    size_t i;
    *out_ids = '\0';
    json_array_foreach(json_object_get(slice, "edges"), i, edge)
    {
        json_array_append(nodes, json_object_get(edge, "node"));
        sprintf(out_ids + strlen(out_ids), "%d ", (int)json_get_int(json_object_get(edge, "node"), "historyId", -1));
        if (out_cursor) strcpy(out_cursor, json_string_value(json_object_get(edge, "cursor")));
    }
    json_decref(slice);
    return nodes;
}

// An application after an operation that began, like the others, at 00:59:00.
static struct report after_operation(const struct database *database, uint64_t sequence, const char *history,
                                     const char *state)
{
    static char manifest[4096];
    snprintf(manifest, sizeof manifest,
             "{\"metadata\":{\"uid\":\"a\"},\"status\":{\"history\":[%s],\"operationState\":{"
             "\"startedAt\":\"2025-12-01T00:59:00Z\",%s}}}",
             history, state);
    struct report report = report_of(database, "Application", "shop", sequence, manifest);
    report.ref.uid = STR("a");
    return report;
}

#define DEPLOYED(id, revision)                                                                                         \
    "{\"id\":" id ",\"revision\":\"" revision "\",\"deployedAt\":\"2025-12-01T00:59:00Z\","                            \
    "\"deployStartedAt\":\"2025-12-01T00:59:00Z\"}"
#define OPERATION(phase, message, sync, revision)                                                                      \
    "\"phase\":\"" phase "\",\"message\":\"" message "\",\"operation\":{\"sync\":{" sync                               \
    "}},\"syncResult\":{\"revision\":\"" revision "\"}"
#define FINISHED ",\"finishedAt\":\"2025-12-01T00:59:00Z\""

// Argo CD's times are whole seconds: a rollback must not take the place of the sync before it.
static void operations_of_one_second_are_rows_of_their_own(void **state)
{
    static const char rows_sql[] =
        "SELECT string_agg(concat_ws(' ', phase, message, revision, is_dry_run, is_partial), ', ' ORDER BY started_at) "
        "FROM application_operations";
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, after_operation(database, 1, "", OPERATION("Running", "", "\"revision\":\"r1\"", "r1")));
    apply(database, after_operation(database, 2, DEPLOYED("1", "r1"),
                                    OPERATION("Succeeded", "sync", "\"revision\":\"r1\"", "r1") FINISHED));
    assert_string_equal(query(database, rows_sql), "Succeeded sync r1 f f");
    apply(database,
          after_operation(database, 3, DEPLOYED("1", "r1"),
                          OPERATION("Succeeded", "dry", "\"revision\":\"r0\",\"dryRun\":true", "r0") FINISHED));
    apply(database, after_operation(database, 4, DEPLOYED("1", "r1"),
                                    OPERATION("Failed", "some",
                                              "\"revision\":\"r0\",\"resources\":[{\"kind\":\"Service\","
                                              "\"name\":\"web\"}]",
                                              "r0") FINISHED));
    apply(database, after_operation(database, 5, DEPLOYED("1", "r1") "," DEPLOYED("2", "r0"),
                                    OPERATION("Succeeded", "rollback", "\"revision\":\"r0\"", "r0") FINISHED));
    static const char all[] =
        "Succeeded sync r1 f f, Succeeded dry r0 t f, Failed some r0 f t, Succeeded rollback r0 f f";
    assert_string_equal(query(database, rows_sql), all);
    // Repeated and late reports find the row of their operation.
    apply(database, after_operation(database, 6, DEPLOYED("1", "r1") "," DEPLOYED("2", "r0"),
                                    OPERATION("Succeeded", "rollback", "\"revision\":\"r0\"", "r0") FINISHED));
    apply(database, after_operation(database, 1, "", OPERATION("Running", "", "\"revision\":\"r1\"", "r1")));
    assert_string_equal(query(database, rows_sql), all);
    char ids[256];
    json_t *nodes = list(database, "pagination: {first: 9}", ids, NULL);
    assert_string_equal(ids, "2 1 ");
    static const char *const messages[] = {"rollback", "sync"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *operation = json_object_get(json_array_get(nodes, i), "operationState");
        assert_string_equal(json_get_str(operation, "message").at, messages[i]);
        assert_false(json_get_bool(operation, "dryRun", true));
    }
    json_decref(nodes);
}

// PostgreSQL knows fewer zones than RFC 3339.
static void a_zone_costs_no_deployment(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    static const char manifest[] =
        "{\"metadata\":{\"uid\":\"a\"},\"status\":{\"history\":[{\"id\":1,\"revision\":\"r1\",\"deployedAt\":"
        "\"2025-12-01T21:00:00+20:00\",\"deployStartedAt\":\"2025-11-30T01:00:00.5-23:59\"}]}}";
    struct report report = report_of(database, "Application", "shop", 1, manifest);
    report.ref.uid = STR("a");
    apply(database, report);
    assert_string_equal(query(database, "SELECT deployed_at || ' ' || deploy_started_at FROM deployments"),
                        "2025-12-01 01:00:00+00 2025-12-01 00:59:00.5+00");
}

// What a set names is there: its manifests are touched with it, and where one was swept meanwhile no set names it.
static void a_set_names_what_is_there(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, report_of(database, "Deployment", "web", 1, "{\"spec\":{\"n\":1}}"));
    apply(database, application(database, "a", 2, 1, 1, IN_TIME));
    static const char settle_sql[] =
        "UPDATE deployments SET recorded_at = now() - interval '1 minute', is_settled = false";
    for (int round = 0; round < 2; round++) {
        query(database, "DELETE FROM manifest_sets");
        query(database, "UPDATE manifests SET touched_at = now() - interval '2 hours'");
        if (round) query(database, "DELETE FROM manifests m USING resources r WHERE m.sha256 = r.manifest_sha256");
        query(database, settle_sql);
        struct answer answer;
        do { // others may be writing sets, and deployments of other tests come first
            answer_init(&answer, database);
            deployment_store_settle(database->pg, 1000, answer_on_count, &answer);
            answer_wait(&answer);
            if (answer.code != ERROR_NONE && answer.code != ERROR_TIMEOUT) fail_msg("%s", answer.text);
            answer_finish(&answer);
        } while (strcmp(query(database, "SELECT bool_and(is_settled) FROM deployments"), "t") != 0);
        assert_string_equal(query(database, "SELECT count(*) FROM manifest_sets"), round ? "0" : "1");
        if (round == 0)
            assert_string_equal(query(database,
                                      "SELECT count(*) FROM manifest_sets s JOIN manifests m ON m.sha256 = ANY "
                                      "(s.sha256s) WHERE m.touched_at > now() - interval '1 minute'"),
                                "1");
    }
}

static void releases_are_read_page_by_page(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, application(database, "a", 1, 1, 5, IN_TIME));
    struct report told = application(database, "a", 0, 5, 5, IN_TIME);
    told.source = REPORT_FROM_HTTP;
    told.epoch = 0;
    told.repo_url = STR("https://git.example/shop");
    told.revision = STR("r4");
    told.commit_author = STR("Bea");
    told.commit_message = STR("More replicas");
    told.commit_date = STR("2025-12-03T00:00:00Z");
    apply(database, told);
    struct answer put;
    answer_init(&put, database);
    image_store_put(database->pg, database->account, STR_EMPTY, STR("i1"),
                    STR("{\"imageName\":\"web\",\"commit\":\"r2\",\"commitMsg\":\"Built\",\"commitURL\":\"https://c\","
                        "\"author\":{\"username\":\"cyd\"}}"),
                    answer_on_node, &put);
    answer_wait(&put);
    answer_finish(&put);
    char ids[256], cursor[2048];
    json_t *nodes = list(database, "pagination: {first: 2}", ids, cursor);
    assert_string_equal(ids, "5 4 ");
    const json_t *newest = json_array_get(nodes, 0), *second = json_array_get(nodes, 1);
    assert_true(json_get_bool(newest, "current", false));
    assert_false(json_get_bool(second, "current", true));
    assert_string_equal(json_string_value(json_path(newest, "application", "status", "healthStatus", NULL)), "HEALTHY");
    assert_string_equal(json_string_value(json_path(newest, "operationState", "message", NULL)), "done");
    assert_string_equal(json_string_value(json_path(second, "commit", "author", NULL)), "Bea");
    assert_string_equal(json_string_value(json_path(second, "application", "status", "commitMessage", NULL)),
                        "More replicas");
    assert_string_equal(json_get_str(second, "result").at, "Succeeded");
    json_decref(nodes);
    char behind[4096];
    snprintf(behind, sizeof behind, "filters: {name: \"shop\", runtime: \"\"}, pagination: {first: 3, after: \"%s\"}",
             cursor);
    nodes = list(database, behind, ids, NULL);
    assert_string_equal(ids, "3 2 1 ");
    assert_string_equal(json_string_value(json_path(json_array_get(nodes, 1), "commit", "author", NULL)), "cyd");
    json_decref(nodes);
    static const struct {
        const char *filter, *ids;
    } filters[] = {
        {"filters: {historyId: 3}", "3 "},
        {"filters: {committers: [\"Bea\"]}", "4 "},
        {"filters: {startDate: \"2025-12-02T00:00:00Z\", endDate: \"2025-12-03T23:00:00Z\"}", "3 2 "},
        {"filters: {name: \"other\"}", ""},
        {"filters: {prKeys: [\"1\"]}", ""},
        {"filters: {kind: \"Rollout\"}", ""},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        json_decref(list(database, filters[i].filter, ids, NULL));
        if (strcmp(ids, filters[i].ids) != 0) fail_msg("%s: %s", filters[i].filter, ids);
    }
    static const char oldest[] = "sort: {field: createdAt, order: asc}, pagination";
    snprintf(behind, sizeof behind, "%s: {first: 2}", oldest);
    json_decref(list(database, behind, ids, cursor));
    assert_string_equal(ids, "1 2 ");
    snprintf(behind, sizeof behind, "%s: {first: 9, after: \"%s\"}", oldest, cursor);
    json_decref(list(database, behind, ids, NULL));
    assert_string_equal(ids, "3 4 5 ");
    json_decref(list(database, "pagination: {last: 2}", ids, NULL));
    assert_string_equal(ids, "2 1 ");
}

static void sweep(struct database *database)
{
    // Other tests' accounts are swept, too: by what the platform keeps, which is longer than any of them look back.
    static const char *const kinds[] = {"deployments", "kept_deployments", "operations", "workflows",
                                        "commits",     "manifest_sets",    NULL};
    for (const char *const *kind = kinds; *kind; kind++) {
        struct answer answer;
        answer_init(&answer, database);
        deployment_store_sweep(database->pg, *kind, 36500, 5000, answer_on_count, &answer);
        answer_wait(&answer);
        if (answer.code != ERROR_NONE) fail_msg("%s: %s", *kind, answer.text);
        answer_finish(&answer);
    }
}

static void an_account_keeps_what_it_says(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database);
    apply(database, application(database, "a", 1, 1, 3, IN_TIME)); // all of December 2025
    struct report workflow =
        report_of(database, "Workflow", "run", 2, "{\"metadata\":{\"creationTimestamp\":\"2025-12-01T00:00:00Z\"}}");
    workflow.ref.group = STR("argoproj.io");
    apply(database, workflow);
    sweep(database);
    assert_string_equal(query(database, ids_sql), "a:1 a:2 a:3");
    struct answer answer;
    answer_init(&answer, database);
    identity_store_set_history_keep(database->pg, database->account, 30, answer_on_node, &answer);
    answer_wait(&answer);
    assert_non_null(strstr(answer.node, "\"historyKeepDays\" : 30"));
    answer_finish(&answer);
    sweep(database);
    // What runs now stays, however old; so does what the cluster still holds.
    assert_string_equal(query(database, ids_sql), "a:3");
    assert_string_equal(query(database, "SELECT count(*) FROM application_operations"), "0");
    assert_string_equal(query(database, "SELECT count(*) FROM workflows"), "1");
    // Told again, it is not taken in again.
    apply(database, application(database, "a", 3, 1, 3, IN_TIME));
    apply(database, application(database, "a", 4, 2, 4, IN_TIME));
    assert_string_equal(query(database, ids_sql), "a:3 a:4");
    sweep(database);
    assert_string_equal(query(database, ids_sql), "a:4");
    struct report gone = workflow;
    gone.type = REPORT_DELETED;
    gone.sequence = 9;
    apply(database, gone);
    sweep(database);
    assert_string_equal(query(database, "SELECT count(*) FROM workflows"), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_there_once),
        cmocka_unit_test(a_deployment_knows_what_was_live),
        cmocka_unit_test(a_zone_costs_no_deployment),
        cmocka_unit_test(a_set_names_what_is_there),
        cmocka_unit_test(releases_are_read_page_by_page),
        cmocka_unit_test(operations_of_one_second_are_rows_of_their_own),
        cmocka_unit_test(an_account_keeps_what_it_says),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
