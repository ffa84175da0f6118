#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"
#include "questions.h"
#include "storage/sessions/session_store.h"

// As Argo CD writes it, cut to what matters. %s: name, sync, health, cluster, labels.
static const char application_format[] =
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\",\"metadata\":{\"name\":\"%s\",\"namespace\":"
    "\"argocd\",\"uid\":\"uid-%s\",\"creationTimestamp\":\"2026-01-02T03:04:05Z\",\"labels\":{%s},\"annotations\":{"
    "\"note\":\"x\",\"kubectl.kubernetes.io/"
    "last-applied-configuration\":\"secret\"}},\"spec\":{\"project\":\"default\","
    "\"destination\":{\"server\":\"%s\",\"namespace\":\"shop\"},\"source\":{\"repoURL\":\"https://git.example.org/a\","
    "\"path\":\"deploy\",\"targetRevision\":\"main\"},\"syncPolicy\":{\"automated\":{\"prune\":true}}},\"status\":{"
    "\"sync\":{\"status\":\"%s\",\"revision\":\"abc123\"},\"health\":{\"status\":\"%s\"},\"history\":[{\"id\":4,"
    "\"revision\":\"r4\",\"deployedAt\":\"2026-01-02T03:00:00Z\",\"initiatedBy\":{\"username\":\"ada\"}},{\"id\":5,"
    "\"revision\":\"r5\",\"deployedAt\":\"2026-01-03T03:00:00Z\",\"initiatedBy\":{\"automated\":true}}],\"resources\":["
    "{"
    "\"kind\":\"Deployment\",\"name\":\"web\"}],\"conditions\":[{\"type\":\"SyncError\",\"message\":\"boom\","
    "\"lastTransitionTime\":\"2026-01-03T03:00:00Z\"}],\"operationState\":{\"phase\":\"Succeeded\",\"message\":\"ok\","
    "\"startedAt\":\"2026-01-03T02:59:00Z\",\"finishedAt\":\"2026-01-03T03:00:00Z\",\"operation\":{\"sync\":{"
    "\"revision\":"
    "\"r5\",\"prune\":true},\"initiatedBy\":{\"automated\":true}},\"syncResult\":{\"revision\":\"r5\",\"resources\":[{"
    "\"group\":\"apps\",\"version\":\"v1\",\"kind\":\"Deployment\",\"name\":\"web\",\"namespace\":\"shop\",\"status\":"
    "\"Synced\",\"message\":\"configured\"}]}}}}";

static void report_application(struct database *database, const char *runtime, const char *name, uint64_t epoch,
                               uint64_t sequence, const char *sync, const char *health, const char *cluster,
                               const char *labels)
{
    AUTO_FREE char *manifest = NULL;
    if (asprintf(&manifest, application_format, name, name, labels, cluster, sync, health) < 0) abort();
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = str_c(runtime),
                            .epoch = epoch,
                            .sequence = sequence,
                            .ref.group = STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = STR("Application"),
                            .ref.ns = STR("argocd"),
                            .ref.name = str_c(name),
                            .cluster = STR("in-cluster"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE || answer.outcomes[0].result != REPORT_APPLIED) fail_msg("%s", answer.text);
}

static void assert_at(const json_t *node, const char *path, const char *expected)
{
    char copy[128], *rest = copy, *key;
    snprintf(copy, sizeof copy, "%s", path);
    const json_t *value = node;
    while ((key = strsep(&rest, ".")))
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
    char *found = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!found || strcmp(found, expected) != 0) fail_msg("%s is %s, not %s", path, found ? found : "absent", expected);
    free(found);
}

