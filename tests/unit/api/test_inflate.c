// inflate: one whole gzip member within its budget, and nothing else.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <zlib.h>

#include "api/http/inflate.h"
#include "base/mem.h"

enum { GZIP_BITS = 15 + 16, TRAILER_BYTES = 8, MIB = 1024 * 1024 };

// The caller owns the bytes.
static struct str gzip(const void *at, size_t len)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, GZIP_BITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    size_t cap = deflateBound(&stream, len);
    char *out = mem_alloc(cap);
    stream.next_in = (Bytef *)(uintptr_t)at;
    stream.avail_in = (uInt)len;
    stream.next_out = (Bytef *)out;
    stream.avail_out = (uInt)cap;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    struct str body = str_of(out, stream.total_out);
    deflateEnd(&stream);
    return body;
}

static void give_back(struct str body)
{
    mem_free((char *)(uintptr_t)body.at);
}

static struct str gzip_zeros(size_t len)
{
    char *zeros = mem_zalloc(len);
    struct str body = gzip(zeros, len);
    mem_free(zeros);
    return body;
}

// Bytes that do not compress.
static char *noise(size_t len)
{
    char *at = mem_alloc(len);
    uint32_t x = 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        at[i] = (char)(x >> 24);
    }
    return at;
}

static void test_whole_member(void **state)
{
    (void)state;
    struct error err;
    struct strbuf out;
    strbuf_init(&out, MIB);
    strbuf_add_c(&out, "before ");
    struct str body = gzip("hello", 5);
    assert_int_equal(inflate_gzip(body, MIB, 100, &out, &err), ERROR_NONE);
    give_back(body);
    assert_string_equal(out.at, "before hello");
    strbuf_finish(&out);
}

static void test_empty_member(void **state)
{
    (void)state;
    struct error err;
    struct strbuf out;
    strbuf_init(&out, MIB);
    struct str body = gzip("", 0);
    assert_int_equal(inflate_gzip(body, 0, 100, &out, &err), ERROR_NONE);
    assert_int_equal(out.len, 0);
    give_back(body);
    strbuf_finish(&out);
}

static void test_every_truncation(void **state)
{
    (void)state;
    struct str body = gzip("{\"data\":{\"object\":\"x\"}}", 23);
    for (size_t len = 0; len < body.len; len++) {
        struct error err;
        struct strbuf out;
        strbuf_init(&out, MIB);
        strbuf_add_c(&out, "kept");
        // A copy of the exact size: a sanitizer sees a read past its end.
        char *cut = mem_dup(body.at, len ? len : 1);
        assert_int_equal(inflate_gzip(str_of(cut, len), MIB, 100, &out, &err), ERROR_INVALID);
        assert_non_null(strstr(err.text, "gzip at byte "));
        assert_string_equal(out.at, "kept");
        mem_free(cut);
        strbuf_finish(&out);
    }
    give_back(body);
}

static void expect(struct str body, size_t bytes_max, unsigned ratio_max, enum error_code code, const char *text)
{
    struct error err = {0};
    struct strbuf out;
    strbuf_init(&out, 64 * MIB);
    assert_int_equal(inflate_gzip(body, bytes_max, ratio_max, &out, &err), code);
    if (text && !strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    if (code != ERROR_NONE) assert_int_equal(out.len, 0);
    strbuf_finish(&out);
}

static void test_what_follows(void **state)
{
    (void)state;
    struct str body = gzip("one", 3);
    char *two = mem_alloc(body.len * 2);
    memcpy(two, body.at, body.len);
    memcpy(two + body.len, body.at, body.len);
    expect(str_of(two, body.len * 2), MIB, 100, ERROR_INVALID, "a second member");
    two[body.len] = 0;
    expect(str_of(two, body.len + 1), MIB, 100, ERROR_INVALID, "1 bytes after the end");
    mem_free(two);
    give_back(body);
}

static void test_damage(void **state)
{
    (void)state;
    expect(STR("this is no gzip at all"), MIB, 100, ERROR_INVALID, "gzip at byte ");
    // zlib's own format and raw deflate are not gzip.
    expect(str_of("\x78\x9c\x03\x00\x00\x00\x00\x01", 8), MIB, 100, ERROR_INVALID, "gzip at byte ");
    struct str body = gzip("hello", 5);
    char *bad = mem_dup(body.at, body.len);
    bad[body.len - TRAILER_BYTES] ^= 1; // CRC-32
    expect(str_of(bad, body.len), MIB, 100, ERROR_INVALID, "data check");
    memcpy(bad, body.at, body.len);
    bad[body.len - 4] ^= 1; // ISIZE
    expect(str_of(bad, body.len), MIB, 100, ERROR_INVALID, "length check");
    mem_free(bad);
    give_back(body);
}

static void test_absolute_cap(void **state)
{
    (void)state;
    AUTO_FREE char *random = noise(100000);
    struct str body = gzip(random, 100000);
    expect(body, 100000, 100, ERROR_NONE, NULL);
    expect(body, 99999, 100, ERROR_TOO_LARGE, "limit of 99999 bytes");
    give_back(body);
}

static void test_ratio(void **state)
{
    (void)state;
    struct str small = gzip_zeros(INFLATE_FREE_BYTES);
    expect(small, 10 * MIB, 100, ERROR_NONE, NULL); // about 700 times, but small
    give_back(small);
    struct str bomb = gzip_zeros(INFLATE_FREE_BYTES + 1);
    expect(bomb, 10 * MIB, 100, ERROR_TOO_LARGE, "more than 100 times");
    give_back(bomb);
    struct str huge = gzip_zeros(32 * MIB);
    expect(huge, 10 * MIB, 2000, ERROR_TOO_LARGE, "limit of 10485760 bytes");
    expect(huge, 10 * MIB, 100, ERROR_TOO_LARGE, "more than 100 times");
    give_back(huge);
}

// The budget is counted while inflating: what comes after it is passed is never looked at.
static void test_stops_early(void **state)
{
    (void)state;
    struct str bomb = gzip_zeros(8 * MIB);
    char *damaged = mem_dup(bomb.at, bomb.len);
    damaged[bomb.len - TRAILER_BYTES] ^= 1;
    expect(str_of(damaged, bomb.len), 10 * MIB, 100, ERROR_TOO_LARGE, "more than 100 times");
    mem_free(damaged);
    give_back(bomb);
}

static void test_out_is_smaller_than_the_limit(void **state)
{
    (void)state;
    struct error err;
    struct strbuf out;
    strbuf_init(&out, 4);
    struct str body = gzip("hello", 5);
    assert_int_equal(inflate_gzip(body, MIB, 100, &out, &err), ERROR_TOO_LARGE);
    assert_int_equal(out.len, 0);
    assert_false(out.overflow);
    give_back(body);
    strbuf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_member),
        cmocka_unit_test(test_empty_member),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_what_follows),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_absolute_cap),
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_stops_early),
        cmocka_unit_test(test_out_is_smaller_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
