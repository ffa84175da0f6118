// str, strbuf, parse, clock, token: the small vocabulary, mostly at its edges.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/token.h"

static void test_str_cut_and_trim(void **state)
{
    (void)state;
    struct str rest = STR("a=b=c"), head;
    assert_true(str_cut(&rest, '=', &head));
    assert_true(str_eq(head, STR("a")) && str_eq(rest, STR("b=c")));
    rest = STR("abc");
    assert_false(str_cut(&rest, '=', &head));
    assert_true(str_eq(head, STR("abc")) && rest.len == 0);
    assert_true(str_eq(str_trim(STR(" \t x y \t")), STR("x y")));
    assert_int_equal(str_trim(STR("   ")).len, 0);
}

static void test_utf8(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        bool valid;
    } cases[] = {
        {"plain", true},     {"\xc3\xa9", true},          {"\xe2\x82\xac", true},      {"\xf0\x9f\x98\x80", true},
        {"\xc0\xaf", false}, {"\xed\xa0\x80", false},     {"\xf5\x80\x80\x80", false}, {"\xe2\x82", false},
        {"\x80", false},     {"\xf0\x80\x80\xaf", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(str_is_utf8(str_c(cases[i].bytes)), cases[i].valid);
    assert_false(str_is_utf8(str_of("a\0b", 3)));
}

static void test_strbuf_bound(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 8);
    assert_true(strbuf_add_c(&b, "12345678"));
    assert_false(strbuf_add_byte(&b, '9'));
    assert_true(b.overflow);
    assert_string_equal(b.at, "12345678");
    strbuf_clear(&b);
    assert_false(strbuf_addf(&b, "%s", "123456789"));
    assert_int_equal(b.len, 0);
    strbuf_finish(&b);
}

static void test_json_text(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 1024);
    assert_true(strbuf_add_json(&b, str_of("a\"\\\n\x01\x7f\xc2\x85\xe2\x80\xa8\xff\xc3\xa9", 14)));
    assert_string_equal(b.at, "\"a\\\"\\\\\\n\\u0001\\u007f\\u0085\\u2028\xef\xbf\xbd\xc3\xa9\"");
    strbuf_finish(&b);
    strbuf_init(&b, 4);
    assert_false(strbuf_add_json(&b, STR("longer")));
    assert_int_equal(b.len, 0);
    strbuf_finish(&b);
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t u;
    int64_t i;
    assert_int_equal(parse_u64(STR("18446744073709551615"), 0, UINT64_MAX, &u, NULL), ERROR_NONE);
    assert_true(u == UINT64_MAX);
    const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x10", "18446744073709551616", "1e3"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(parse_u64(str_c(bad[k]), 0, UINT64_MAX, &u, NULL), ERROR_INVALID);
    assert_int_equal(parse_i64(STR("-9223372036854775808"), INT64_MIN, INT64_MAX, &i, NULL), ERROR_NONE);
    assert_true(i == INT64_MIN);
    assert_int_equal(parse_i64(STR("-9223372036854775809"), INT64_MIN, INT64_MAX, &i, NULL), ERROR_INVALID);
}

static void test_units(void **state)
{
    (void)state;
    uint64_t value;
    assert_int_equal(parse_bytes(STR("64KiB"), &value, NULL), ERROR_NONE);
    assert_int_equal(value, 65536);
    assert_int_equal(parse_duration_ms(STR("2m"), &value, NULL), ERROR_NONE);
    assert_int_equal(value, 120000);
    struct error err;
    assert_int_equal(parse_duration_ms(STR("5"), &value, &err), ERROR_INVALID);
    assert_int_equal(parse_bytes(STR("5 MiB"), &value, &err), ERROR_INVALID);
    assert_int_equal(parse_bytes(STR("99999999999GiB"), &value, &err), ERROR_INVALID);
}

static void test_address(void **state)
{
    (void)state;
    struct str host;
    uint16_t port;
    assert_int_equal(parse_address(STR("[::1]:80"), &host, &port, NULL), ERROR_NONE);
    assert_true(str_eq(host, STR("::1")) && port == 80);
    assert_int_equal(parse_address(STR(":8443"), &host, &port, NULL), ERROR_NONE);
    assert_int_equal(host.len, 0);
    assert_int_equal(parse_address(STR("::1:80"), &host, &port, NULL), ERROR_INVALID);
    assert_int_equal(parse_address(STR("host:65536"), &host, &port, NULL), ERROR_INVALID);
    assert_int_equal(parse_address(STR("host"), &host, &port, NULL), ERROR_INVALID);
    assert_int_equal(parse_address(STR("[[]]:80"), &host, &port, NULL), ERROR_INVALID);
    assert_int_equal(parse_address(STR("[[a]]:80"), &host, &port, NULL), ERROR_INVALID);
    assert_int_equal(parse_address(STR("a]:80"), &host, &port, NULL), ERROR_INVALID);
}

