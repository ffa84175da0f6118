// tunnel/wire/identity: a signed caller, and every way to get it wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

// ---- bound to a call -----------------------------------------------------------------------------------------

static const struct wire_identity_call get_it = {STR("GET"), STR(""), STR("runtime"), STR("/a/b?c=d")};

static enum error_code verify_call(const char *text, const struct wire_identity_call *call, uint64_t epoch,
                                   int64_t now_ms)
{
    struct wire_identity_bound out;
    return wire_identity_verify_call(str_c(text), call, key, epoch, now_ms, &out, NULL);
}

static char *bound_text(void)
{
    struct wire_identity in = sample();
    struct strbuf text;
    in.epoch = 9;
    in.number = 77;
    in.expires_at_ms = NOW_MS + WIRE_IDENTITY_BOUND_LIFE_MS;
    strbuf_init(&text, WIRE_IDENTITY_BYTES_MAX);
    assert_int_equal(wire_identity_sign_call(&in, &get_it, key, &text, NULL), ERROR_NONE);
    return strbuf_detach(&text);
}

static void test_bound_round_trip(void **state)
{
    (void)state;
    char *text = bound_text();
    struct wire_identity_bound bound;
    struct wire_identity out;
    assert_int_equal(wire_identity_verify_call(str_c(text), &get_it, key, 9, NOW_MS, &bound, NULL), ERROR_NONE);
    assert_int_equal(bound.number, 77);
    assert_int_equal(wire_identity_read_caller(bound.caller, STR("demo"), &out, NULL), ERROR_NONE);
    assert_string_equal(out.account_id, "acc");
    assert_string_equal(out.user_id, "u-1");
    assert_string_equal(out.user_name, sample().user_name);
    assert_int_equal(wire_identity_read_caller(bound.caller, STR("other"), &out, NULL), ERROR_FORBIDDEN);
    mem_free(text);
}

static void test_bound_refusals(void **state)
{
    (void)state;
    char *text = bound_text();
    const struct wire_identity_call others[] = {
        {STR("POST"), STR(""), STR("runtime"), STR("/a/b?c=d")},
        {STR("GET"), STR("websocket"), STR("runtime"), STR("/a/b?c=d")},
        {STR("GET"), STR(""), STR("runtim"), STR("e/a/b?c=d")}, // the same bytes, cut elsewhere
        {STR("GET"), STR(""), STR("runtime"), STR("/a/b?c=")},
        {STR("GET"), STR(""), STR("runtime"), STR("/a/b")},
        {STR("GET"), STR(""), STR("culvert"), STR("/a/b?c=d")},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(verify_call(text, &others[i], 9, NOW_MS), ERROR_UNAUTHENTICATED);
    assert_int_equal(verify_call(text, &get_it, 8, NOW_MS), ERROR_UNAUTHENTICATED);
    assert_int_equal(verify_call(text, &get_it, 9, NOW_MS + WIRE_IDENTITY_BOUND_LIFE_MS), ERROR_NONE);
    assert_int_equal(verify_call(text, &get_it, 9, NOW_MS + WIRE_IDENTITY_BOUND_LIFE_MS + 1), ERROR_UNAUTHENTICATED);
    // Never good for more than a minute by the agent's clock, however far that one is off.
    assert_int_equal(verify_call(text, &get_it, 9, NOW_MS - WIRE_IDENTITY_DRIFT_MS), ERROR_NONE);
    assert_int_equal(verify_call(text, &get_it, 9, NOW_MS - WIRE_IDENTITY_DRIFT_MS - 1), ERROR_UNAUTHENTICATED);
    assert_true(WIRE_IDENTITY_BOUND_LIFE_MS + WIRE_IDENTITY_DRIFT_MS <= 60000);
    // An unbound one is none that is bound, and the reverse.
    struct wire_identity in = sample();
    char *unbound = signed_text(&in);
    assert_int_equal(verify_call(unbound, &get_it, 0, NOW_MS), ERROR_INVALID);
    assert_int_not_equal(verify(text, key, "acc", "demo", NOW_MS), ERROR_NONE);
    mem_free(unbound);
    for (char *at = text; *at; at++) { // no byte may change
        char was = *at;
        *at = was == 'A' ? 'B' : 'A';
        assert_int_not_equal(verify_call(text, &get_it, 9, NOW_MS), ERROR_NONE);
        *at = was;
    }
    for (size_t len = 0; len < strlen(text); len++) {
        struct wire_identity_bound out;
        assert_int_not_equal(wire_identity_verify_call(str_of(text, len), &get_it, key, 9, NOW_MS, &out, NULL),
                             ERROR_NONE);
    }
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_signed_nonsense), cmocka_unit_test(test_bound_round_trip),
                                       cmocka_unit_test(test_bound_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