// Everything of an application that lists and single ones have alike.
#define ALL_FIELDS                                                                                                     \
    "__typename metadata {group version kind name description namespace runtime cluster account labels {key value}"    \
    " annotations {v: value key __typename} lastUpdated created uid favorite revision}"                                \
    " errors {__typename level title message suggestion lastSeen ... on SyncError {code context {repoURL revision"     \
    " path}} ... on HealthError {health: code sourceReference {kind}}} readPermission version latest"                  \
    " source {appName appNamespace repoURL path fileURL revision commitMessage commitDate commitURL commitAuthor"      \
    " profileURL avatarURL gitManifest resourceAction} syncStatus healthStatus healthMessage healthSource projects"    \
    " updatedAt path repoURL size revision applicationSet syncing status {syncStatus syncStartedAt syncFinishedAt"     \
    " healthStatus healthMessage revision version commitAuthor commitAvatar commitUrl commitMessage commitDate"        \
    " syncRevisions {author revision} changeRevisions {revision url} historyId minHistoryId} favorites"                \
    " destination {name server namespace} specSource {path repoURL targetRevision chart ref} specSources {repoURL"     \
    " path} include exclude operationState {finishedAt startedAt message phase type retryCount dryRun partial"         \
    " syncResult {revision revisions resources {group version kind name namespace message syncActionOnResource status" \
    " syncPhase hookPhase hookType}}} sync {status revision revisions} syncPolicy isHelmApp isGitSource "              \
    "isMultiSourced"                                                                                                   \
    " appVersions {appVersion} freshness observedAt receivedAt sequence"

// One application with its manifests, the caller's; NULL: there is none.
static json_t *get(struct database *database, const char *runtime, const char *name)
{
    AUTO_FREE char *variables = NULL;
    if (asprintf(&variables, "{\"n\":\"%s\",\"r\":\"%s\"}", name, runtime) < 0) abort();
    json_t *node = question_field(database,
                                  "query($n: String!, $r: String!) {application(name: $n, runtime: $r) {" ALL_FIELDS
                                  " desiredManifest actualManifest runningImages {__typename}}}",
                                  variables, "application");
    if (!json_is_null(node)) return node;
    json_decref(node);
    return NULL;
}

// A slice of applications; the caller's.
static json_t *ask_list(struct database *database, const char *filter, const char *page)
{
    AUTO_FREE char *variables = NULL;
    if (asprintf(&variables, "{\"f\":%s,\"p\":%s}", *filter ? filter : "null", page) < 0) abort();
    return question_field(database,
                          "query($f: ApplicationsFilterArgs, $p: SlicePaginationArgs) {applications(filters: $f,"
                          " pagination: $p) {edges {cursor node {" ALL_FIELDS
                          " actualManifest desiredManifest}} pageInfo {hasNextPage hasPrevPage endCursor}}}",
                          variables, "applications");
}

static json_t *node_of(const json_t *slice, size_t i)
{
    return json_object_get(json_array_get(json_object_get(slice, "edges"), i), "node");
}

static json_t *first_of_list(struct database *database, const char *filter)
{
    json_t *slice = ask_list(database, filter, "{\"first\":10}"), *node = json_incref(node_of(slice, 0));
    json_decref(slice);
    return node;
}

// Lists answer of each application what it answers by itself.
static void lists_and_single_ones_agree(struct database *database)
{
    json_t *slice = ask_list(database, "{\"includeComponents\":true}", "{}");
    size_t count = json_array_size(json_object_get(slice, "edges"));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        json_t *node = node_of(slice, i);
        json_object_del(node, "actualManifest");
        json_object_del(node, "desiredManifest");
        AUTO_FREE char *variables = NULL;
        if (asprintf(&variables, "{\"n\":\"%s\",\"r\":\"%s\"}",
                     json_string_value(json_path(node, "metadata", "name", NULL)),
                     json_string_value(json_path(node, "metadata", "runtime", NULL))) < 0)
            abort();
        json_t *single = question_field(
            database, "query($n: String!, $r: String!) {application(name: $n, runtime: $r) {" ALL_FIELDS "}}",
            variables, "application");
        if (!json_equal(single, node))
            fail_msg("single: %s\n  listed: %s", json_dumps(single, JSON_SORT_KEYS), json_dumps(node, JSON_SORT_KEYS));
        json_decref(single);
    }
    json_decref(slice);
}