static void test_base64(void **state)
{
    (void)state;
    for (size_t len = 0; len < 64; len++) {
        uint8_t raw[64], back[64];
        char text[100];
        size_t back_len;
        for (size_t i = 0; i < len; i++)
            raw[i] = (uint8_t)(i * 37 + len);
        size_t text_len = format_base64(raw, len, text);
        assert_int_equal(parse_base64(str_of(text, text_len), back, sizeof back, &back_len, NULL), ERROR_NONE);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, raw, len);
        text_len = format_base64url(raw, len, text);
        assert_int_equal(parse_base64url(str_of(text, text_len), back, sizeof back, &back_len, NULL), ERROR_NONE);
        assert_memory_equal(back, raw, len);
    }
    uint8_t out[8];
    size_t out_len;
    const char *const bad[] = {"a", "ab", "abc", "a===", "ab==c", "!!!!", "QQ=A", "QR=="};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_not_equal(parse_base64(str_c(bad[k]), out, sizeof out, &out_len, NULL), ERROR_NONE);
    assert_int_equal(parse_base64(STR("QUJDREVGR0hJSktM"), out, 4, &out_len, NULL), ERROR_TOO_LARGE);
}

static void test_times(void **state)
{
    (void)state;
    int64_t ms;
    char text[CLOCK_RFC3339_BYTES];
    assert_int_equal(clock_parse_rfc3339(STR("2026-02-28T23:59:59.5+01:00"), &ms, NULL), ERROR_NONE);
    clock_format_rfc3339(ms, text);
    assert_string_equal(text, "2026-02-28T22:59:59.500Z");
    const char *const bad[] = {"2026-02-30T00:00:00Z",
                               "2026-13-01T00:00:00Z",
                               "2026-01-01 00:00:00Z",
                               "2026-01-01T00:00:00",
                               "2026-01-01T24:00:00Z",
                               "2026-01-01T00:00:00.Z",
                               "",
                               "2026-01-01T00:00:00+1:00"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(clock_parse_rfc3339(str_c(bad[k]), &ms, NULL), ERROR_INVALID);
}

static void test_tokens(void **state)
{
    (void)state;
    struct token made, read;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&made, text);
    assert_int_equal(token_parse(str_c(text), &read, NULL), ERROR_NONE);
    assert_string_equal(read.id, made.id);
    assert_memory_equal(read.secret_sha256, made.secret_sha256, sizeof read.secret_sha256);
    text[30] = 'x';
    struct error err;
    assert_int_equal(token_parse(str_c(text), &read, &err), ERROR_INVALID);
    assert_null(strstr(err.text, text + 25));
    assert_true(str_eq(token_from_authorization(STR(" bearer  abc ")), STR("abc")));
    assert_true(str_eq(token_from_authorization(STR("abc")), STR("abc")));
    assert_int_equal(token_from_authorization(STR("")).len, 0);
}

static void test_arena(void **state)
{
    (void)state;
    struct arena *arena = arena_create(1024 * 1024);
    char *kept = arena_printf(arena, "%d-%s", 7, "x");
    for (int i = 0; i < 1000; i++) {
        unsigned char *at = arena_alloc(arena, (size_t)i);
        assert_int_equal((uintptr_t)at % 16, 0);
        for (int k = 0; k < i; k++)
            assert_int_equal(at[k], 0);
        memset(at, 0xff, (size_t)i);
    }
    assert_string_equal(kept, "7-x");
    arena_reset(arena);
    assert_int_equal(arena_used(arena), 0);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_str_cut_and_trim), cmocka_unit_test(test_utf8),    cmocka_unit_test(test_strbuf_bound),
        cmocka_unit_test(test_json_text),        cmocka_unit_test(test_numbers), cmocka_unit_test(test_units),
        cmocka_unit_test(test_address),          cmocka_unit_test(test_base64),  cmocka_unit_test(test_times),
        cmocka_unit_test(test_tokens),           cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
