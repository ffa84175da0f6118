// auth: where the credential is taken from, what is kept how long, and that every check is answered
// exactly once. The database is a double that answers when a test has it answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/access/auth.h"
#include "api/access/auth_cache.h"
#include "base/mem.h"
#include "base/token.h"

// ---- the double ----------------------------------------------------------------------------------------------------

enum { QUESTIONS_MAX = 8192 };

static struct {
    char token_id[TOKEN_ID_BYTES];
    principal_done on_done;
    void *arg;
} questions[QUESTIONS_MAX];
static size_t asked, answered;
static bool answers_at_once;
static const struct principal somebody = {
    .kind = PRINCIPAL_RUNTIME,
    .account_id = {"aaaaaaaaaaaaaaaaaaaaaaaa", 24},
    .account_name = {"acme", 4},
    .runtime = {"prod", 4},
    .runtime_id = {"r-1", 3},
    .token_id = {"bbbbbbbbbbbbbbbbbbbbbbbb", 24},
};

static void answer(enum error_code code)
{
    assert_true(answered < asked);
    size_t i = answered++;
    struct error err;
    if (code != ERROR_NONE) error_set(&err, code, "connection to /run/postgresql as culvert failed");
    questions[i].on_done(questions[i].arg, code == ERROR_NONE ? NULL : &err, code == ERROR_NONE ? &somebody : NULL);
}

static void authenticate(struct pg *pg, const char *token_id, const uint8_t sha256[ID_SHA256_BYTES],
                         principal_done on_done, void *arg)
{
    (void)sha256;
    assert_ptr_equal(pg, (void *)&asked);
    assert_true(asked < QUESTIONS_MAX);
    snprintf(questions[asked].token_id, sizeof questions[asked].token_id, "%s", token_id);
    questions[asked].on_done = on_done;
    questions[asked].arg = arg;
    asked++;
    if (answers_at_once) answer(ERROR_NONE);
}

static uint64_t now_ms;
static uint64_t read_clock(void)
{
    return now_ms;
}

// ---- what a check came to ------------------------------------------------------------------------------------------

struct outcome {
    unsigned calls;
    enum error_code code;
    char text[ERROR_TEXT_BYTES];
    struct api_principal principal;
};

static void on_checked(void *arg, const struct error *err, const struct api_principal *principal)
{
    struct outcome *outcome = arg;
    outcome->calls++;
    outcome->code = err ? err->code : ERROR_NONE;
    if (err) memcpy(outcome->text, err->text, sizeof outcome->text);
    assert_true(!err == (principal != NULL));
    if (principal) outcome->principal = *principal;
}

static struct outcome check(struct api_auth *auth, const char *authorization, const char *x_access_token)
{
    struct outcome outcome = {0};
    size_t before = asked;
    answers_at_once = true;
    api_auth_check(auth, str_c(authorization), str_c(x_access_token), STR_EMPTY, on_checked, &outcome);
    answers_at_once = false;
    assert_int_equal(outcome.calls, 1);
    assert_true(asked - before <= 1);
    return outcome;
}

static struct api_auth *auth;
static char key[TOKEN_TEXT_BYTES], other_key[TOKEN_TEXT_BYTES];

static int set_up(void **state)
{
    (void)state;
    struct token token;
    token_generate(&token, key);
    token_generate(&token, other_key);
    asked = answered = 0;
    now_ms = 1000000;
    const struct api_auth_options options = {.now_ms = read_clock, .authenticate = authenticate};
    auth = api_auth_create((void *)&asked, &options);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    api_auth_destroy(auth);
    auth = NULL;
    return 0;
}