static void an_application_has_the_contracts_shape(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    report_application(database, "prod", "shop", epoch, 1, "OutOfSync", "Degraded", "https://kubernetes.default.svc",
                       "\"team\":\"a\"");
    json_t *node = get(database, "prod", "shop");
    assert_non_null(node);
    assert_at(node, "metadata.name", "\"shop\"");
    assert_at(node, "metadata.runtime", "\"prod\"");
    assert_at(node, "metadata.group", "\"argoproj.io\"");
    assert_at(node, "metadata.uid", "\"uid-shop\"");
    assert_at(node, "metadata.created", "\"2026-01-02T03:04:05.000Z\"");
    assert_at(node, "metadata.labels", "[{\"key\":\"team\",\"value\":\"a\"}]");
    assert_at(node, "metadata.annotations", "[{\"v\":\"x\",\"key\":\"note\",\"__typename\":\"StringPair\"}]");
    assert_at(node, "syncStatus", "\"OUT_OF_SYNC\"");
    assert_at(node, "healthStatus", "\"DEGRADED\"");
    assert_at(node, "syncPolicy", "\"Automated\"");
    assert_at(node, "repoURL", "\"https://git.example.org/a\"");
    assert_at(node, "path", "\"deploy\"");
    assert_at(node, "revision", "\"abc123\"");
    assert_at(node, "specSource.targetRevision", "\"main\"");
    assert_at(node, "destination.namespace", "\"shop\"");
    assert_at(node, "status.historyId", "5");
    assert_at(node, "status.minHistoryId", "4");
    assert_at(node, "operationState.phase", "\"Succeeded\"");
    assert_at(node, "operationState.syncResult.resources.0.message", "\"configured\"");
    assert_at(node, "errors.0.__typename", "\"SyncError\"");
    assert_at(node, "errors.0.message", "\"boom\"");
    assert_at(node, "runningImages", "[]");
    assert_at(node, "isHelmApp", "false");
    assert_at(node, "isMultiSourced", "false");
    assert_at(node, "freshness", "\"live\"");
    assert_at(node, "desiredManifest", "null");
    json_t *manifest = json_loads(json_string_value(json_object_get(node, "actualManifest")), 0, NULL);
    assert_at(manifest, "kind", "\"Application\"");
    json_decref(manifest);
    json_decref(node);
    assert_null(get(database, "prod", "other"));
    assert_null(get(database, "other", "shop"));
    lists_and_single_ones_agree(database);

    char text[256];
    database_query(database->account,
                   "SELECT string_agg(concat_ws(' ', history_id, revision, initiator, is_automated), ', ' ORDER BY "
                   "history_id) FROM deployments",
                   text, sizeof text);
    assert_string_equal(text, "4 r4 ada f, 5 r5 t");
    database_query(database->account,
                   "SELECT concat_ws(' ', phase, revision, is_automated) FROM application_operations", text,
                   sizeof text);
    assert_string_equal(text, "Succeeded r5 t");
}

static const char multi_source[] =
    "{\"metadata\":{\"name\":\"many\",\"namespace\":\"argocd\",\"uid\":\"uid-many\",\"ownerReferences\":[{\"kind\":"
    "\"ApplicationSet\",\"name\":\"fleet\",\"uid\":\"uid-fleet\"}]},\"spec\":{\"sources\":[{\"repoURL\":\"https://git/"
    "a\"},{"
    "\"repoURL\":\"https://git/b\"}]},\"status\":{\"sync\":{\"status\":\"OutOfSync\",\"revisions\":[\"a1\",\"b1\"]},"
    "\"operationState\":{\"phase\":\"Running\",\"startedAt\":\"2026-01-03T02:59:00Z\",\"retryCount\":2,\"operation\":{"
    "\"sync\":{\"revisions\":[\"a1\",\"b1\"],\"changeRevisions\":[\"a0\",\"b1\"]}},\"syncResult\":{\"revision\":\"\","
    "\"revisions\":[\"a1\",\"b1\"],\"resources\":[{\"group\":\"apps\",\"version\":\"v1\",\"kind\":\"Deployment\","
    "\"name\":"
    "\"web\",\"status\":\"SyncFailed\",\"message\":\"no\"}]}}}}";

