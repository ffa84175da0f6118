// Rollouts, replica sets, analysis runs and workflows: what of their manifests lands in which column, that their rows
// follow their resources in every order of reports, and how they are read.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/strbuf.h"
#include "database.h"
#include "modules/images/image_store.h"
#include "modules/resources/tree_store.h"
#include "questions.h"
#include "storage/reports/report_store.h"

static struct report report_of(const struct database *database, const char *kind, const char *name, uint64_t sequence,
                               const char *manifest)
{
    bool is_replica_set = strcmp(kind, "ReplicaSet") == 0;
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = sequence,
                            .ref.group = is_replica_set ? STR("apps") : STR("argoproj.io"),
                            .ref.version = is_replica_set ? STR("v1") : STR("v1alpha1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = STR("shop"),
                            .ref.name = str_c(name),
                            .ref.uid = STR("uid-1"),
                            .application_ns = STR("argocd"),
                            .application_name = STR("shop"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), report.content_hash);
    return report;
}

static void apply(struct database *database, const struct report *reports, size_t count)
{
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), reports, count, answer_on_reports, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    for (size_t i = 0; i < answer.outcome_count; i++)
        if (answer.outcomes[i].result == REPORT_REFUSED) fail_msg("%zu: %s", i, answer.outcomes[i].detail);
}

static void apply_one(struct database *database, struct report report)
{
    apply(database, &report, 1);
}

static const char *query(const struct database *database, const char *sql)
{
    static char text[1 << 16];
    database_query(database->account, sql, text, sizeof text);
    return text;
}

static const char rollout[] =
    "{\"metadata\":{\"annotations\":{\"rollout.argoproj.io/revision\":\"4\"},\"labels\":{\"app\":\"web\"}},"
    "\"spec\":{\"replicas\":5,\"revisionHistoryLimit\":3,\"strategy\":{\"canary\":{\"stableService\":\"web\","
    "\"canaryService\":\"web-canary\",\"steps\":[{\"setWeight\":20},{\"pause\":{}},{\"setWeight\":60}]}},"
    "\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:4\"}]}}},"
    "\"status\":{\"phase\":\"Paused\",\"message\":\"CanaryPauseStep\",\"replicas\":6,\"readyReplicas\":5,"
    "\"availableReplicas\":4,\"updatedReplicas\":1,\"currentStepIndex\":1,\"currentPodHash\":\"new\","
    "\"stableRS\":\"old\",\"controllerPause\":true,\"canary\":{\"currentStepAnalysisRunStatus\":{\"name\":\"run\","
    "\"status\":\"Running\"}}}}";

static void rollouts_have_their_columns(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    apply_one(database, report_of(database, "Rollout", "web", 1, rollout));
    assert_string_equal(
        query(database, "SELECT concat_ws(' ', uid, phase, message, strategy, revision, desired_replicas, "
                        "revision_history_limit, current_replicas, ready_replicas, available_replicas, "
                        "updated_replicas, jsonb_array_length(steps), current_step_index, weight, is_aborted, "
                        "is_paused, is_promote_full, stable_service, new_service, stable_hash, current_hash, "
                        "analysis -> 'step' ->> 'status') FROM rollouts"),
        "uid-1 Paused CanaryPauseStep canary 4 5 3 6 5 4 1 3 1 20 f t f web web-canary old new Running");
    // Through, and by another strategy.
    apply_one(database, report_of(database, "Rollout", "web", 2,
                                  "{\"spec\":{\"strategy\":{\"blueGreen\":{\"activeService\":\"a\","
                                  "\"previewService\":\"p\"}}},\"status\":{\"phase\":\"Healthy\",\"currentPodHash\":"
                                  "\"x\",\"stableRS\":\"x\",\"abort\":true,\"replicas\":99999999999,\"blueGreen\":{"
                                  "\"prePromotionAnalysisRunStatus\":{\"name\":\"pre\"}}}}"));
    assert_string_equal(query(database,
                              "SELECT concat_ws(' ', strategy, weight, desired_replicas, revision_history_limit, "
                              "current_replicas, is_aborted, stable_service, new_service, revision, steps, "
                              "analysis -> 'prePromotion' ->> 'name') FROM rollouts"),
                        "blueGreen 100 1 10 2147483647 t a p pre");
}

