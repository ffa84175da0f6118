#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "tests/support/canary_manifests.h"
#include "tunnel/wire/redaction.h"
#include "tunnel/wire/redaction_scrub.h"
#include "tunnel/wire/redaction_value.h"

static const uint8_t key[REDACTION_KEY_BYTES] = {1, 2, 3};

static struct redaction *create(const struct redaction_options *options)
{
    struct redaction *redaction = NULL;
    struct error err;
    if (redaction_create(key, options, &redaction, &err) != ERROR_NONE) fail_msg("%s", err.text);
    return redaction;
}

// The object as it leaves; the caller owns the text.
static char *redact_object(const struct redaction *redaction, const json_t *object)
{
    const json_t *metadata = json_get_object(object, "metadata");
    struct redaction_object identity = {.ref.kind = json_get_str(object, "kind"),
                                        .ref.ns = json_get_str(metadata, "namespace"),
                                        .ref.name = json_get_str(metadata, "name")};
    object_ref_set_api_version(&identity.ref, json_get_str(object, "apiVersion"));
    size_t len;
    AUTO_FREE char *text = json_canonical(object, &len);
    struct strbuf out;
    struct error err;
    strbuf_init(&out, 2 * len + REDACTION_GROWTH_BYTES_MAX + 64 * 1024);
    if (redaction_apply(redaction, &identity, str_of(text, len), &out, &err) != ERROR_NONE)
        fail_msg("%s: %s", err.text, text);
    // What leaves is canonical again.
    json_t *back = json_loadb(out.at, out.len, JSON_REJECT_DUPLICATES, NULL);
    if (!back) fail_msg("is no JSON any more: %s", out.at);
    size_t again_len;
    AUTO_FREE char *again = json_canonical(back, &again_len);
    assert_string_equal(again, out.at);
    json_decref(back);
    return strbuf_detach(&out);
}

static char *redact_with(const struct redaction_options *options, const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    if (!object) fail_msg("the test's own JSON is broken: %s", text);
    struct redaction *redaction = create(options);
    char *out = redact_object(redaction, object);
    redaction_destroy(redaction);
    json_decref(object);
    return out;
}

static char *redact(const char *text)
{
    return redact_with(NULL, text);
}

// ---- canaries ------------------------------------------------------------------------------------------------------

static void a_thousand_manifests_keep_their_canaries(void **state)
{
    (void)state;
    enum { COUNT = 1000, SEED = 20260301 };
    struct redaction *redaction = create(NULL);
    unsigned placed = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        json_t *object = canary_manifest(SEED, i);
        size_t len;
        AUTO_FREE char *before = json_canonical(object, &len);
        for (const char *at = before; (at = strstr(at, CANARY_TEXT)); at++)
            placed++;
        AUTO_FREE char *after = redact_object(redaction, object);
        json_decref(object);
        const char *leak = strstr(after, CANARY_TEXT);
        if (!leak) leak = strstr(after, CANARY_NUMBER);
        if (leak) fail_msg("manifest %u leaks: ...%.200s", i, leak - after > 100 ? leak - 100 : after);
    }
    redaction_destroy(redaction);
    assert_true(placed > 10 * COUNT); // there was something to leak
}

static void templates_leave_as_they_are(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < CANARY_KINDS; kind++) {
        json_t *object = canary_template(kind);
        size_t len;
        AUTO_FREE char *before = json_canonical(object, &len);
        AUTO_FREE char *after = redact(before);
        assert_string_equal(after, before);
        json_decref(object);
    }
}

#define WORKFLOW    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META ","
#define APPLICATION "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META ","
#define DEPLOYMENT  "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
#define THING       "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\"," META ","
#define META        "\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"uid\":\"u\"}"