// An application of several sources has its revisions everywhere, in lists, too; what Argo CD compared stands beside an
// operation that is being retried.
static void several_sources_and_a_retried_sync(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = epoch,
                            .sequence = 1,
                            .ref.group = STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = STR("Application"),
                            .ref.ns = STR("argocd"),
                            .ref.name = STR("many"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(multi_source)};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE || answer.outcomes[0].result != REPORT_APPLIED) fail_msg("%s", answer.text);
    answer_finish(&answer);
    json_t *nodes[] = {get(database, "prod", "many"), first_of_list(database, "{\"statuses\":[\"SYNCING\"]}"),
                       first_of_list(database, "{\"statuses\":[\"OUT_OF_SYNC\"]}")};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        assert_non_null(nodes[i]);
        assert_at(nodes[i], "syncStatus", "\"OUT_OF_SYNC\"");
        assert_at(nodes[i], "sync.status", "\"OUT_OF_SYNC\"");
        assert_at(nodes[i], "syncing", "true");
        assert_at(nodes[i], "sync.revisions", "[\"a1\",\"b1\"]");
        assert_at(nodes[i], "status.syncRevisions.0.revision", "\"a1\"");
        assert_at(nodes[i], "status.syncRevisions.1.revision", "\"b1\"");
        assert_at(nodes[i], "status.syncRevisions.1.author", "null");
        assert_at(nodes[i], "status.changeRevisions.0.revision", "\"a0\"");
        assert_at(nodes[i], "operationState.retryCount", "2");
        assert_at(nodes[i], "operationState.syncResult.revisions", "[\"a1\",\"b1\"]");
        assert_at(nodes[i], "operationState.syncResult.resources.0.message", "\"no\"");
        assert_at(nodes[i], "applicationSet", "\"fleet\"");
        assert_int_equal(json_integer_value(json_object_get(nodes[i], "size")), strlen(multi_source));
        json_decref(nodes[i]);
    }
    assert_null(first_of_list(database, "{\"statuses\":[\"SYNCED\"]}"));
    lists_and_single_ones_agree(database);
}

static void what_is_not_live_says_so(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], ignored[8];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, database->account);
    report_application(database, "prod", "shop", epoch, 1, "Synced", "Healthy", "https://c", "");
    static const struct {
        const char *sql, *freshness;
    } steps[] = {
        // How late this word came once, or what the agent's clock said, is no matter: the agent is up to date now.
        {"UPDATE applications SET observed_at = received_at - interval '11 years'", "\"live\""},
        {"UPDATE tunnel_sessions SET behind_since = now() - interval '4 seconds'", "\"live\""},
        {"UPDATE tunnel_sessions SET behind_since = now() - interval '6 seconds'", "\"lagging\""},
        {"UPDATE tunnel_sessions SET behind_since = NULL, blind_since = now() - interval '61 seconds'", "\"stale\""},
        {"UPDATE tunnel_sessions SET blind_since = NULL", "\"live\""},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        database_query(database->account, steps[i].sql, ignored, sizeof ignored);
        json_t *node = get(database, "prod", "shop");
        assert_at(node, "freshness", steps[i].freshness);
        assert_at(node, "healthStatus", "\"HEALTHY\"");
        assert_at(node, "sequence", "\"1.1\"");
        json_decref(node);
    }
    // A new session has not said anything about the row yet.
    epoch = database_open_session(database, "prod", id, database->account);
    json_t *old = get(database, "prod", "shop");
    assert_at(old, "freshness", "\"lagging\"");
    json_decref(old);
    report_application(database, "prod", "shop", epoch, 1, "Synced", "Progressing", "https://c", "");
    old = get(database, "prod", "shop");
    assert_at(old, "freshness", "\"live\"");
    json_decref(old);
    database_close_session(database, "prod", epoch, "gone");
    json_t *node = get(database, "prod", "shop");
    assert_at(node, "freshness", "\"disconnected\"");
    assert_at(node, "healthStatus", "\"PROGRESSING\"");
    json_decref(node);
}

