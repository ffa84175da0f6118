// cloud_event: what is needed of an event, what is refused, and that no secret comes through.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "modules/events/cloud_event.h"

static struct arena *arena;
static struct cloud_event event;
static struct error err;

static int set_up(void **state)
{
    (void)state;
    arena = arena_create(0);
    memset(&event, 0xee, sizeof event);
    err = (struct error){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(arena);
    return 0;
}

static enum error_code parse(const char *body)
{
    size_t len = strlen(body);
    char *copy = mem_dup(body, len);
    enum error_code code = cloud_event_parse(str_of(copy, len), arena, &event, &err);
    memset(copy, 'X', len);
    mem_free(copy);
    return code;
}

static void expect_str(struct str got, const char *want)
{
    if (!str_eq(got, str_c(want))) fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(got), want);
}

static void test_push(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"specversion\":\"1.0\",\"id\":\"8a1\",\"source\":\"github\",\"type\":\"github\","
                           "\"subject\":\"shop\",\"time\":\"2026-01-02T03:04:05Z\",\"datacontenttype\":"
                           "\"application/json\",\"data\":{\"body\":{\"ref\":\"refs/heads/main\"}}}"),
                     ERROR_NONE);
    expect_str(event.id, "8a1");
    expect_str(event.source, "github");
    expect_str(event.type, "github");
    expect_str(event.subject, "shop");
    expect_str(event.time, "2026-01-02T03:04:05Z");
    expect_str(event.json,
               "{\"data\":{\"body\":{\"ref\":\"refs/heads/main\"}},\"datacontenttype\":\"application/json\","
               "\"id\":\"8a1\",\"source\":\"github\",\"specversion\":\"1.0\",\"subject\":\"shop\","
               "\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"github\"}");
}

static void test_no_secret_comes_through(void **state)
{
    (void)state;
    // The last data is {"headers":{"Cookie":"CANARY"},"k":1} in base64.
    static const char *const bodies[] = {
        "\"data\":{\"headers\":{\"X-Gitlab-Token\":[\"CANARY\"],\"authorization\":\"CANARY\",\"X-Hub-Signature-256\":"
        "[\"CANARY\"]},\"k\":1}",
        "\"data\":\"{\\\"a\\\":{\\\"client_secret\\\":\\\"CANARY\\\"},\\\"k\\\":1}\"",
        "\"data\":{\"list\":[{\"apiKey\":\"CANARY\"},{\"private-key\":\"CANARY\"},{\"k\":1}]}",
        "\"data_base64\":\"eyJoZWFkZXJzIjp7IkNvb2tpZSI6IkNBTkFSWSJ9LCJrIjoxfQ==\"",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char *body =
            arena_printf(arena, "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\",%s}", bodies[i]);
        assert_int_equal(parse(body), ERROR_NONE);
        assert_null(memmem(event.json.at, event.json.len, "CANARY", 6));
        assert_null(memmem(event.json.at, event.json.len, "data_base64", 11));
        assert_non_null(memmem(event.json.at, event.json.len, "\"k\":1", 5)); // the rest is there
    }
}

static void test_data_that_is_no_json_stays(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\",\"data_base64\":\"AAEC\"}"),
        ERROR_NONE);
    assert_non_null(memmem(event.json.at, event.json.len, "\"data_base64\":\"AAEC\"", 20));
}

static void test_refused(void **state)
{
    (void)state;
    char *long_id = arena_alloc(arena, 1100);
    memset(long_id, 'i', 1025);
    const struct {
        const char *body, *says;
        enum error_code code;
    } cases[] = {
        {"", "body", ERROR_INVALID},
        {"[]", "body", ERROR_INVALID},
        {"{\"id\":\"1\",\"source\":\"s\",\"type\":\"t\"}", "specversion", ERROR_INVALID},
        {"{\"specversion\":\"2.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\"}", "specversion", ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"source\":\"s\",\"type\":\"t\"}", "id: missing", ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"id\":1,\"source\":\"s\",\"type\":\"t\"}", "id: must", ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"\",\"type\":\"t\"}", "source: missing", ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\"}", "type: missing", ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\",\"time\":\"now\"}", "time",
         ERROR_INVALID},
        {"{\"specversion\":\"1.0\",\"id\":\"a\\nb\",\"source\":\"s\",\"type\":\"t\"}", "id: contains a control",
         ERROR_INVALID},
        {arena_printf(arena, "{\"specversion\":\"1.0\",\"id\":\"%s\",\"source\":\"s\",\"type\":\"t\"}", long_id),
         "id: 1025 bytes", ERROR_TOO_LARGE},
    };
    struct cloud_event before = event;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].body), cases[i].code);
        if (!strstr(err.text, cases[i].says)) fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
        assert_memory_equal(&before, &event, sizeof event);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_push),
        CASE(test_no_secret_comes_through),
        CASE(test_data_that_is_no_json_stays),
        CASE(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