// Every place where a review found a value that left; CANARY stands for it.
static const char *const places[] = {
    "{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"CANARY\"},\"type\":\"Opaque\"}",
    "{\"kind\":\"Secret\"," META ",\"stringData\":{\"k\":\"CANARY\"}}",
    "{\"kind\":\"Secret\"," META ",\"data\":{\"release\":\"CANARY\"},\"type\":\"helm.sh/release.v1\"}",
    "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"n\",\"annotations\":{\"anything\":\"CANARY\"}}}",
    "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"n\",\"managedFields\":[{\"f\":\"CANARY\"}],\"finalizers\":["
    "\"CANARY\"]}}",
    "{\"kind\":\"Secret\"," META ",\"unknownMember\":\"CANARY\"}",
    "{\"metadata\":{\"name\":\"no-kind\"},\"data\":{\"k\":\"CANARY\"}}",
    "{\"data\":{\"k\":\"CANARY\"}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"n\",\"annotations\":{"
    "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\"," META
    ",\"spec\":{\"template\":{\"metadata\":{\"annotations\":{"
    "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}}}}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"n\",\"managedFields\":[\"CANARY\"]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"env\":[{\"name\":\"A\",\"value\":\"CANARY\"}]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"initContainers\":[{\"args\":[\"--password\",\"CANARY\"]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"command\":[\"sh\",\"-c\",\"login CANARY\"]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"livenessProbe\":{\"exec\":{\"command\":[\"CANARY\"]}}}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"httpHeaders\":"
    "[{\"name\":\"Authorization\",\"value\":\"CANARY\"}]}}}]}}",
    "{\"kind\":\"ConfigMap\"," META ",\"data\":{\"app.ini\":\"password = CANARY\"}}",
    "{\"kind\":\"ConfigMap\"," META ",\"binaryData\":{\"k\":\"CANARY\"}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"helm\":{\"parameters\":[{\"name\":\"p\",\"value\":"
    "\"CANARY\"}]}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"helm\":{\"values\":\"password: CANARY\"}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"helm\":{\"valuesObject\":{\"a\":{\"b\":\"CANARY\"}}}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"status\":{\"history\":[{\"source\":{\"helm\":{\"values\":\"CANARY\"}}}]}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"plugin\":{\"env\":[{\"name\":\"X\",\"value\":\"CANARY\"}]}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"repoURL\":\"https://bot:CANARY@git.example.com/a\"}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"status\":{\"conditions\":[{\"message\":\"Secret \\\"x\\\" is invalid: "
    "data[k]: Invalid value: \\\"CANARY\\\": bad\"}]}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"status\":{\"operationState\":{\"message\":\"error: {\\\"stringData\\\":"
    "{\\\"k\\\":\\\"CANARY\\\"}}\"}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META
    ",\"spec\":{\"arguments\":{\"parameters\":[{\"name\":\"p\",\"value\":\"CANARY\"}]}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META
    ",\"spec\":{\"templates\":[{\"script\":{\"source\":\"echo CANARY\"}}]}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META
    ",\"status\":{\"nodes\":{\"a\":{\"outputs\":{\"result\":\"CANARY\"}}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META
    ",\"status\":{\"compressedNodes\":\"CANARY\"}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META
    ",\"spec\":{\"inputs\":{\"artifacts\":[{\"raw\":{\"data\":\"CANARY\"}}]}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"operation\":{\"sync\":{\"manifests\":[\"kind: Secret CANARY\"]}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"kustomize\":{\"patches\":[{\"patch\":\"CANARY\"}]}}}}",
    "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\",\"annotations\":{\"kapp.k14s.io/original\":\"CANARY\"}}}",
    "{\"kind\":\"HelmRelease\"," META ",\"spec\":{\"values\":{\"db\":{\"pw\":\"CANARY\"}}}}",
    "{\"kind\":\"Thing\"," META ",\"spec\":{\"adminPassword\":\"CANARY\"}}",
    "{\"kind\":\"Thing\"," META ",\"spec\":{\"auth\":{\"client_secret\":\"CANARY\",\"token\":\"CANARY\"}}}",
    "{\"kind\":\"List\"," META ",\"items\":[{\"kind\":\"Secret\",\"data\":{\"k\":\"CANARY\"},\"metadata\":{}}]}",
    "{\"kind\":\"Template\"," META ",\"spec\":{\"object\":{\"kind\":\"Secret\",\"stringData\":{\"k\":\"CANARY\"}}}}",
    "{\"kind\":\"Event\"," META ",\"message\":\"Authorization: Bearer CANARYCANARY and token=CANARY\"}",
    "{\"kind\":\"Event\"," META ",\"message\":\"-----BEGIN RSA PRIVATE KEY-----\\nCANARY\\n-----END RSA PRIVATE "
    "KEY-----\"}",
    // Lists of objects, objects in objects.
    "{\"kind\":\"SecretList\",\"items\":[{\"metadata\":{\"name\":\"n\"},\"data\":{\"k\":\"CANARY\"}}]}",
    "{\"kind\":\"ConfigMapList\",\"items\":[{\"data\":{\"k\":\"CANARY\"}}]}",
    "{\"kind\":\"SealedSecret\"," META ",\"spec\":{\"template\":{\"data\":{\"k\":\"CANARY\"}}}}",
    "{\"kind\":\"ExternalSecret\"," META ",\"spec\":{\"target\":{\"template\":{\"data\":{\"k\":\"CANARY\"}}}}}",
    // Workflows.
    WORKFLOW
    "\"spec\":{\"templates\":[{\"name\":\"t\",\"resource\":{\"action\":\"create\",\"manifest\":\"kind: Secret\\n"
    "stringData: {a: CANARY}\"}}]}}",
    WORKFLOW
    "\"spec\":{\"templates\":[{\"steps\":[[{\"name\":\"a\",\"withItems\":[\"CANARY\",{\"x\":\"CANARY\"}]}]]}]}}",
    WORKFLOW "\"spec\":{\"templates\":[{\"dag\":{\"tasks\":[{\"name\":\"a\",\"withParam\":\"[CANARY]\"}]}}]}}",
    WORKFLOW "\"spec\":{\"arguments\":{\"parameters\":[{\"name\":\"p\",\"enum\":[\"CANARY\"]}]}}}",
    WORKFLOW "\"status\":{\"nodes\":{\"n\":{\"name\":\"w.step(0:CANARY)\",\"displayName\":\"step(12:a(CANARY)b)\"}}}}",
    WORKFLOW
    "\"spec\":{\"templates\":[{\"http\":{\"headers\":[{\"name\":\"Authorization\",\"value\":\"CANARY\"}],\"body\":"
    "\"CANARY\"}}]}}",
    // Applications.
    APPLICATION "\"spec\":{\"source\":{\"plugin\":{\"parameters\":[{\"name\":\"p\",\"string\":\"CANARY\",\"array\":["
                "\"CANARY\"],\"map\":{\"a\":\"CANARY\"}}]}}}}",
    APPLICATION "\"spec\":{\"source\":{\"kustomize\":{\"commonAnnotations\":{\"vault\":\"CANARY\"}}}}}",
    APPLICATION
    "\"spec\":{\"source\":{\"directory\":{\"jsonnet\":{\"tlas\":[{\"name\":\"a\",\"value\":\"CANARY\"}]}}}}}",
    APPLICATION "\"spec\":{\"sources\":[{\"repoURL\":\"https://bot:CAN/CANARY@git.example.com/a\"}]}}",
    APPLICATION
    "\"status\":{\"operationState\":{\"message\":\"helm template . --set a.b=CANARY --set-string c=CANARY\"}}}",
    APPLICATION "\"spec\":{\"info\":[{\"name\":\"a\",\"value\":\"CANARY\"}]}}",
    APPLICATION "\"spec\":{\"source\":{\"kustomize\":{\"images\":[\"user:CANARY@host\",{\"image\":\"CANARY\"}]}}}}",
    APPLICATION "\"status\":{\"summary\":{\"images\":[{\"x\":\"CANARY\"},[\"a b CANARY\"]]}}}",
    APPLICATION "\"status\":{\"operationState\":{\"syncResult\":{\"resources\":[{\"kind\":\"Secret\",\"name\":\"x\","
                "\"message\":\"Secret \\\"x\\\" is invalid: data[k]: Invalid value: \\\"CANARY\\\": bad\"}]}}}}",
    "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"ApplicationSet\"," META ",\"spec\":{\"generators\":[{\"list\":"
    "{\"elements\":[{\"cluster\":\"CANARY\"}]}},{\"matrix\":{\"generators\":[{\"list\":{\"elementsYaml\":\"CANARY\"}}]}"
    "}],"
    "\"templatePatch\":\"CANARY\"}}",
    // Annotations, labels, volumes, arguments.
    DEPLOYMENT
    "\"metadata\":{\"name\":\"n\",\"annotations\":{\"vault.hashicorp.com/agent-inject-template-x\":\"CANARY\","
    "\"nginx.ingress.kubernetes.io/configuration-snippet\":\"CANARY\"},\"labels\":{\"team\":\"CANARY\"}}}",
    DEPLOYMENT "\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"x\":\"CANARY\"}}}}}",
    DEPLOYMENT "\"spec\":{\"template\":{\"spec\":{\"volumes\":[{\"name\":\"v\",\"csi\":{\"volumeAttributes\":{\"p\":"
               "\"CANARY\"}}},{\"name\":\"w\",\"flexVolume\":{\"options\":{\"p\":\"CANARY\"}}}]}}}}",
    DEPLOYMENT
    "\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"args\":[\"--password\",\"CANARY\"]}]}}}}",
    DEPLOYMENT
    "\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":{\"CANARY\":\"CANARY\"}}]}}}}",
    DEPLOYMENT "\"spec\":{\"replicas\":\"CANARY\",\"paused\":\"CANARY\"}}",
    DEPLOYMENT "\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":"
               "\"CANARY\"}}}]}}}}",
    // Kinds that nobody knows, with members in every form.
    THING "\"spec\":{\"password\":\"CANARY\",\"secret\":{\"plain\":\"CANARY\"},\"passwords\":[\"CANARY\"]}}",
    THING "\"spec\":{\"githubToken\":\"CANARY\",\"jwtSecret\":\"CANARY\",\"authorization\":\"CANARY\",\"headers\":{"
          "\"Authorization\":\"CANARY\"}}}",
    THING "\"spec\":{\"pairs\":[{\"key\":\"CANARY\",\"value\":\"CANARY\"}]}}",
    THING "\"spec\":{\"images\":[\"CANARY\"],\"image\":\"CANARY\",\"nested\":{\"image\":{\"password\":\"CANARY\"}}}}",
    THING "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"message\":\"CANARY\"}],\"token\":\"CANARY\"}}",
    THING "\"spec\":{\"AKIACANARYCANARYX\":1,\"a key with CANARY\":{\"x\":1}}}",
};

static void known_leaks_are_closed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        AUTO_FREE char *out = redact(places[i]);
        if (strstr(out, "CANARY")) fail_msg("place %zu leaks: %s", i, out);
    }
    AUTO_FREE char *number = redact(THING "\"spec\":{\"password\":31337}}");
    assert_null(strstr(number, "31337"));
}

