// events: every shape of body that the reporters of existing runtimes send, and what must never
// come through.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/events/event_manifest.h"
#include "api/events/event_versions.h"
#include "api/events/events.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

static const int64_t received_at_ms = INT64_C(1767323045678); // 2026-01-02T03:04:05.678Z
static const int64_t hour_ms = 3600 * 1000;
static struct redaction *redaction;
static struct arena *arena;
static struct report report;
static struct error err;

static int set_up(void **state)
{
    (void)state;
    static const uint8_t key[REDACTION_KEY_BYTES] = {1, 2, 3};
    assert_int_equal(redaction_create(key, NULL, &redaction, NULL), ERROR_NONE);
    arena = arena_create(EVENTS_ARENA_BYTES);
    memset(&report, 0xee, sizeof report);
    err = (struct error){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(arena);
    redaction_destroy(redaction);
    return 0;
}

// A copy of the exact size that is gone before the report is looked at: no view may point into it.
static enum error_code parse_as(enum events_form form, const char *body)
{
    size_t len = strlen(body);
    char *copy = mem_dup(body, len);
    enum error_code code = events_parse(form, redaction, str_of(copy, len), STR("account-1"), STR("runtime-1"),
                                        received_at_ms, arena, &report, &err);
    memset(copy, 'X', len);
    mem_free(copy);
    return code;
}

static enum error_code parse(const char *body)
{
    return parse_as(EVENTS_WRAPPED, body);
}

static void expect_str(struct str got, const char *want)
{
    if (!str_eq(got, str_c(want))) fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(got), want);
}

static void expect_refused(const char *body, enum error_code code, const char *text)
{
    struct report before = report;
    assert_int_equal(parse(body), code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    assert_memory_equal(&before, &report, sizeof report); // outputs on success only
}

static char *base64(const char *text)
{
    char *out = arena_alloc(arena, (strlen(text) + 2) / 3 * 4 + 1);
    format_base64((const uint8_t *)text, strlen(text), out);
    return out;
}

// A JSON string with its quotes.
static char *quoted(const char *text)
{
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    assert_true(strbuf_add_json(&b, str_c(text)));
    char *out = arena_cstr(arena, strbuf_str(&b));
    strbuf_finish(&b);
    return out;
}

static json_t *decode(struct str text)
{
    json_t *value = NULL;
    assert_int_equal(json_decode(text, NULL, &value, NULL), ERROR_NONE);
    return value;
}

static bool holds(struct str text, const char *needle)
{
    return text.len && memmem(text.at, text.len, needle, strlen(needle));
}

static void expect_no_canary(void)
{
    const struct str all[] = {report.manifest, report.desired_manifest, report.git_manifest, report.errors};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_false(holds(all[i], "CANARY"));
}

// Digests as "XX".
static struct str masked(struct str text)
{
    struct strbuf out;
    strbuf_init(&out, 1 << 20);
    for (size_t i = 0; i < text.len; i++) {
        if (str_starts(str_from(text, i), STR("\"hmac-sha256:"))) {
            strbuf_add_c(&out, "\"XX\"");
            i += REDACTION_DIGEST_BYTES;
        } else {
            strbuf_add_byte(&out, text.at[i]);
        }
    }
    struct str kept = out.len ? arena_str(arena, strbuf_str(&out)) : STR("");
    strbuf_finish(&out);
    return kept;
}

static const char deployment[] = "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\","
                                 "\"namespace\":\"shop\",\"uid\":\"u-1\"},\"spec\":{\"replicas\":2}}";
static const char deployment_canonical[] =
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\","
    "\"uid\":\"u-1\"},\"spec\":{\"replicas\":2}}";
static const char application[] =
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\",\"metadata\":{\"name\":\"shop\","
    "\"namespace\":\"argocd\",\"uid\":\"a-1\",\"annotations\":{\"app.meta.revisions-metadata\":"
    "\"{\\\"syncRevisions\\\":[]}\"},\"labels\":{\"app.meta.commit-author\":\"Ann\"}},\"status\":{\"sync\":"
    "{\"status\":\"OutOfSync\"},\"health\":{\"status\":\"Degraded\",\"message\":\"pods fail\"}}}";

// source: the members of `source`, after actualManifest and desiredManifest.
static char *event_of(const char *object, const char *actual, const char *desired, const char *source)
{
    return arena_printf(arena,
                        "{\"data\":{\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"object\":\"%s\",\"source\":{"
                        "\"actualManifest\":%s,\"desiredManifest\":%s%s%s},\"appVersions\":{}}}",
                        base64(object), quoted(actual), quoted(desired), *source ? "," : "", source);
}

// ---- Argo CD's event reporter --------------------------------------------------------------------------------------

static void test_managed_resource(void **state)
{
    (void)state;
    const char *desired = "{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\",\"metadata\":{\"name\":\"web\"}}";
    const char *body = event_of(
        deployment, deployment, desired,
        "\"gitManifest\":\"kind: Deployment\\nmetadata:\\n  name: web\\n\","
        "\"repoURL\":\"https://git.example/shop\",\"path\":\"web/deployment.yaml\",\"revision\":\"abc\","
        "\"commitMessage\":\"More\\nreplicas\",\"commitAuthor\":\"Ann <ann@example>\","
        "\"commitDate\":\"2026-01-01T00:00:00Z\",\"appName\":\"shop\",\"appNamespace\":\"argocd\",\"appUID\":\"a-1\","
        "\"appLabels\":null,\"syncStatus\":\"Synced\",\"syncStartedAt\":\"2026-01-02T03:00:00Z\","
        "\"syncFinishedAt\":\"2026-01-02T03:00:01Z\",\"healthStatus\":\"Healthy\",\"healthMessage\":\"fine\","
        "\"cluster\":\"https://kubernetes.default.svc\",\"historyId\":7,\"operationSyncRevision\":\"abc\","
        "\"appInstanceLabelKey\":\"app.kubernetes.io/instance\",\"trackingMethod\":\"annotation\"");
    assert_int_equal(parse(body), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    assert_int_equal(report.source, REPORT_FROM_HTTP);
    expect_str(report.account_id, "account-1");
    expect_str(report.runtime, "runtime-1");
    expect_str(report.ref.group, "apps");
    expect_str(report.ref.version, "v1");
    expect_str(report.ref.kind, "Deployment");
    expect_str(report.ref.ns, "shop");
    expect_str(report.ref.name, "web");
    expect_str(report.ref.uid, "u-1");
    expect_str(report.cluster, "in-cluster");
    expect_str(report.application_ns, "argocd");
    expect_str(report.application_name, "shop");
    expect_str(report.sync_status, "Synced");
    expect_str(report.health_status, "Healthy");
    expect_str(report.health_message, "fine");
    expect_str(report.repo_url, "https://git.example/shop");
    expect_str(report.path, "web/deployment.yaml");
    expect_str(report.revision, "abc");
    expect_str(report.commit_message, "More\nreplicas");
    expect_str(report.commit_author, "Ann <ann@example>");
    expect_str(report.commit_date, "2026-01-01T00:00:00Z");
    expect_str(report.manifest, deployment_canonical);
    expect_str(report.desired_manifest,
               "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"}}");
    expect_str(report.git_manifest, "{\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"}}");
    expect_str(report.errors, "");
    assert_int_equal(report.observed_at_ms, received_at_ms - 678);
    assert_int_equal(report.epoch | report.sequence | report.count, 0);
}