static void filters_choose(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    database_make_runtime(database, "test", id);
    report_application(database, "prod", "alpha", 1, 1, "Synced", "Healthy", "https://one", "\"team\":\"a\"");
    report_application(database, "prod", "beta", 1, 2, "OutOfSync", "Degraded", "https://two", "\"team\":\"b\"");
    report_application(database, "test", "alpha", 1, 1, "Synced", "Progressing", "https://one",
                       "\"codefresh.io/entity\":\"git-source\"");
    report_application(database, "test", "part", 1, 2, "Synced", "Healthy", "https://one",
                       "\"codefresh.io/entity\":\"component\"");
    static const struct {
        const char *filter;
        size_t count;
    } table[] = {
        {"", 3},
        {"{}", 3},
        {"{\"namespace\":\"\",\"runtime\":\"\",\"project\":\"\",\"runtimes\":[\"\"],\"labels\":[]}", 3},
        {"{\"includeComponents\":true,\"inactive\":false,\"userId\":\"\"}", 4},
        {"{\"runtime\":\"prod\"}", 2},
        {"{\"runtimes\":[\"prod\",\"test\"]}", 3},
        {"{\"runtimes\":[\"prod\"],\"runtime\":\"test\"}", 0},
        {"{\"applications\":[\"alpha\"]}", 2},
        {"{\"applicationName\":\"LPH\"}", 2},
        {"{\"applicationName\":\"%\"}", 0},
        {"{\"statuses\":[\"OUT_OF_SYNC\"]}", 1},
        {"{\"healthStatuses\":[\"HEALTHY\",\"DEGRADED\"]}", 2},
        {"{\"namespace\":\"argocd\"}", 3},
        {"{\"namespaces\":[\"shop\"]}", 3},
        {"{\"namespaces\":[\"elsewhere\"]}", 0},
        {"{\"clusterUrl\":\"https://two\"}", 1},
        {"{\"labels\":[\"team=a\"]}", 1},
        {"{\"labels\":[\"team\"]}", 2},
        {"{\"labels\":[\"team=a\",\"team=b\"]}", 2},
        {"{\"project\":\"default\"}", 3},
        {"{\"project\":\"other\"}", 0},
        {"{\"excludeGitSources\":true}", 2},
        {"{\"kinds\":[\"Application\"]}", 3},
        {"{\"kinds\":[\"ApplicationSet\"]}", 0},
        {"{\"favorite\":true}", 0},
        {"{\"favorite\":false}", 3},
        {"{\"applicationName\":\"'; DROP TABLE applications; --\"}", 0},
        {"{\"statuses\":[\"SYNCED\",\"SYNCING\"]}", 2},
        {"{\"statuses\":[\"SYNCING\"]}", 0},
        {"{\"groups\":[\"argoproj.io\"],\"appGroups\":[\"\"],\"hasAppGroups\":false}", 3},
        {"{\"appGroups\":[\"x\"]}", 0},
        {"{\"hasAppGroups\":true}", 0},
        {"{\"versions\":[\"v1alpha1\"],\"namespaces\":[\"argocd\",\"x\"],\"clusterUrls\":[\"https://one\"]}", 2},
        {"{\"text\":\"EXAMPLE.org/A\"}", 3},
        {"{\"text\":\"git-sour\"}", 1},
        {"{\"text\":\"bet\"}", 1},
        {"{\"text\":\"nowhere\"}", 0},
        {"{\"projects\":[\"default\",\"x\"],\"autoSync\":true,\"operationPhases\":[\"Succeeded\"]}", 3},
        {"{\"repoURLs\":[\"https://git.example.org/a\"],\"revisions\":[\"abc123\"]}", 3},
        {"{\"errorText\":\"BOOM\"}", 3},
        {"{\"autoSync\":false}", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        json_t *slice = ask_list(database, table[i].filter, "null");
        size_t count = json_array_size(json_object_get(slice, "edges"));
        if (count != table[i].count) fail_msg("%s: %zu, not %zu", table[i].filter, count, table[i].count);
        json_decref(slice);
    }
    lists_and_single_ones_agree(database);
    // Page by page, with the same name in two runtimes.
    json_t *slice = ask_list(database, "", "{\"first\":1}");
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 1);
    assert_at(slice, "pageInfo.hasNextPage", "true");
    assert_at(node_of(slice, 0), "metadata.runtime", "\"prod\"");
    assert_at(node_of(slice, 0), "actualManifest", "null");
    char page[300];
    snprintf(page, sizeof page, "{\"first\":1,\"after\":\"%s\"}",
             json_string_value(json_path(slice, "pageInfo", "endCursor", NULL)));
    json_decref(slice);
    slice = ask_list(database, "", page);
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 1);
    assert_at(node_of(slice, 0), "metadata.name", "\"alpha\"");
    assert_at(node_of(slice, 0), "metadata.runtime", "\"test\"");
    json_decref(slice);
    slice = ask_list(database, "", "{\"last\":1}");
    assert_at(node_of(slice, 0), "metadata.name", "\"beta\"");
    assert_at(slice, "pageInfo.hasPrevPage", "true");
    json_decref(slice);
}

