// Request heads: what is taken has one meaning. Written out again from its parts and read again, it
// gives the same; cut anywhere before its end, it is never a different whole request.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "base/http1/http1.h"
#include "base/mem.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_invariants(const struct http1_head *head, const char *text, size_t bytes)
{
    assert(http1_is_token(head->method) && head->target.len > 0 && head->host.len > 0);
    assert(head->target.at[0] == '/' || str_eq(head->target, STR("*")));
    assert(bytes >= 4 && memcmp(text + bytes - 4, "\r\n\r\n", 4) == 0);
    size_t lengths = 0, encodings = 0, hosts = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        struct str name = head->headers[i].name, value = head->headers[i].value;
        assert(http1_is_token(name) && http1_is_field_value(value));
        assert(value.len == 0 || (value.at >= text && value.at + value.len <= text + bytes));
        lengths += str_eq_nocase(name, STR("content-length"));
        encodings += str_eq_nocase(name, STR("transfer-encoding"));
        hosts += str_eq_nocase(name, STR("host"));
    }
    assert(hosts == 1 && lengths + encodings <= 1);
    assert((head->body == HTTP1_BODY_LENGTH) == (lengths == 1));
    assert((head->body == HTTP1_BODY_CHUNKED) == (encodings == 1));
}

static void check_round_trip(const struct http1_head *head)
{
    struct strbuf text;
    struct http1_head again;
    size_t bytes = 0;
    strbuf_init(&text, 4 * HTTP1_HEAD_BYTES_MAX);
    strbuf_addf(&text, "%.*s %.*s HTTP/1.%d\r\n", STR_ARG(head->method), STR_ARG(head->target), head->minor);
    for (size_t i = 0; i < head->header_count; i++)
        strbuf_addf(&text, "%.*s: %.*s\r\n", STR_ARG(head->headers[i].name), STR_ARG(head->headers[i].value));
    strbuf_add_c(&text, "\r\n");
    assert(!text.overflow);
    assert(http1_parse_request(text.at, text.len, text.len, &again, &bytes, NULL) == ERROR_NONE);
    assert(bytes == text.len && again.body == head->body && again.content_length == head->content_length);
    assert(again.keep_alive == head->keep_alive && again.expect_continue == head->expect_continue);
    assert(str_eq(again.host, head->host) && str_eq(again.upgrade, head->upgrade));
    strbuf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct http1_head head;
    struct error err;
    size_t bytes = 0;
    enum error_code code = http1_parse_request((const char *)at, len, 0, &head, &bytes, &err);
    assert(code == ERROR_NONE || code == ERROR_AGAIN || code == ERROR_INVALID || code == ERROR_TOO_LARGE);
    if (code != ERROR_NONE) return 0;
    assert(bytes <= len);
    check_invariants(&head, (const char *)at, bytes);
    check_round_trip(&head);
    for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 16) {
        struct http1_head part;
        size_t part_bytes;
        assert(http1_parse_request((const char *)at, cut, 0, &part, &part_bytes, NULL) == ERROR_AGAIN);
        assert(http1_head_is_due((const char *)at, bytes, cut, 0));
    }
    return 0;
}
