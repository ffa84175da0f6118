// Enrollment in the database: the same request again is no further use, and what refuses one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/enrollment_store.h"
#include "api/access/runtime_token_store.h"
#include "database.h"

static struct token enrollment_token;

static void make_enrollment(struct database *database, uint64_t uses_max)
{
    char text[TOKEN_TEXT_BYTES];
    token_generate(&enrollment_token, text);
    const struct enrollment_token_new wanted = {
        .name = STR("test"), .life_s = 3600, .uses_max = uses_max, .token = &enrollment_token};
    struct answer answer;
    answer_init(&answer, database);
    enrollment_store_create(database->pg, database->account, &wanted, answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
}

static void on_enrolled(void *arg, const struct error *err)
{
    answer_on_count(arg, err, 1);
}

static enum error_code enroll(struct database *database, const char *runtime, const struct token *token)
{
    const struct enrollment enrollment = {.account_id = str_c(database->account),
                                          .token_id = str_c(enrollment_token.id),
                                          .token_name = STR("test"),
                                          .runtime = str_c(runtime),
                                          .runtime_token = token,
                                          .remote = STR("192.0.2.1")};
    struct answer answer;
    answer_init(&answer, database);
    enrollment_store_enroll(database->pg, &enrollment, on_enrolled, &answer);
    answer_wait(&answer);
    enum error_code code = answer.code;
    answer_finish(&answer);
    return code;
}

static void assert_uses(struct database *database, const char *wanted)
{
    char text[64];
    database_query(database->account,
                   "SELECT t.uses || ' ' || (SELECT count(*) FROM runtimes) || ' ' || (SELECT count(*) FROM "
                   "runtime_tokens) FROM enrollment_tokens t",
                   text, sizeof text);
    assert_string_equal(text, wanted);
}

static void the_same_request_again_is_no_further_use(void **state)
{
    struct database *database = database_of(state);
    char text[TOKEN_TEXT_BYTES];
    struct token token, other;
    make_enrollment(database, 1);
    token_generate(&token, text);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(enroll(database, "edge", &token), ERROR_NONE);
    assert_uses(database, "1 1 1");
    assert_int_equal(enroll(database, "edge-2", &token), ERROR_FORBIDDEN); // with another name
    other = token;
    other.secret_sha256[0] ^= 1;
    assert_int_equal(enroll(database, "edge", &other), ERROR_FORBIDDEN); // or another secret
    token_generate(&other, text);
    assert_int_equal(enroll(database, "edge-2", &other), ERROR_FORBIDDEN); // used up
    assert_uses(database, "1 1 1");
}

static void a_name_or_an_id_that_is_taken_is_no_use(void **state)
{
    struct database *database = database_of(state);
    char text[TOKEN_TEXT_BYTES], runtime_id[ID_UUID_BYTES];
    struct token token, other;
    make_enrollment(database, 5);
    database_make_runtime(database, "prod", runtime_id);
    token_generate(&token, text);
    assert_int_equal(enroll(database, "prod", &token), ERROR_FORBIDDEN);
    assert_uses(database, "0 1 1");
    assert_int_equal(enroll(database, "edge", &token), ERROR_NONE);
    assert_uses(database, "1 2 2");
    // Revoked: the same request is refused, and makes no other token.
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_revoke(database->pg, database->account, STR("edge"), str_c(token.id), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    assert_int_equal(enroll(database, "edge", &token), ERROR_FORBIDDEN);
    token_generate(&other, text);
    assert_int_equal(enroll(database, "edge", &other), ERROR_FORBIDDEN);
    assert_uses(database, "1 2 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_request_again_is_no_further_use),
        cmocka_unit_test(a_name_or_an_id_that_is_taken_is_no_use),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