static void test_where_the_credential_is(void **state)
{
    (void)state;
    char bearer[256], padded[256];
    snprintf(bearer, sizeof bearer, "bEaReR %s", key);
    snprintf(padded, sizeof padded, "  %s ", key);
    const char *cases[][2] = {
        {key, ""}, {bearer, ""}, {padded, ""}, {"", key}, {"", padded}, {NULL, key}, {key, other_key}, {key, "junk"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(check(auth, cases[i][0], cases[i][1]).code, ERROR_NONE);
        now_ms += 10000; // ask again
        assert_int_equal(asked, i + 1);
        assert_memory_equal(questions[i].token_id, key, 24);
    }
}

static void test_principal(void **state)
{
    (void)state;
    struct api_principal who = check(auth, key, "").principal;
    assert_int_equal(who.kind, PRINCIPAL_RUNTIME);
    assert_string_equal(who.account_id, "aaaaaaaaaaaaaaaaaaaaaaaa");
    assert_string_equal(who.account_name, "acme");
    assert_string_equal(who.runtime, "prod");
    assert_string_equal(who.runtime_id, "r-1");
    assert_string_equal(who.token_id, "bbbbbbbbbbbbbbbbbbbbbbbb");
    assert_string_equal(who.user_id, "");
    assert_false(who.is_scoped);
}

static void test_one_wording(void **state)
{
    (void)state;
    struct outcome unknown = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &unknown);
    assert_int_equal(unknown.calls, 0);
    answer(ERROR_UNAUTHENTICATED);
    assert_int_equal(unknown.calls, 1);
    assert_int_equal(unknown.code, ERROR_UNAUTHENTICATED);
    char longer[256];
    snprintf(longer, sizeof longer, "%s0", key);
    const char *malformed[] = {"", "Bearer ", "Basic dXNlcjpwYXNz", "junk", "a.b", longer};
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        struct outcome outcome = check(auth, malformed[i], "");
        assert_int_equal(outcome.code, ERROR_UNAUTHENTICATED);
        assert_string_equal(outcome.text, unknown.text);
    }
    assert_int_equal(asked, 1);
    assert_null(strstr(unknown.text, key));
}

static void test_database_away(void **state)
{
    (void)state;
    const enum error_code from[] = {ERROR_UNAVAILABLE, ERROR_TIMEOUT, ERROR_CONFLICT, ERROR_CANCELLED, ERROR_INTERNAL};
    const enum error_code to[] = {ERROR_UNAVAILABLE, ERROR_UNAVAILABLE, ERROR_UNAVAILABLE, ERROR_CANCELLED,
                                  ERROR_INTERNAL};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        struct outcome outcome = {0};
        api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
        answer(from[i]);
        assert_int_equal(outcome.calls, 1);
        assert_int_equal(outcome.code, to[i]);
        assert_null(strstr(outcome.text, "postgresql"));
    }
}

static void test_kept_for_its_time_since_asked(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
    now_ms += 500; // the database takes its time; what it says is true of when it was asked, at the latest
    answer(ERROR_NONE);
    assert_int_equal(outcome.code, ERROR_NONE);
    now_ms += API_AUTH_TTL_MS - 501;
    assert_int_equal(check(auth, key, "").code, ERROR_NONE);
    assert_int_equal(asked, 1);
    now_ms += 1;
    check(auth, key, "");
    assert_int_equal(asked, 2);
}

static void test_answer_older_than_its_time(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
    now_ms += API_AUTH_TTL_MS;
    answer(ERROR_NONE);
    assert_int_equal(outcome.code, ERROR_NONE);
    check(auth, key, "");
    assert_int_equal(asked, 2);
}

static void test_same_id_with_another_secret(void **state)
{
    (void)state;
    check(auth, key, "");
    char forged[TOKEN_TEXT_BYTES];
    memcpy(forged, key, sizeof forged);
    forged[TOKEN_TEXT_BYTES - 2] = forged[TOKEN_TEXT_BYTES - 2] == '0' ? '1' : '0';
    struct outcome outcome = {0};
    api_auth_check(auth, str_c(forged), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
    assert_int_equal(outcome.calls, 0);
    assert_int_equal(asked, 2);
    answer(ERROR_UNAUTHENTICATED);
    assert_int_equal(outcome.code, ERROR_UNAUTHENTICATED);
    // The owner of the true secret is not thrown out by it.
    check(auth, key, "");
    assert_int_equal(asked, 2);
}

static void test_refusals_are_not_kept(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 3; i++) {
        struct outcome outcome = {0};
        api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
        assert_int_equal(asked, i);
        answer(ERROR_UNAUTHENTICATED);
    }
}