// The object names it; what is kept is the live manifest, also when both are as canonical as can
// be.
static void test_object_and_manifest_differ(void **state)
{
    (void)state;
    const char *other = "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"other\"},"
                        "\"spec\":{\"replicas\":3}}";
    assert_int_equal(parse(event_of(deployment, other, other, "\"gitManifest\":\"\"")), ERROR_NONE);
    expect_str(report.ref.name, "web");
    expect_str(report.ref.uid, "u-1");
    expect_str(report.manifest, other);
    expect_str(report.desired_manifest, other);
    expect_str(report.git_manifest, "");
    assert_int_equal(parse(event_of(deployment, deployment, other, "\"gitManifest\":\"{}\"")), ERROR_NONE);
    expect_str(report.manifest, deployment_canonical);
    expect_str(report.desired_manifest, other);
    expect_str(report.git_manifest, "{}");
}

static void test_git_and_desired_are_one(void **state)
{
    (void)state;
    const char *source = arena_printf(arena, "\"gitManifest\":%s", quoted(deployment));
    assert_int_equal(parse(event_of(deployment, deployment, deployment, source)), ERROR_NONE);
    expect_str(report.desired_manifest, deployment_canonical);
    expect_str(report.git_manifest, deployment_canonical);
    // What is desired is not what is there.
    const char *secret =
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"CANARY\"},\"kind\":\"Secret\",\"metadata\":{\"name\":"
        "\"s\"}}";
    source = arena_printf(arena, "\"gitManifest\":%s", quoted(secret));
    assert_int_equal(parse(event_of(deployment, deployment, secret, source)), ERROR_NONE);
    assert_true(holds(report.desired_manifest, "{\"k\":\"hmac-sha256:"));
    expect_no_canary();
    assert_true(str_eq(report.desired_manifest, report.git_manifest));
}

static void test_canonical_object_keeps_no_secret(void **state)
{
    (void)state;
    const char *list = "{\"apiVersion\":\"v1\",\"items\":[{\"data\":{\"k\":\"dg==\"},\"kind\":\"Secret\"}],\"kind\":"
                       "\"List\",\"metadata\":{\"managedFields\":[1],\"name\":\"l\"}}";
    assert_int_equal(parse(arena_printf(arena, "{\"data\":{\"object\":\"%s\"}}", base64(list))), ERROR_NONE);
    expect_str(masked(report.manifest),
               "{\"apiVersion\":\"v1\",\"items\":[{\"data\":{\"k\":\"XX\"},\"kind\":\"XX\"}],\"kind\":"
               "\"List\",\"metadata\":{\"name\":\"l\"}}");
}