// Names of an order's applications, with their runtimes.
static void assert_order(struct database *database, const char *runtime, const char *arguments, const char *wanted)
{
    char query[512], found[256] = "";
    snprintf(query, sizeof query, "{applications%s {edges {node {metadata {name runtime}}}}}", arguments);
    json_t *answer = question_ask(database, runtime, query, NULL);
    if (json_object_get(answer, "errors")) fail_msg("%s: %s", query, json_dumps(answer, JSON_COMPACT));
    const json_t *slice = json_path(answer, "data", "applications", NULL);
    for (size_t i = 0; node_of(slice, i); i++) {
        const json_t *meta = json_object_get(node_of(slice, i), "metadata");
        size_t len = strlen(found);
        snprintf(found + len, sizeof found - len, "%s@%s ", json_string_value(json_object_get(meta, "name")),
                 json_string_value(json_object_get(meta, "runtime")));
    }
    if (strcmp(found, wanted) != 0) fail_msg("%s: %s, not %s", query, found, wanted);
    json_decref(answer);
}

static void assert_refused(struct database *database, const char *arguments, const char *wanted)
{
    char query[512];
    snprintf(query, sizeof query, "{applications%s {edges {node {labels: metadata {labels {key}} syncStatus}}}}",
             arguments);
    json_t *answer = question_ask(database, NULL, query, NULL);
    struct str message = json_get_str(json_array_get(json_get_array(answer, "errors"), 0), "message");
    if (!str_eq(message, str_c(wanted))) fail_msg("%s\n  error: %.*s\n  wanted: %s", query, STR_ARG(message), wanted);
    json_decref(answer);
}