// Two questions overlap and the later one says "revoked": what the earlier one left is dropped.
static void test_revocation_drops_what_is_kept(void **state)
{
    (void)state;
    struct outcome first = {0}, second = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &first);
    now_ms += API_AUTH_TTL_MS; // else it would share the first one's
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &second);
    answer(ERROR_NONE);
    answer(ERROR_UNAUTHENTICATED);
    assert_int_equal(first.code, ERROR_NONE);
    assert_int_equal(second.code, ERROR_UNAUTHENTICATED);
    struct outcome third = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &third);
    assert_int_equal(third.calls, 0);
    answer(ERROR_UNAUTHENTICATED);
}

static void test_answers_in_any_order(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    static const size_t orders[][COUNT] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct outcome outcomes[COUNT] = {0};
        size_t first = asked;
        for (size_t k = 0; k < COUNT; k++) {
            api_auth_check(auth, str_c(other_key), STR_EMPTY, STR_EMPTY, on_checked, &outcomes[k]);
            now_ms += API_AUTH_TTL_MS; // else they would share one question
        }
        for (size_t k = 0; k < COUNT; k++) {
            struct error err = {.code = ERROR_UNAVAILABLE};
            questions[first + orders[i][k]].on_done(questions[first + orders[i][k]].arg, &err, NULL);
            assert_int_equal(outcomes[orders[i][k]].calls, 1);
        }
        answered = asked;
    }
}

static void test_many_share_a_question(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    const enum error_code codes[] = {ERROR_NONE, ERROR_UNAUTHENTICATED, ERROR_UNAVAILABLE};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct outcome outcomes[COUNT] = {0}, forgery = {0};
        char forged[TOKEN_TEXT_BYTES];
        memcpy(forged, key, sizeof forged);
        forged[TOKEN_TEXT_BYTES - 2] = forged[TOKEN_TEXT_BYTES - 2] == '0' ? '1' : '0';
        size_t before = asked;
        for (size_t k = 0; k < COUNT; k++)
            api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcomes[k]);
        assert_int_equal(asked, before + 1);
        api_auth_check(auth, str_c(forged), STR_EMPTY, STR_EMPTY, on_checked, &forgery);
        assert_int_equal(asked, before + 2); // another secret is another question
        answer(codes[i]);
        for (size_t k = 0; k < COUNT; k++) {
            assert_int_equal(outcomes[k].calls, 1);
            assert_int_equal(outcomes[k].code, codes[i]);
        }
        assert_int_equal(forgery.calls, 0);
        answer(ERROR_UNAUTHENTICATED);
        assert_int_equal(forgery.code, ERROR_UNAUTHENTICATED);
        now_ms += API_AUTH_TTL_MS;
    }
}

static void test_destroyed_with_questions_outstanding(void **state)
{
    (void)state;
    struct outcome outcomes[2] = {0}, sharing = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcomes[0]);
    api_auth_check(auth, str_c(other_key), STR_EMPTY, STR_EMPTY, on_checked, &outcomes[1]);
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &sharing);
    api_auth_destroy(auth);
    auth = NULL;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(outcomes[i].calls, 1);
        assert_int_equal(outcomes[i].code, ERROR_CANCELLED);
    }
    assert_int_equal(sharing.calls, 1);
    assert_int_equal(sharing.code, ERROR_CANCELLED);
    answer(ERROR_CANCELLED); // late, from the database
    answer(ERROR_NONE);
    assert_int_equal(outcomes[0].calls + outcomes[1].calls, 2);
}