static void replica_sets_are_revisions(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    apply_one(database,
              report_of(database, "ReplicaSet", "web-new", 1,
                        "{\"metadata\":{\"annotations\":{\"rollout.argoproj.io/revision\":\"4\"},\"labels\":{"
                        "\"rollouts-pod-template-hash\":\"new\"},\"ownerReferences\":[{\"kind\":\"Other\",\"name\":"
                        "\"o\",\"uid\":\"1\"},{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Rollout\",\"name\":"
                        "\"web\",\"uid\":\"uid-r\",\"controller\":true}]},\"spec\":{\"replicas\":2},"
                        "\"status\":{\"replicas\":2,\"readyReplicas\":1}}"));
    assert_string_equal(query(database, "SELECT concat_ws(' ', owner_kind, owner_name, owner_uid, revision, "
                                        "pod_template_hash, desired_replicas, current_replicas, ready_replicas, "
                                        "available_replicas IS NULL) FROM replica_sets"),
                        "Rollout web uid-r 4 new 2 2 1 t");
}

static void analysis_runs_are_counted(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    apply_one(database,
              report_of(database, "AnalysisRun", "run", 1,
                        "{\"metadata\":{\"annotations\":{\"rollout.argoproj.io/revision\":\"4\"},\"labels\":{"
                        "\"rollout-type\":\"Step\",\"step-index\":\"3\"},\"ownerReferences\":[{\"kind\":\"Rollout\","
                        "\"name\":\"web\",\"uid\":\"r\",\"controller\":true}]},\"status\":{\"phase\":\"Failed\","
                        "\"message\":\"too slow\",\"startedAt\":\"2026-01-02T03:04:05Z\",\"metricResults\":[{\"name\":"
                        "\"a\",\"phase\":\"Successful\",\"successful\":3,\"failed\":1},{\"name\":\"b\",\"error\":2,"
                        "\"inconclusive\":4,\"successful\":-7}]}}"));
    assert_string_equal(query(database,
                              "SELECT concat_ws(' ', owner_name, revision, run_type, step_index, phase, message, "
                              "to_char(started_at, 'HH24:MI:SS'), successful, failed, inconclusive, errored, "
                              "metrics -> 0 ->> 'name', metrics -> 1 ->> 'error') FROM analysis_runs"),
                        "web 4 Step 3 Failed too slow 03:04:05 3 1 4 2 a 2");
    apply_one(database, report_of(database, "AnalysisRun", "run", 2, "{\"status\":{\"phase\":\"Odd\"}}"));
    assert_string_equal(query(database, "SELECT concat_ws(' ', phase IS NULL, step_index IS NULL) FROM analysis_runs"),
                        "t t");
}

static const char workflow[] =
    "{\"metadata\":{\"creationTimestamp\":\"2026-01-02T03:04:05Z\",\"labels\":{\"workflows.argoproj.io/creator\":"
    "\"ann\",\"events.argoproj.io/sensor\":\"build\",\"events.argoproj.io/trigger\":\"push\"}},"
    "\"spec\":{\"entrypoint\":\"main\",\"templates\":[{\"name\":\"main\"},{\"name\":\"step\"},{}],"
    "\"workflowTemplateRef\":{\"name\":\"ci\",\"clusterScope\":true}},"
    "\"status\":{\"phase\":\"Running\",\"progress\":\"1/2\",\"startedAt\":\"2026-01-02T03:04:06Z\",\"finishedAt\":null,"
    "\"message\":\"at it\",\"resourcesDuration\":{\"cpu\":5,\"memory\":1e300},\"conditions\":[{\"type\":\"PodRunning\","
    "\"status\":\"True\"}],\"nodes\":{\"n1\":{\"id\":\"n1\",\"type\":\"Pod\",\"name\":\"run.a\",\"displayName\":\"a\","
    "\"phase\":\"Running\"},\"n2\":{\"id\":\"n2\",\"type\":\"DAG\",\"phase\":\"Odd\",\"children\":[\"n1\",7]}}}}";

static void workflows_have_their_columns(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    apply_one(database, report_of(database, "Workflow", "run", 1, workflow));
    assert_string_equal(
        query(database, "SELECT concat_ws(' ', uid, version, phase, progress, message, to_char(started_at, "
                        "'HH24:MI:SS'), finished_at IS NULL, entrypoint, templates, template_name, "
                        "is_template_cluster_wide, initiator, pipeline_name, pipeline_trigger, "
                        "resources_duration ->> 'cpu', running_pods, jsonb_array_length(nodes), "
                        "to_char(workflow_created_at, 'HH24:MI:SS'), conditions -> 0 ->> 'type') FROM workflows"),
        "uid-1 v1alpha1 Running 1/2 at it 03:04:06 t main [\"main\", \"step\"] ci t ann build push 5 1 2 03:04:05 "
        "PodRunning");
}