// Nothing of the object but what names it is taken apart, and its status only where no one else
// tells it.
static void test_canonical_object_tells_its_status(void **state)
{
    (void)state;
    const char *object = "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\",\"metadata\":{"
                         "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"name\":\"shop\"},\"status\":{\"health\":{"
                         "\"message\":\"pods fail\",\"status\":\"Degraded\"},\"sync\":{\"status\":\"OutOfSync\"}}}";
    assert_int_equal(parse(arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(object))), ERROR_NONE);
    assert_int_equal(report.type, REPORT_DELETED);
    expect_str(report.sync_status, "OutOfSync");
    expect_str(report.health_status, "Degraded");
    expect_str(report.health_message, "pods fail");
}

static void test_root_application(void **state)
{
    (void)state;
    // Its source names the cluster it deploys to; itself it lives beside Argo CD.
    const char *body = event_of(application, application, "",
                                "\"gitManifest\":\"\",\"appName\":\"\",\"appUID\":\"\",\"appLabels\":{},"
                                "\"historyId\":0,\"cluster\":\"https://10.0.0.1:6443\",\"syncStatus\":\"Synced\","
                                "\"healthStatus\":\"Healthy\",\"healthMessage\":\"\"");
    assert_int_equal(parse(body), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    expect_str(report.ref.group, "argoproj.io");
    expect_str(report.cluster, "in-cluster");
    expect_str(report.application_name, "");
    expect_str(report.sync_status, "Synced"); // the source's word, also where the object has another
    json_t *manifest = decode(report.manifest);
    expect_str(json_str(json_path(manifest, "metadata", "annotations", "app.meta.revisions-metadata", NULL)),
               "{\"syncRevisions\":[]}");
    json_decref(manifest);
}

static void test_child_application(void **state)
{
    (void)state;
    const char *body = event_of(application, application, application,
                                "\"appName\":\"parent\",\"appNamespace\":\"argocd\","
                                "\"cluster\":\"https://10.0.0.1:6443\",\"syncStatus\":\"OutOfSync\"");
    assert_int_equal(parse(body), ERROR_NONE);
    expect_str(report.ref.name, "shop");
    expect_str(report.application_name, "parent");
    expect_str(report.cluster, "https://10.0.0.1:6443");
    expect_str(report.health_status, "");
}

static void test_missing_resource_is_not_deleted(void **state)
{
    (void)state;
    assert_int_equal(parse(event_of(deployment, "", deployment, "\"healthStatus\":\"Missing\"")), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    expect_str(report.manifest, deployment_canonical);
}

static void test_deleted(void **state)
{
    (void)state;
    const char *stub = "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"web\","
                       "\"namespace\":\"shop\"}}";
    assert_int_equal(parse(event_of(stub, "", "", "\"gitManifest\":\"kind: Service\"")), ERROR_NONE);
    assert_int_equal(report.type, REPORT_DELETED);
    expect_str(report.ref.group, "");
    expect_str(report.ref.version, "v1");
    expect_str(report.manifest, "");
    expect_str(report.git_manifest, "");
    // What leaves both members out has not said that anything is gone.
    const char *silent = arena_printf(arena, "{\"data\":{\"object\":%s,\"source\":{\"appName\":\"a\"}}}", stub);
    assert_int_equal(parse(silent), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    const char *null = arena_printf(arena, "{\"data\":{\"object\":%s,\"source\":null}}", stub);
    assert_int_equal(parse(null), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
}

static void test_clusters(void **state)
{
    (void)state;
    const char *cases[][2] = {
        {"", "in-cluster"},
        {"in-cluster", "in-cluster"},
        {"https://kubernetes.default.svc", "in-cluster"},
        {"https://kubernetes.default.svc/", "in-cluster"},
        {"https://kubernetes.default.svc.example", "https://kubernetes.default.svc.example"},
        {"https://10.0.0.1:6443", "https://10.0.0.1:6443"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *source = arena_printf(arena, "\"cluster\":%s", quoted(cases[i][0]));
        assert_int_equal(parse(event_of(deployment, deployment, "", source)), ERROR_NONE);
        expect_str(report.cluster, cases[i][1]);
    }
}

static void test_errors(void **state)
{
    (void)state;
    char *body = arena_printf(
        arena,
        "{\"data\":{\"object\":%s,\"errors\":[{\"type\":\"sync\",\"level\":\"error\",\"message\":\"denied\","
        "\"lastSeen\":\"2026-01-02T03:04:05Z\",\"extra\":1,\"sourceReference\":{\"group\":\"apps\",\"version\":\"v1\","
        "\"kind\":\"Deployment\",\"name\":\"web\",\"namespace\":\"shop\",\"extra\":{}}},5,null,"
        "{\"type\":\"health\",\"level\":\"warning\",\"message\":7}]}}",
        deployment);
    assert_int_equal(parse(body), ERROR_NONE);
    expect_str(
        report.errors,
        "[{\"lastSeen\":\"2026-01-02T03:04:05Z\",\"level\":\"error\",\"message\":\"denied\",\"sourceReference\":"
        "{\"group\":\"apps\",\"kind\":\"Deployment\",\"name\":\"web\",\"namespace\":\"shop\",\"version\":\"v1\"},"
        "\"type\":\"sync\"},{\"level\":\"warning\",\"type\":\"health\"}]");
}

static void test_versions(void **state)
{
    (void)state;
    static const char an_application[] =
        "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\",\"metadata\":"
        "{\"name\":\"shop\",\"namespace\":\"argocd\"}}";
    static const char said[] = "{\"appVersion\":\"1.2.3\",\"extra\":1,\"dependencies\":{\"lock\":\"l\",\"deps\":\"d\","
                               "\"requirements\":7,\"other\":\"x\"}}";
    static const char form[] = "{\"data\":{\"object\":%s,\"appVersions\":%s}}";
    assert_int_equal(parse(arena_printf(arena, form, an_application, said)), ERROR_NONE);
    expect_str(report.app_versions, "{\"appVersion\":\"1.2.3\",\"dependencies\":{\"deps\":\"d\",\"lock\":\"l\"}}");
    static const char *const nothing[] = {"{}", "null", "7", "{\"appVersion\":\"\",\"dependencies\":{}}"};
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        assert_int_equal(parse(arena_printf(arena, form, an_application, nothing[i])), ERROR_NONE);
        expect_str(report.app_versions, "");
    }
    // What is no an_application has none, and a file over the bound is left out as a whole.
    assert_int_equal(parse(arena_printf(arena, form, deployment, said)), ERROR_NONE);
    expect_str(report.app_versions, "");
    struct strbuf long_file;
    strbuf_init(&long_file, 1 << 20);
    strbuf_add_c(&long_file, "{\"appVersion\":\"2\",\"dependencies\":{\"lock\":\"");
    for (size_t i = 0; i <= EVENT_VERSION_FILE_BYTES_MAX; i++)
        strbuf_add_byte(&long_file, 'x');
    strbuf_add_c(&long_file, "\",\"deps\":\"d\"}}");
    assert_int_equal(parse(arena_printf(arena, form, an_application, long_file.at)), ERROR_NONE);
    expect_str(report.app_versions, "{\"appVersion\":\"2\",\"dependencies\":{\"deps\":\"d\"}}");
    strbuf_finish(&long_file);
}

static void test_errors_are_bounded(void **state)
{
    (void)state;
    struct strbuf body;
    strbuf_init(&body, 1 << 22);
    strbuf_addf(&body, "{\"data\":{\"object\":%s,\"errors\":[", deployment);
    for (size_t i = 0; i < 200; i++) {
        strbuf_add_c(&body, i ? ",{\"message\":\"" : "{\"message\":\"");
        for (size_t k = 0; k < 2000; k++)
            strbuf_add_c(&body, k == 511 ? "x" : "\xc3\xa9");
        strbuf_add_c(&body, "\"}");
    }
    strbuf_add_c(&body, "]}}");
    assert_int_equal(parse(body.at), ERROR_NONE);
    json_t *errors = decode(report.errors);
    assert_int_equal(json_array_size(errors), 32);
    struct str message = json_get_str(json_array_get(errors, 0), "message");
    assert_int_equal(message.len, 1023); // the bound falls inside a character
    assert_true(str_is_utf8(message));
    json_decref(errors);
    strbuf_finish(&body);
}

// ---- the other shapes ----------------------------------------------------------------------------------------------

static void test_sensor(void **state)
{
    (void)state;
    const char *shapes[] = {quoted(deployment), arena_printf(arena, "\"%s\"", base64(deployment)), deployment};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        assert_int_equal(parse(arena_printf(arena, "{\"data\":{\"object\":%s}}", shapes[i])), ERROR_NONE);
        assert_int_equal(report.type, REPORT_OBJECT);
        expect_str(report.ref.name, "web");
        expect_str(report.cluster, "in-cluster");
        expect_str(report.application_name, "");
        expect_str(report.manifest, deployment_canonical);
        assert_int_equal(report.observed_at_ms, received_at_ms);
    }
}

static void test_sensor_deletion(void **state)
{
    (void)state;
    const char *object = "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\",\"metadata\":{\"name\":\"w\","
                         "\"namespace\":\"ci\",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\",\"resourceVersion\":"
                         "\"4711\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"}}";
    assert_int_equal(parse(arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(object))), ERROR_NONE);
    assert_int_equal(report.type, REPORT_DELETED);
    expect_str(report.manifest, "");
    expect_str(report.resource_version, "4711");
    expect_str(report.created_at, "2026-01-01T00:00:00Z");
}