// ---- what leaves ---------------------------------------------------------------------------------------------------

static void reports_about_secrets_are_no_secrets(void **state)
{
    (void)state;
    AUTO_FREE char *out = redact(
        APPLICATION "\"status\":{\"operationState\":{\"syncResult\":{\"resources\":[{\"kind\":\"Secret\",\"message\":"
                    "\"secret/web-secret created\",\"name\":\"web-secret\",\"status\":\"Synced\"}]}}}}");
    assert_non_null(strstr(out, "\"message\":\"secret/web-secret created\""));
}

static void digests_show_changes_only(void **state)
{
    (void)state;
    AUTO_FREE char *a = redact("{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"b25l\",\"l\":\"b25l\"}}");
    AUTO_FREE char *b = redact("{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"b25l\",\"l\":\"b25l\"}}");
    AUTO_FREE char *c = redact("{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"dHdv\",\"l\":\"b25l\"}}");
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    json_t *one = json_loads(a, 0, NULL), *two = json_loads(c, 0, NULL);
    const char *k = json_string_value(json_path(one, "data", "k", NULL)),
               *l = json_string_value(json_path(one, "data", "l", NULL));
    assert_int_equal(strlen(k), REDACTION_DIGEST_BYTES - 1);
    assert_memory_equal(k, "hmac-sha256:", 12);
    assert_string_not_equal(k, l); // the same value in two places does not show as the same
    assert_string_equal(l, json_string_value(json_path(two, "data", "l", NULL)));
    // Of another object and of another owner it is another digest.
    AUTO_FREE char *other =
        redact("{\"kind\":\"Secret\",\"metadata\":{\"name\":\"m\",\"namespace\":\"s\",\"uid\":\"u\"},"
               "\"data\":{\"k\":\"b25l\"}}");
    assert_null(strstr(other, k));
    json_decref(one);
    json_decref(two);
}