static void orders_and_callers(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    database_make_runtime(database, "test", id);
    report_application(database, "prod", "a", 1, 1, "Synced", "Healthy", "https://one", "");
    report_application(database, "prod", "b", 1, 2, "OutOfSync", "Degraded", "https://two", "");
    report_application(database, "test", "a", 1, 1, "Synced", "Progressing", "https://one", "");
    report_application(database, "test", "c", 1, 2, "Unknown", "", "https://one", "");
    assert_order(database, NULL, "", "a@prod a@test b@prod c@test ");
    assert_order(database, NULL, "(orderBy: {field: RUNTIME, direction: desc})", "c@test a@test b@prod a@prod ");
    assert_order(database, NULL, "(orderBy: [{field: SEVERITY}])", "b@prod c@test a@test a@prod ");
    assert_order(database, NULL, "(orderBy: {field: SYNC})", "b@prod a@prod a@test c@test ");
    assert_order(database, NULL, "(orderBy: {field: SYNC}, pagination: {last: 2})", "a@test c@test ");
    // A runtime reads its own rows and no others, whatever it asks for.
    assert_order(database, "test", "", "a@test c@test ");
    assert_order(database, "test", "(filters: {runtimes: [\"prod\", \"test\"]})", "a@test c@test ");
    assert_order(database, "test", "(filters: {runtime: \"prod\"})", "");
    assert_refused(database, "(orderBy: [{field: NAME}, {field: SYNC}])",
                   "orderBy: 2 orders are given, one is accepted");
    // With those of runtimes that are away, too: none is left out otherwise.
    assert_order(database, NULL, "(filters: {inactive: true})", "a@prod a@test b@prod c@test ");
    assert_refused(database, "(filters: {userId: \"u\"})", "userId: applications are not kept by user");
    // 10,000 rows with their labels cost 2 each, and the next field 1.
    assert_order(database, NULL, "(pagination: {first: 10000}, orderBy: {field: NAME})",
                 "a@prod a@test b@prod c@test ");
    assert_refused(database,
                   "(pagination: {first: 10000}) {pageInfo {endCursor}} more: applications(pagination: {first: 10000})",
                   "the query costs 30000, the limit is 20000 (graphql.cost_max): request fewer rows, or fewer fields "
                   "that are lists");
}

