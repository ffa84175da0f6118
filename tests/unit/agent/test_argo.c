// What is taken from Argo CD's API: whose verdict counts, and what becomes part of a path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/argo/argo_trees.h"
#include "base/mem.h"

static void assert_verdict(struct argo_node *node, const char *own, uint64_t version, const char *expected)
{
    const char *verdict = argo_node_verdict(node, own, version);
    if (!expected)
        assert_null(verdict);
    else
        assert_string_equal(verdict, expected);
}

static void the_verdict_of_the_same_version_counts(void **state)
{
    (void)state;
    uint64_t now = argo_version_of(STR("7")), later = argo_version_of(STR("8"));
    assert_int_not_equal(now, later);
    assert_int_equal(argo_version_of(STR_EMPTY), 0);
    struct argo_node node = {.status = "Degraded", .version = now};
    // The agent has a rule, and the tree is of another version: the rule, until both have differed.
    assert_verdict(&node, "Healthy", later, "Healthy");
    assert_verdict(&node, "Healthy", now, "Degraded");
    assert_verdict(&node, "Healthy", later, "Degraded");
    // They agree again at a version that both saw.
    assert_verdict(&node, "Degraded", now, "Degraded");
    assert_verdict(&node, "Healthy", later, "Healthy");
    // Without a rule what is known counts, also of an older version.
    assert_verdict(&node, NULL, later, "Degraded");
    // An object without a version matches none.
    node.version = 0;
    assert_verdict(&node, "Healthy", 0, "Healthy");
    node.status = NULL;
    assert_verdict(&node, "Healthy", now, "Healthy");
    assert_verdict(&node, NULL, now, NULL);
    assert_verdict(NULL, "Healthy", now, "Healthy");
}

static void names_become_parts_of_paths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *escaped;
    } cases[] = {{"web-1.x_y~z", "web-1.x_y~z"},
                 {"a/b?c&d=e#f", "a%2Fb%3Fc%26d%3De%23f"},
                 {"\xc3\xa4 %", "%C3%A4%20%25"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_FREE char *escaped = argo_api_escape(str_c(cases[i].text));
        assert_string_equal(escaped, cases[i].escaped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_of_the_same_version_counts),
        cmocka_unit_test(names_become_parts_of_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
