#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/reports/projection.h"
#include "agent/reports/redaction.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parse.h"

static const uint8_t key[REDACTION_KEY_BYTES] = {1, 2, 3};

static char *redact_with(const struct redaction *redaction, const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    if (!object) fail_msg("test's own JSON is broken: %s", text);
    redaction_apply(redaction, object);
    size_t len;
    char *out = json_canonical(object, &len);
    json_decref(object);
    return out;
}

static char *redact(const char *text)
{
    struct redaction *redaction = redaction_create_with_key(key);
    char *out = redact_with(redaction, text);
    redaction_destroy(redaction);
    return out;
}

#define META "\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"uid\":\"u\"}"

// Every place where a secret value may hide; CANARY stands for the value.
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
    "{\"kind\":\"Deployment\",\"metadata\":{\"name\":\"n\",\"annotations\":{"
    "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}}}",
    "{\"kind\":\"Deployment\"," META ",\"spec\":{\"template\":{\"metadata\":{\"annotations\":{"
    "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}}}}}",
    "{\"kind\":\"Deployment\",\"metadata\":{\"name\":\"n\",\"managedFields\":[\"CANARY\"]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"env\":[{\"name\":\"A\",\"value\":\"CANARY\"}]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"initContainers\":[{\"args\":[\"--password\",\"CANARY\"]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"command\":[\"sh\",\"-c\",\"login CANARY\"]}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"livenessProbe\":{\"exec\":{\"command\":[\"CANARY\"]}}}]}}",
    "{\"kind\":\"Pod\"," META ",\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"httpHeaders\":"
    "[{\"name\":\"Authorization\",\"value\":\"CANARY\"}]}}}]}}",
    "{\"kind\":\"ConfigMap\"," META ",\"data\":{\"app.ini\":\"password = CANARY\"}}",
    "{\"kind\":\"ConfigMap\"," META ",\"binaryData\":{\"k\":\"CANARY\"}}",
    "{\"kind\":\"Application\"," META ",\"spec\":{\"source\":{\"helm\":{\"parameters\":[{\"name\":\"p\",\"value\":"
    "\"CANARY\"}]}}}}",
    "{\"kind\":\"Application\"," META ",\"spec\":{\"source\":{\"helm\":{\"values\":\"password: CANARY\"}}}}",
    "{\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"helm\":{\"valuesObject\":{\"a\":{\"b\":\"CANARY\"}}}}}}",
    "{\"kind\":\"Application\"," META ",\"status\":{\"history\":[{\"source\":{\"helm\":{\"values\":\"CANARY\"}}}]}}",
    "{\"kind\":\"Application\"," META
    ",\"spec\":{\"source\":{\"plugin\":{\"env\":[{\"name\":\"X\",\"value\":\"CANARY\"}]}}}}",
    "{\"kind\":\"Application\"," META ",\"spec\":{\"source\":{\"repoURL\":\"https://bot:CANARY@git.example.com/a\"}}}",
    "{\"kind\":\"Application\"," META ",\"status\":{\"conditions\":[{\"message\":\"Secret \\\"x\\\" is invalid: "
    "data[k]: Invalid value: \\\"CANARY\\\": bad\"}]}}",
    "{\"kind\":\"Application\"," META ",\"status\":{\"operationState\":{\"message\":\"error: {\\\"stringData\\\":"
    "{\\\"k\\\":\\\"CANARY\\\"}}\"}}}",
    "{\"kind\":\"Application\"," META ",\"status\":{\"operationState\":{\"syncResult\":{\"resources\":[{\"kind\":"
    "\"Secret\",\"name\":\"x\",\"message\":\"cannot patch CANARY\"}]}}}}",
    "{\"kind\":\"Workflow\"," META
    ",\"spec\":{\"arguments\":{\"parameters\":[{\"name\":\"p\",\"value\":\"CANARY\"}]}}}",
    "{\"kind\":\"Workflow\"," META ",\"spec\":{\"templates\":[{\"script\":{\"source\":\"echo CANARY\"}}]}}",
    "{\"kind\":\"Workflow\"," META ",\"status\":{\"nodes\":{\"a\":{\"outputs\":{\"result\":\"CANARY\"}}}}}",
    "{\"kind\":\"Workflow\"," META ",\"status\":{\"compressedNodes\":\"CANARY\"}}",
    "{\"kind\":\"Workflow\"," META ",\"spec\":{\"inputs\":{\"artifacts\":[{\"raw\":{\"data\":\"CANARY\"}}]}}}",
    "{\"kind\":\"Application\"," META ",\"operation\":{\"sync\":{\"manifests\":[\"kind: Secret CANARY\"]}}}",
    "{\"kind\":\"Application\"," META ",\"spec\":{\"source\":{\"kustomize\":{\"patches\":[{\"patch\":\"CANARY\"}]}}}}",
    "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\",\"annotations\":{\"kapp.k14s.io/original\":\"CANARY\"}}}",
    "{\"kind\":\"HelmRelease\"," META ",\"spec\":{\"values\":{\"db\":{\"pw\":\"CANARY\"}}}}",
    "{\"kind\":\"Thing\"," META ",\"spec\":{\"adminPassword\":\"CANARY\"}}",
    "{\"kind\":\"Thing\"," META ",\"spec\":{\"auth\":{\"client_secret\":\"CANARY\",\"token\":\"CANARY\"}}}",
    "{\"kind\":\"List\"," META ",\"items\":[{\"kind\":\"Secret\",\"data\":{\"k\":\"CANARY\"},\"metadata\":{}}]}",
    "{\"kind\":\"Template\"," META ",\"spec\":{\"object\":{\"kind\":\"Secret\",\"stringData\":{\"k\":\"CANARY\"}}}}",
    "{\"kind\":\"Event\"," META ",\"message\":\"Authorization: Bearer CANARYCANARY and token=CANARY\"}",
    "{\"kind\":\"Event\"," META ",\"message\":\"-----BEGIN RSA PRIVATE KEY-----\\nCANARY\\n-----END RSA PRIVATE "
    "KEY-----\"}",
};