// What comes first in a list does not change the digests of the rest.
static void diffs_line_up(void **state)
{
    (void)state;
    AUTO_FREE char *before =
        redact(DEPLOYMENT "\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"env\":[{\"name\":\"B\","
                          "\"value\":\"b\"}],\"name\":\"c\"}]}}}}");
    AUTO_FREE char *after =
        redact(DEPLOYMENT "\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"env\":[{"
                          "\"name\":\"A\",\"value\":\"b\"},{\"name\":\"B\",\"value\":\"b\"}],\"name\":"
                          "\"c\"}]}}}}");
    const char *digest = strstr(before, "hmac-sha256:"), *first = strstr(after, "hmac-sha256:");
    assert_non_null(first);
    assert_memory_not_equal(digest, first, REDACTION_DIGEST_BYTES - 1);
    const char *second = strstr(first + 1, "hmac-sha256:");
    assert_non_null(second);
    assert_memory_equal(digest, second, REDACTION_DIGEST_BYTES - 1);
}

static void growth_is_bounded(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    json_t *numbers = json_array(), *map = json_object();
    for (int i = 0; i < COUNT; i++)
        json_array_append_new(numbers, json_integer(i % 10));
    for (int i = 0; i < 50000; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d", i);
        json_object_set_new(map, name, json_integer(1));
    }
    json_t *object = json_pack("{s:s, s:s, s:{s:s, s:o}, s:{s:O, s:o}}", "apiVersion", "v1", "kind", "Thing",
                               "metadata", "name", "n", "labels", map, "spec", "many", numbers, "more", numbers);
    size_t len;
    AUTO_FREE char *before = json_canonical(object, &len);
    struct redaction *redaction = create(NULL);
    AUTO_FREE char *after = redact_object(redaction, object);
    assert_true(strlen(after) < len + 2 * REDACTION_GROWTH_BYTES_MAX);
    assert_non_null(strstr(after, "\"spec\":\"hmac-sha256:"));
    redaction_destroy(redaction);
    json_decref(object);
}

