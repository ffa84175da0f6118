#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/calls/router.h"
#include "agent/calls/router_settings.h"

static struct agent_router *make(const char *services, const char *webhooks, const char *workflows, struct error *err)
{
    const struct router_settings settings = {.services = (char *)(uintptr_t)services,
                                             .webhooks = (char *)(uintptr_t)webhooks,
                                             .workflows = (char *)(uintptr_t)workflows,
                                             .tcp_allow = (char *)(uintptr_t) "pg=db.prod:5432"};
    return agent_router_create(&settings, err);
}

static void test_table(void **state)
{
    (void)state;
    static const struct {
        const char *authority, *path;
        enum agent_route_kind kind;
        int status;
        const char *host, *rest;
        bool anonymous;
    } cases[] = {
        {"", "/app-proxy/api/readyz", AGENT_ROUTE_APP_PROXY, 0, "", "/app-proxy/api/readyz", false},
        {"culvert", "/app-proxy/x?y", AGENT_ROUTE_APP_PROXY, 0, "", "/app-proxy/x?y", false},
        {"runtime", "/app-proxyx", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"", "/services/argocd/api/v1?x=1", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc", "/api/v1?x=1", false},
        {"", "/services/argocd", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc", "/", false},
        {"", "/services/argocd/", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc", "/", false},
        {"", "/services/argocd?x", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"", "/services/argocdx/", AGENT_ROUTE_REFUSED, 403, "", "", false},
        {"", "/services/", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"", "/services/argocd/r/https%3A%2F%2Fgithub.com%2Fa", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc",
         "/r/https%3A%2F%2Fgithub.com%2Fa", false},
        {"", "/webhooks/argo/github", AGENT_ROUTE_SERVICE, 0, "github-eventsource-svc.argo.svc.cluster.local",
         "/webhooks/argo/github", true},
        {"", "/webhooks/argo/github/push?a", AGENT_ROUTE_SERVICE, 0, "github-eventsource-svc.argo.svc.cluster.local",
         "/webhooks/argo/github/push?a", true},
        {"", "/webhooks/argo/own", AGENT_ROUTE_SERVICE, 0, "127.0.0.1", "/webhooks/argo/own", true},
        {"", "/webhooks/argo/gitlab", AGENT_ROUTE_REFUSED, 403, "", "", false},
        {"", "/webhooks/argo", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"", "/webhooks/github/../argo/github", AGENT_ROUTE_REFUSED, 400, "", "", false},
        {"", "/workflows/api", AGENT_ROUTE_SERVICE, 0, "argo-server", "/api", false},
        {"", "/", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"", "/culvert/reports", AGENT_ROUTE_REFUSED, 404, "", "", false},
        {"argocd", "/api", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc", "/api", false},
        {"argocd-server.argocd", "/api", AGENT_ROUTE_SERVICE, 0, "argocd-server.argocd.svc", "/api", false},
        {"argocd-server.argocdx", "/api", AGENT_ROUTE_REFUSED, 403, "", "", false},
        {"argocd-server", "/api", AGENT_ROUTE_REFUSED, 403, "", "", false},
        {"kubernetes.default", "/api", AGENT_ROUTE_REFUSED, 403, "", "", false},
    };
    struct agent_router *router = make("argocd=http://argocd-server.argocd.svc:8080, six=http://[::1]:81",
                                       "argo/github,argo/own=http://127.0.0.1:12000", "http://argo-server:2746/", NULL);
    assert_non_null(router);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent_route route;
        agent_router_route(router, STR("GET"), str_c(cases[i].authority), str_c(cases[i].path), &route);
        if (route.kind != cases[i].kind || route.status != cases[i].status)
            fail_msg("%s %s: kind %d status %d", cases[i].authority, cases[i].path, (int)route.kind, route.status);
        assert_true(str_eq(route.host, str_c(cases[i].host)));
        if (route.kind != AGENT_ROUTE_REFUSED) assert_true(str_eq(route.path, str_c(cases[i].rest)));
        assert_int_equal(route.anonymous, cases[i].anonymous);
    }
    agent_router_destroy(router);
}

static void test_reports(void **state)
{
    (void)state;
    struct agent_route route;
    struct agent_router *router = make("", "", "", NULL);
    agent_router_route(router, STR("POST"), STR("culvert"), STR("/culvert/reports"), &route);
    assert_int_equal(route.kind, AGENT_ROUTE_REPORTS);
    agent_router_route(router, STR("POST"), STR("runtime"), STR("/culvert/reports"), &route);
    assert_int_equal(route.kind, AGENT_ROUTE_REFUSED);
    agent_router_route(router, STR("GET"), STR("culvert"), STR("/culvert/reports"), &route);
    assert_int_equal(route.kind, AGENT_ROUTE_REFUSED);
    agent_router_destroy(router);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"/",    "/a",   "/a/",    "/a/b?c=/../d", "/a..b",
                                       "/...", "/%61", "/a%2Fb", "/.a/b.",       "/?"};
    static const char *const bad[] = {
        "",        "a",      "*",       "/a/../b",         "/..",    "/../",   "/.",    "/a/./b", "//",    "/a//b",
        "/%2e%2e", "/.%2E/", "/a%2f..", "/..%2fa",         "/%5c..", "/a\\..", "/a%00", "/a%0",   "/a%zz", "/a b",
        "/a\x01",  "/\xc3",  "/a#b",    "/a%2F%2E%2e%2Fb", "/a/.?x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!agent_router_path_ok(str_c(good[i]))) fail_msg("%s was refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (agent_router_path_ok(str_c(bad[i]))) fail_msg("%s was accepted", bad[i]);
}

static void test_protocols_and_tcp(void **state)
{
    (void)state;
    struct error err = {0};
    struct agent_route route;
    struct agent_router *router =
        make("a=http://h,b=https://h,c=h2c://[::1]:50051,d=tcp://h:9,e=https://h:8443/", "", "", &err);
    if (!router) fail_msg("%s", err.text);
    static const struct {
        const char *path;
        enum agent_route_protocol protocol;
        uint16_t port;
    } good[] = {{"/services/a/x", AGENT_ROUTE_HTTP, 80},         {"/services/b/x", AGENT_ROUTE_HTTPS, 443},
                {"/services/c/pkg.S/M", AGENT_ROUTE_H2C, 50051}, {"/services/d", AGENT_ROUTE_TCP, 9},
                {"/services/e/", AGENT_ROUTE_HTTPS, 8443},       {"/tcp/pg", AGENT_ROUTE_TCP, 5432}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        agent_router_route(router, STR("GET"), STR("runtime"), str_c(good[i].path), &route);
        assert_int_equal(route.kind, AGENT_ROUTE_SERVICE);
        assert_int_equal(route.protocol, good[i].protocol);
        assert_int_equal(route.port, good[i].port);
    }
    static const char *const bad[] = {"/tcp", "/tcp/", "/tcp/other", "/tcp/pg/", "/tcp/pg/x", "/tcp/pg?x", "/tcp/a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        agent_router_route(router, STR("CONNECT"), STR("runtime"), str_c(bad[i]), &route);
        if (route.kind != AGENT_ROUTE_REFUSED) fail_msg("%s was routed", bad[i]);
    }
    assert_true(agent_router_needs_tls(router));
    agent_router_destroy(router);
}

static void test_bad_settings(void **state)
{
    (void)state;
    static const struct {
        const char *services, *webhooks, *workflows, *word;
    } cases[] = {
        {"x", "", "", "router.services"},
        {"x=ftp://y:1", "", "", "router.services"},
        {"x=tcp://y", "", "", "router.services"},
        {"x=http://", "", "", "router.services"},
        {"x=http://y:0", "", "", "router.services"},
        {"x=http://y:70000", "", "", "router.services"},
        {"x=http://u@y:1", "", "", "router.services"},
        {"x=http://y:1/path", "", "", "router.services"},
        {"X/y=http://y:1", "", "", "router.services"},
        {"x=http://y:1,x=http://z:1", "", "", "duplicate entry"},
        {"", "argo", "", "router.webhooks"},
        {"", "argo/a/b", "", "router.webhooks"},
        {"", "../x", "", "router.webhooks"},
        {"", "", "y:1", "router.workflows"},
        {"", "", "tcp://y:1", "router.workflows"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = {0};
        assert_null(make(cases[i].services, cases[i].webhooks, cases[i].workflows, &err));
        if (!strstr(err.text, cases[i].word)) fail_msg("%s: %s", cases[i].services, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_reports),
                                       cmocka_unit_test(test_paths), cmocka_unit_test(test_protocols_and_tcp),
                                       cmocka_unit_test(test_bad_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