static void test_sensor_application_tells_its_own_state(void **state)
{
    (void)state;
    assert_int_equal(parse(arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(application))), ERROR_NONE);
    expect_str(report.sync_status, "OutOfSync");
    expect_str(report.health_status, "Degraded");
    expect_str(report.health_message, "pods fail");
}

static void test_payload_in_a_string(void **state)
{
    (void)state;
    char *payload = arena_printf(arena,
                                 "{\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"object\":\"%s\",\"source\":{"
                                 "\"actualManifest\":%s,\"desiredManifest\":\"\",\"appName\":\"shop\"}}",
                                 base64(deployment), quoted(deployment));
    assert_int_equal(parse(arena_printf(arena, "{\"data\":%s}", quoted(payload))), ERROR_NONE);
    expect_str(report.application_name, "shop");
    expect_str(report.manifest, deployment_canonical);
    assert_int_equal(parse(arena_printf(arena, "{\"data\":\"%s\"}", base64(payload))), ERROR_NONE);
    expect_str(report.ref.name, "web");
}

// ---- the draft of a later reporter ---------------------------------------------------------------------------------

static void test_draft_application(void **state)
{
    (void)state;
    char *body = arena_printf(arena,
                              "{\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"actualManifest\":%s,\"appVersions\":{},"
                              "\"revisionsMetadata\":{\"syncRevisions\":[],\"changeRevisions\":null},\"errors\":[{"
                              "\"type\":\"health\",\"level\":\"error\",\"message\":\"pods fail\"}]}",
                              quoted(application));
    assert_int_equal(parse_as(EVENTS_DRAFT, body), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    expect_str(report.ref.kind, "Application");
    expect_str(report.ref.name, "shop");
    expect_str(report.ref.ns, "argocd");
    expect_str(report.cluster, "in-cluster");
    expect_str(report.application_name, "");
    expect_str(report.sync_status, "OutOfSync");
    expect_str(report.health_status, "Degraded");
    expect_str(report.errors, "[{\"level\":\"error\",\"message\":\"pods fail\",\"type\":\"health\"}]");
    assert_int_equal(report.observed_at_ms, received_at_ms - 678);
    const char *going =
        "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\",\"metadata\":{\"name\":\"a\","
        "\"namespace\":\"b\",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"}}";
    assert_int_equal(parse_as(EVENTS_DRAFT, arena_printf(arena, "{\"actualManifest\":%s}", quoted(going))), ERROR_NONE);
    assert_int_equal(report.type, REPORT_DELETED);
}

