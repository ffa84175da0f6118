// destinations: which destinations are this cluster, and what is found about the others.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/reports/destinations.h"
#include "base/json/json.h"

static struct destinations *create(const char *aliases)
{
    struct error err;
    static const char server[] = "https://10.96.0.1:443";
    const struct destinations_options options = {.server = server, .name = "hub", .aliases = aliases};
    struct destinations *destinations = destinations_create(&options, &err);
    if (!destinations) fail_msg("%s", err.text);
    return destinations;
}

static void the_own_cluster_has_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *server, *name;
        bool is_own;
    } cases[] = {
        {"https://kubernetes.default.svc", "", true},
        {"https://kubernetes.default.svc.cluster.local", "", true},
        {"https://kubernetes.default.svc.evil", "", false}, // no name that only begins so
        {"https://kubernetes.default.svc.cluster.local.evil", "", false},
        {"https://kubernetes.evil", "", false},
        {"https://10.96.0.1", "", true},
        {"https://10.96.0.1:443/", "", true},
        {"https://10.96.0.1:6443", "", false},
        {"http://10.96.0.1", "", false},
        {"https://API.prod.example:6443/", "", true},
        {"https://api.prod.example:6443.evil", "", false},
        {"https://api.prod.example", "", false},
        {"", "", true},
        {"", "in-cluster", true},
        {"", "hub", true},
        {"", "prod", true},
        {"", "east", false},
        {"", "PROD", false},
        {"https://elsewhere", "hub", false}, // the address counts
        {"", "https://api.prod.example:6443", true},
    };
    struct destinations *destinations = create("prod, https://api.prod.example:6443");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (destinations_is_own(destinations, str_c(cases[i].server), str_c(cases[i].name)) != cases[i].is_own)
            fail_msg("%s %s", cases[i].server, cases[i].name);
    // What Argo CD's Secrets call it.
    assert_false(destinations_learn(destinations, STR("east"), STR("https://elsewhere")));
    assert_false(destinations_learn(destinations, STR("prod"), STR("https://10.96.0.1")));
    const struct str prod = STR("https://api.prod.example:6443");
    assert_true(destinations_learn(destinations, STR("central"), prod));
    assert_false(destinations_learn(destinations, STR("central"), prod));
    assert_true(destinations_is_own(destinations, STR_EMPTY, STR("central")));
    assert_false(destinations_is_own(destinations, STR_EMPTY, STR("east")));
    destinations_destroy(destinations);
}

static void the_api_server_s_identity_counts(void **state)
{
    (void)state;
    struct destinations *destinations = create("");
    const struct str name = STR("far"), server = STR("https://lb.example:443/");
    assert_false(destinations_identify(destinations, name, server, false)); // as it was
    assert_true(destinations_identify(destinations, name, server, true));
    assert_false(destinations_identify(destinations, name, server, true));
    assert_true(destinations_is_own(destinations, STR("https://lb.example"), STR_EMPTY));
    assert_true(destinations_is_own(destinations, STR_EMPTY, name));
    // The Secret has come to mean another cluster.
    assert_true(destinations_identify(destinations, name, server, false));
    assert_false(destinations_is_own(destinations, STR("https://lb.example"), STR_EMPTY));
    assert_false(destinations_is_own(destinations, STR_EMPTY, name));
    destinations_destroy(destinations);
}

static void aliases_are_names_or_addresses(void **state)
{
    (void)state;
    static const char *const wrong[] = {",", "prod,,b", "a b", "a?b", "http://x", "https://"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = {0};
        assert_null(destinations_create(&(struct destinations_options){.aliases = wrong[i]}, &err));
        if (!strstr(err.text, "reporter.cluster_aliases")) fail_msg("%s: %s", wrong[i], err.text);
    }
}

static const char *findings_of(const struct destinations *destinations)
{
    static char text[16384];
    json_t *findings = json_array(), *one;
    size_t i;
    text[0] = '\0';
    destinations_findings(destinations, findings);
    json_array_foreach(findings, i, one)
    {
        assert_true(str_eq(json_get_str(one, "code"), STR("CLUSTER_NOT_READ")));
        const char *message = json_get_str(one, "message").at;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s|", (int)strcspn(message, ","), message);
    }
    json_decref(findings);
    return text;
}

static void what_no_agent_reads_is_found(void **state)
{
    (void)state;
    struct destinations *destinations = create(NULL);
    assert_string_equal(findings_of(destinations), "");
    destinations_enter(destinations, STR("east"));
    destinations_enter(destinations, STR("west"));
    destinations_enter(destinations, STR("west"));
    assert_string_equal(findings_of(destinations), "2 Applications deploy to west|1 Applications deploy to east|");
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        destinations_enter(destinations, str_c(name));
    }
    assert_non_null(strstr(findings_of(destinations), "|2 Applications deploy to further clusters|"));
    assert_null(strstr(findings_of(destinations), "x6"));
    destinations_leave(destinations, STR("west"));
    destinations_leave(destinations, STR("west"));
    destinations_leave(destinations, STR("west")); // was not there
    assert_null(strstr(findings_of(destinations), "west"));
    destinations_destroy(destinations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_cluster_has_many_names),
        cmocka_unit_test(the_api_server_s_identity_counts),
        cmocka_unit_test(aliases_are_names_or_addresses),
        cmocka_unit_test(what_no_agent_reads_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
