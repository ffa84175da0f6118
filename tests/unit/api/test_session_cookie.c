// session_cookie: what is taken from a Cookie field, who passes with it, and that a secret of one
// kind is no other kind of credential.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/session_cookie.h"

#define NAME SESSION_COOKIE_NAME

static void test_find(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value;
    } cases[] = {
        {"", ""},
        {NAME "=a", "a"},
        {"x=1; " NAME "=a; y=2", "a"},
        {"x=1;" NAME " = a ;y", "a"},
        {NAME "=a; " NAME "=b", ""}, // two meanings
        {"x" NAME "=a", ""},
        {NAME "x=a", ""},
        {NAME, ""},
        {"__host-culvert-session=a", ""}, // names are case-sensitive
        {NAME "=a=b", "a=b"},
        {";;;=;" NAME "=", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str found = session_cookie_find(str_c(cases[i].field));
        if (!str_eq(found, str_c(cases[i].value))) fail_msg("%s: %.*s", cases[i].field, STR_ARG(found));
    }
}

static void test_admit(void **state)
{
    (void)state;
    struct session_cookie mine, other;
    char text[TOKEN_TEXT_BYTES];
    session_cookie_generate(&other, text);
    session_cookie_generate(&mine, text);
    const struct {
        bool needs;
        const char *csrf, *site;
        enum error_code code;
    } cases[] = {
        {false, "", "", ERROR_NONE},
        {false, "", "same-origin", ERROR_NONE},
        {false, "", "none", ERROR_NONE},
        {false, mine.csrf_token, "cross-site", ERROR_FORBIDDEN},
        {false, mine.csrf_token, "same-site", ERROR_FORBIDDEN},
        {false, "", "Same-Origin", ERROR_FORBIDDEN},
        {true, mine.csrf_token, "", ERROR_NONE},
        {true, mine.csrf_token, "same-origin", ERROR_NONE},
        {true, "", "same-origin", ERROR_FORBIDDEN},
        {true, "1", "", ERROR_FORBIDDEN},
        {true, other.csrf_token, "", ERROR_FORBIDDEN},
        {true, text, "", ERROR_FORBIDDEN},
        {true, mine.csrf_token, "cross-site", ERROR_FORBIDDEN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        enum error_code code =
            session_cookie_admit(&mine, cases[i].needs, str_c(cases[i].csrf), str_c(cases[i].site), &err);
        if (code != cases[i].code) fail_msg("case %zu: %s", i, error_code_name(code));
        assert_true(code == ERROR_NONE || err.text[0]);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    struct session_cookie made, parsed;
    char text[TOKEN_TEXT_BYTES], header[SESSION_COOKIE_BYTES];
    session_cookie_generate(&made, text);
    session_cookie_write(text, 3600, header);
    const char *end = strchr(header, ';');
    assert_non_null(end);
    assert_string_equal(end, "; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict");
    struct str value = session_cookie_find(str_of(header, (size_t)(end - header)));
    assert_int_equal(session_cookie_parse(value, &parsed, NULL), ERROR_NONE);
    assert_string_equal(parsed.token.id, made.token.id);
    assert_memory_equal(parsed.token.secret_sha256, made.token.secret_sha256, ID_SHA256_BYTES);
    assert_string_equal(parsed.csrf_token, made.csrf_token);
    assert_int_equal(strlen(made.csrf_token), 64);
    session_cookie_write(NULL, 3600, header);
    assert_string_equal(header, NAME "=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    assert_int_equal(session_cookie_parse(STR("junk"), &parsed, NULL), ERROR_INVALID);
}

static void test_kinds_are_apart(void **state)
{
    (void)state;
    struct token key, link;
    struct session_cookie session;
    char text[TOKEN_TEXT_BYTES], csrf[ID_SHA256_HEX_BYTES];
    token_generate(&key, text);
    assert_int_equal(session_cookie_parse(str_c(text), &session, NULL), ERROR_NONE);
    assert_int_equal(sign_in_link_parse(str_c(text), &link, NULL), ERROR_NONE);
    assert_memory_not_equal(key.secret_sha256, session.token.secret_sha256, ID_SHA256_BYTES);
    assert_memory_not_equal(key.secret_sha256, link.secret_sha256, ID_SHA256_BYTES);
    assert_memory_not_equal(session.token.secret_sha256, link.secret_sha256, ID_SHA256_BYTES);
    // What the database has gives no CSRF token.
    token_for(&session.token, STR("culvert csrf token"));
    for (size_t i = 0; i < ID_SHA256_BYTES; i++)
        snprintf(csrf + 2 * i, 3, "%02x", session.token.secret_sha256[i]);
    assert_string_not_equal(csrf, session.csrf_token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_admit),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_kinds_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