// Reversed: the database closes first, as in the server.
static void test_database_closed_first(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    api_auth_check(auth, str_c(key), STR_EMPTY, STR_EMPTY, on_checked, &outcome);
    answer(ERROR_CANCELLED);
    assert_int_equal(outcome.code, ERROR_CANCELLED);
    api_auth_destroy(auth);
    auth = NULL;
    assert_int_equal(outcome.calls, 1);
}

static void test_ids_do_not_fit(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'x', sizeof text);
    struct principal principal = somebody;
    struct api_principal out;
    principal.runtime = str_of(text, sizeof out.runtime);
    assert_int_equal(api_principal_from(&principal, &out, NULL), ERROR_INTERNAL);
    principal.runtime = str_of(text, sizeof out.runtime - 1);
    assert_int_equal(api_principal_from(&principal, &out, NULL), ERROR_NONE);
    assert_int_equal(strlen(out.runtime), sizeof out.runtime - 1);
    // A name is cut, and never inside a character.
    memcpy(text + sizeof out.user_name - 2, "\xc3\xa9", 2);
    principal.user_name = str_of(text, sizeof text);
    assert_int_equal(api_principal_from(&principal, &out, NULL), ERROR_NONE);
    assert_int_equal(strlen(out.user_name), sizeof out.user_name - 2);
}

static void test_cache_is_bounded(void **state)
{
    (void)state;
    struct api_auth_cache *cache = api_auth_cache_create(API_AUTH_TTL_MS);
    enum { COUNT = API_AUTH_CACHE_ENTRIES * 4 };
    struct token *tokens = mem_array(COUNT, sizeof *tokens);
    const struct api_principal principal = {.account_id = "a"};
    size_t kept = 0;
    for (size_t i = 0; i < COUNT; i++) {
        char text[TOKEN_TEXT_BYTES];
        token_generate(&tokens[i], text);
        api_auth_cache_put(cache, &tokens[i], &principal, 1000 + i / 64);
        assert_non_null(api_auth_cache_find(cache, &tokens[i], 1000 + i / 64)); // the newest always has a place
    }
    for (size_t i = 0; i < COUNT; i++)
        kept += api_auth_cache_find(cache, &tokens[i], 1000 + COUNT / 64) != NULL;
    assert_true(kept <= API_AUTH_CACHE_ENTRIES);
    assert_true(kept > API_AUTH_CACHE_ENTRIES * 9 / 10);
    struct api_principal younger = {.account_id = "b"};
    api_auth_cache_put(cache, &tokens[0], &younger, 5000);
    api_auth_cache_put(cache, &tokens[0], &principal, 4000); // an older answer that comes late
    assert_string_equal(api_auth_cache_find(cache, &tokens[0], 5000)->account_id, "b");
    mem_free(tokens);
    api_auth_cache_destroy(cache);
    api_auth_cache_destroy(NULL);
}

// ---- failures ------------------------------------------------------------------------------------------------------

static unsigned failures;
static bool is_over;
static char failed_remote[64], failed_id[32], good_id[32];

static enum error_code check_failures(void *ctx, struct str remote, const struct token *token, struct error *err)
{
    (void)ctx, (void)remote;
    bool is_good = token && strcmp(token->id, good_id) == 0;
    return is_over && !is_good ? error_set(err, ERROR_LIMITED, "too many") : ERROR_NONE;
}

static void note_success(void *ctx, const struct token *token)
{
    (void)ctx;
    snprintf(good_id, sizeof good_id, "%s", token->id);
}

static void note_failure(void *ctx, struct str remote, struct str key_id)
{
    (void)ctx;
    failures++;
    snprintf(failed_remote, sizeof failed_remote, "%.*s", STR_ARG(remote));
    snprintf(failed_id, sizeof failed_id, "%.*s", STR_ARG(key_id));
}

static enum error_code check_from(const char *text, enum error_code says)
{
    struct outcome outcome = {0};
    size_t before = asked;
    api_auth_check(auth, str_c(text), STR_EMPTY, STR("192.0.2.1"), on_checked, &outcome);
    if (asked > before) answer(says);
    assert_int_equal(outcome.calls, 1);
    return outcome.code;
}