static char *draft_resource(const char *actual, const char *desired, const char *revisions)
{
    return arena_printf(
        arena,
        "{\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"actualManifest\":%s,\"desiredManifest\":%s,\"source\":{"
        "\"repoURL\":\"https://git.example/shop\",\"targetRevision\":\"main\",%s\"operationSyncRevisions\":[\"def\"],"
        "\"commitMessage\":\"More\",\"commitAuthor\":\"Ann\",\"commitDate\":\"2026-01-01T00:00:00Z\","
        "\"clusterServer\":\"https://10.0.0.1:6443\",\"clusterName\":\"far\",\"appName\":\"shop\",\"appLabels\":null,"
        "\"appUID\":\"a-1\",\"syncStatus\":\"Synced\",\"syncStartedAt\":\"2026-01-02T03:00:00Z\","
        "\"syncFinishedAt\":\"2026-01-02T03:00:01Z\",\"healthStatus\":{\"status\":\"Healthy\",\"message\":\"fine\"},"
        "\"historyId\":7,\"appNamespace\":\"argocd\",\"appInstanceLabelKey\":\"app\",\"trackingMethod\":\"label\","
        "\"appMultiSourced\":false,\"appSourceIdx\":0},\"appVersions\":{}}",
        quoted(actual), quoted(desired), revisions);
}

static void test_draft_resource(void **state)
{
    (void)state;
    assert_int_equal(parse_as(EVENTS_DRAFT, draft_resource(deployment, deployment, "\"revisions\":[\"abc\"],")),
                     ERROR_NONE);
    expect_str(report.ref.name, "web");
    expect_str(report.cluster, "https://10.0.0.1:6443");
    expect_str(report.application_ns, "argocd");
    expect_str(report.application_name, "shop");
    expect_str(report.sync_status, "Synced");
    expect_str(report.health_status, "Healthy");
    expect_str(report.health_message, "fine");
    expect_str(report.repo_url, "https://git.example/shop");
    expect_str(report.revision, "abc");
    expect_str(report.commit_author, "Ann");
    expect_str(report.manifest, deployment_canonical);
    expect_str(report.desired_manifest, deployment_canonical);
    // What is not there yet is known by what it should be.
    assert_int_equal(parse_as(EVENTS_DRAFT, draft_resource("", deployment, "")), ERROR_NONE);
    assert_int_equal(report.type, REPORT_OBJECT);
    expect_str(report.ref.name, "web");
    expect_str(report.revision, "main");
    // Of nothing nobody can say what it was.
    assert_int_equal(parse_as(EVENTS_DRAFT, draft_resource("", "", "")), ERROR_INVALID);
    assert_non_null(strstr(err.text, "desiredManifest: missing"));
    assert_int_equal(parse_as(EVENTS_DRAFT, arena_printf(arena, "{\"data\":{\"object\":%s}}", deployment)),
                     ERROR_INVALID);
}

// ---- whose it is, and when -----------------------------------------------------------------------------------------

static void test_body_cannot_say_whose_it_is(void **state)
{
    (void)state;
    char *body = arena_printf(arena,
                              "{\"account\":\"evil\",\"data\":{\"account_id\":\"evil\",\"runtime\":\"evil\","
                              "\"object\":%s,\"source\":{\"runtime\":\"evil\",\"account\":\"evil\"}}}",
                              deployment);
    assert_int_equal(parse(body), ERROR_NONE);
    expect_str(report.account_id, "account-1");
    expect_str(report.runtime, "runtime-1");
}

