// negotiation and compression: the choice by quality, fields of a query string, and bodies that
// become smaller or stay.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/http/compression.h"
#include "api/http/inflate.h"

static void test_media(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum graphql_media media;
    } cases[] = {
        {"", GRAPHQL_MEDIA_JSON},
        {"*/*", GRAPHQL_MEDIA_JSON},
        {"application/*", GRAPHQL_MEDIA_JSON},
        {"text/html", GRAPHQL_MEDIA_JSON},
        {"application/json", GRAPHQL_MEDIA_JSON_ONLY},
        {" Application/JSON ; charset=utf-8 ; q=0.3", GRAPHQL_MEDIA_JSON_ONLY},
        {"application/json;q=0", GRAPHQL_MEDIA_JSON},
        {"application/json, */*;q=0.1", GRAPHQL_MEDIA_JSON},
        {"application/json, */*;q=0", GRAPHQL_MEDIA_JSON_ONLY},
        {"application/graphql-response+json", GRAPHQL_MEDIA_RESPONSE},
        {"application/graphql-response+json, application/json", GRAPHQL_MEDIA_RESPONSE},
        {"application/graphql-response+json;q=0.5,application/json;q=0.501", GRAPHQL_MEDIA_JSON},
        {"application/graphql-response+json;q=1.5x", GRAPHQL_MEDIA_JSON},
        {",,;,", GRAPHQL_MEDIA_JSON},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (negotiate_media(str_c(cases[i].accept)) != cases[i].media) fail_msg("%s", cases[i].accept);
}

static void test_coding(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum content_coding coding;
    } cases[] = {
        {"", CODING_IDENTITY},
        {"br, deflate", CODING_IDENTITY},
        {"gzip, deflate, br", CODING_GZIP},
        {"gzip, zstd", CODING_ZSTD},
        {"zstd;q=0.1, gzip", CODING_GZIP},
        {"gzip;q=0.000", CODING_IDENTITY},
        {"x-gzip;q=0.001", CODING_GZIP},
        {"*", CODING_IDENTITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (negotiate_coding(str_c(cases[i].accept)) != cases[i].coding) fail_msg("%s", cases[i].accept);
}

static void test_query_field(void **state)
{
    (void)state;
    static const struct {
        const char *query, *value; // NULL: refused
    } cases[] = {
        {"", ""},
        {"a=1&q=x", "x"},
        {"q", ""},
        {"q=", ""},
        {"q=a+b%20c%2B", "a b c+"},
        {"q=%c3%A4", "ä"},
        {"qq=1&aq=2&q=3=4", "3=4"},
        {"q=a&q=b", NULL},
        {"q=%", NULL},
        {"q=%4", NULL},
        {"q=%4g", NULL},
        {"q=%00", NULL},
    };
    struct arena *arena = arena_create(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str value = STR_EMPTY;
        struct error err;
        enum error_code code = query_field(str_c(cases[i].query), STR("q"), arena, &value, &err);
        if (!cases[i].value)
            assert_int_equal(code, ERROR_INVALID);
        else if (code != ERROR_NONE || !str_eq(value, str_c(cases[i].value)))
            fail_msg("%s: %.*s", cases[i].query, STR_ARG(value));
    }
    arena_destroy(arena);
}

static void test_compression(void **state)
{
    (void)state;
    char text[4096];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "abcdefgh"[i * i % 8];
    struct strbuf packed, unpacked;
    struct error err;
    strbuf_init(&packed, sizeof text);
    strbuf_init(&unpacked, sizeof text);
    assert_true(compress_body(CODING_GZIP, str_of(text, sizeof text), &packed));
    assert_true(packed.len * 3 < sizeof text);
    assert_int_equal(inflate_gzip(strbuf_str(&packed), sizeof text, 1000, &unpacked, &err), ERROR_NONE);
    assert_memory_equal(unpacked.at, text, sizeof text);
    strbuf_clear(&packed);
    assert_true(compress_body(CODING_ZSTD, str_of(text, sizeof text), &packed));
    assert_memory_equal(packed.at, "\x28\xb5\x2f\xfd", 4);
    strbuf_clear(&packed);
    // What does not become smaller, what is not to be compressed, and what there is no room for.
    assert_false(compress_body(CODING_GZIP, STR("abcdefghijk"), &packed));
    assert_false(compress_body(CODING_ZSTD, STR("a"), &packed));
    assert_false(compress_body(CODING_IDENTITY, str_of(text, sizeof text), &packed));
    assert_int_equal(packed.len, 0);
    strbuf_finish(&packed);
    strbuf_init(&packed, 100);
    assert_false(compress_body(CODING_GZIP, str_of(text, sizeof text), &packed));
    strbuf_finish(&packed);
    strbuf_finish(&unpacked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media),
        cmocka_unit_test(test_coding),
        cmocka_unit_test(test_query_field),
        cmocka_unit_test(test_compression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
