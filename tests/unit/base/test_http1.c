// Heads and chunked bodies: every lenient form that two parsers could read in two ways is an error.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/http1/http1.h"
#include "base/mem.h"
#include "base/strbuf.h"

static enum error_code parse(const char *at, size_t len, struct http1_head *head, size_t *bytes)
{
    // An exact copy on the heap, so that a sanitizer sees a read past the end.
    char *copy = mem_dup(at, len);
    struct error err;
    enum error_code code = http1_parse_request(copy, len, 0, head, bytes, &err);
    mem_free(copy);
    return code;
}

static enum error_code parse_text(struct str text)
{
    struct http1_head head;
    size_t bytes;
    return parse(text.at, text.len, &head, &bytes);
}

static void test_request_is_read(void **state)
{
    (void)state;
    struct str text = STR("POST /a/b?c=%20d HTTP/1.1\r\nHost: Example.com:8443\r\nX-Empty:\r\nContent-Length: 12\r\n"
                          "X-Padded: \t v w \t\r\nexpect: 100-Continue\r\nAccept: a\r\nAccept: b , c\r\n\r\nbody");
    struct http1_head head;
    struct error err;
    size_t bytes = 0;
    assert_int_equal(http1_parse_request(text.at, text.len, 0, &head, &bytes, &err), ERROR_NONE);
    assert_int_equal(bytes, text.len - 4);
    assert_true(str_eq(head.method, STR("POST")));
    assert_true(str_eq(head.target, STR("/a/b?c=%20d")));
    assert_true(str_eq(head.host, STR("Example.com:8443")));
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.body, HTTP1_BODY_LENGTH);
    assert_int_equal(head.content_length, 12);
    assert_true(head.keep_alive);
    assert_true(head.expect_continue);
    assert_int_equal(head.header_count, 7);
    assert_true(str_eq(http1_find(&head, STR("x-padded")), STR("v w")));
    assert_true(str_eq(http1_find(&head, STR("x-empty")), STR_EMPTY));
    assert_true(http1_has_token(&head, STR("ACCEPT"), STR("C")));
    assert_false(http1_has_token(&head, STR("accept"), STR("d")));
}

static void test_every_prefix_wants_more(void **state)
{
    (void)state;
    struct str text = STR("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n");
    struct http1_head head;
    size_t bytes;
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(parse(text.at, len, &head, &bytes), ERROR_AGAIN);
    assert_int_equal(parse(text.at, text.len, &head, &bytes), ERROR_NONE);
    assert_int_equal(head.body, HTTP1_BODY_CHUNKED);
    assert_false(head.keep_alive);
}

#define BOTH(x) "POST / HTTP/1.1\r\nHost: a\r\n" x "\r\n\r\n"

// Lenient forms that each exist in some server: the meaning differs between two that stand in a
// row.
static const struct str refused[] = {
    // request line
    STR("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.1\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.1\rHost: a\r\n\r\n"),
    STR("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    STR("GET /\r\n\r\n"),
    STR("GET /\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/01.1\r\nHost: a\r\n\r\n"),
    STR("GET / http/1.1\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1,1\r\nHost: a\r\n\r\n"),
    STR("GET / HTTPS/1.1\r\nHost: a\r\n\r\n"),
    STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    STR("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET: / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GE\0T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("G\xc3\x8bT / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET a:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    STR("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"),
    // Host
    STR("GET / HTTP/1.1\r\n\r\n"),
    STR("GET / HTTP/1.0\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a:\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a:0\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a:443x\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a:44:3\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: []\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"),
    // header lines
    STR("GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    STR("GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX\t: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\nY: c\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\x01\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\x7f\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\n\nX: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\n\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\n\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xa4: b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\n\"X\": b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nConnection: a b\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nConnection: close;x\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n"),
    STR("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n\r\n"),
    // Content-Length
    STR(BOTH("Content-Length:")),
    STR(BOTH("Content-Length: +5")),
    STR(BOTH("Content-Length: -5")),
    STR(BOTH("Content-Length: 5,5")),
    STR(BOTH("Content-Length: 5, 6")),
    STR(BOTH("Content-Length: 5 5")),
    STR(BOTH("Content-Length: 0x5")),
    STR(BOTH("Content-Length: 5h")),
    STR(BOTH("Content-Length: 05")),
    STR(BOTH("Content-Length: 5.0")),
    STR(BOTH("Content-Length: 5e1")),
    STR(BOTH("Content-Length: 1_0")),
    STR(BOTH("Content-Length: \"5\"")),
    STR(BOTH("Content-Length: \x0b"
             "5")),
    STR(BOTH("Content-Length: 5\x0c")),
    STR(BOTH("Content-Length: 5\0")),
    STR(BOTH("Content-Length: 5;")),
    STR(BOTH("Content-Length: 18446744073709551616")),
    STR(BOTH("Content-Length: 18446744073709551621")),
    STR(BOTH("Content-Length: 9223372036854775808")),
    STR(BOTH("Content-Length: 00000000000000000000005")),
    STR(BOTH("Content-Length: 5\r\nContent-Length: 5")),
    STR(BOTH("Content-Length: 5\r\ncontent-length: 6")),
    STR(BOTH("Content-Length : 5")),
    STR(BOTH("Content-Length\t: 5")),
    STR(BOTH("Content-Length\0: 5")),
    STR(BOTH("Content-Length\xa0: 5")),
    STR(BOTH("Content-Length 5")),
    STR(BOTH("Content-Length: \r\n 5")),
};

static void test_lenient_forms_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        enum error_code code = parse_text(refused[i]);
        if (code != ERROR_INVALID) print_error("case %zu: %s\n%.*s\n", i, error_code_name(code), STR_ARG(refused[i]));
        assert_int_equal(code, ERROR_INVALID);
    }
}