static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",           "[]",         "1",          "{",           "{\"a\"}", "{\"a\":}",  "{\"a\":1",
        "{\"a\":1}}", "{\"a\":[1}", "{\"a\":\"b", "{\"a\":\"\\", "{a:1}",   "{\"a\":x}", "{\"a\" :1}"};
    struct redaction *redaction = create(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct strbuf out;
        struct error err;
        const struct redaction_object object = {.ref.kind = STR("ConfigMap")};
        strbuf_init(&out, 1 << 20);
        if (redaction_apply(redaction, &object, str_c(texts[i]), &out, &err) == ERROR_NONE)
            fail_msg("taken: %s as %s", texts[i], out.at);
        strbuf_finish(&out);
    }
    redaction_destroy(redaction);
}

static void long_texts_are_cut_at_a_character(void **state)
{
    (void)state;
    size_t len = REDACTION_TEXT_BYTES_MAX + 100;
    char *message = mem_zalloc(len + 1);
    message[0] = 'a';
    for (size_t i = 1; i + 1 < len; i += 2)
        memcpy(message + i, "\xc3\xa9", 2);
    json_t *object = json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind", "Pod", "metadata", "name",
                               "n", "status", "message", message);
    struct redaction *redaction = create(NULL);
    AUTO_FREE char *out = redact_object(redaction, object);
    json_t *back = json_loads(out, 0, NULL);
    struct str kept = json_str(json_path(back, "status", "message", NULL));
    assert_true(kept.len <= REDACTION_TEXT_BYTES_MAX && kept.len > REDACTION_TEXT_BYTES_MAX - 4);
    assert_true(str_is_utf8(kept));
    redaction_destroy(redaction);
    json_decref(back);
    json_decref(object);
    mem_free(message);
}

// ---- types ---------------------------------------------------------------------------------------------------------

static void values_must_look_like_their_type(void **state)
{
    (void)state;
    static const struct {
        enum redaction_type type;
        const char *good, *bad; // separated by blanks; raw JSON
    } cases[] = {
        {REDACTION_NUMBER, "1 -2 1.5", "\"1\" true"},
        {REDACTION_QUANTITY, "1 \"25%\" \"128Mi\" \"500m\" \"1e3\" \"-1.5k\"", "\"x\" \"1x\" \"Mi\" true \"31337pw\""},
        {REDACTION_BOOL, "true false", "1 \"true\""},
        {REDACTION_TIME, "\"2026-03-01T08:00:00Z\" \"2026-03-01T08:00:00.5+02:00\"", "\"yesterday\" 1 \"2026x\""},
        {REDACTION_DURATION, "30 \"1h30m\" \"1.5h\" \"100ms\"", "\"soon\" \"1hunter2\" \"-\""},
        {REDACTION_IMAGE, "\"nginx\" \"r.example.com:5000/a/b:1@sha256:0123456789abcdef0123456789abcdef\" \"a=b:1\"",
         "\"user:pw@host/a\" \"a@b\" {\"a\":1} 1"},
        {REDACTION_FULL_IMAGE, "\"nginx:1\" \"a/b\"", "\"nginx\" \"hunter2\""},
        {REDACTION_LABEL, "\"web-1.2_x\"", "\"a/b\" \"a:b\" 1"},
        {REDACTION_ENUM, "\"CrashLoopBackOff\" \"CreateNamespace=true\"", "\"a\\nb\" \"$(x)\" 1"},
        {REDACTION_MEASURE, "\"[0.95]\" 1", "\"x\" true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int is_bad = 0; is_bad < 2; is_bad++) {
            struct str rest = str_c(is_bad ? cases[i].bad : cases[i].good), raw;
            for (bool more = true; more;) {
                more = str_cut(&rest, ' ', &raw);
                struct strbuf out;
                bool same;
                strbuf_init(&out, 4096);
                if (redaction_value_write(cases[i].type, raw, &out, &same) == is_bad)
                    fail_msg("type %d: %.*s", (int)cases[i].type, STR_ARG(raw));
                strbuf_finish(&out);
            }
        }
    }
}