static void test_time(void **state)
{
    (void)state;
    const int64_t moves[][2] = {
        {0, 0},
        {-48 * hour_ms, -48 * hour_ms},
        {14 * hour_ms, 14 * hour_ms},
        {24 * hour_ms, 24 * hour_ms},
        {24 * hour_ms + 1, 0},
        {24 * 365 * hour_ms, 0},
    };
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        char time[CLOCK_RFC3339_BYTES];
        clock_format_rfc3339(received_at_ms + moves[i][0], time);
        assert_int_equal(
            parse(arena_printf(arena, "{\"data\":{\"timestamp\":\"%s\",\"object\":%s}}", time, deployment)),
            ERROR_NONE);
        assert_int_equal(report.observed_at_ms - received_at_ms, moves[i][1]);
    }
    expect_refused(arena_printf(arena, "{\"data\":{\"timestamp\":\"yesterday\",\"object\":%s}}", deployment),
                   ERROR_INVALID, "data.timestamp");
}

// ---- secrets -------------------------------------------------------------------------------------------------------

static const char secret[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"db\",\"namespace\":\"shop\","
    "\"managedFields\":[{\"manager\":\"CANARY\"}],\"annotations\":{\"a\":\"b\","
    "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}},\"type\":\"Opaque\","
    "\"data\":{\"password\":\"CANARY\"},\"stringData\":{\"user\":\"CANARY\",\"deep\":{\"x\":\"CANARY\"}}}";

static void test_secret(void **state)
{
    (void)state;
    char *git = arena_printf(arena, "\"gitManifest\":%s", quoted(secret));
    const char *bodies[] = {
        event_of(secret, secret, secret, git),
        event_of(secret, secret, "", "\"gitManifest\":\"kind: Secret\\nstringData:\\n  a: CANARY\\n\""),
        event_of(secret, "", secret, git),
        arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(secret)),
        arena_printf(arena, "{\"data\":{\"object\":%s}}", secret),
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        assert_int_equal(parse(bodies[i]), ERROR_NONE);
        expect_no_canary();
        expect_str(
            masked(report.manifest),
            "{\"apiVersion\":\"v1\",\"data\":{\"password\":\"XX\"},\"kind\":\"Secret\",\"metadata\":{"
            "\"annotations\":{\"a\":\"XX\"},\"name\":\"db\",\"namespace\":\"shop\"},\"stringData\":{\"deep\":{\"x\":"
            "\"XX\"},\"user\":\"XX\"},\"type\":\"Opaque\"}");
        // What is there, desired and in Git has the same digests, so that it can be compared.
        if (i == 0) assert_true(str_eq(report.manifest, report.desired_manifest));
        if (i == 0) assert_true(str_eq(report.manifest, report.git_manifest));
    }
}

static void test_secret_in_disguise(void **state)
{
    (void)state;
    // The object says Secret, its manifest does not; data that is no map; Secrets inside other
    // objects.
    const char *nameless = "{\"metadata\":{\"name\":\"db\"},\"data\":{\"p\":\"CANARY\"},\"stringData\":\"CANARY\"}";
    assert_int_equal(parse(event_of(secret, nameless, "", "")), ERROR_NONE);
    expect_no_canary();
    char *list = arena_printf(arena,
                              "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{\"name\":\"l\"},"
                              "\"items\":[{\"x\":[%s]}],\"spec\":{\"template\":%s}}",
                              secret, secret);
    char *git = arena_printf(arena, "\"gitManifest\":%s", quoted(list));
    assert_int_equal(parse(event_of(list, list, list, git)), ERROR_NONE);
    assert_true(report.desired_manifest.len > 0 && report.git_manifest.len > 0);
    expect_no_canary();
    // The object is harmless, what the source says is wanted is not.
    assert_int_equal(parse(event_of(deployment, deployment, secret, "\"gitManifest\":\"\"")), ERROR_NONE);
    assert_true(report.desired_manifest.len > 0);
    expect_no_canary();
    // What cannot be read cannot be redacted.
    assert_int_equal(
        parse(event_of(deployment, deployment, "kind: Secret # CANARY", "\"gitManifest\":\"kind: [CANARY\"")),
        ERROR_NONE);
    expect_str(report.desired_manifest, "");
}

static void test_last_applied_goes(void **state)
{
    (void)state;
    const char *object = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\"annotations\":{"
                         "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}},\"data\":{\"k\":\"v\"}}";
    assert_int_equal(parse(event_of(object, object, object, "")), ERROR_NONE);
    expect_no_canary();
    assert_true(holds(report.manifest, "\"data\":{\"k\":\"hmac-sha256:"));
    assert_true(str_eq(report.manifest, report.desired_manifest));
    assert_false(holds(report.manifest, "last-applied"));
}

static void test_yaml(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *json; // digests as "XX"; empty: cannot be read
    } cases[] = {
        {"kind: Secret\ndata: {a: CANARY}\n", "{\"data\":{\"a\":\"XX\"},\"kind\":\"Secret\"}"},
        {"{kind: Secret, data: {}}", "{\"data\":{},\"kind\":\"Secret\"}"},
        {"kind: Deployment\nspec: {replicas: 3, paused: true, x: CANARY}\n",
         "{\"kind\":\"Deployment\",\"spec\":{\"paused\":true,\"replicas\":3,\"x\":\"XX\"}}"},
        {"metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: CANARY}}",
         "{\"metadata\":{\"annotations\":{}}}"},
        {"kind: Deployment\n---\nkind: Secret\ndata: CANARY\n", ""},
        {"a: &a CANARY\nb: *a\n", ""},
        {"- CANARY\n", ""},
        {"CANARY", ""},
        {"a: [CANARY", ""},
    };
    const struct event_filter filter = {redaction, {.ref.group = STR("apps"), .ref.kind = STR("Deployment")}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str out;
        assert_int_equal(event_manifest_git(&filter, str_c(cases[i].yaml), "git", arena, &out, &err), ERROR_NONE);
        expect_str(masked(out), cases[i].json);
    }
}

