#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "base/clock.h"
#include "base/token.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"
#include "storage/sessions/session_store.h"

struct login {
    struct answer answer;
    enum principal_kind kind;
    char account_id[64], user_name[64], runtime[64];
    bool is_admin;
};

static void on_principal(void *arg, const struct error *err, const struct principal *principal)
{
    struct login *login = arg;
    if (principal) {
        login->kind = principal->kind;
        login->is_admin = principal->role == PRINCIPAL_ADMIN;
        snprintf(login->account_id, sizeof login->account_id, "%.*s", STR_ARG(principal->account_id));
        snprintf(login->user_name, sizeof login->user_name, "%.*s", STR_ARG(principal->user_name));
        snprintf(login->runtime, sizeof login->runtime, "%.*s", STR_ARG(principal->runtime));
    }
    answer_on_count(&login->answer, err, 0);
}

static enum error_code login_with(struct database *database, const struct token *token, struct login *login)
{
    *login = (struct login){0};
    answer_init(&login->answer, database);
    identity_store_authenticate(database->pg, token->id, token->secret_sha256, on_principal, login);
    answer_wait(&login->answer);
    return login->answer.code;
}

static json_t *wait_node(struct answer *answer)
{
    answer_wait(answer);
    if (answer->code != ERROR_NONE) fail_msg("%s", answer->text);
    json_t *node = *answer->node ? json_loads(answer->node, JSON_REJECT_DUPLICATES, NULL) : NULL;
    answer_finish(answer);
    return node;
}

static void make_user(struct database *database, const char *name, struct token *token)
{
    char text[TOKEN_TEXT_BYTES];
    struct answer answer;
    token_generate(token, text);
    answer_init(&answer, database);
    identity_store_create_user(database->pg, database->account, str_c(name), STR("who@example.org"), true,
                               answer_on_node, &answer);
    json_decref(wait_node(&answer));
    identity_store_create_key(database->pg, database->account, str_c(name), STR("first"), token->id,
                              token->secret_sha256, STR("[]"), 0, answer_on_node, &answer);
    json_decref(wait_node(&answer));
}

static void a_key_logs_in_until_it_is_revoked(void **state)
{
    struct database *database = database_of(state);
    struct token token;
    struct login login;
    struct answer answer;
    make_user(database, "ada", &token);
    assert_int_equal(login_with(database, &token, &login), ERROR_NONE);
    assert_int_equal(login.kind, PRINCIPAL_USER);
    assert_string_equal(login.account_id, database->account);
    assert_string_equal(login.user_name, "ada");
    assert_true(login.is_admin);

    struct token wrong = token;
    wrong.secret_sha256[0] ^= 1;
    assert_int_equal(login_with(database, &wrong, &login), ERROR_UNAUTHENTICATED);
    char first_text[512];
    snprintf(first_text, sizeof first_text, "%s", login.answer.text);
    id_account(wrong.id);
    assert_int_equal(login_with(database, &wrong, &login), ERROR_UNAUTHENTICATED);
    assert_string_equal(login.answer.text, first_text);

    answer_init(&answer, database);
    identity_store_revoke_key(database->pg, database->account, str_c(token.id), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    assert_int_equal(login_with(database, &token, &login), ERROR_UNAUTHENTICATED);
}

struct valid {
    struct answer answer;
    size_t count;
    char id[TOKEN_ID_BYTES]; // of the last one
};

static void on_valid(void *arg, const struct error *err, const struct valid_token *tokens, size_t count)
{
    struct valid *valid = arg;
    valid->count = count;
    if (count) snprintf(valid->id, sizeof valid->id, "%.*s", STR_ARG(tokens[count - 1].id));
    answer_on_count(&valid->answer, err, 0);
}

// Only this one of these is valid.
static void check_valid(struct database *database, const char *const *ids, size_t count, const char *only)
{
    struct valid valid = {0};
    answer_init(&valid.answer, database);
    identity_store_valid_tokens(database->pg, ids, count, on_valid, &valid);
    answer_wait(&valid.answer);
    assert_int_equal(valid.answer.code, ERROR_NONE);
    assert_int_equal(valid.count, 1);
    assert_string_equal(valid.id, only);
}

static void a_key_expires(void **state)
{
    struct database *database = database_of(state);
    struct token token, late;
    struct login login;
    struct answer answer;
    char text[TOKEN_TEXT_BYTES];
    make_user(database, "ada", &token);
    token_generate(&late, text);
    answer_init(&answer, database);
    identity_store_create_key(database->pg, database->account, STR("ada"), STR("late"), late.id, late.secret_sha256,
                              STR("[\"read\"]"), clock_wall_ms() - 1000, answer_on_node, &answer);
    json_decref(wait_node(&answer));
    assert_int_equal(login_with(database, &late, &login), ERROR_UNAUTHENTICATED);

    struct token revoked, unknown;
    make_user(database, "eve", &revoked);
    token_generate(&unknown, text);
    answer_init(&answer, database);
    identity_store_revoke_key(database->pg, database->account, str_c(revoked.id), answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    check_valid(database, (const char *const[]){late.id, token.id, revoked.id, unknown.id}, 4, token.id);
    check_valid(database, (const char *const[]){token.id}, 1, token.id);
}

static void a_key_of_nobody_is_not_made(void **state)
{
    struct database *database = database_of(state);
    struct token token;
    struct answer answer;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&token, text);
    answer_init(&answer, database);
    identity_store_create_key(database->pg, database->account, STR("nobody"), STR("k"), token.id, token.secret_sha256,
                              STR_EMPTY, 0, answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NOT_FOUND);
    answer_finish(&answer);
}

static void a_runtime_token_logs_in(void **state)
{
    struct database *database = database_of(state);
    struct token token;
    struct login login;
    struct answer answer;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&token, text);
    struct runtime_new runtime = {.name = STR("prod"), .token_id = str_c(token.id)};
    memcpy(runtime.token_sha256, token.secret_sha256, sizeof runtime.token_sha256);
    answer_init(&answer, database);
    runtime_store_create(database->pg, database->account, &runtime, answer_on_node, &answer);
    json_decref(wait_node(&answer));
    assert_int_equal(login_with(database, &token, &login), ERROR_NONE);
    assert_int_equal(login.kind, PRINCIPAL_RUNTIME);
    assert_string_equal(login.runtime, "prod");
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    assert_int_equal(login_with(database, &token, &login), ERROR_UNAUTHENTICATED);
}