static void scrubs_texts(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain text: nothing to hide", "plain text: nothing to hide"},
        {"clone https://u:p@h/x failed", "clone https://***@h/x failed"},
        {"https://u:p/w@h/x and https://u:p@ss/w@h.example/x", "https://***@h/x and https://***@h.example/x"},
        {"https://to/ken@git.example.com/x", "https://***@git.example.com/x"},
        {"https://h/x@y oci://r/a@sha256:12 https://h:8443/a@b",
         "https://h/x@y oci://r/a@sha256:12 https://h:8443/a@b"},
        {"https://s3.example.com/a?X-Amz-Signature=abc&X-Amz-Credential=d&ref=main",
         "https://s3.example.com/a?X-Amz-Signature=***&X-Amz-Credential=***&ref=main"},
        {"https://b.blob.example.net/c?sv=1&sig=abc%3D", "https://b.blob.example.net/c?sv=***&sig=***"},
        {"post to https://hooks.slack.com/services/T0/B0/xyz now", "post to https://hooks.slack.com/*** now"},
        {"Authorization: Bearer abcdefgh.ijk", "Authorization: ***"},
        {"used bearer abcdefghijk here", "used bearer *** here"},
        {"password=hunter2, user=x", "password=***, user=x"},
        {"db_password: 'hunter2'", "db_password: '***'"},
        {"password: 'two words, and more'", "password: '***'"},
        {"{\"token\":\"abc\",\"x\":1}", "{\"token\":\"***\",\"x\":1}"},
        {"{\\\"apiKey\\\":\\\"abc\\\"}", "{\\\"apiKey\\\":\\\"***\\\"}"},
        {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc end", "jwt *** end"},
        {"key AKIAIOSFODNN7EXAMPLE and ghp_0123456789abcdefghij", "key *** and ***"},
        {"github_pat_0123456789abcdefghij glpat-0123456789abcdef", "*** ***"},
        {"xoxb-123456789-abc hvs.0123456789abcdefgh", "*** ***"},
        {"Invalid value: \"a\\\"b\": must", "Invalid value: ***: must"},
        {"Unsupported value: \"s\": supported values: \"a\"", "Unsupported value: ***: supported values: \"a\""},
        {"helm template . --set a=b,c=d --set-string 'x=y z' --debug",
         "helm template . --set a=*** --set-string 'x=***' --debug"},
        {"run --password hunter2 --user me", "run --password *** --user me"},
        {"[\"--token\", \"abc\", \"--x\"]", "[\"--token\", \"***\", \"--x\"]"},
        {"x \"stringData\": {\"a\":\"b\"}", "x ***"},
        {"object: map[data:map[a:b]]", "object: map[***"},
        {"-----BEGIN PRIVATE KEY-----", "***"},
        {"secret \"db\" not found", "secret \"db\" not found"},
        {"secret/web-secret created", "secret/web-secret created"},
        {"serviceaccount/token-reader unchanged", "serviceaccount/token-reader unchanged"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct strbuf out;
        strbuf_init(&out, 4096);
        redaction_scrub(str_c(cases[i].in), &out);
        assert_string_equal(out.at ? out.at : "", cases[i].out);
        strbuf_finish(&out);
    }
}

// ---- what owners open ----------------------------------------------------------------------------------------------

static void owners_open_paths(void **state)
{
    (void)state;
    static const char text[] = DEPLOYMENT
        "\"metadata\":{\"annotations\":{\"a.b/c\":\"one\",\"x\":\"two\"},\"labels\":{\"team\":\"three\",\"app\":"
        "\"four\"},\"name\":\"n\"},\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"args\":[\"five\"],\"env\":"
        "[{\"name\":\"A\",\"value\":\"https://u:six@h/\"}],\"name\":\"c\"}]}}}}";
    const struct redaction_options options = {
        .open_paths = STR("Deployment.apps:spec.template.spec.containers.env.value, "
                          "*:metadata.annotations[\"a.b/c\"],Thing.example.com:spec.*.open"),
        .open_labels = STR("te*"),
    };
    AUTO_FREE char *out = redact_with(&options, text);
    static const char *const open[] = {"one", "three", "https://***@h/"}, *const closed[] = {"two", "four", "five",
                                                                                             "six"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (!strstr(out, open[i])) fail_msg("%s stayed: %s", open[i], out);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (strstr(out, closed[i])) fail_msg("%s left: %s", closed[i], out);
    // Shapes are shared by kinds, but only the one that was named is opened.
    AUTO_FREE char *other =
        redact_with(&options, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":["
                              "{\"env\":[{\"name\":\"A\",\"value\":\"six\"}],\"name\":\"c\"}]}}");
    assert_null(strstr(other, "six"));
    AUTO_FREE char *thing =
        redact_with(&options, "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\"," META ",\"spec\":{"
                              "\"a\":{\"open\":{\"b\":\"seven\"},\"shut\":\"eight\"}}}");
    assert_non_null(strstr(thing, "seven"));
    assert_null(strstr(thing, "eight"));
}

static void what_does_not_leave_is_counted(void **state)
{
    (void)state;
    struct metric_family *family = metrics_counter("culvert_test_redacted_total", "Test.", "how", NULL);
    const struct redaction_options options = {.digested = metric_with(family, "digested"),
                                              .scrubbed = metric_with(family, "scrubbed")};
    AUTO_FREE char *out =
        redact_with(&options, "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\"," META ",\"spec\":{\"secret\":\"a\","
                              "\"token\":7},\"status\":{\"conditions\":[{\"message\":\"password=x\"},"
                              "{\"message\":\"fine\"}]}}");
    assert_null(strstr(out, "password=x"));
    assert_int_equal(metric_value(options.digested), 2);
    assert_int_equal(metric_value(options.scrubbed), 1);
}

static void bad_paths_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"Deployment",    "Deployment:",        ":spec",
                                      "Secret:data",   "Deployment:spec..a", "Deployment:a b",
                                      "Deployment:.a", "Deployment:spec[0]", "Deployment:a[\"b",
                                      "Deployment:a.", "Deployment:[\"\"]",  "Deployment:a[b]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct redaction *redaction = NULL;
        struct error err;
        const struct redaction_options options = {.open_paths = str_c(bad[i])};
        if (redaction_create(key, &options, &redaction, &err) == ERROR_NONE) fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(err.text, bad[i]));
    }
    struct strbuf many;
    strbuf_init(&many, 1 << 20);
    for (int i = 0; i <= REDACTION_OPEN_MAX; i++)
        strbuf_addf(&many, "Thing%d:spec,", i);
    struct redaction *redaction = NULL;
    const struct redaction_options options = {.open_paths = strbuf_str(&many)};
    assert_int_equal(redaction_create(key, &options, &redaction, NULL), ERROR_TOO_LARGE);
    strbuf_finish(&many);
    // With `*` a Secret stays closed.
    AUTO_FREE char *out =
        redact_with(&(struct redaction_options){.open_paths = STR("*:data.k")},
                    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"CANARY\"}}");
    assert_null(strstr(out, "CANARY"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_manifests_keep_their_canaries),
        cmocka_unit_test(templates_leave_as_they_are),
        cmocka_unit_test(known_leaks_are_closed),
        cmocka_unit_test(reports_about_secrets_are_no_secrets),
        cmocka_unit_test(digests_show_changes_only),
        cmocka_unit_test(diffs_line_up),
        cmocka_unit_test(growth_is_bounded),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(long_texts_are_cut_at_a_character),
        cmocka_unit_test(values_must_look_like_their_type),
        cmocka_unit_test(scrubs_texts),
        cmocka_unit_test(owners_open_paths),
        cmocka_unit_test(what_does_not_leave_is_counted),
        cmocka_unit_test(bad_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
