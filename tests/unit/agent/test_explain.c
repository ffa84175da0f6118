#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/explain.h"

static void has(const struct strbuf *out, const char *line)
{
    if (!strstr(out->at, line)) fail_msg("not said: %s\nbut: %s", line, out->at);
}

static void says_what_leaves(void **state)
{
    (void)state;
    static const char json[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"managedFields\":[1]"
        ","
        "\"labels\":{\"a.b/c\":\"d\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"A\",\"value\":"
        "\"hunter2\"}]}]},\"status\":{\"message\":\"token=hunter2\"}}";
    static const char yaml[] =
        "# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: n, namespace: s, labels: {a.b/c: d}}\n"
        "spec:\n  containers:\n  - {name: c, env: [{name: A, value: hunter2}]}\n  priority: 5\n"
        "  hostNetwork: yes\n  hostPID: true\n"
        "status: {message: token=hunter2}\n";
    const char *const texts[] = {json, yaml};
    for (int i = 0; i < 2; i++) {
        struct strbuf out;
        struct error err;
        strbuf_init(&out, EXPLAIN_BYTES_MAX);
        assert_int_equal(explain_redaction(str_c(texts[i]), NULL, &out, &err), ERROR_NONE);
        has(&out, "# v1 Pod s/n\n");
        has(&out, "leaves    spec.containers.name = \"c\"\n");
        has(&out, "digest    spec.containers.env.value\n");
        has(&out, "digest    metadata.labels[\"a.b/c\"]\n");
        has(&out, "scrubbed  status.message = \"token=***\"\n");
        assert_null(strstr(out.at, "hunter2"));
        if (i == 1) {
            has(&out, "leaves    spec.priority = 5\n");
            has(&out, "leaves    spec.hostPID = true\n");
            has(&out, "digest    spec.hostNetwork\n"); // a text, in YAML 1.2
        }
        strbuf_finish(&out);
    }
    const struct redaction_options options = {.open_paths = STR("Pod:spec.containers.env.value")};
    struct strbuf out;
    strbuf_init(&out, EXPLAIN_BYTES_MAX);
    assert_int_equal(explain_redaction(str_c(json), &options, &out, NULL), ERROR_NONE);
    has(&out, "leaves    spec.containers.env.value = \"hunter2\"\n");
    strbuf_finish(&out);
}

static void explains_lists(void **state)
{
    (void)state;
    struct strbuf out;
    strbuf_init(&out, EXPLAIN_BYTES_MAX);
    assert_int_equal(explain_redaction(STR("kind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n"
                                           "- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"),
                                       NULL, &out, NULL),
                     ERROR_NONE);
    has(&out, "# v1 Secret /a\n");
    has(&out, "# v1 Pod /b\n");
    strbuf_finish(&out);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "{", "[]", "a", "a: b", "- a", "{\"kind\":\"Pod\",}", "kind: List\nitems: [1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct strbuf out;
        struct error err = {0};
        strbuf_init(&out, EXPLAIN_BYTES_MAX);
        if (explain_redaction(str_c(bad[i]), NULL, &out, &err) == ERROR_NONE) fail_msg("taken: %s", bad[i]);
        assert_true(strlen(err.text) > 0);
        strbuf_finish(&out);
    }
    struct strbuf out;
    struct error err;
    strbuf_init(&out, 100);
    assert_int_equal(explain_redaction_file("/nowhere", NULL, &out, &err), ERROR_IO);
    assert_non_null(strstr(err.text, "/nowhere"));
    strbuf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_leaves),
        cmocka_unit_test(explains_lists),
        cmocka_unit_test(says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