static void canaries_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        AUTO_FREE char *out = redact(places[i]);
        if (strstr(out, "CANARY")) fail_msg("place %zu leaks: %s", i, out);
    }
}

static void secret_keeps_its_identity(void **state)
{
    (void)state;
    AUTO_FREE char *out =
        redact("{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"Opaque\",\"metadata\":{\"name\":\"n\","
               "\"namespace\":\"s\","
               "\"uid\":\"u\",\"labels\":{\"a\":\"b\"},\"annotations\":{\"argocd.argoproj.io/tracking-id\":\"my-token:/"
               "Secret:s/n\"},"
               "\"ownerReferences\":[{\"uid\":\"o\"}]},\"data\":{\"password\":\"eA==\",\"other\":\"eA==\"}}");
    json_t *object = json_loads(out, 0, NULL);
    assert_string_equal(json_get_str(json_get_object(object, "metadata"), "uid").at, "u");
    assert_true(str_eq(json_str(json_path(object, "metadata", "annotations", "argocd.argoproj.io/tracking-id", NULL)),
                       STR("my-token:/Secret:s/n")));
    struct str first = json_str(json_path(object, "data", "password", NULL)),
               second = json_str(json_path(object, "data", "other", NULL));
    assert_true(str_starts(first, STR("hmac-sha256:")));
    assert_int_equal(first.len, REDACTION_DIGEST_BYTES - 1);
    // The same value in two places does not show as the same.
    assert_false(str_eq(first, second));
    json_decref(object);
}

static void digests_show_changes_only(void **state)
{
    (void)state;
    static const char before[] = "{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"b25l\"}}";
    static const char after[] = "{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"dHdv\"}}";
    AUTO_FREE char *a = redact(before);
    AUTO_FREE char *b = redact(before);
    AUTO_FREE char *c = redact(after);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    static const uint8_t other_key[REDACTION_KEY_BYTES] = {9};
    struct redaction *other = redaction_create_with_key(other_key);
    AUTO_FREE char *d = redact_with(other, before);
    assert_string_not_equal(a, d);
    redaction_destroy(other);
}