// What is older writes nothing, the object's end hides the row, and what is made anew has a row of its own again.
static size_t rollouts_of(struct database *database, const char *arguments)
{
    char text[256];
    snprintf(text, sizeof text, "{rollouts(%spagination: {first: 10}) {edges {cursor}}}", arguments);
    json_t *slice = question_field(database, text, NULL, "rollouts");
    size_t count = json_array_size(json_object_get(slice, "edges"));
    json_decref(slice);
    return count;
}

static void entities_follow_their_resources(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report older = report_of(database, "Rollout", "web", 4, "{\"status\":{\"phase\":\"Degraded\"}}");
    struct report newer = report_of(database, "Rollout", "web", 5, "{\"status\":{\"phase\":\"Healthy\"}}");
    struct report both[] = {newer, older};
    apply(database, both, 2);
    apply_one(database, older);
    assert_string_equal(query(database, "SELECT phase FROM rollouts"), "Healthy");
    struct report gone = newer;
    gone.type = REPORT_DELETED;
    gone.sequence = 6;
    gone.manifest = STR_EMPTY;
    apply_one(database, gone);
    apply_one(database, newer);
    assert_int_equal(rollouts_of(database, ""), 0);
    struct report anew = report_of(database, "Rollout", "web", 7, "{\"status\":{\"phase\":\"Paused\"}}");
    anew.ref.uid = STR("uid-2");
    apply_one(database, anew);
    assert_string_equal(query(database, "SELECT phase || ' ' || uid FROM rollouts"), "Paused uid-2");
    // With its resource it goes for good.
    query(database, "DELETE FROM resources WHERE name = 'web' RETURNING 1");
    assert_string_equal(query(database, "SELECT count(*) FROM rollouts"), "0");
}

// From HTTP there are no sequences: the later observation wins, in whatever order they come.
static void http_goes_by_time(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report first = report_of(database, "Rollout", "web", 0, "{\"status\":{\"phase\":\"Progressing\"}}");
    first.source = REPORT_FROM_HTTP;
    first.epoch = 0;
    first.observed_at_ms = clock_wall_ms() - 5000;
    struct report second = report_of(database, "Rollout", "web", 0, "{\"status\":{\"phase\":\"Healthy\"}}");
    second.source = REPORT_FROM_HTTP;
    second.epoch = 0;
    second.observed_at_ms = first.observed_at_ms + 1;
    apply_one(database, second);
    apply_one(database, first);
    assert_string_equal(query(database, "SELECT phase FROM rollouts"), "Healthy");
    // Of two of the same moment the greater manifest hash wins, whichever comes first.
    struct report tie = report_of(database, "Rollout", "web", 0, "{\"status\":{\"phase\":\"Degraded\"}}");
    tie.source = REPORT_FROM_HTTP;
    tie.epoch = 0;
    tie.observed_at_ms = second.observed_at_ms;
    apply_one(database, tie);
    apply_one(database, second);
    char one[64];
    snprintf(one, sizeof one, "%s", query(database, "SELECT phase FROM rollouts"));
    struct report swapped[] = {tie, second};
    query(database, "DELETE FROM resources WHERE name = 'web' RETURNING 1");
    apply(database, swapped, 2);
    assert_string_equal(query(database, "SELECT phase FROM rollouts"), one);
}

