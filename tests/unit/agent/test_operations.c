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
    expect(judged(old, object, false, true), OPERATION_UNKNOWN, "MAYBE_RUN");
}

#define MARK "\"info\":[{\"name\":\"culvert.dev/operation\",\"value\":\"id-1\"}]"
#define AT   "\"at\":\"2026-01-01T10:00:00Z\",\"by\":\"ann\","

static void a_sync_is_found_again_by_its_mark(void **state)
{
    (void)state;
    static const char sync[] = "{\"action\":\"SYNC\"," AT "\"parameters\":{\"prune\":true,\"replace\":true}," GOOD "}";
    static const char idle[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"source\":{\"targetRevision\":\"main\"},"
        "\"syncPolicy\":{\"syncOptions\":[\"A=b\"]}}}";
    expect_change(judged(sync, idle, false, false),
                  "{\"metadata\":{\"resourceVersion\":\"7\"},\"operation\":{" MARK
                  ",\"initiatedBy\":{\"username\":\"ann\"},"
                  "\"sync\":{\"prune\":true,\"revision\":\"main\",\"syncOptions\":[\"A=b\",\"Replace=true\"]}},"
                  "\"status\":{\"operationState\":null}}");
    static const char asked[] = "{\"metadata\":{},\"operation\":{" MARK "}}";
    static const char runs[] =
        "{\"metadata\":{},\"status\":{\"operationState\":{\"phase\":\"Running\",\"operation\":{" MARK "}}}}";
    static const char good[] =
        "{\"metadata\":{},\"status\":{\"operationState\":{\"phase\":\"Succeeded\",\"operation\":{" MARK "}}}}";
    static const char bad[] =
        "{\"metadata\":{},\"status\":{\"operationState\":{\"phase\":\"Error\",\"operation\":{" MARK "}}}}";
    for (int maybe = 0; maybe < 2; maybe++) { // the mark alone decides
        expect(judged(sync, asked, false, maybe), OPERATION_WAIT, NULL);
        expect(judged(sync, runs, true, maybe), OPERATION_WAIT, NULL);
        expect(judged(sync, good, false, maybe), OPERATION_DONE, NULL);
        expect(judged(sync, bad, true, maybe), OPERATION_FAILED, "SYNC_FAILED");
    }
    static const char other[] = "{\"metadata\":{},\"operation\":{\"sync\":{}}}";
    expect(judged(sync, other, false, false), OPERATION_FAILED, "IN_PROGRESS");
    // Interrupted: what began before it was asked for has not replaced it; what began later may
    // have.
    static const char before[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"operationState\":{\"phase\":\"Succeeded\","
        "\"startedAt\":\"2026-01-01T09:00:00Z\"}}}";
    static const char after[] = "{\"metadata\":{},\"status\":{\"operationState\":{\"phase\":\"Succeeded\","
                                "\"startedAt\":\"2026-01-01T10:00:05Z\"}}}";
    expect(judged(sync, before, false, true), OPERATION_CHANGE, NULL);
    expect(judged(sync, after, false, true), OPERATION_UNKNOWN, "MAYBE_RUN");
    expect(judged(sync, before, true, false), OPERATION_UNKNOWN, "MAYBE_RUN"); // sent, and replaced
}

static void auto_sync_is_not_worked_against(void **state)
{
    (void)state;
    static const char automated[] =
        "{\"metadata\":{},\"spec\":{\"source\":{\"targetRevision\":\"main\"},\"syncPolicy\":"
        "{\"automated\":{}}},\"status\":{\"history\":[{\"id\":3,\"revision\":\"abc\"}]}}";
    static const char manual[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"history\":[{\"id\":3,\"revision\":\"abc\"}]}}";
    static const char to[] = "{\"action\":\"APP_ROLLBACK\"," AT "\"parameters\":{\"historyId\":3}," GOOD "}";
    static const char nowhere[] = "{\"action\":\"APP_ROLLBACK\"," AT "\"parameters\":{\"historyId\":4}," GOOD "}";
    static const char revision[] = "{\"action\":\"SYNC\"," AT "\"parameters\":{\"revision\":\"abc\"}," GOOD "}";
    expect(judged(to, automated, false, false), OPERATION_FAILED, "AUTOMATED");
    expect(judged(revision, automated, false, false), OPERATION_FAILED, "AUTOMATED");
    expect(judged(nowhere, manual, false, false), OPERATION_FAILED, "NOT_FOUND");
    expect_change(
        judged(to, manual, false, false),
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"operation\":{" MARK ",\"initiatedBy\":{\"username\":\"ann\"},"
        "\"sync\":{\"revision\":\"abc\",\"syncStrategy\":{\"apply\":{}}}},\"status\":{\"operationState\":null}}");
}

static void a_step_is_skipped_once(void **state)
{
    (void)state;
#define ROLLOUT "\"group\":\"argoproj.io\",\"kind\":\"Rollout\",\"namespace\":\"shop\",\"name\":\"web\""
    static const char skip[] = "{\"action\":\"ROLLOUT_SKIP_CURRENT_STEP\"," ROLLOUT "}";
    static const char abort_it[] = "{\"action\":\"ROLLOUT_ABORT\"," ROLLOUT "}";
    static const char restart[] = "{\"action\":\"RESTART\"," AT ROLLOUT "}";
    static const char at_step[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"strategy\":{\"canary\":{\"steps\":[{},{}]}}},"
        "\"status\":{\"currentStepIndex\":1}}";
    static const char at_end[] = "{\"metadata\":{},\"spec\":{\"strategy\":{\"canary\":{\"steps\":[{},{}]}}},"
                                 "\"status\":{\"currentStepIndex\":2,\"abort\":true}}";
    struct operation_decision decision = judged(skip, at_step, false, false);
    assert_string_equal(decision.subresource, "status");
    expect_change(
        decision,
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"currentStepIndex\":2,\"pauseConditions\":null}}");
    expect(judged(skip, at_step, true, false), OPERATION_DONE, NULL);
    expect(judged(skip, at_step, false, true), OPERATION_UNKNOWN, "MAYBE_RUN");
    expect(judged(skip, at_end, false, false), OPERATION_FAILED, "NOT_RUNNING");
    expect(judged(abort_it, at_end, false, false), OPERATION_DONE, NULL);
    expect(judged(restart, "{\"metadata\":{},\"spec\":{\"restartAt\":\"2026-01-01T10:00:00Z\"}}", false, true),
           OPERATION_DONE, NULL);
    expect_change(judged(restart, "{\"metadata\":{\"resourceVersion\":\"7\"}}", false, true),
                  "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"restartAt\":\"2026-01-01T10:00:00Z\"}}");
}

static void each_danger_has_a_right_of_its_own(void **state)
{
    (void)state;
    struct error err;
    static const char *const dangers[] = {"prune", "force", "replace"};
    for (int i = 0; i < 3; i++) {
        char text[512], setting[64];
        snprintf(text, sizeof text, "{\"action\":\"SYNC\",\"parameters\":{\"%s\":true}," GOOD "}", dangers[i]);
        snprintf(setting, sizeof setting, "sync,sync-%s", dangers[i]);
        assert_int_equal(check("sync,refresh,rollback,terminate", text, &err), ERROR_FORBIDDEN);
        assert_non_null(strstr(err.text, setting + 5));
        assert_int_equal(check(setting + 5, text, &err), ERROR_FORBIDDEN); // it adds to sync
        assert_int_equal(check(setting, text, &err), ERROR_NONE);
    }
}

#define POD "{\"action\":\"DELETE\",\"group\":\"\",\"kind\":\"Pod\",\"namespace\":\"shop\",\"name\":\"web\"}"

static void a_deletion_is_for_one_object(void **state)
{
    (void)state;
    static const char pod[] = "{\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"u\"}}";
    expect_change(judged(POD, pod, false, false),
                  "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{\"resourceVersion\":\"7\","
                  "\"uid\":\"u\"}}");
    expect(judged(POD, NULL, false, false), OPERATION_FAILED, "NOT_FOUND");
    expect(judged(POD, NULL, true, false), OPERATION_DONE, NULL);
    // A process that ended may have deleted it, and this one may have been made since.
    expect(judged(POD, pod, false, true), OPERATION_UNKNOWN, "MAYBE_RUN");
    struct operation operation = parsed(POD);
    json_t *object = json_loads(pod, 0, NULL);
    const struct operation_past past = {.is_sent = true, .uid = STR("before")};
    struct operation_decision decision;
    operation_judge(&operation, "id-1", object, &past, &decision);
    expect(decision, OPERATION_DONE, NULL); // made again: not deleted again
    json_decref(object);
    operation_finish(&operation);
    static const char leaving[] = "{\"metadata\":{\"uid\":\"u\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}";
    expect(judged(POD, leaving, true, false), OPERATION_WAIT, NULL);
    struct error err;
    assert_int_equal(check("delete-application,sync", POD, &err), ERROR_FORBIDDEN);
    assert_int_equal(check("delete:shop/*", POD, &err), ERROR_NONE);
    assert_int_equal(check("delete", "{\"action\":\"DELETE\"," GOOD "}", &err), ERROR_FORBIDDEN);
}

static void an_application_gets_its_finalizer_before_it_cascades(void **state)
{
    (void)state;
    static const char cascade[] = "{\"action\":\"DELETE\",\"parameters\":{\"cascade\":true}," GOOD "}";
    expect_change(
        judged(cascade, "{\"metadata\":{\"resourceVersion\":\"7\",\"finalizers\":[\"other\"]}}", false, false),
        "{\"metadata\":{\"finalizers\":[\"other\",\"resources-finalizer.argocd.argoproj.io\"],"
        "\"resourceVersion\":\"7\"}}");
    struct operation_decision decision =
        judged(cascade, "{\"metadata\":{\"finalizers\":[\"resources-finalizer.argocd.argoproj.io\"]}}", false, false);
    assert_string_equal(decision.method, "DELETE");
    expect(decision, OPERATION_CHANGE, NULL);
}

static void a_workflow_is_led(void **state)
{
    (void)state;
#define WORKFLOW(action)                                                                                               \
    "{\"action\":\"WORKFLOW_" action "\",\"group\":\"argoproj.io\",\"kind\":\"Workflow\",\"namespace\":\"ci\","        \
    "\"name\":\"build\",\"at\":\"2026-01-01T00:00:00Z\"}"
    static const char runs[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{},\"status\":{\"phase\":\"Running\"}}";
    expect_change(judged(WORKFLOW("STOP"), runs, false, false),
                  "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"shutdown\":\"Stop\"}}");
    expect(judged(WORKFLOW("TERMINATE"), "{\"status\":{\"phase\":\"Failed\"}}", false, false), OPERATION_FAILED,
           "NOT_RUNNING");
    expect(judged(WORKFLOW("TERMINATE"), "{\"status\":{\"phase\":\"Failed\"}}", true, false), OPERATION_DONE, NULL);
    expect(judged(WORKFLOW("RESUME"), runs, false, false), OPERATION_FAILED, "NOT_RUNNING");
    expect_change(
        judged(WORKFLOW("RESUME"),
               "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"suspend\":true},\"status\":{\"nodes\":{"
               "\"a\":{\"type\":\"Suspend\",\"phase\":\"Running\"},\"b\":{\"type\":\"Pod\",\"phase\":\"Running\"}}}}",
               false, false),
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"suspend\":null},\"status\":{\"nodes\":{\"a\":{"
        "\"finishedAt\":\"2026-01-01T00:00:00Z\",\"phase\":\"Succeeded\"}}}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_known_is_taken),
        cmocka_unit_test(nothing_is_permitted_but_what_the_setting_names),
        cmocka_unit_test(a_refresh_ends_when_the_controller_took_the_annotation),
        cmocka_unit_test(a_fence_is_never_passed),
        cmocka_unit_test(a_sync_is_found_again_by_its_mark),
        cmocka_unit_test(auto_sync_is_not_worked_against),
        cmocka_unit_test(a_step_is_skipped_once),
        cmocka_unit_test(each_danger_has_a_right_of_its_own),
        cmocka_unit_test(a_deletion_is_for_one_object),
        cmocka_unit_test(an_application_gets_its_finalizer_before_it_cascades),
        cmocka_unit_test(a_workflow_is_led),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
