#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "tunnel/wire/ws_handshake.h"

#define KEY     "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455 section 1.3
#define ACCEPT  "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define UPGRADE "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

static void test_accept_of_the_rfc(void **state)
{
    (void)state;
    char accept[WS_HANDSHAKE_ACCEPT_BYTES];
    ws_handshake_accept(STR(KEY), accept);
    assert_string_equal(accept, ACCEPT);
}

static void test_keys_are_fresh(void **state)
{
    (void)state;
    char one[WS_HANDSHAKE_KEY_BYTES], two[WS_HANDSHAKE_KEY_BYTES];
    ws_handshake_key(one);
    ws_handshake_key(two);
    assert_int_equal(strlen(one), 24);
    assert_string_not_equal(one, two);
}

static void test_request(void **state)
{
    (void)state;
    struct strbuf out;
    const struct http_header headers[] = {{STR("Authorization"), STR("Bearer x")}};
    const struct ws_handshake_request request = {.host = STR("example.org:8443"),
                                                 .path = STR("/tunnel/v1"),
                                                 .subprotocol = STR("culvert.tunnel.1"),
                                                 .headers = headers,
                                                 .header_count = 1};
    strbuf_init(&out, 4096);
    assert_int_equal(ws_handshake_write(&request, STR(KEY), &out, NULL), ERROR_NONE);
    assert_string_equal(out.at, "GET /tunnel/v1 HTTP/1.1\r\nHost: example.org:8443\r\nUpgrade: websocket\r\n"
                                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " KEY "\r\n"
                                "Sec-WebSocket-Protocol: culvert.tunnel.1\r\nAuthorization: Bearer x\r\n\r\n");
    strbuf_finish(&out);
}

static void test_request_refuses_injection(void **state)
{
    (void)state;
    struct http_header header = {STR("X"), STR("a\r\nEvil: 1")};
    struct ws_handshake_request request = {.host = STR("h"), .path = STR("/"), .headers = &header, .header_count = 1};
    struct strbuf out;
    strbuf_init(&out, 4096);
    assert_int_equal(ws_handshake_write(&request, STR(KEY), &out, NULL), ERROR_INVALID);
    header = (struct http_header){STR("X:"), STR("a")};
    assert_int_equal(ws_handshake_write(&request, STR(KEY), &out, NULL), ERROR_INVALID);
    request.header_count = 0;
    request.path = STR("/a b");
    assert_int_equal(ws_handshake_write(&request, STR(KEY), &out, NULL), ERROR_INVALID);
    request.path = STR("/");
    request.host = STR("h\r\n");
    assert_int_equal(ws_handshake_write(&request, STR(KEY), &out, NULL), ERROR_INVALID);
    strbuf_finish(&out);
}

static enum error_code read_answer(const char *text, struct ws_handshake_answer *out, size_t *out_bytes)
{
    return ws_handshake_read(text, strlen(text), STR(KEY), STR("culvert.tunnel.1"), out, out_bytes, NULL);
}

static void test_answer_101(void **state)
{
    (void)state;
    static const char text[] =
        UPGRADE "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n\r\n"
                "frames";
    struct ws_handshake_answer answer;
    size_t bytes = 0;
    for (size_t len = 0; len < sizeof(text) - 1 - 6; len++) // at every cut: not yet
        assert_int_equal(ws_handshake_read(text, len, STR(KEY), STR("culvert.tunnel.1"), &answer, &bytes, NULL),
                         ERROR_AGAIN);
    assert_int_equal(read_answer(text, &answer, &bytes), ERROR_NONE);
    assert_int_equal(answer.status, 101);
    assert_string_equal(text + bytes, "frames");
}

static void test_bad_101(void **state)
{
    (void)state;
    static const char *const texts[] = {
        UPGRADE "Sec-WebSocket-Protocol: culvert.tunnel.1\r\n\r\n",
        UPGRADE
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n\r\n",
        UPGRADE "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n",
        UPGRADE "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Protocol: other\r\n\r\n",
        UPGRADE "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n"
                "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
        "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " ACCEPT
        "\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n\r\n",
        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " ACCEPT
        "\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ws_handshake_answer answer;
        size_t bytes;
        assert_int_equal(read_answer(texts[i], &answer, &bytes), ERROR_PROTOCOL);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct ws_handshake_answer answer;
    size_t bytes;
    assert_int_equal(read_answer("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", &answer, &bytes),
                     0);
    assert_int_equal(answer.status, 503);
    assert_int_equal(answer.retry_after_ms, 7000);
    assert_int_equal(read_answer("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", &answer, &bytes), 0);
    assert_int_equal(answer.status, 401);
    assert_int_equal(answer.retry_after_ms, -1);
    assert_int_equal(read_answer("HTTP/1.1 429 X\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", &answer, &bytes),
                     0);
    assert_int_equal(answer.retry_after_ms, -1);
    assert_int_equal(read_answer("SSH-2.0-x\r\n\r\n", &answer, &bytes), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_of_the_rfc), cmocka_unit_test(test_keys_are_fresh),
        cmocka_unit_test(test_request),           cmocka_unit_test(test_request_refuses_injection),
        cmocka_unit_test(test_answer_101),        cmocka_unit_test(test_bad_101),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