static void rollouts_are_read_with_what_belongs_to_them(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    static const char owned[] =
        "{\"metadata\":{\"annotations\":{\"rollout.argoproj.io/revision\":\"4\"},\"ownerReferences\":["
        "{\"kind\":\"Rollout\",\"name\":\"web\",\"uid\":\"uid-1\",\"controller\":true}]},\"spec\":{"
        "\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:4\"}]}}}}";
    struct report reports[] = {
        report_of(database, "Rollout", "web", 1, rollout),
        report_of(
            database, "ReplicaSet", "web-a", 2,
            "{\"metadata\":{\"annotations\":{\"rollout.argoproj.io/"
            "revision\":\"3\"},\"ownerReferences\":[{\"kind\":\"Rollout\",\"name\":\"web\",\"controller\":true}]}}"),
        report_of(database, "ReplicaSet", "web-b", 3, owned), report_of(database, "AnalysisRun", "run", 4, owned),
        report_of(database, "Rollout", "api", 5, "{\"status\":{\"phase\":\"Healthy\"}}")};
    apply(database, reports, 5);
    json_t *node = question_field(database,
                                  "{rollout(runtime: \"prod\", name: \"web\") {actualManifest healthStatus replicaSets"
                                  " {image} analysisRuns {status {phase}} spec {strategy {steps {details {status}}}}"
                                  " status {canary {currentStepAnalysisRunStatus {name}} blueGreen {__typename}}}}",
                                  NULL, "rollout");
    assert_string_equal(json_get_str(node, "actualManifest").at, rollout);
    const json_t *sets = json_get_array(node, "replicaSets");
    assert_int_equal(json_array_size(sets), 2);
    assert_string_equal(json_string_value(json_path(json_array_get(sets, 0), "image", NULL)), "web:4");
    assert_int_equal(json_array_size(json_get_array(node, "analysisRuns")), 1);
    const json_t *steps = json_path(node, "spec", "strategy", "steps", NULL);
    static const char *const statuses[] = {"PASSED", "PAUSED_INDEFINITE", "PENDING"};
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_path(json_array_get(steps, i), "details", "status", NULL)),
                            statuses[i]);
    assert_string_equal(json_get_str(node, "healthStatus").at, "SUSPENDED");
    assert_true(json_is_null(json_path(node, "status", "blueGreen", NULL)));
    json_decref(node);
    assert_int_equal(rollouts_of(database, "filters: {phases: [Paused], runtime: \"\"}, "), 1);
    // Page by page, forward and back.
    static const char pages[] = "query($after: String) {rollouts(pagination: {first: 1, after: $after})"
                                " {edges {node {metadata {name}} cursor} pageInfo {hasNextPage}}}";
    json_t *slice = question_field(database, pages, NULL, "rollouts");
    assert_true(json_is_true(json_path(slice, "pageInfo", "hasNextPage", NULL)));
    const json_t *edge = json_array_get(json_object_get(slice, "edges"), 0);
    assert_string_equal(json_string_value(json_path(edge, "node", "metadata", "name", NULL)), "api");
    char variables[256];
    snprintf(variables, sizeof variables, "{\"after\": \"%.*s\"}", STR_ARG(json_get_str(edge, "cursor")));
    json_decref(slice);
    slice = question_field(database, pages, variables, "rollouts");
    edge = json_array_get(json_object_get(slice, "edges"), 0);
    assert_string_equal(json_string_value(json_path(edge, "node", "metadata", "name", NULL)), "web");
    assert_true(json_is_false(json_path(slice, "pageInfo", "hasNextPage", NULL)));
    json_decref(slice);
}

static void images_run_somewhere_since_some_time(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    static const char running[] = "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:1\"},{\"image\":"
                                  "\"side:1\"}]}}}}";
    struct report first = report_of(database, "Rollout", "web", 1, running);
    first.observed_at_ms -= 60000;
    apply_one(database, first);
    static const char uses_sql[] = "SELECT string_agg(image || ' ' || uid || ' ' || (since < now() - interval '50 s'), "
                                   "', ' ORDER BY image) FROM image_uses";
    assert_string_equal(query(database, uses_sql), "side:1 uid-1 true, web:1 uid-1 true");
    apply_one(database, report_of(database, "Rollout", "web", 2,
                                  "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"web:2\"},{\"image\":"
                                  "\"side:1\"}]}}}}"));
    apply_one(database, first); // late
    assert_string_equal(query(database, uses_sql), "side:1 uid-1 true, web:2 uid-1 false");
    // What was made by something else runs what that runs.
    apply_one(database, report_of(database, "ReplicaSet", "web-1", 3, running));
    struct answer answer;
    answer_init(&answer, database);
    image_store_put(database->pg, database->account, STR_EMPTY, STR("i"),
                    STR("{\"imageName\":\"web:2\",\"commit\":\"c0ffee\"}"), answer_on_node, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    static const char images_query[] =
        "query($p: SlicePaginationArgs, $f: ImagesFilterArgs) {images(pagination: $p, filters: $f) {edges {node {name"
        " repository tag usesCount runningSince uses {name since applicationName} binary {commit}} cursor}}}";
    json_t *slice = question_field(database, images_query, "{\"f\": {\"applicationName\": \"shop\"}}", "images");
    json_t *edges = json_object_get(slice, "edges");
    assert_int_equal(json_array_size(edges), 2);
    const json_t *web = json_object_get(json_array_get(edges, 1), "node");
    assert_string_equal(json_get_str(web, "repository").at, "web");
    assert_string_equal(json_get_str(web, "tag").at, "2");
    assert_int_equal(json_get_int(web, "usesCount", 0), 1);
    assert_string_equal(json_string_value(json_path(web, "binary", "commit", NULL)), "c0ffee");
    assert_string_equal(json_get_str(json_array_get(json_get_array(web, "uses"), 0), "name").at, "web");
    char variables[512];
    snprintf(variables, sizeof variables, "{\"p\": {\"first\": 1, \"after\": \"%.*s\"}}",
             STR_ARG(json_get_str(json_array_get(edges, 0), "cursor")));
    json_decref(slice);
    slice = question_field(database, images_query, variables, "images");
    edges = json_object_get(slice, "edges");
    assert_int_equal(json_array_size(edges), 1);
    assert_string_equal(json_string_value(json_path(json_array_get(edges, 0), "node", "name", NULL)), "web:2");
    json_decref(slice);
    struct report gone = report_of(database, "Rollout", "web", 9, "");
    gone.type = REPORT_DELETED;
    apply_one(database, gone);
    slice = question_field(database, images_query, NULL, "images");
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 0);
    json_decref(slice);
}