// How Transfer-Encoding is disguised so that one of two servers overlooks it. Each form is sent
// alone, before and behind a Content-Length; the second column tells whether the line alone is a
// well-formed, unrelated field.
static const struct {
    struct str line;
    bool harmless; // a different field name: no framing meaning for anybody who reads RFC 9110
} te_forms[] = {
    {STR("Transfer-Encoding : chunked"), false},
    {STR("Transfer-Encoding\t: chunked"), false},
    {STR("Transfer-Encoding\x0b: chunked"), false},
    {STR("Transfer-Encoding\x0c: chunked"), false},
    {STR("Transfer-Encoding\r: chunked"), false},
    {STR("Transfer-Encoding\0: chunked"), false},
    {STR("Transfer-Encoding\x7f: chunked"), false},
    {STR("Transfer-Encoding\x85: chunked"), false},
    {STR("Transfer-Encoding\xa0: chunked"), false},
    {STR("Transfer-Encoding\xff: chunked"), false},
    {STR("Transfer Encoding: chunked"), false},
    {STR(" Transfer-Encoding: chunked"), false},
    {STR("\tTransfer-Encoding: chunked"), false},
    {STR("X: y\r\n Transfer-Encoding: chunked"), false},
    {STR("X: y\r\n\tTransfer-Encoding: chunked"), false},
    {STR("X: y\rTransfer-Encoding: chunked"), false},
    {STR("X: y\nTransfer-Encoding: chunked"), false},
    {STR("X: y\r\r\nTransfer-Encoding: chunked"), false},
    {STR("X: y\0Transfer-Encoding: chunked"), false},
    {STR("Transfer-Encoding: chunked, identity"), false},
    {STR("Transfer-Encoding: identity, chunked"), false},
    {STR("Transfer-Encoding: identity"), false},
    {STR("Transfer-Encoding: gzip, chunked"), false},
    {STR("Transfer-Encoding: gzip"), false},
    {STR("Transfer-Encoding: deflate"), false},
    {STR("Transfer-Encoding: chunked, chunked"), false},
    {STR("Transfer-Encoding: chunked,"), false},
    {STR("Transfer-Encoding: ,chunked"), false},
    {STR("Transfer-Encoding: , chunked"), false},
    {STR("Transfer-Encoding: chunked;"), false},
    {STR("Transfer-Encoding: chunked;q=1"), false},
    {STR("Transfer-Encoding: chunked; foo=bar"), false},
    {STR("Transfer-Encoding: xchunked"), false},
    {STR("Transfer-Encoding: chunkedx"), false},
    {STR("Transfer-Encoding: chunke"), false},
    {STR("Transfer-Encoding: \"chunked\""), false},
    {STR("Transfer-Encoding: 'chunked'"), false},
    {STR("Transfer-Encoding: <chunked>"), false},
    {STR("Transfer-Encoding: chunked chunked"), false},
    {STR("Transfer-Encoding: chun ked"), false},
    {STR("Transfer-Encoding: \x0b"
         "chunked"),
     false},
    {STR("Transfer-Encoding: \x0c"
         "chunked"),
     false},
    {STR("Transfer-Encoding: chunked\x0b"), false},
    {STR("Transfer-Encoding: chunked\x0c"), false},
    {STR("Transfer-Encoding: chunked\0"), false},
    {STR("Transfer-Encoding: \0chunked"), false},
    {STR("Transfer-Encoding: chunked\xa0"), false},
    {STR("Transfer-Encoding: \xef\xbb\xbf"
         "chunked"),
     false},
    {STR("Transfer-Encoding: chunke\xe1\xb8\x8d"), false},
    {STR("Transfer-Encoding: \r\n chunked"), false},
    {STR("Transfer-Encoding: \r\n\tchunked"), false},
    {STR("Transfer-Encoding:\r\n chunked"), false},
    {STR("Transfer-Encoding: chunked\r\n "), false},
    {STR("Transfer-Encoding:"), false},
    {STR("Transfer-Encoding: "), false},
    {STR("Transfer-Encoding: none"), false},
    {STR("Transfer-Encoding: cow"), false},
    {STR("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), false},
    {STR("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), false},
    {STR("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"), false},
    {STR("Transfer-Encoding: chunked\r\ntransfer-encoding: cow"), false},
    {STR("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"), false},
    {STR("Transfer-Encoding"), false},
    {STR("Transfer-Encoding chunked"), false},
    {STR("Transfer-Encoding= chunked"), false},
    {STR(":Transfer-Encoding: chunked"), false},
    {STR("\"Transfer-Encoding\": chunked"), false},
    {STR("Transfer-Encoding: chunked\n"), false},
    {STR("Transfer_Encoding: chunked"), true},
    {STR("Transfer.Encoding: chunked"), true},
    {STR("TransferEncoding: chunked"), true},
    {STR("Transfer--Encoding: chunked"), true},
    {STR("Transfer-Encodin: chunked"), true},
    {STR("Transfer-Encodings: chunked"), true},
    {STR("XTransfer-Encoding: chunked"), true},
    {STR("X-Transfer-Encoding: chunked"), true},
    {STR("TE: chunked"), true},
    {STR("Content-Encoding: chunked"), true},
    {STR("X: Transfer-Encoding: chunked"), true},
};

static void check_te(struct str line, const char *length, bool length_first, enum error_code want)
{
    struct strbuf b;
    strbuf_init(&b, 4096);
    strbuf_add_c(&b, "POST / HTTP/1.1\r\nHost: a\r\n");
    if (length_first) strbuf_addf(&b, "%s", length);
    strbuf_add_str(&b, line);
    strbuf_add_c(&b, "\r\n");
    if (!length_first) strbuf_addf(&b, "%s", length);
    strbuf_add_c(&b, "\r\n0\r\n\r\n");
    struct http1_head head;
    size_t bytes;
    enum error_code code = parse(b.at, b.len, &head, &bytes);
    if (code != want) print_error("%s for\n%s\n", error_code_name(code), b.at);
    assert_int_equal(code, want);
    if (code == ERROR_NONE) assert_int_equal(head.body, *length ? HTTP1_BODY_LENGTH : HTTP1_BODY_NONE);
    strbuf_finish(&b);
}

static void test_transfer_encoding_disguises(void **state)
{
    (void)state;
    size_t cases = 0;
    static const char length[] = "Content-Length: 5\r\n";
    for (size_t i = 0; i < sizeof te_forms / sizeof *te_forms; i++) {
        enum error_code want = te_forms[i].harmless ? ERROR_NONE : ERROR_INVALID;
        check_te(te_forms[i].line, "", true, want);
        check_te(te_forms[i].line, length, true, want);
        check_te(te_forms[i].line, length, false, want);
        cases += 3;
    }
    // The plain form is fine alone, in any case, and never beside a length.
    static const char *const plain[] = {"Transfer-Encoding: chunked", "transfer-encoding:chunked",
                                        "TRANSFER-ENCODING:\tCHUNKED \t"};
    for (size_t i = 0; i < 3; i++) {
        check_te(str_c(plain[i]), length, true, ERROR_INVALID);
        check_te(str_c(plain[i]), length, false, ERROR_INVALID);
        check_te(str_c(plain[i]), "Content-Length: 0\r\n", false, ERROR_INVALID);
        char text[128];
        int len = snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", plain[i]);
        struct http1_head head;
        size_t bytes;
        assert_int_equal(parse(text, (size_t)len, &head, &bytes), ERROR_NONE);
        assert_int_equal(head.body, HTTP1_BODY_CHUNKED);
        cases += 4;
    }
    assert_int_equal(parse_text(STR("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")),
                     ERROR_INVALID);
    assert_true(cases >= 134);
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf b;
    struct http1_head head;
    struct error err;
    size_t bytes;
    strbuf_init(&b, 1 << 20);
    strbuf_add_c(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < HTTP1_HEADERS_MAX - 1; i++)
        strbuf_add_c(&b, "X: y\r\n");
    size_t mark = b.len;
    strbuf_add_c(&b, "\r\n");
    assert_int_equal(parse(b.at, b.len, &head, &bytes), ERROR_NONE);
    assert_int_equal(http1_parse_request(b.at, b.len, b.len, &head, &bytes, &err), ERROR_NONE);
    assert_int_equal(http1_parse_request(b.at, b.len, b.len - 1, &head, &bytes, &err), ERROR_TOO_LARGE);
    b.len = mark;
    strbuf_add_c(&b, "X: y\r\n\r\n");
    assert_int_equal(parse(b.at, b.len, &head, &bytes), ERROR_TOO_LARGE);
    strbuf_clear(&b);
    strbuf_add_c(&b, "GET /");
    while (b.len < HTTP1_HEAD_BYTES_MAX)
        strbuf_add_byte(&b, 'a');
    assert_int_equal(parse(b.at, b.len - 1, &head, &bytes), ERROR_AGAIN);
    assert_int_equal(parse(b.at, b.len, &head, &bytes), ERROR_TOO_LARGE);
    strbuf_finish(&b);
}

static void test_keep_alive_and_upgrade(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        bool keep_alive;
        const char *upgrade;
    } cases[] = {
        {STR("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, ""},
        {STR("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), false, ""},
        {STR("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n"), true, ""},
        {STR("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, ,close\r\n\r\n"), false, ""},
        {STR("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n"), false, ""},
        {STR("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"), true,
         "websocket"},
        {STR("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"), true, ""},
        {STR("GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), false, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http1_head head;
        size_t bytes;
        struct error err;
        assert_int_equal(http1_parse_request(cases[i].text.at, cases[i].text.len, 0, &head, &bytes, &err), ERROR_NONE);
        assert_int_equal(head.keep_alive, cases[i].keep_alive);
        assert_true(str_eq(head.upgrade, str_c(cases[i].upgrade)));
    }
}

static void test_responses(void **state)
{
    (void)state;
    static const struct {
        const char *method, *text;
        enum error_code code;
        int status;
        enum http1_body body;
        bool keep_alive;
    } cases[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_LENGTH, true},
        {"GET", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_LENGTH, true},
        {"GET", "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_CHUNKED, true},
        {"GET", "HTTP/1.1 200 OK\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_UNTIL_CLOSE, false},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_LENGTH, false},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_NONE, true},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ERROR_NONE, 200, HTTP1_BODY_NONE, true},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", ERROR_NONE, 304, HTTP1_BODY_NONE, true},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", ERROR_NONE, 204, HTTP1_BODY_NONE, true},
        {"GET", "HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", ERROR_NONE, 204, HTTP1_BODY_NONE, true},
        {"GET", "HTTP/1.1 204 x\r\nContent-Length: 9\r\n\r\n", ERROR_NONE, 204, HTTP1_BODY_NONE, false},
        {"GET", "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", ERROR_NONE, 204, HTTP1_BODY_NONE, false},
        {"GET", "HTTP/1.1 100 Continue\r\n\r\n", ERROR_NONE, 100, HTTP1_BODY_NONE, true},
        {"GET", "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", ERROR_NONE, 101, HTTP1_BODY_NONE,
         true},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", ERROR_INVALID, 0, 0, 0},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 20 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 2000 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 099 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 600 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1  200 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/2 200\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "ICY 200 OK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 200 O\rK\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 200 OK\nX: y\n\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", ERROR_INVALID, 0, 0, false},
        {"GET", "HTTP/1.1 200 OK\r\nX: y\r\n", ERROR_AGAIN, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http1_head head;
        struct error err;
        size_t bytes = 0;
        enum error_code code =
            http1_parse_response(cases[i].text, strlen(cases[i].text), 0, str_c(cases[i].method), &head, &bytes, &err);
        if (code != cases[i].code) print_error("case %zu: %s\n", i, cases[i].text);
        assert_int_equal(code, cases[i].code);
        if (code != ERROR_NONE) continue;
        assert_int_equal(head.status, cases[i].status);
        assert_int_equal(head.body, cases[i].body);
        assert_int_equal(head.keep_alive, cases[i].keep_alive);
        assert_int_equal(bytes, strlen(cases[i].text));
    }
}

// Feeds the text in pieces of `step`; appends the data to out. *out_used: bytes up to the end of
// the body.
static enum error_code feed(struct str text, size_t step, struct strbuf *out, size_t *out_used, bool *out_done)
{
    struct http1_chunked c;
    struct error err;
    http1_chunked_init(&c);
    *out_done = false;
    *out_used = 0;
    for (size_t at = 0; at < text.len && !*out_done;) {
        size_t len = text.len - at < step ? text.len - at : step;
        char *piece = mem_dup(text.at + at, len);
        size_t offset = 0;
        while (offset < len && !*out_done) {
            size_t used = 0;
            struct str data;
            enum error_code code = http1_chunked_feed(&c, piece + offset, len - offset, &used, &data, out_done, &err);
            if (code != ERROR_NONE) {
                mem_free(piece);
                return code;
            }
            assert_true(used > 0);
            strbuf_add_str(out, data);
            offset += used;
        }
        *out_used = at + offset;
        at += len;
        mem_free(piece);
    }
    return ERROR_NONE;
}

static void test_chunked_is_read_in_any_pieces(void **state)
{
    (void)state;
    struct str text =
        STR("5\r\nhello\r\n1;x\r\n \r\n00A;name=\"v;w\"; n=2\r\n0123456789\r\n0\r\nTrailer: x\r\nY:\r\n\r\nGET /");
    for (size_t step = 1; step <= text.len; step++) {
        struct strbuf out;
        size_t used;
        bool done;
        strbuf_init(&out, 1000);
        assert_int_equal(feed(text, step, &out, &used, &done), ERROR_NONE);
        assert_true(done);
        assert_int_equal(used, text.len - 5);
        assert_true(str_eq(strbuf_str(&out), STR("hello 0123456789")));
        strbuf_finish(&out);
    }
}

static const struct str chunked_refused[] = {
    STR("\r\n0\r\n\r\n"),
    STR("\n"),
    STR(" 5\r\nhello\r\n"),
    STR("5 \r\nhello\r\n"),
    STR("5\t\r\nhello\r\n"),
    STR("5 ;x\r\nhello\r\n"),
    STR("0x5\r\nhello\r\n"),
    STR("+5\r\nhello\r\n"),
    STR("-5\r\nhello\r\n"),
    STR("5h\r\nhello\r\n"),
    STR("5_0\r\nhello\r\n"),
    STR("g\r\n"),
    STR("\"5\"\r\nhello\r\n"),
    STR(";x\r\n"),
    STR("5\nhello\r\n"),
    STR("5\rhello\r\n"),
    STR("5\r\r\nhello\r\n"),
    STR("5\0\r\nhello\r\n"),
    STR("5\r\nhello\n0\r\n\r\n"),
    STR("5\r\nhello0\r\n\r\n"),
    STR("5\r\nhelloo\r\n0\r\n\r\n"),
    STR("5\r\nhell\r\n0\r\n\r\n"),
    STR("5\r\nhello\r0\r\n\r\n"),
    STR("5\r\nhello\r\n\r\n0\r\n\r\n"),
    STR("5;\r\nhello\r\n"),
    STR("5;;x\r\nhello\r\n"),
    STR("5; x\r\nhello\r\n"),
    STR("5;x\nhello\r\n"),
    STR("5;x\ry\r\nhello\r\n"),
    STR("5;x\0\r\nhello\r\n"),
    STR("5;\"\r\n\"\r\nhello\r\n"),
    STR("10000000000000000\r\n"),
    STR("ffffffffffffffff\r\n"),
    STR("0000000000000005\r\n"),
    STR("0\n\n"),
    STR("0\r\n\n"),
    STR("0\r\n\rX"),
    STR("0\r\nX\r\n\r\n"),
    STR("0\r\n: y\r\n\r\n"),
    STR("0\r\nX : y\r\n\r\n"),
    STR("0\r\n X: y\r\n\r\n"),
    STR("0\r\nX: y\r\n z\r\n\r\n"),
    STR("0\r\nX: y\nZ: a\r\n\r\n"),
    STR("0\r\nX: \x01\r\n\r\n"),
    STR("0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
};

static void test_chunked_lenient_forms_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunked_refused / sizeof *chunked_refused; i++) {
        for (size_t step = 1; step <= 64; step += 63) {
            struct strbuf out;
            size_t used;
            bool done;
            strbuf_init(&out, 1000);
            enum error_code code = feed(chunked_refused[i], step, &out, &used, &done);
            if (code != ERROR_INVALID) print_error("case %zu: %.*s\n", i, STR_ARG(chunked_refused[i]));
            assert_int_equal(code, ERROR_INVALID);
            strbuf_finish(&out);
        }
    }
}

static void test_chunked_overhead_is_bounded(void **state)
{
    (void)state;
    struct strbuf text, out;
    size_t used;
    bool done;
    strbuf_init(&text, 1 << 20);
    strbuf_init(&out, 1 << 20);
    strbuf_add_c(&text, "1;");
    for (int i = 0; i < 256; i++)
        strbuf_add_byte(&text, 'x');
    strbuf_add_c(&text, "\r\na\r\n");
    assert_int_equal(feed(strbuf_str(&text), 1000, &out, &used, &done), ERROR_NONE);
    // One byte more in the extension, many extensions, long trailers.
    strbuf_clear(&text);
    strbuf_add_c(&text, "1;");
    for (int i = 0; i < 257; i++)
        strbuf_add_byte(&text, 'x');
    assert_int_equal(feed(strbuf_str(&text), 1000, &out, &used, &done), ERROR_INVALID);
    strbuf_clear(&text);
    for (int i = 0; i < 9000; i++)
        strbuf_add_c(&text, "1;xxxxxxxxxxxxxxx\r\na\r\n");
    assert_int_equal(feed(strbuf_str(&text), 1000, &out, &used, &done), ERROR_INVALID);
    assert_true(used < 150 * 1000);
    strbuf_clear(&text);
    strbuf_add_c(&text, "0\r\n");
    for (int i = 0; i < 2000; i++)
        strbuf_add_c(&text, "X: y\r\n");
    assert_int_equal(feed(strbuf_str(&text), 1000, &out, &used, &done), ERROR_INVALID);
    strbuf_finish(&text);
    strbuf_finish(&out);
}

// Whatever the pieces: looked at when it is due, a head is read as soon as it is whole, and not at
// each of its lines.
static void test_heads_in_drops(void **state)
{
    (void)state;
    static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nZ: y\r\n\r\n";
    size_t len = sizeof head - 1;
    for (size_t step = 1; step <= len; step++) {
        size_t looks = 0, have = 0, bytes = 0;
        enum error_code code = ERROR_AGAIN;
        while (code == ERROR_AGAIN) {
            size_t before = have;
            struct http1_head read;
            have = have + step < len ? have + step : len;
            assert_true(before < len);
            if (!http1_head_is_due(head, have, before, 0)) continue;
            looks++;
            code = http1_parse_request(head, have, 0, &read, &bytes, NULL);
        }
        assert_int_equal(code, ERROR_NONE);
        assert_int_equal(bytes, len);
        assert_true(looks <= 3); // its first bytes, its first line, its end
    }
    assert_true(http1_head_is_due("GET / HTTP/1.1\n", 15, 14, 0));
    assert_true(http1_head_is_due("GET / HTTP/1.1\nA: b\n\n", 21, 20, 0));
    assert_false(http1_head_is_due("GET / HTTP/1.1\r\nA: b\r\n", 22, 21, 0));
    assert_true(http1_head_is_due("GET / HTTP/1.1\r\nA: b\r\n", 22, 21, 22)); // at the limit
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_is_read),
        cmocka_unit_test(test_every_prefix_wants_more),
        cmocka_unit_test(test_lenient_forms_are_refused),
        cmocka_unit_test(test_transfer_encoding_disguises),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_keep_alive_and_upgrade),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_chunked_is_read_in_any_pieces),
        cmocka_unit_test(test_chunked_lenient_forms_are_refused),
        cmocka_unit_test(test_chunked_overhead_is_bounded),
        cmocka_unit_test(test_heads_in_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
