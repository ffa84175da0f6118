// agent/rbac: what each preset may read, and that none may write.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/rbac.h"

static const char *print(const char *preset)
{
    static char text[RBAC_BYTES_MAX];
    struct strbuf out;
    strbuf_init(&out, RBAC_BYTES_MAX);
    assert_true(rbac_print(str_c(preset), NULL, false, &out));
    assert_false(out.overflow);
    snprintf(text, sizeof text, "%s", out.at);
    strbuf_finish(&out);
    return text;
}

static void presets_only_read(void **state)
{
    (void)state;
    static const char *const names[] = {"applications", "common", "all-but-secrets", "all"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = print(names[i]);
        size_t verbs = 0;
        for (const char *at = text; (at = strstr(at, "verbs: ")); at++, verbs++)
            assert_int_equal(strncmp(at, "verbs: [get, list, watch]\n", 26), 0);
        assert_true(verbs > 0);
        assert_non_null(strstr(RBAC_PRESETS, names[i]));
        bool may_secrets = strstr(text, " secrets,") || strstr(text, " secrets]") || strstr(text, "[secrets") ||
                           strstr(text, "[\"*\"]\n    resources: [\"*\"]");
        assert_int_equal(may_secrets, strcmp(names[i], "all") == 0);
        // The core group is never given whole but by "all".
        assert_null(strstr(text, "[\"\"]\n    resources: [\"*\"]"));
    }
    assert_null(strstr(print("applications"), "pods"));
    assert_null(strstr(print("common"), "\"*\""));
    struct strbuf out;
    strbuf_init(&out, RBAC_BYTES_MAX);
    assert_false(rbac_print(STR("everything"), NULL, false, &out));
    assert_int_equal(out.len, 0);
    assert_null(strstr(print("applications"), "events"));
    assert_true(rbac_print(STR("applications"), NULL, true, &out));
    assert_non_null(strstr(out.at, "resources: [events]\n    verbs: [get, list, watch]\n"));
    strbuf_finish(&out);
}

// What is shipped is what the agent prints.
static void the_shipped_file_is_the_default(void **state)
{
    (void)state;
    char text[RBAC_BYTES_MAX];
    FILE *file = fopen(CULVERT_SOURCE_FOLDER "/deploy/agent-rbac.yaml", "r");
    assert_non_null(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = 0;
    assert_string_equal(text, print(RBAC_DEFAULT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(presets_only_read),
                                       cmocka_unit_test(the_shipped_file_is_the_default)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