static void test_texts_are_scrubbed(void **state)
{
    (void)state;
    const char *source = "\"repoURL\":\"https://bot:CANARY@git.example/shop\",\"commitMessage\":\"password=CANARY\","
                         "\"commitAuthor\":\"ghp_CANARYCANARYCANARYCANARY\",\"healthMessage\":\"--set a=CANARY\","
                         "\"path\":\"https://a:CANARY@b/c\",\"cluster\":\"https://u:CANARY@10.0.0.1\"";
    const char *body = event_of(deployment, deployment, "", source);
    assert_int_equal(parse(body), ERROR_NONE);
    const struct str texts[] = {report.repo_url,       report.commit_message, report.commit_author,
                                report.health_message, report.path,           report.cluster};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(holds(texts[i], "***"));
        assert_false(holds(texts[i], "CANARY"));
    }
    body = arena_printf(arena,
                        "{\"data\":{\"object\":%s,\"errors\":[{\"message\":\"token=CANARY\"}],\"appVersions\":{"
                        "\"dependencies\":{\"lock\":\"https://u:CANARY@charts.example/x\"}}}}",
                        application);
    assert_int_equal(parse(body), ERROR_NONE);
    assert_true(holds(report.errors, "***") && holds(report.app_versions, "***"));
    assert_false(holds(report.errors, "CANARY") || holds(report.app_versions, "CANARY"));
}

// What one account has, another one does not see as the same.
static void test_digests_are_of_one_owner(void **state)
{
    (void)state;
    const char *body = arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(secret));
    struct report other;
    assert_int_equal(parse(body), ERROR_NONE);
    assert_int_equal(events_parse(EVENTS_WRAPPED, redaction, str_c(body), STR("account-2"), STR("runtime-1"),
                                  received_at_ms, arena, &other, &err),
                     ERROR_NONE);
    const char *mine = strstr(report.manifest.at, "\"password\":"),
               *theirs = strstr(other.manifest.at, "\"password\":");
    assert_memory_not_equal(mine, theirs, 60);
}

static void test_refusals_repeat_nothing(void **state)
{
    (void)state;
    const char *broken[] = {
        "{\"kind\":\"Secret\",\"data\":{\"p\":\"CANARY\" \"CANARY\"}}",
        "{\"kind\":\"Secret\",\"CANARY\":1,\"CANARY\":2}",
        "{\"data\":CANARY}",
        "{\"data\":\"CANARY",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        assert_int_equal(parse(event_of(secret, broken[i], "", "")), ERROR_INVALID);
        assert_non_null(strstr(err.text, "data.source.actualManifest: line 1"));
        assert_null(strstr(err.text, "CANARY"));
        assert_int_equal(parse(broken[i]), ERROR_INVALID);
        assert_null(strstr(err.text, "CANARY"));
    }
}

// ---- refused -------------------------------------------------------------------------------------------------------

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "body"},
        {"[]", "body: must be a JSON object"},
        {"{", "body: line 1"},
        {"{}", "data: missing"},
        {"{\"data\":null}", "data: missing"},
        {"{\"data\":\"\"}", "data: missing"},
        {"{\"data\":\" \"}", "data: missing"},
        {"{\"data\":5}", "data: must be"},
        {"{\"data\":[]}", "data: must be"},
        {"{\"data\":\"[]\"}", "data: must be a JSON object"},
        {"{\"data\":\"!\"}", "data: must be JSON or base64"},
        {"{\"data\":{}}", "data.object: missing"},
        {"{\"data\":{\"object\":null}}", "data.object: missing"},
        {"{\"data\":{\"object\":true}}", "data.object: must be"},
        {"{\"data\":{\"object\":\"W10=\"}}", "data.object: must be a JSON object"},
        {"{\"data\":{\"object\":\"{\\\"a\\\":\"}}", "data.object: line 1"},
        {"{\"data\":{\"object\":{}}}", "data.object.apiVersion: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\"}}}", "data.object.kind: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":7,\"metadata\":{\"name\":\"n\"}}}}",
         "data.object.kind: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}}}", "data.object.metadata.name: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":[]}}}",
         "data.object.metadata.name: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"\"}}}}",
         "data.object.metadata.name: missing"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"a/b/c\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\"}}}}",
         "data.object.apiVersion: must be"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"/v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\"}}}}",
         "data.object.apiVersion: must be"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"apps/\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\"}}}}",
         "data.object.apiVersion: must be"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\\n\"}}}}",
         "data.object.metadata.name: contains a control character"},
        {"{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\\u0000\"}}}}",
         "body: line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i][0], ERROR_INVALID, cases[i][1]);
}