static void harmless_content_is_left_alone(void **state)
{
    (void)state;
    static const char text[] =
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"annotations\":{\"argocd.argoproj.io/"
        "tracking-id\":"
        "\"my-secret:apps/Deployment:s/"
        "n\"},\"name\":\"n\"},\"spec\":{\"containers\":[{\"env\":[{\"name\":\"A\",\"valueFrom\":{"
        "\"secretKeyRef\":{\"key\":\"password\",\"name\":\"db\"}}}],\"image\":\"registry.example.com/team/"
        "my-token:1.2\","
        "\"name\":\"c\"}],\"url\":\"https://git.example.com/"
        "a.git\",\"volumes\":[{\"name\":\"v\",\"secret\":{\"secretName\":\"db\"}}]},"
        "\"status\":{\"conditions\":[{\"message\":\"Deployment has minimum availability.\"}],"
        "\"summary\":{\"images\":[\"my-secret:3\"]}}}";
    AUTO_FREE char *out = redact(text);
    assert_string_equal(out, text);
}

static void scrubs_texts(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain text: nothing to hide", "plain text: nothing to hide"},
        {"clone https://u:p@h/x failed", "clone https://***@h/x failed"},
        {"https://h/x@y", "https://h/x@y"},
        {"Authorization: Bearer abcdefgh.ijk", "Authorization: ***"},
        {"used bearer abcdefghijk here", "used bearer *** here"},
        {"password=hunter2, user=x", "password=***, user=x"},
        {"db_password: 'hunter2'", "db_password: '***'"},
        {"{\"token\":\"abc\",\"x\":1}", "{\"token\":\"***\",\"x\":1}"},
        {"{\\\"apiKey\\\":\\\"abc\\\"}", "{\\\"apiKey\\\":\\\"***\\\"}"},
        {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc end", "jwt *** end"},
        {"Invalid value: \"a\\\"b\": must", "Invalid value: ***: must"},
        {"x \"stringData\": {\"a\":\"b\"}", "x ***"},
        {"-----BEGIN PRIVATE KEY-----", "***"},
        {"secret \"db\" not found", "secret \"db\" not found"},
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

static void long_messages_are_cut_at_a_character(void **state)
{
    (void)state;
    size_t len = REDACTION_TEXT_BYTES_MAX + 100;
    char *message = mem_alloc(len + 1);
    for (size_t i = 0; i < len; i += 2)
        memcpy(message + i, "\xc3\xa9", 2);
    message[1] = message[0] = 'a'; // shifts the characters against the limit
    message[2] = 'b';
    memmove(message + 3, message + 4, len - 4);
    message[len - 1] = 0;
    json_t *object = json_pack("{s:s, s:s}", "kind", "Event", "message", message);
    struct redaction *redaction = redaction_create_with_key(key);
    redaction_apply(redaction, object);
    struct str out = json_get_str(object, "message");
    assert_true(out.len <= REDACTION_TEXT_BYTES_MAX && out.len > REDACTION_TEXT_BYTES_MAX - 4);
    assert_true(str_is_utf8(out));
    redaction_destroy(redaction);
    json_decref(object);
    mem_free(message);
}

static void key_is_kept_and_guarded(void **state)
{
    (void)state;
    char folder[] = "/tmp/redaction-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct error err;
    static const char text[] = "{\"kind\":\"Secret\"," META ",\"data\":{\"k\":\"b25l\"}}";
    struct redaction *redaction = redaction_create(folder, &err);
    assert_non_null(redaction);
    AUTO_FREE char *first = redact_with(redaction, text);
    redaction_destroy(redaction);
    AUTO_FREE char *path = mem_printf("%s/redaction.key", folder);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    redaction = redaction_create(folder, &err);
    assert_non_null(redaction);
    AUTO_FREE char *second = redact_with(redaction, text);
    redaction_destroy(redaction);
    assert_string_equal(first, second);
    assert_int_equal(chmod(path, 0644), 0);
    assert_null(redaction_create(folder, &err));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 5), 0);
    assert_null(redaction_create(folder, &err));
    unlink(path);
    rmdir(folder);
    assert_null(redaction_create(folder, &err));
    redaction = redaction_create("", &err);
    assert_non_null(redaction);
    redaction_destroy(redaction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canaries_stay),
        cmocka_unit_test(secret_keeps_its_identity),
        cmocka_unit_test(digests_show_changes_only),
        cmocka_unit_test(harmless_content_is_left_alone),
        cmocka_unit_test(scrubs_texts),
        cmocka_unit_test(long_messages_are_cut_at_a_character),
        cmocka_unit_test(key_is_kept_and_guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
