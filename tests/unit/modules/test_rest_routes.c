// The stored routes of REST: those of the modules are valid, and what is wrong in a declaration is
// refused with its line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/rest/mcp.h"
#include "api/rest/openapi.h"
#include "base/json/json.h"
#include "modules/schema_sdl.h"

static struct gql_schema *schema;

static int setup(void **state)
{
    struct error err;
    (void)state;
    schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    return schema ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gql_schema_destroy(schema);
    return 0;
}

static void routes_of_the_modules(void **state)
{
    struct stored_routes *routes;
    struct error err;
    (void)state;
    if (stored_routes_create(str_of(rest_routes, rest_routes_bytes), schema, &routes, &err) != ERROR_NONE)
        fail_msg("%s", err.text);
    if (openapi_write(routes, schema, &err) != ERROR_NONE) fail_msg("%s", err.text);
    for (size_t i = 0; i < routes->count; i++) {
        const struct api_route *route = &routes->list[i].route;
        if (!api_has_path(str_c(route->path))) fail_msg("%s: not a path of the API", route->path);
        for (size_t k = 0; k < i; k++)
            if (str_eq(str_c(route->path), str_c(routes->list[k].route.path)) &&
                str_eq(str_c(route->methods), str_c(routes->list[k].route.methods)))
                fail_msg("%s %s: twice", route->methods, route->path);
    }
    json_t *document = NULL;
    assert_int_equal(json_decode(routes->openapi, NULL, &document, &err), ERROR_NONE);
    assert_string_equal(json_string_value(json_object_get(document, "openapi")), "3.1.0");
    json_decref(document);
    mcp_write_tools(routes, schema);
    assert_int_equal(json_decode(routes->tools, NULL, &document, &err), ERROR_NONE);
    assert_true(json_array_size(document) > 15);
    json_decref(document);
    stored_routes_destroy(routes);
}

static void wrong_declarations_are_refused(void **state)
{
    (void)state;
#define GOOD "route: GET /v1/x/{name}\nsummary: x\nanswer: runtime\ndocument:\n"
#define TOOL "route: GET /v1/x\nsummary: x\nanswer: me\ntool: t\n"
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"summary: x\n", "line 1: expected route:, found \"summary\""},
        {"route: GET\n", "line 1: expected METHOD /PATH"},
        {"route: GET v1\n", "line 1: expected METHOD /PATH"},
        {"route: GET /v1/x\ncolour: red\n", "line 2: unknown key or value \"colour\""},
        {"route: GET /v1/x\nstatus: 500\n", "line 2: unknown key or value \"status\""},
        {"route: GET /v1/x\nwords\n", "line 2: expected KEY: VALUE"},
        {"route: GET /v1/x\nsummary: x\n", "summary, answer and document are needed before the end of \"/v1/x\""},
        {GOOD "query { nothing }\n", "Cannot query field \"nothing\" on type \"Query\". In the document of"},
        {GOOD "query {", "in the document of \"/v1/x/{name}\""},
        {GOOD "query { runtimes { edges { cursor } } }\n", "no variable for the part of the path \"name\""},
        {GOOD "query($name: String!) { one: runtime(name: $name) { online } }\n",
         "does not select its answer \"runtime\""},
        {TOOL "account: name\ndocument:\nquery { me { id } }\n", "account and text are not for tools: \"t\""},
        {TOOL "text: yes\ndocument:\nquery { me { id } }\n", "account and text are not for tools: \"t\""},
        {TOOL "document:\nquery { me { id } }\n" TOOL "document:\nquery { me { id } }\n", "a second tool \"t\""},
        {"route: GET /v1/x\nsummary: x\nanswer: me\nbody: x\ndocument:\nquery { me { id } }\n", "no variable \"x\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stored_routes *routes;
        struct error err;
        enum error_code code = stored_routes_create(str_c(cases[i].text), schema, &routes, &err);
        if (code == ERROR_NONE) {
            code = openapi_write(routes, schema, &err);
            stored_routes_destroy(routes);
        }
        if (code != ERROR_INVALID || !strstr(err.text, cases[i].reason))
            fail_msg("%s\n gives: %s\n wanted: %s", cases[i].text, code == ERROR_NONE ? "no error" : err.text,
                     cases[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_of_the_modules),
        cmocka_unit_test(wrong_declarations_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
