// tunnel/wire/identity: a signed caller, and every way to get it wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/parse.h"
#include "tunnel/wire/identity.h"

enum { NOW_MS = 1700000 };

static const uint8_t key[ID_SHA256_BYTES] = {1, 2, 3, 4};
static const uint8_t other_key[ID_SHA256_BYTES] = {1, 2, 3, 5};

static struct wire_identity sample(void)
{
    struct wire_identity identity = {.account_id = "acc", .runtime = "demo", .user_id = "u-1", .expires_at_ms = NOW_MS};
    snprintf(identity.user_name, sizeof(identity.user_name), "%s", "J\xc3\xbcrgen \"x\"\n");
    return identity;
}

static char *signed_text(const struct wire_identity *identity)
{
    struct strbuf text;
    strbuf_init(&text, WIRE_IDENTITY_BYTES_MAX);
    assert_int_equal(wire_identity_sign(identity, key, &text, NULL), ERROR_NONE);
    return strbuf_detach(&text);
}

static enum error_code verify(const char *text, const uint8_t *with, const char *account, const char *runtime,
                              int64_t now_ms)
{
    struct wire_identity out;
    return wire_identity_verify(str_c(text), with, str_c(account), str_c(runtime), now_ms, &out, NULL);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct wire_identity in = sample();
    char *text = signed_text(&in);
    struct wire_identity out;
    assert_int_equal(wire_identity_verify(str_c(text), key, STR("acc"), STR("demo"), NOW_MS, &out, NULL), ERROR_NONE);
    assert_string_equal(out.account_id, in.account_id);
    assert_string_equal(out.runtime, in.runtime);
    assert_string_equal(out.user_id, in.user_id);
    assert_string_equal(out.user_name, in.user_name);
    assert_int_equal(out.expires_at_ms, in.expires_at_ms);
    mem_free(text);
}

static void test_refusals(void **state)
{
    (void)state;
    struct wire_identity in = sample();
    char *text = signed_text(&in);
    assert_int_equal(verify(text, key, "acc", "demo", NOW_MS + WIRE_IDENTITY_SKEW_MS), ERROR_NONE);
    assert_int_equal(verify(text, key, "acc", "demo", NOW_MS + WIRE_IDENTITY_SKEW_MS + 1), ERROR_UNAUTHENTICATED);
    assert_int_equal(verify(text, other_key, "acc", "demo", NOW_MS), ERROR_UNAUTHENTICATED);
    assert_int_equal(verify(text, key, "acc", "other", NOW_MS), ERROR_FORBIDDEN);
    assert_int_equal(verify(text, key, "bcc", "demo", NOW_MS), ERROR_FORBIDDEN);
    assert_int_equal(verify("", key, "acc", "demo", NOW_MS), ERROR_INVALID);
    assert_int_equal(verify(".", key, "acc", "demo", NOW_MS), ERROR_INVALID);
    for (char *at = text; *at; at++) { // no byte may change
        char was = *at;
        *at = was == 'A' ? 'B' : 'A';
        assert_int_not_equal(verify(text, key, "acc", "demo", NOW_MS), ERROR_NONE);
        *at = was;
    }
    mem_free(text);
}

// Well signed by a platform that is broken: still bounded.
static void test_signed_nonsense(void **state)
{
    (void)state;
    static const char *const bodies[] = {"",
                                         "{}",
                                         "[]",
                                         "1",
                                         "{\"account\":1}",
                                         "{\"account\":\"acc\",\"runtime\":\"demo\"}",
                                         "{\"account\":\"acc\",\"runtime\":\"demo\",\"user\":\"a\\u0000b\",\"exp\":1}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char body[256], mac_text[64], text[512];
        uint8_t mac[ID_SHA256_BYTES];
        size_t len = format_base64url((const uint8_t *)bodies[i], strlen(bodies[i]), body);
        id_hmac_sha256(str_of((const char *)key, sizeof(key)), body, len, mac);
        format_base64url(mac, sizeof(mac), mac_text);
        snprintf(text, sizeof(text), "%s.%s", body, mac_text);
        assert_int_not_equal(verify(text, key, "acc", "demo", NOW_MS), ERROR_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_signed_nonsense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