static void report_cluster(struct database *database, const char *manifest, uint64_t sequence)
{
    struct report report = {.type = REPORT_CLUSTER,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = sequence,
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_int_equal(answer.outcomes[0].result, REPORT_APPLIED);
}

static void clusters_come_with_in_cluster_first(void **state)
{
    struct database *database = database_of(state);
    struct answer answer;
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    report_cluster(database,
                   "{\"name\":\"east\",\"server\":\"https://east\",\"connectionState\":{\"status\":\"Failed\","
                   "\"message\":\"no route\"}}",
                   1);
    report_cluster(database,
                   "{\"name\":\"in-cluster\",\"server\":\"https://kubernetes.default.svc\",\"serverVersion\":"
                   "\"1.30\",\"connectionState\":{\"status\":\"Successful\"}}",
                   2);
    report_application(database, "prod", "shop", 1, 3, "Synced", "Healthy", "https://kubernetes.default.svc", "");
    static const char query[] =
        "query($after: String) {clusters(runtime: \"prod\", pagination: {first: 1, after: $after}) {edges {node"
        " {metadata {name} server namespaces freshness info {connectionState {status message} applicationsCount"
        " serverVersion}} cursor} pageInfo {hasNextPage}}}";
    json_t *slice = question_field(database, query, NULL, "clusters");
    assert_at(slice, "pageInfo.hasNextPage", "true");
    assert_at(slice, "edges.0.node.metadata.name", "\"in-cluster\"");
    assert_at(slice, "edges.0.node.info.connectionState.status", "\"Successful\"");
    assert_at(slice, "edges.0.node.info.applicationsCount", "1");
    assert_at(slice, "edges.0.node.info.serverVersion", "\"1.30\"");
    assert_at(slice, "edges.0.node.namespaces", "[]");
    char variables[256];
    const json_t *edge = json_array_get(json_object_get(slice, "edges"), 0);
    snprintf(variables, sizeof variables, "{\"after\": \"%.*s\"}", STR_ARG(json_get_str(edge, "cursor")));
    json_decref(slice);
    slice = question_field(database, query, variables, "clusters");
    assert_at(slice, "edges.0.node.metadata.name", "\"east\"");
    assert_at(slice, "edges.0.node.info.connectionState.message", "\"no route\"");
    assert_at(slice, "pageInfo.hasNextPage", "false");
    json_decref(slice);
    answer_init(&answer, database);
    runtime_store_get(database->pg, database->account, STR("prod"), answer_on_node, &answer);
    answer_wait(&answer);
    json_t *runtime = json_loads(answer.node, 0, NULL);
    assert_at(runtime, "managedClustersNum", "2");
    assert_at(runtime, "managedClusters.0.server", "\"https://kubernetes.default.svc\"");
    json_decref(runtime);
    answer_finish(&answer);
}

static void report_object(struct database *database, const char *kind, const char *name, uint64_t sequence,
                          const char *manifest)
{
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = sequence,
                            .ref.group = STR("argoproj.io"),
                            .ref.version = STR("v1alpha1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = STR("argocd"),
                            .ref.name = str_c(name),
                            .ref.uid = str_c(name),
                            .health_status = STR("Healthy"),
                            .health_source = STR("AGENT"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE || answer.outcomes[0].result != REPORT_APPLIED) fail_msg("%s", answer.text);
    answer_finish(&answer);
}

// The query of a list of ApplicationSets, in out[2048].
static const char *sets(char *out, const char *arguments)
{
    snprintf(out, 2048,
             "{applicationSets(%s) {edges {cursor node {metadata {name labels {value}} size applications healthStatus"
             " healthSource syncStatus}}}}",
             arguments);
    return out;
}

static void application_sets_know_what_they_made(void **state)
{
    static const char *const names[] = {"empty", "fleet", "other"};
    struct database *database = database_of(state);
    char id[2048];
    database_make_runtime(database, "prod", id);
    for (size_t i = 0; i < 3; i++)
        report_object(database, "ApplicationSet", names[i], i + 1, "{\"metadata\":{\"labels\":{\"team\":\"a\"}}}");
    report_object(database, "Application", "many", 4, multi_source); // fleet made it
    report_object(database, "Rollout", "web", 5, "{}");
    json_t *slice = question_field(database, sets(id, "pagination: {first: 2}"), NULL, "applicationSets");
    assert_int_equal(json_array_size(json_object_get(slice, "edges")), 2);
    const json_t *empty = json_object_get(json_array_get(json_object_get(slice, "edges"), 0), "node");
    const json_t *fleet = json_object_get(json_array_get(json_object_get(slice, "edges"), 1), "node");
    assert_at(empty, "metadata.name", "\"empty\"");
    assert_at(empty, "size", "0");
    assert_at(empty, "applications", "[]");
    assert_at(fleet, "metadata.name", "\"fleet\"");
    assert_at(fleet, "metadata.labels.0.value", "\"a\"");
    assert_at(fleet, "size", "1");
    assert_at(fleet, "applications", "[\"many\"]");
    assert_at(fleet, "healthStatus", "\"HEALTHY\"");
    assert_at(fleet, "healthSource", "\"AGENT\"");
    assert_at(fleet, "syncStatus", "\"UNKNOWN\"");
    char next[512];
    snprintf(next, sizeof next, "runtime: \"prod\", pagination: {first: 5, after: \"%s\"}",
             json_string_value(json_object_get(json_array_get(json_object_get(slice, "edges"), 1), "cursor")));
    json_decref(slice);
    static const char *const rest[] = {"pagination: {last: 1}", "runtime: \"else\""};
    for (size_t i = 0; i < 3; i++) {
        slice = question_field(database, sets(id, i ? rest[i - 1] : next), NULL, "applicationSets");
        assert_int_equal(json_array_size(json_object_get(slice, "edges")), i < 2 ? 1 : 0);
        if (i < 2) assert_at(slice, "edges.0.node.metadata.name", "\"other\"");
        json_decref(slice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_application_has_the_contracts_shape),
        cmocka_unit_test(several_sources_and_a_retried_sync),
        cmocka_unit_test(what_is_not_live_says_so),
        cmocka_unit_test(filters_choose),
        cmocka_unit_test(orders_and_callers),
        cmocka_unit_test(clusters_come_with_in_cluster_first),
        cmocka_unit_test(application_sets_know_what_they_made),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
