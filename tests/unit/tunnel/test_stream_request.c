// What becomes a metric's label of a request: one of a closed set, whatever the path is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tunnel/call/stream_request.h"

static void routes_are_of_a_closed_set(void **state)
{
    (void)state;
    static const struct {
        const char *path, *authority, *route;
    } cases[] = {
        {"/app-proxy/api/graphql", "", "app-proxy"},
        {"/services/demo/x?y=z", "", "services"},
        {"/webhooks/argo/push", "", "webhooks"},
        {"/workflows/", "", "workflows"},
        {"/tcp/echo", "", "tcp"},
        {"/workflows?x=/tcp/", "", "workflows"},
        {"/canary/x", "", "other"},
        {"/", "", "other"},
        {"/?/services/", "", "other"},
        {"/servicesx/demo/", "", "other"},
        {"/Services/demo/", "", "other"},
        {"/canary/x", "web.shop", "services"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tunnel_request request = {.path = str_c(cases[i].path), .authority = str_c(cases[i].authority)};
        assert_string_equal(stream_request_route(&request), cases[i].route);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routes_are_of_a_closed_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
