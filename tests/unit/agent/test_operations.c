// agent/operations: what is taken from the platform, what the owner's setting permits, and what an
// operation needs next, judged from the object.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/operations/operation_judge.h"
#include "agent/operations/operation_rights.h"
#include "base/mem.h"

#define GOOD "\"group\":\"argoproj.io\",\"kind\":\"Application\",\"namespace\":\"argocd\",\"name\":\"shop\""

static struct operation parsed(const char *text)
{
    struct operation operation;
    struct error err;
    if (operation_parse(str_c(text), &operation, &err) != ERROR_NONE) fail_msg("%s: %s", text, err.text);
    return operation;
}

static void only_what_is_known_is_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", ""},
        {"[]", "action"},
        {"{\"action\":\"EXEC\"," GOOD "}", "action: \"EXEC\" is not known"},
        {"{\"action\":\"REFRESH\",\"group\":\"\",\"kind\":\"Secret\",\"namespace\":\"a\",\"name\":\"b\"}", "Secret"},
        {"{\"action\":\"REFRESH\",\"group\":\"argoproj.io\",\"kind\":\"Application\",\"namespace\":\"a/"
         "b\",\"name\":\"c\"}",
         "namespace: must"},
        {"{\"action\":\"REFRESH\",\"group\":\"argoproj.io\",\"kind\":\"Application\",\"namespace\":\"a\",\"name\":\".."
         "\"}",
         "name: must"},
        {"{\"action\":\"REFRESH\",\"group\":\"argoproj.io\",\"kind\":\"Application\",\"namespace\":\"a\",\"name\":\"c?"
         "x=1\"}",
         "name: must"},
        {"{\"action\":\"REFRESH\",\"group\":\"argoproj.io\",\"kind\":\"Application\",\"name\":\"c\"}",
         "namespace: must"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct operation operation;
        struct error err = {0};
        assert_int_not_equal(operation_parse(str_c(bad[i].text), &operation, &err), ERROR_NONE);
        if (!strstr(err.text, bad[i].message)) fail_msg("%s: %s", bad[i].text, err.text);
    }
    struct operation operation = parsed("{\"action\":\"REFRESH\"," GOOD "}");
    char *path = operation_path(&operation, NULL), *status = operation_path(&operation, "status");
    assert_string_equal(path, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop");
    assert_string_equal(status, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop/status");
    mem_free(path);
    mem_free(status);
    operation_finish(&operation);
}

static enum error_code check(const char *setting, const char *operation_text, struct error *err)
{
    struct operation_rights *rights;
    assert_int_equal(operation_rights_create(str_c(setting), &rights, err), ERROR_NONE);
    struct operation operation = parsed(operation_text);
    enum error_code code = operation_rights_check(rights, &operation, err);
    operation_finish(&operation);
    operation_rights_destroy(rights);
    return code;
}

static void nothing_is_permitted_but_what_the_setting_names(void **state)
{
    (void)state;
    static const char refresh[] = "{\"action\":\"HARD_REFRESH\"," GOOD "}";
    static const char *const permit[] = {
        "refresh",        " refresh ",        "refresh:*",       "refresh:argocd/shop",
        "refresh:*/shop", "refresh:argocd/*", "refresh:a*d/s*p", "refresh:other/*,refresh:argocd/s*"};
    static const char *const refuse[] = {"",
                                         ",",
                                         "refresh:argocd/shop2",
                                         "refresh:argocd/sho",
                                         "refresh:shop",
                                         "refresh:*/shops",
                                         "refresh:team-*/shop",
                                         "refresh:argocd"};
    struct error err;
    for (size_t i = 0; i < sizeof permit / sizeof *permit; i++)
        if (check(permit[i], refresh, &err) != ERROR_NONE) fail_msg("%s: %s", permit[i], err.text);
    for (size_t i = 0; i < sizeof refuse / sizeof *refuse; i++) {
        assert_int_equal(check(refuse[i], refresh, &err), ERROR_FORBIDDEN);
        assert_non_null(strstr(err.text, "operations.allowed"));
        assert_non_null(strstr(err.text, "\"refresh\""));
    }
    struct operation_rights *rights;
    assert_int_equal(operation_rights_create(STR("refresh,everything"), &rights, &err), ERROR_INVALID);
    assert_non_null(strstr(err.text, "invalid right \"everything\", must be one of refresh"));
    assert_int_equal(operation_rights_create(STR("refresh:"), &rights, &err), ERROR_INVALID);
}

// The decision for an object; text NULL: there is none.
static struct operation_decision judged(const char *operation_text, const char *text, bool is_sent, bool is_maybe)
{
    struct operation operation = parsed(operation_text);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    assert_true(!text || object);
    const struct operation_past past = {.is_sent = is_sent, .is_maybe = is_maybe};
    struct operation_decision decision;
    operation_judge(&operation, "id-1", object, &past, &decision);
    json_decref(object);
    operation_finish(&operation);
    return decision;
}

static void expect(struct operation_decision decision, enum operation_verdict verdict, const char *code)
{
    assert_int_equal(decision.verdict, verdict);
    if (code) assert_string_equal(decision.code, code);
    json_decref(decision.body);
}

static void expect_change(struct operation_decision decision, const char *body)
{
    assert_int_equal(decision.verdict, OPERATION_CHANGE);
    char *text = json_dumps(decision.body, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, body);
    free(text);
    json_decref(decision.body);
}

static void a_refresh_ends_when_the_controller_took_the_annotation(void **state)
{
    (void)state;
    static const char refresh[] = "{\"action\":\"HARD_REFRESH\"," GOOD "}";
    static const char plain[] = "{\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"u\"}}";
    static const char asked[] =
        "{\"metadata\":{\"resourceVersion\":\"8\",\"annotations\":{\"argocd.argoproj.io/refresh\":\"hard\"}}}";
    expect_change(
        judged(refresh, plain, false, false),
        "{\"metadata\":{\"annotations\":{\"argocd.argoproj.io/refresh\":\"hard\"},\"resourceVersion\":\"7\"}}");
    expect(judged(refresh, asked, true, false), OPERATION_WAIT, NULL);
    expect(judged(refresh, plain, true, false), OPERATION_DONE, NULL);
    expect(judged(refresh, NULL, false, false), OPERATION_FAILED, "NOT_FOUND");
    expect(judged(refresh, NULL, true, false), OPERATION_UNKNOWN, "OBJECT_GONE");
}

static void a_fence_is_never_passed(void **state)
{
    (void)state;
    static const char old[] = "{\"action\":\"REFRESH\",\"resourceVersion\":\"6\"," GOOD "}";
    static const char other[] = "{\"action\":\"REFRESH\",\"uid\":\"v\"," GOOD "}";
    static const char object[] = "{\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"u\"}}";
    expect(judged(old, object, false, false), OPERATION_FAILED, "CONFLICT");
    expect(judged(other, object, false, false), OPERATION_FAILED, "CONFLICT");
    expect(judged(old, object, false, true), OPERATION_UNKNOWN, "MAYBE_RUN"); // it may be our own change
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_known_is_taken),
        cmocka_unit_test(nothing_is_permitted_but_what_the_setting_names),
        cmocka_unit_test(a_refresh_ends_when_the_controller_took_the_annotation),
        cmocka_unit_test(a_fence_is_never_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