static void test_failures(void **state)
{
    (void)state;
    api_auth_destroy(auth);
    failures = 0;
    is_over = false;
    const struct api_auth_options options = {.now_ms = read_clock,
                                             .authenticate = authenticate,
                                             .refused_ttl_ms = 5000,
                                             .check_failures = check_failures,
                                             .note_failure = note_failure,
                                             .note_success = note_success};
    auth = api_auth_create((void *)&asked, &options);
    assert_int_equal(check_from(key, ERROR_NONE), ERROR_NONE);
    assert_int_equal(failures, 0);
    // A wrong one costs a query, and then none for a while; each time is a failure.
    assert_int_equal(check_from(other_key, ERROR_UNAUTHENTICATED), ERROR_UNAUTHENTICATED);
    assert_int_equal(asked, 2);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(check_from(other_key, ERROR_NONE), ERROR_UNAUTHENTICATED);
    assert_int_equal(asked, 2);
    assert_int_equal(failures, 11);
    assert_string_equal(failed_remote, "192.0.2.1");
    assert_memory_equal(failed_id, other_key, 24);
    assert_int_equal(check_from("junk", ERROR_NONE), ERROR_UNAUTHENTICATED);
    assert_int_equal(failures, 12);
    assert_string_equal(failed_id, "");
    assert_int_equal(check_from("", ERROR_NONE), ERROR_UNAUTHENTICATED); // none is no wrong one
    assert_int_equal(failures, 12);
    now_ms += 5000;
    assert_int_equal(check_from(other_key, ERROR_UNAVAILABLE), ERROR_UNAVAILABLE); // nobody's failure
    assert_int_equal(asked, 3);
    assert_int_equal(failures, 12);
    // Over the limit nothing is asked, but for what was good before.
    is_over = true;
    assert_int_equal(check_from(other_key, ERROR_NONE), ERROR_LIMITED);
    assert_int_equal(check_from("junk", ERROR_NONE), ERROR_LIMITED);
    assert_int_equal(asked, 3);
    assert_int_equal(check_from(key, ERROR_NONE), ERROR_NONE);
    assert_int_equal(asked, 4);
    is_over = false;
    assert_int_equal(check_from(other_key, ERROR_NONE), ERROR_NONE);
}

// However many are wrong at once, the database is asked about so many at a time.
static void test_lookups_at_once_are_bounded(void **state)
{
    (void)state;
    enum { MANY = 1000, AT_ONCE = 256 };
    static struct outcome outcomes[MANY];
    memset(outcomes, 0, sizeof outcomes);
    for (size_t i = 0; i < MANY; i++) {
        char text[TOKEN_TEXT_BYTES];
        struct token token;
        token_generate(&token, text);
        api_auth_check(auth, str_c(text), STR_EMPTY, STR_EMPTY, on_checked, &outcomes[i]);
        assert_int_equal(outcomes[i].calls, i >= AT_ONCE);
    }
    assert_int_equal(asked, AT_ONCE);
    assert_int_equal(outcomes[AT_ONCE].code, ERROR_UNAVAILABLE);
    while (answered < asked)
        answer(ERROR_UNAUTHENTICATED);
    assert_int_equal(check(auth, key, "").code, ERROR_NONE);
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_where_the_credential_is),
        CASE(test_principal),
        CASE(test_one_wording),
        CASE(test_database_away),
        CASE(test_kept_for_its_time_since_asked),
        CASE(test_many_share_a_question),
        CASE(test_answer_older_than_its_time),
        CASE(test_same_id_with_another_secret),
        CASE(test_refusals_are_not_kept),
        CASE(test_revocation_drops_what_is_kept),
        CASE(test_answers_in_any_order),
        CASE(test_destroyed_with_questions_outstanding),
        CASE(test_database_closed_first),
        CASE(test_ids_do_not_fit),
        CASE(test_cache_is_bounded),
        CASE(test_failures),
        CASE(test_lookups_at_once_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