static char *pod_named(const char *name)
{
    return arena_printf(
        arena, "{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\"}}}}", name);
}

static void test_bounds(void **state)
{
    (void)state;
    char name[EVENTS_IDENTITY_BYTES_MAX + 2];
    memset(name, 'n', sizeof name);
    name[EVENTS_IDENTITY_BYTES_MAX] = '\0';
    assert_int_equal(parse(pod_named(name)), ERROR_NONE);
    name[EVENTS_IDENTITY_BYTES_MAX] = 'n';
    name[EVENTS_IDENTITY_BYTES_MAX + 1] = '\0';
    expect_refused(pod_named(name), ERROR_TOO_LARGE, "data.object.metadata.name: 513 bytes");
    char *source = arena_printf(arena, "\"appName\":\"%s\"", name);
    expect_refused(event_of(deployment, deployment, "", source), ERROR_TOO_LARGE, "data.source.appName");
    // A long commit message is cut, not refused.
    char *message = arena_alloc(arena, 10000);
    memset(message, 'm', 9999);
    source = arena_printf(arena, "\"commitMessage\":\"%s\"", message);
    assert_int_equal(parse(event_of(deployment, deployment, "", source)), ERROR_NONE);
    assert_int_equal(report.commit_message.len, 4096);
}

static char *nested(size_t depth)
{
    char *text = arena_alloc(arena, depth * 2 + 1);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

static void test_bombs(void **state)
{
    (void)state;
    expect_refused(arena_printf(arena, "{\"data\":%s}", nested(1000)), ERROR_TOO_LARGE, "body: line 1");
    const char *deep = arena_printf(arena, "{\"spec\":%s}", nested(1000));
    expect_refused(arena_printf(arena, "{\"data\":{\"object\":%s}}", quoted(deep)), ERROR_TOO_LARGE,
                   "data.object: line 1");
    expect_refused(arena_printf(arena, "{\"data\":{\"object\":\"%s\"}}", base64(deep)), ERROR_TOO_LARGE,
                   "data.object: line 1");
    expect_refused(event_of(deployment, deep, "", ""), ERROR_TOO_LARGE, "data.source.actualManifest: line 1");
    size_t len = 2 * 500001 + 1;
    char *wide = mem_alloc(len + 64);
    size_t at = (size_t)snprintf(wide, 64, "{\"data\":[");
    for (size_t i = 0; i < 500001; i++) {
        wide[at++] = '1';
        wide[at++] = ',';
    }
    wide[at - 1] = ']';
    wide[at++] = '}';
    wide[at] = '\0';
    expect_refused(wide, ERROR_TOO_LARGE, "more values than the limit of 500000");
    mem_free(wide);
    char *big = mem_alloc(EVENTS_BODY_BYTES_MAX + 2);
    memset(big, ' ', EVENTS_BODY_BYTES_MAX + 1);
    big[EVENTS_BODY_BYTES_MAX + 1] = '\0';
    expect_refused(big, ERROR_TOO_LARGE, "the limit is 10485760");
    mem_free(big);
}

// Numbers can grow when they are written again ("0.17" -> 17 digits): the bound holds for what is
// kept.
static void test_canonical_text_is_bounded(void **state)
{
    (void)state;
    enum { COUNT = 499000, STEP = 5 };
    char *body = mem_alloc(COUNT * STEP + 256);
    size_t at = (size_t)snprintf(body, 256,
                                 "{\"data\":{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
                                 "\"metadata\":{\"name\":\"n\"},\"x\":[");
    for (size_t i = 0; i < COUNT; i++, at += STEP)
        memcpy(body + at, "1e-7,", STEP);
    memcpy(body + at - 1, "]}}}", sizeof "]}}}");
    enum error_code code = parse(body);
    if (code != ERROR_TOO_LARGE) fail_msg("%zu bytes", report.manifest.len);
    assert_non_null(strstr(err.text, "data.object: "));
    mem_free(body);
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_managed_resource),
        CASE(test_object_and_manifest_differ),
        CASE(test_git_and_desired_are_one),
        CASE(test_canonical_object_keeps_no_secret),
        CASE(test_canonical_object_tells_its_status),
        CASE(test_root_application),
        CASE(test_child_application),
        CASE(test_missing_resource_is_not_deleted),
        CASE(test_deleted),
        CASE(test_clusters),
        CASE(test_errors),
        CASE(test_versions),
        CASE(test_errors_are_bounded),
        CASE(test_sensor),
        CASE(test_sensor_deletion),
        CASE(test_sensor_application_tells_its_own_state),
        CASE(test_payload_in_a_string),
        CASE(test_draft_application),
        CASE(test_draft_resource),
        CASE(test_body_cannot_say_whose_it_is),
        CASE(test_time),
        CASE(test_secret),
        CASE(test_secret_in_disguise),
        CASE(test_last_applied_goes),
        CASE(test_yaml),
        CASE(test_texts_are_scrubbed),
        CASE(test_digests_are_of_one_owner),
        CASE(test_refusals_repeat_nothing),
        CASE(test_refused),
        CASE(test_bounds),
        CASE(test_bombs),
        CASE(test_canonical_text_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