static struct report application_of(const struct database *database, const char *name, uint64_t sequence,
                                    const char *manifest)
{
    struct report report = report_of(database, "Application", name, sequence, manifest);
    report.ref.ns = STR("argocd");
    report.ref.uid = str_c(name);
    report.application_name = report.application_ns = STR_EMPTY;
    return report;
}

static void an_application_has_a_tree(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report pod = report_of(database, "ReplicaSet", "web-1", 3,
                                  "{\"metadata\":{\"ownerReferences\":[{\"kind\":\"Rollout\",\"name\":\"web\",\"uid\":"
                                  "\"uid-1\"},{\"kind\":\"Other\",\"name\":\"o\",\"uid\":\"elsewhere\"}]}}");
    pod.ref.uid = STR("uid-2");
    struct report reports[] = {
        application_of(database, "shop", 1, "{\"status\":{\"health\":{\"status\":\"Healthy\"}}}"),
        report_of(database, "Rollout", "web", 2, rollout),
        pod,
        application_of(database, "child", 4,
                       "{\"metadata\":{\"annotations\":{\"argocd.argoproj.io/tracking-id\":"
                       "\"argocd_shop:argoproj.io/Application:argocd/child\"}}}"),
        application_of(database, "second", 5, "{\"metadata\":{\"labels\":{\"app.kubernetes.io/instance\":\"shop\"}}}"),
        application_of(database, "other", 6, "{\"metadata\":{\"labels\":{\"app.kubernetes.io/instance\":\"other\"}}}"),
    };
    apply(database, reports, sizeof reports / sizeof *reports);
    struct answer answer;
    answer_init(&answer, database);
    tree_store_get(database->pg, database->account, STR("prod"), STR_EMPTY, STR("shop"), answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    json_t *tree = NULL;
    assert_int_equal(json_decode(str_c(answer.node), NULL, &tree, NULL), ERROR_NONE);
    char text[512] = "";
    size_t i, k;
    json_t *node, *parent;
    json_array_foreach(json_get_array(tree, "nodes"), i, node)
    {
        sprintf(text + strlen(text), "%s", json_get_str(node, "name").at);
        json_array_foreach(json_get_array(node, "parentRefs"), k, parent)
            sprintf(text + strlen(text), "<%s", json_get_str(parent, "uid").at);
        strcat(text, " ");
    }
    assert_string_equal(text, "shop child<shop second<shop web-1<uid-1 web<shop ");
    json_decref(tree);
    answer_finish(&answer);
    answer_init(&answer, database);
    tree_store_get(database->pg, database->account, STR("prod"), STR("elsewhere"), STR("shop"), answer_on_node,
                   &answer);
    answer_wait(&answer);
    assert_string_equal(answer.node, "");
    answer_finish(&answer);
}

static json_t *tree_of(struct database *database, const char *name)
{
    struct answer answer;
    answer_init(&answer, database);
    tree_store_get(database->pg, database->account, STR("prod"), STR_EMPTY, str_c(name), answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    json_t *tree = NULL;
    assert_int_equal(json_decode(str_c(answer.node), NULL, &tree, NULL), ERROR_NONE);
    answer_finish(&answer);
    return tree;
}

static void assert_node(const json_t *tree, const char *name, const char *expected)
{
    static const char *const members[] = {"presence", "missingRight", "requiresPruning", "hook", "health", "images"};
    const json_t *nodes = json_get_array(tree, "nodes");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        if (!str_eq(json_get_str(node, "name"), str_c(name))) continue;
        struct strbuf text;
        strbuf_init(&text, 4096);
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            char *value =
                json_dumps(json_object_get(node, members[m]), JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
            strbuf_addf(&text, "%s%s", m ? " " : "", value);
            free(value);
        }
        strbuf_addf(&text, " <%s", json_get_str(json_array_get(json_get_array(node, "parentRefs"), 0), "name").at);
        assert_string_equal(text.at, expected);
        strbuf_finish(&text);
        return;
    }
    fail_msg("no node %s", name);
}

static struct report resource_of(const struct database *database, const char *group, const char *kind, const char *name,
                                 uint64_t sequence, const char *manifest)
{
    struct report report = report_of(database, kind, name, sequence, manifest);
    report.ref.group = str_c(group);
    report.ref.uid = str_c(name);
    return report;
}

#define OWNED(kind, uid, rest)                                                                                         \
    "{\"metadata\":{\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"n\",\"uid\":\"" uid "\"}]}" rest "}"
#define TEMPLATE(image) ",\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"" image "\"}]}}}"
#define STATUS(image, id, state)                                                                                       \
    ",\"status\":{\"containerStatuses\":[{\"image\":\"" image "\",\"imageID\":\"" id "\",\"state\":{\"" state          \
    "\":{}}}]}"
#define RUNS(image)  STATUS(image, image "@sha256:0", "running")
#define WAITS(image) STATUS(image, "", "waiting")

// templateImages, then what runs: image, imageID, pods.
static void assert_images(const json_t *tree, const char *name, const char *expected)
{
    const json_t *nodes = json_get_array(tree, "nodes");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        if (!str_eq(json_get_str(node, "name"), str_c(name))) continue;
        json_t *both =
            json_pack("[O, O]", json_object_get(node, "templateImages"), json_object_get(node, "runningImages"));
        char *text = json_dumps(both, JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(text, expected);
        free(text);
        json_decref(both);
        return;
    }
    fail_msg("no node %s", name);
}

// A canary whose new version cannot be pulled in one of its pods: what runs is not what the
// template asks for, nor what the pods name.
static void a_tree_tells_images_that_run_from_those_asked_for(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report reports[] = {
        application_of(database, "shop", 1, "{}"),
        resource_of(database, "argoproj.io", "Rollout", "web", 2, "{\"metadata\":{}" TEMPLATE("web:2") "}"),
        resource_of(database, "apps", "ReplicaSet", "old", 3, OWNED("Rollout", "web", TEMPLATE("web:1"))),
        resource_of(database, "apps", "ReplicaSet", "new", 4, OWNED("Rollout", "web", TEMPLATE("web:2"))),
        resource_of(database, "", "Pod", "old-a", 5, OWNED("ReplicaSet", "old", RUNS("web:1"))),
        resource_of(database, "", "Pod", "old-b", 6, OWNED("ReplicaSet", "old", RUNS("web:1"))),
        resource_of(database, "", "Pod", "new-a", 7, OWNED("ReplicaSet", "new", WAITS("web:2"))),
        resource_of(database, "", "Pod", "new-b", 8, OWNED("ReplicaSet", "new", RUNS("web:2"))),
    };
    apply(database, reports, sizeof reports / sizeof *reports);
    // As it was before the column was there.
    query(database, "UPDATE resources SET running_images = NULL WHERE name = 'new-b' RETURNING 'x'");
    static const char one[] = "{\"image\":\"web:1\",\"imageID\":\"web:1@sha256:0\",\"pods\":2}";
    static const char two[] = "{\"image\":\"web:2\",\"imageID\":null,\"pods\":1}";
    char text[256];
    json_t *tree = tree_of(database, "shop");
    snprintf(text, sizeof text, "[[],[%s,%s]]", one, two);
    assert_images(tree, "shop", text);
    snprintf(text, sizeof text, "[[\"web:2\"],[%s,%s]]", one, two);
    assert_images(tree, "web", text);
    snprintf(text, sizeof text, "[[\"web:1\"],[%s]]", one);
    assert_images(tree, "old", text);
    snprintf(text, sizeof text, "[[\"web:2\"],[%s]]", two);
    assert_images(tree, "new", text);
    assert_images(tree, "new-a", "[[],[]]");
    json_decref(tree);
    json_t *node = question_field(
        database, "{application(runtime: \"prod\", name: \"shop\") {runningImages {image imageID pods}}}", NULL,
        "application");
    char *running = json_dumps(json_object_get(node, "runningImages"), JSON_COMPACT);
    snprintf(text, sizeof text, "[%s,%s]", one, two);
    assert_string_equal(running, text);
    free(running);
    json_decref(node);
}

// What an application names and the agent does not have at hand is in its tree all the same, and says why; the images
// of a workload are those that its pods run, both of a canary.
static void a_tree_shows_what_is_not_at_hand(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report missing = resource_of(database, "", "ConfigMap", "settings", 2, "{\"kind\":\"ConfigMap\"}"),
                  unread = resource_of(database, "batch", "Job", "migrate", 3, "{\"kind\":\"Job\"}"),
                  elsewhere = resource_of(database, "", "Service", "far", 4, "{\"kind\":\"Service\"}"),
                  gone = report_of(database, "Rollout", "gone", 5, rollout);
    missing.presence = STR("MISSING");
    missing.health_status = STR("Missing");
    missing.health_source = STR("AGENT");
    unread.presence = elsewhere.presence = STR("UNREADABLE");
    unread.api_resource = STR("jobs");
    unread.marks = STR("REQUIRES_PRUNING,HOOK");
    missing.ref.uid = unread.ref.uid = elsewhere.ref.uid = STR_EMPTY;
    struct report reports[] = {
        application_of(database, "shop", 1, "{}"),
        missing,
        unread,
        elsewhere,
        gone,
        resource_of(database, "argoproj.io", "Rollout", "web", 6, "{\"metadata\":{}" TEMPLATE("web:2") "}"),
        resource_of(database, "apps", "ReplicaSet", "old", 7, OWNED("Rollout", "web", TEMPLATE("web:1"))),
        resource_of(database, "apps", "ReplicaSet", "new", 8, OWNED("Rollout", "web", TEMPLATE("web:2"))),
        resource_of(database, "", "Pod", "old-a", 9, OWNED("ReplicaSet", "old", RUNS("mirror/web:1"))),
        resource_of(database, "", "Pod", "new-a", 10, OWNED("ReplicaSet", "new", RUNS("mirror/web:2"))),
        resource_of(database, "argoproj.io", "ApplicationSet", "fleet", 11, "{}"),
        application_of(database, "east", 12, OWNED("ApplicationSet", "fleet", "")),
    };
    apply(database, reports, sizeof reports / sizeof *reports);
    json_t *tree = tree_of(database, "shop");
    assert_node(tree, "settings",
                "\"MISSING\" null false false {\"message\":null,\"source\":\"AGENT\",\"status\":\"MISSING\"} [] <shop");
    assert_node(
        tree, "migrate",
        "\"UNREADABLE\" {\"group\":\"batch\",\"message\":\"not readable: the agent lacks the right to get, list "
        "and watch jobs.batch\",\"namespace\":\"shop\",\"resource\":\"jobs\",\"verbs\":[\"get\",\"list\",\"watch\"]} "
        "true "
        "true {\"message\":null,\"source\":null,\"status\":null} [] <shop");
    assert_node(tree, "far",
                "\"UNREADABLE\" null false false {\"message\":null,\"source\":null,\"status\":null} [] <shop");
    assert_node(tree, "web",
                "\"PRESENT\" null false false {\"message\":null,\"source\":null,\"status\":null} "
                "[\"mirror/web:1\",\"mirror/web:2\"] <shop");
    assert_node(tree, "old",
                "\"PRESENT\" null false false {\"message\":null,\"source\":null,\"status\":null} "
                "[\"mirror/web:1\"] <web");
    // What an ApplicationSet of the application makes hangs on that.
    assert_node(tree, "east",
                "\"PRESENT\" null false false {\"message\":null,\"source\":null,\"status\":null} [] <fleet");
    json_decref(tree);
    // A rollout that is missing is a node, and no rollout any more.
    gone.sequence = 13;
    gone.presence = STR("MISSING");
    gone.ref.uid = STR_EMPTY;
    apply_one(database, gone);
    assert_int_equal(rollouts_of(database, ""), 1);
}

static void clusters_that_are_managed_no_more_go(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    static const struct {
        const char *manifest, *names;
    } steps[] = {
        {"{\"name\":\"east\",\"server\":\"https://e\"}", "east"},
        {"{\"name\":\"west\",\"server\":\"https://w\"}", "east west"},
        {"{\"name\":\"in-cluster\",\"server\":\"s\"}", "east in-cluster west"},
        {"{\"name\":\"in-cluster\",\"server\":\"s\",\"clusters\":[\"west\"]}", "in-cluster west"},
        {"{\"name\":\"east\",\"server\":\"https://e\"}", "east in-cluster west"},
        {"{\"name\":\"in-cluster\",\"server\":\"s\",\"clusters\":[]}", "in-cluster"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct report report = report_of(database, "Cluster", "in-cluster", i + 1, steps[i].manifest);
        report.type = REPORT_CLUSTER;
        apply_one(database, report);
        assert_string_equal(
            query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM clusters WHERE NOT is_deleted"),
            steps[i].names);
    }
    // An older list takes nothing away that came after it.
    struct report old = report_of(database, "Cluster", "in-cluster", 5, steps[3].manifest);
    old.type = REPORT_CLUSTER;
    struct report east = report_of(database, "Cluster", "east", 8, steps[0].manifest);
    east.type = REPORT_CLUSTER;
    struct report both[] = {east, old};
    apply(database, both, 2);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM clusters WHERE NOT is_deleted"),
        "east in-cluster");
}

// Returns the cursor of the last one (the caller's).
static char *expect_workflows(struct database *database, const char *arguments, const char *want)
{
    char text[512], names[256] = "";
    snprintf(text, sizeof text, "{workflows(%s) {edges {cursor node {metadata {name}}}}}", arguments);
    json_t *slice = question_field(database, text, NULL, "workflows"), *edge;
    const char *cursor = "";
    size_t i;
    json_array_foreach(json_object_get(slice, "edges"), i, edge)
    {
        strcat(names, json_string_value(json_path(edge, "node", "metadata", "name", NULL)));
        cursor = json_string_value(json_object_get(edge, "cursor"));
    }
    if (strcmp(names, want) != 0) fail_msg("%s: \"%s\", not \"%s\"", arguments, names, want);
    char *last = strdup(cursor);
    json_decref(slice);
    return last;
}

static void workflows_are_listed_newest_first(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (uint64_t i = 0; i < 4; i++) {
        char manifest[256], uid[16];
        snprintf(manifest, sizeof manifest,
                 "{\"metadata\":{\"creationTimestamp\":\"2026-01-0%dT00:00:00Z\"},\"status\":{\"phase\":\"%s\"}}",
                 (int)i + 1, i % 2 ? "Failed" : "Succeeded");
        snprintf(uid, sizeof uid, "u%d", (int)i);
        struct report report = report_of(database, "Workflow", names[i], i + 1, manifest);
        report.ref.uid = str_c(uid);
        apply_one(database, report);
    }
    // The cluster forgets one; the record of the run stays.
    struct report gone = report_of(database, "Workflow", "a", 9, "");
    gone.type = REPORT_DELETED;
    apply_one(database, gone);
    static const struct {
        const char *arguments, *want;
    } cases[] = {
        {"filters: {}", "dcba"},
        {"filters: {statuses: [Failed]}", "db"},
        {"filters: {startDateFrom: \"2026-01-02T00:00:00Z\", startDateTo: \"2026-01-03T00:00:00Z\"}", "cb"},
        {"filters: {repositories: [\"r\"]}", ""},
        {"filters: {workflowTemplateClusterScope: false}", "dcba"},
        {"filters: {workflowTemplateClusterScope: true}", ""},
        {"pagination: {last: 2}", "ba"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        free(expect_workflows(database, cases[i].arguments, cases[i].want));
    char *cursor = expect_workflows(database, "pagination: {first: 2}", "dc"), arguments[256];
    snprintf(arguments, sizeof arguments, "pagination: {first: 2, after: \"%s\"}", cursor);
    free(expect_workflows(database, arguments, "ba"));
    snprintf(arguments, sizeof arguments, "pagination: {last: 1, before: \"%s\"}", cursor);
    free(expect_workflows(database, arguments, "d"));
    free(cursor);
    // A cursor of another list.
    static const char *const others[] = {"YQBiAA", "TkVXRVNUAGEAYQA"}; // the second names this order
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        snprintf(text, sizeof text, "{workflows(pagination: {after: \"%s\"}) {edges {cursor}}}", others[i]);
        json_t *answer = question_ask(database, NULL, text, NULL);
        const char *said =
            json_string_value(json_object_get(json_array_get(json_object_get(answer, "errors"), 0), "message"));
        assert_int_equal(strncmp(said ? said : "", "invalid cursor", 14), 0);
        json_decref(answer);
    }
    json_t *one = question_field(database, "{workflow(uid: \"u1\") {actualManifest}}", NULL, "workflow");
    assert_non_null(strstr(json_string_value(json_object_get(one, "actualManifest")), "creationTimestamp"));
    json_decref(one);
    json_t *facets = question_field(database, "{workflowFacets(dimensions: [STATUS]) {values {value count}}}", NULL,
                                    "workflowFacets");
    char *counts = json_dumps(facets, JSON_COMPACT);
    assert_string_equal(counts,
                        "[{\"values\":[{\"value\":\"Failed\",\"count\":2},{\"value\":\"Succeeded\",\"count\":2}]}]");
    free(counts);
    json_decref(facets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rollouts_have_their_columns),
        cmocka_unit_test(replica_sets_are_revisions),
        cmocka_unit_test(analysis_runs_are_counted),
        cmocka_unit_test(workflows_have_their_columns),
        cmocka_unit_test(entities_follow_their_resources),
        cmocka_unit_test(http_goes_by_time),
        cmocka_unit_test(rollouts_are_read_with_what_belongs_to_them),
        cmocka_unit_test(workflows_are_listed_newest_first),
        cmocka_unit_test(images_run_somewhere_since_some_time),
        cmocka_unit_test(a_tree_tells_images_that_run_from_those_asked_for),
        cmocka_unit_test(an_application_has_a_tree),
        cmocka_unit_test(a_tree_shows_what_is_not_at_hand),
        cmocka_unit_test(clusters_that_are_managed_no_more_go),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
