// sign_in_attempt: what a browser carries to an identity provider and back; claims of tokens.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/oidc/jwt.h"
#include "api/oidc/sign_in_attempt.h"
#include "base/json/json.h"

static const struct purpose_key key = {.bytes = {{1, 2, 3}}, .count = 1}, other = {.bytes = {{3, 2, 1}}, .count = 1};

static void test_cookie(void **state)
{
    (void)state;
    struct sign_in_attempt attempt, found;
    char cookie[SIGN_IN_COOKIE_BYTES], path[SIGN_IN_PATH_BYTES_MAX + 1];
    memset(path, 'x', SIGN_IN_PATH_BYTES_MAX);
    memcpy(path, "ui/", 3);
    path[SIGN_IN_PATH_BYTES_MAX] = '\0';
    sign_in_attempt_init(&attempt, STR("sso"), str_c(path), 1000);
    sign_in_attempt_write(&attempt, &key, 600, cookie);
    *strchr(cookie, ';') = '\0';
    assert_true(sign_in_attempt_read(str_c(cookie), &key, 999, &found));
    assert_string_equal(found.provider, "sso");
    assert_string_equal(found.path, path);
    assert_string_equal(found.state, attempt.state);
    assert_string_equal(found.nonce, attempt.nonce);
    assert_string_equal(found.verifier, attempt.verifier);
    assert_string_not_equal(found.state, found.nonce);
    assert_null(strstr(cookie, attempt.state));
    assert_false(sign_in_attempt_read(str_c(cookie), &key, 1000, &found));
    assert_false(sign_in_attempt_read(str_c(cookie), &other, 999, &found));
    size_t value = strlen(SIGN_IN_ATTEMPT_COOKIE) + 1;
    for (size_t i = value; i < strlen(cookie); i++) {
        char before = cookie[i];
        cookie[i] = before == 'A' ? 'Q' : 'A';
        assert_false(sign_in_attempt_read(str_c(cookie), &key, 999, &found));
        cookie[i] = '\0';
        assert_false(sign_in_attempt_read(str_of(cookie, i), &key, 999, &found));
        cookie[i] = before;
    }
    sign_in_attempt_write(NULL, NULL, 0, cookie);
    assert_non_null(strstr(cookie, "=; Path=/; Max-Age=0; "));
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const safe[] = {"ui/", "ui/apps?q=a%20b", "ui/apps/a:b/c@d"};
    static const char *const unsafe[] = {"",       "/ui/",  "ui",    "//x/ui/", "https:x",
                                         "ui/\\x", "ui/ x", "ui/\n", "ui/\"",   "ui/<"};
    for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
        assert_true(sign_in_path_is_safe(str_c(safe[i])));
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        assert_false(sign_in_path_is_safe(str_c(unsafe[i])));
    assert_false(sign_in_path_is_safe(STR("ui/\0x")));
}

static void test_claims(void **state)
{
    (void)state;
    json_t *claims =
        json_loads("{\"a\": {\"b/c\": {\"~\": [\"x\", 1]}}, \"urn:x:groups\": \"y\", \"/a\": \"z\"}", 0, NULL);
    json_t *wanted = json_loads("{\"/a/b~1c/~0\": [\"w\", \"x\"], \"urn:x:groups\": \"y\"}", 0, NULL);
    assert_true(jwt_claim_has(jwt_claim(claims, STR("/a/b~1c/~0")), STR("x")));
    assert_false(jwt_claim_has(jwt_claim(claims, STR("/a/b~1c/~0")), STR("1")));
    assert_null(jwt_claim(claims, STR("/a/b/c")));
    assert_null(jwt_claim(claims, STR("/")));
    assert_true(json_is_object(jwt_claim(claims, STR("/a"))));
    assert_true(jwt_claims_fit(claims, wanted));
    json_object_set_new(wanted, "missing", json_string("x"));
    assert_false(jwt_claims_fit(claims, wanted));
    json_decref(wanted);
    json_decref(claims);
}

static void test_forms(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        ".",
                                        "..",
                                        "a.b",
                                        "e30.e30.",
                                        "e30.e30.AA",
                                        "bm8.e30.AA",
                                        "eyJhbGciOiJub25lIn0.e30.",
                                        "eyJhbGciOiJIUzI1NiJ9.e30.AA",
                                        "eyJhbGciOiJSUzI1NiJ9.e30.AA.AA",
                                        "eyJhbGciOiJSUzI1NiJ9.W10.AA",
                                        "eyJhbGciOiJSUzI1NiJ9.e30.A"};
    struct jwt jwt;
    struct error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (jwt_parse(str_c(texts[i]), JWK_ALL, &jwt, &err) != ERROR_UNAUTHENTICATED) fail_msg("%s", texts[i]);
    struct str right = STR("eyJhbGciOiJSUzI1NiJ9.e30.AAAA");
    assert_int_equal(jwt_parse(right, JWK_ALL, &jwt, &err), ERROR_NONE);
    jwt_finish(&jwt);
    assert_int_equal(jwt_parse(right, JWK_ES256, &jwt, &err), ERROR_UNAUTHENTICATED);
}

static void test_key_sets(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"keys\": {}}",
        "{\"keys\": [1, null, {}]}",
        "{\"keys\": [{\"kty\": \"RSA\", \"n\": \"AQAB\", \"e\": \"AQAB\"}]}",
        "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AAAA\"}]}",
        "{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"AAAA\", \"y\": \"AAAA\"}]}",
        "{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"AAAA\"}]}",
    };
    struct jwk_set *set;
    struct error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (jwk_set_parse(str_c(texts[i]), &set, &err) != ERROR_INVALID) fail_msg("%s", texts[i]);
    // Of RFC 8037 appendix A.2.
    struct str text = STR("{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"a\", \"x\": "
                          "\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}");
    assert_int_equal(jwk_set_parse(text, &set, &err), ERROR_NONE);
    assert_non_null(jwk_set_find(set, STR("a"), JWK_EDDSA));
    assert_non_null(jwk_set_find(set, STR_EMPTY, JWK_EDDSA));
    assert_null(jwk_set_find(set, STR("b"), JWK_EDDSA));
    assert_null(jwk_set_find(set, STR("a"), JWK_RS256));
    jwk_set_unref(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cookie), cmocka_unit_test(test_paths),    cmocka_unit_test(test_claims),
        cmocka_unit_test(test_forms),  cmocka_unit_test(test_key_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