static void names_are_unique(void **state)
{
    struct database *database = database_of(state);
    struct answer answer;
    char other[ID_ACCOUNT_BYTES];
    id_account(other);
    answer_init(&answer, database);
    identity_store_create_account(database->pg, other, str_c(database->account_name), answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_CONFLICT);
    answer_finish(&answer);
    identity_store_find_account(database->pg, str_c(database->account_name), answer_on_node, &answer);
    json_t *node = wait_node(&answer);
    assert_true(str_eq(json_get_str(node, "id"), str_c(database->account)));
    json_decref(node);
    identity_store_find_account(database->pg, STR("no such account"), answer_on_node, &answer);
    assert_null(wait_node(&answer));
}

static void me_has_what_clients_dereference(void **state)
{
    struct database *database = database_of(state);
    struct token token;
    struct answer answer;
    char user_id[64];
    make_user(database, "ada", &token);
    database_query(database->account, "SELECT user_id FROM users", user_id, sizeof user_id);
    answer_init(&answer, database);
    identity_store_me(database->pg, database->account, str_c(user_id), STR_EMPTY, answer_on_node, &answer);
    json_t *me = wait_node(&answer);
    assert_true(str_eq(json_get_str(me, "name"), STR("ada")));
    assert_non_null(json_path(me, "activeAccount", "features", NULL));
    assert_true(json_is_false(json_path(me, "activeAccount", "features", "gitopsPlanEnforcement", NULL)));
    assert_true(str_eq(json_str(json_array_get(json_path(me, "activeAccount", "admins", NULL), 0)), str_c(user_id)));
    json_t *first = json_array_get(json_get_array(me, "accounts"), 0);
    assert_true(str_eq(json_get_str(first, "name"), str_c(database->account_name)));
    json_decref(me);
    char runtime_id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", runtime_id);
    identity_store_me(database->pg, database->account, STR_EMPTY, STR("prod"), answer_on_node, &answer);
    me = wait_node(&answer);
    assert_true(str_eq(json_get_str(me, "runtimeName"), STR("prod")));
    assert_true(str_eq(json_get_str(me, "id"), str_c(runtime_id)));
    json_decref(me);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_logs_in_until_it_is_revoked),
        cmocka_unit_test(a_key_expires),
        cmocka_unit_test(a_key_of_nobody_is_not_made),
        cmocka_unit_test(a_runtime_token_logs_in),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(me_has_what_clients_dereference),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
