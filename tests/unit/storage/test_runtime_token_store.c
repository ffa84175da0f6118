// The tokens of a runtime: how many there may be, how they end, and what is said of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "api/access/runtime_token_store.h"
#include "base/json/json.h"
#include "base/token.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"

enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };

static struct token first_token;

static void make_runtime(struct database *database, const char *name)
{
    char text[TOKEN_TEXT_BYTES];
    token_generate(&first_token, text);
    struct runtime_new runtime = {.name = str_c(name), .token_id = str_c(first_token.id)};
    memcpy(runtime.token_sha256, first_token.secret_sha256, sizeof runtime.token_sha256);
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_create(database->pg, database->account, &runtime, answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
}

static enum error_code make_token(struct database *database, struct runtime_token_new wanted, struct token *token)
{
    char text[TOKEN_TEXT_BYTES];
    token_generate(token, text);
    wanted.token_id = str_c(token->id);
    memcpy(wanted.token_sha256, token->secret_sha256, sizeof wanted.token_sha256);
    if (!wanted.runtime.len) wanted.runtime = STR("prod");
    if (!wanted.valid_max) wanted.valid_max = 2;
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_create(database->pg, database->account, &wanted, answer_on_node, &answer);
    answer_wait(&answer);
    enum error_code code = answer.code;
    if (code == ERROR_NONE) {
        json_t *node = json_loads(answer.node, JSON_REJECT_DUPLICATES, NULL);
        assert_string_equal(json_string_value(json_object_get(node, "id")), token->id);
        assert_null(strstr(answer.node, "secret"));
        json_decref(node);
    }
    answer_finish(&answer);
    return code;
}

static uint64_t revoke_token(struct database *database, const char *runtime, const char *id)
{
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_revoke(database->pg, database->account, str_c(runtime), str_c(id), answer_on_count, &answer);
    answer_wait(&answer);
    uint64_t count = answer.count;
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
    return count;
}

// "VALID", "REPLACED", ... of a token in the list, or "" when it is not there.
static const char *status_of(struct database *database, const char *runtime, const char *id)
{
    static char status[16];
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_list(database->pg, database->account, str_c(runtime), answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    json_t *list = json_loads(answer.node, 0, NULL), *each;
    size_t i;
    status[0] = '\0';
    json_array_foreach(list, i, each)
    {
        if (strcmp(json_string_value(json_object_get(each, "id")), id) == 0)
            snprintf(status, sizeof status, "%s", json_string_value(json_object_get(each, "status")));
    }
    json_decref(list);
    answer_finish(&answer);
    return status;
}

static void on_principal(void *arg, const struct error *err, const struct principal *principal)
{
    (void)principal;
    answer_on_count(arg, err, 0);
}

static enum error_code look_up(struct database *database, const struct token *token)
{
    struct answer answer;
    answer_init(&answer, database);
    identity_store_authenticate(database->pg, token->id, token->secret_sha256, on_principal, &answer);
    answer_wait(&answer);
    enum error_code code = answer.code;
    answer_finish(&answer);
    return code;
}

struct seen {
    struct answer answer;
    const char *id;
    bool found, revoked, expires, warns;
    int64_t expires_in_ms, warns_in_ms;
    uint64_t change, own_change; // of all tokens, of which other tests have some; of this one
    size_t count;
};

static void on_rows(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct seen *seen = arg;
    seen->count = count;
    for (size_t i = 0; i < count; i++) {
        seen->change = rows[i].change;
        if (!str_eq(rows[i].token_id, str_c(seen->id))) continue;
        seen->found = true;
        seen->own_change = rows[i].change;
        seen->revoked = rows[i].revoked;
        seen->expires = rows[i].expires;
        seen->warns = rows[i].warns;
        seen->expires_in_ms = rows[i].expires_in_ms;
        seen->warns_in_ms = rows[i].warns_in_ms;
        assert_true(rows[i].account_name.len > 0);
    }
    answer_on_count(&seen->answer, err, count);
}

// What the table in memory is told of it, with all that came before.
static struct seen read_change(struct database *database, const char *id)
{
    struct seen seen = {.id = id};
    do {
        answer_init(&seen.answer, database);
        runtime_token_store_changed(database->pg, seen.change, 1000, on_rows, &seen);
        answer_wait(&seen.answer);
        assert_int_equal(seen.answer.code, ERROR_NONE);
        answer_finish(&seen.answer);
    } while (seen.count == 1000);
    return seen;
}

static void as_many_as_may_be_valid(void **state)
{
    struct database *database = database_of(state);
    struct token second, third;
    make_runtime(database, "prod");
    assert_int_equal(make_token(database, (struct runtime_token_new){.runtime = STR("absent")}, &second),
                     ERROR_NOT_FOUND);
    assert_int_equal(make_token(database, (struct runtime_token_new){.name = STR("reporter")}, &second), ERROR_NONE);
    assert_int_equal(make_token(database, (struct runtime_token_new){0}, &third), ERROR_CONFLICT);
    assert_int_equal(look_up(database, &third), ERROR_UNAUTHENTICATED);
    // What was refused has ended nothing.
    assert_int_equal(make_token(database, (struct runtime_token_new){.replaces = true}, &third), ERROR_CONFLICT);
    assert_string_equal(status_of(database, "prod", first_token.id), "VALID");
    assert_int_equal(revoke_token(database, "other", second.id), 0);
    assert_int_equal(revoke_token(database, "prod", second.id), 1);
    assert_int_equal(revoke_token(database, "prod", second.id), 0);
    assert_string_equal(status_of(database, "prod", second.id), "REVOKED");
    assert_true(read_change(database, second.id).revoked);
    assert_int_equal(make_token(database, (struct runtime_token_new){0}, &third), ERROR_NONE);
    assert_int_equal(look_up(database, &first_token), ERROR_NONE);
    assert_int_equal(look_up(database, &third), ERROR_NONE);
    assert_string_equal(status_of(database, "prod", third.id), "VALID");
}

static void a_rotation_leaves_a_while(void **state)
{
    struct database *database = database_of(state);
    struct token second, third;
    make_runtime(database, "prod");
    const struct runtime_token_new rotation = {.replaces = true, .grace_ms = HOUR_MS, .expires_in_ms = 90ull * DAY_MS};
    assert_int_equal(make_token(database, rotation, &second), ERROR_NONE);
    assert_string_equal(status_of(database, "prod", first_token.id), "REPLACED");
    assert_string_equal(status_of(database, "prod", second.id), "VALID");
    struct seen seen = read_change(database, first_token.id);
    assert_true(seen.expires && seen.expires_in_ms > HOUR_MS - 60000 && seen.expires_in_ms <= HOUR_MS);
    assert_false(seen.warns); // somebody has seen to it
    seen = read_change(database, second.id);
    assert_true(seen.expires && seen.warns);
    assert_in_range(seen.warns_in_ms, 75ll * DAY_MS, 76ll * DAY_MS);
    assert_int_equal(look_up(database, &first_token), ERROR_NONE);
    // The next one waits for the first to be over; told to end at once, it does.
    assert_int_equal(make_token(database, rotation, &third), ERROR_CONFLICT);
    assert_int_equal(revoke_token(database, "prod", first_token.id), 1);
    const struct runtime_token_new at_once = {.replaces = true, .grace_ms = 0};
    assert_int_equal(make_token(database, at_once, &third), ERROR_NONE);
    assert_string_equal(status_of(database, "prod", second.id), "EXPIRED");
    assert_int_equal(look_up(database, &second), ERROR_UNAUTHENTICATED);
    seen = read_change(database, second.id);
    assert_true(seen.expires && seen.expires_in_ms <= 0);
    assert_int_equal(look_up(database, &third), ERROR_NONE);
}

static void a_use_is_noted_and_nothing_else_changes(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database, "prod");
    uint64_t change = read_change(database, first_token.id).own_change;
    assert_int_not_equal(change, 0);
    struct answer answer;
    answer_init(&answer, database);
    const char *const ids[] = {first_token.id, "ffffffffffffffffffffffff"};
    runtime_token_store_note_use(database->pg, ids, 2, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    assert_int_equal(read_change(database, first_token.id).own_change, change);
    answer_init(&answer, database);
    runtime_token_store_list(database->pg, database->account, STR("prod"), answer_on_node, &answer);
    answer_wait(&answer);
    json_t *list = json_loads(answer.node, 0, NULL);
    assert_non_null(json_string_value(json_object_get(json_array_get(list, 0), "lastUsedAt")));
    json_decref(list);
    answer_finish(&answer);
}

// How many findings the runtime shows that speak of a token.
static size_t findings(struct database *database, const char *about)
{
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_get(database->pg, database->account, STR("prod"), answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    json_t *node = json_loads(answer.node, 0, NULL), *each;
    size_t i, count = 0;
    json_array_foreach(json_object_get(node, "errors"), i, each)
    {
        const char *message = json_string_value(json_object_get(each, "message"));
        if (strstr(message, first_token.id) && strstr(message, about)) count++;
    }
    json_decref(node);
    answer_finish(&answer);
    return count;
}

static void change(struct database *database, const char *what)
{
    char sql[512], ignored[16];
    snprintf(sql, sizeof sql, "UPDATE runtime_tokens SET %s WHERE token_id = '%s' RETURNING 'done'", what,
             first_token.id);
    database_query(database->account, sql, ignored, sizeof ignored);
    assert_string_equal(ignored, "done");
}

static void a_finding_before_and_after_the_end(void **state)
{
    struct database *database = database_of(state);
    make_runtime(database, "prod");
    assert_int_equal(findings(database, ""), 0);
    change(database, "expires_at = now() + interval '20 days'");
    assert_int_equal(findings(database, ""), 0);
    change(database, "created_at = now() - interval '90 days', expires_at = now() + interval '13 days'");
    assert_int_equal(findings(database, "expires at"), 1);
    // Replaced, and not used since: that is how it should be.
    change(database, "replaced_at = now() - interval '30 days'");
    assert_int_equal(findings(database, ""), 0);
    change(database, "last_used_at = now()");
    assert_int_equal(findings(database, "still in use"), 1);
    change(database, "replaced_at = NULL, expires_at = now() - interval '1 hour'");
    assert_int_equal(findings(database, "expired at"), 1);
    change(database, "revoked_at = now()");
    assert_int_equal(findings(database, ""), 0);
}

static void what_ended_long_ago_is_swept(void **state)
{
    struct database *database = database_of(state);
    struct token second;
    make_runtime(database, "prod");
    assert_int_equal(make_token(database, (struct runtime_token_new){0}, &second), ERROR_NONE);
    change(database, "revoked_at = now() - interval '29 days'");
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_sweep(database->pg, 100, answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    assert_string_equal(status_of(database, "prod", first_token.id), "REVOKED");
    change(database, "revoked_at = now() - interval '31 days'");
    answer_init(&answer, database);
    runtime_token_store_sweep(database->pg, 100, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_true(answer.count >= 1);
    answer_finish(&answer);
    assert_string_equal(status_of(database, "prod", first_token.id), "");
    assert_string_equal(status_of(database, "prod", second.id), "VALID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_may_be_valid),
        cmocka_unit_test(a_rotation_leaves_a_while),
        cmocka_unit_test(a_use_is_noted_and_nothing_else_changes),
        cmocka_unit_test(a_finding_before_and_after_the_end),
        cmocka_unit_test(what_ended_long_ago_is_swept),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
