// tunnel/upgrade: the one gate in front of the tunnel, case by case.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/listener/upgrade.h"
#include "tunnel/wire/proof.h"

static struct tunnel_upgrade good(void)
{
    return (struct tunnel_upgrade){.is_known_method = true,
                                   .is_get = true,
                                   .http_1_1 = true,
                                   .path = STR("/tunnel/v1"),
                                   .host = STR("tunnel.example.com"),
                                   .upgrade = STR("websocket"),
                                   .connection_upgrade = true,
                                   .websocket_version = STR("13"),
                                   .websocket_key = STR("dGhlIHNhbXBsZSBub25jZQ=="),
                                   .subprotocols = STR("culvert.tunnel.2, culvert.tunnel.1"),
                                   .authorization = STR("Bearer abc.def"),
                                   .instance_id = STR("pod-1"),
                                   .boot_id = STR("boot-1"),
                                   .agent_version = STR("1.2.3"),
                                   .runtime = STR("demo"),
                                   .remote = "127.0.0.1:1"};
}

static int check(const struct tunnel_upgrade *upgrade)
{
    struct tunnel_credential credential = {0};
    struct error err = {0};
    int status = tunnel_upgrade_check(upgrade, &credential, &err);
    if (status == 101)
        assert_true(str_eq(credential.token, STR("abc.def")) && !credential.binding);
    else
        assert_true(err.text[0] != '\0');
    return status;
}

#define REFUSED(status, field, ...)                                                                                    \
    do {                                                                                                               \
        struct tunnel_upgrade changed = good();                                                                        \
        changed.field = __VA_ARGS__;                                                                                   \
        assert_int_equal(check(&changed), status);                                                                     \
    } while (0)

static void test_gate(void **state)
{
    (void)state;
    struct tunnel_upgrade upgrade = good();
    assert_int_equal(check(&upgrade), 101);
    REFUSED(101, authorization, STR("abc.def"));
    REFUSED(101, upgrade, STR("WebSocket"));
    REFUSED(501, is_known_method, false);
    REFUSED(405, is_get, false);
    REFUSED(400, http_1_1, false);
    REFUSED(400, has_body, true);
    REFUSED(400, too_long, true);
    REFUSED(400, repeated, true);
    REFUSED(400, host, STR_EMPTY);
    REFUSED(404, path, STR("/"));
    REFUSED(404, path, STR("/tunnel/v1/"));
    REFUSED(404, path, STR("/TUNNEL/v1"));
    REFUSED(404, query, STR("a=b"));
    REFUSED(426, upgrade, STR_EMPTY);
    REFUSED(426, upgrade, STR("h2c"));
    REFUSED(426, upgrade, STR("websocket, h2c"));
    REFUSED(400, connection_upgrade, false);
    REFUSED(400, has_expect, true);
    REFUSED(426, websocket_version, STR("8"));
    REFUSED(426, websocket_version, STR_EMPTY);
    REFUSED(400, websocket_key, STR_EMPTY);
    REFUSED(400, websocket_key, STR("dGhlIHNhbXBsZSBub25jZQ"));
    REFUSED(400, websocket_key, STR("!!!!!!!!!!!!!!!!!!!!!!=="));
    REFUSED(403, has_origin, true);
    REFUSED(426, subprotocols, STR_EMPTY);
    REFUSED(426, subprotocols, STR("culvert.tunnel.10"));
    REFUSED(426, subprotocols, STR("CULVERT.TUNNEL.1"));
    REFUSED(101, subprotocols, STR("x,culvert.tunnel.1 ,\ty"));
    REFUSED(400, subprotocols, STR("culvert.tunnel.1,"));
    REFUSED(400, subprotocols, STR("culvert.tunnel.1 x"));
    REFUSED(401, authorization, STR_EMPTY);
    REFUSED(400, instance_id, STR_EMPTY);
    REFUSED(400, boot_id, STR("with space"));
    REFUSED(400, agent_version, STR("\x7f"));
    REFUSED(400, runtime, STR("caf\xc3\xa9"));
    char big[200];
    memset(big, 'a', sizeof(big));
    REFUSED(400, instance_id, str_of(big, 128));
    REFUSED(101, instance_id, str_of(big, 127));
    REFUSED(400, boot_id, str_of(big, 64));
}

// ---- parsing ---------------------------------------------------------------------------------------------------

#define REQUEST_LINE "GET /tunnel/v1 HTTP/1.1\r\n"
#define HOST         "Host: t.example.com\r\n"
#define WEBSOCKET                                                                                                      \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"                                       \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n"
#define AGENT                                                                                                          \
    "Authorization: Bearer abc.def\r\nculvert-instance-id: pod-1\r\nculvert-boot-id: b\r\n"                            \
    "culvert-agent-version: 1\r\nculvert-runtime: demo\r\n"

// The status that this request comes to; 0: it is not complete.
static int judge(const char *text, size_t len)
{
    struct tunnel_upgrade upgrade;
    struct tunnel_credential credential;
    struct error err = {0};
    switch (tunnel_upgrade_parse(text, len, 1024, &upgrade, &err)) {
    case ERROR_NONE: return tunnel_upgrade_check(&upgrade, &credential, &err);
    case ERROR_AGAIN: return 0;
    case ERROR_TOO_LARGE: return 431;
    default: return 400;
    }
}

static void test_requests(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {REQUEST_LINE HOST WEBSOCKET AGENT "\r\n", 101},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 101},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Connection: keep-alive\r\n\r\n", 101},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Upgrade: websocket\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Authorization: Bearer abc.def\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "culvert-runtime: other\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Origin: https://a\r\n\r\n", 403},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Expect: 100-continue\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "Content-Length: 0\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "\r\nGET / HTTP/1.1\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT "\r\n\x82\x80zzzz", 400},
        {REQUEST_LINE HOST WEBSOCKET "\r\n", 401},
        {REQUEST_LINE WEBSOCKET AGENT "\r\n", 400},
        {"GET /tunnel/v1? HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 404},
        {"GET /tunnel/v1?a HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 404},
        {"GET /tunnel%2fv1 HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 404},
        {"GET http://t.example.com/tunnel/v1 HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 400},
        {"POST /tunnel/v1 HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 405},
        {"BREW /tunnel/v1 HTTP/1.1\r\n" HOST WEBSOCKET AGENT "\r\n", 501},
        {"GET /tunnel/v1 HTTP/1.0\r\n" HOST WEBSOCKET AGENT "\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {REQUEST_LINE HOST WEBSOCKET AGENT, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (judge(cases[i].text, strlen(cases[i].text)) != cases[i].status)
            fail_msg("case %zu: %d", i, judge(cases[i].text, strlen(cases[i].text)));
}

static void test_every_piece_of_a_request_is_incomplete(void **state)
{
    (void)state;
    static const char text[] = REQUEST_LINE HOST WEBSOCKET AGENT "\r\n";
    for (size_t len = 0; len < sizeof(text) - 1; len++)
        assert_int_equal(judge(text, len), 0);
    assert_int_equal(judge(text, sizeof(text) - 1), 101);
}

static void test_limits_of_a_request(void **state)
{
    (void)state;
    struct strbuf text;
    strbuf_init(&text, 4096);
    strbuf_add_c(&text, REQUEST_LINE HOST WEBSOCKET "culvert-runtime: ");
    for (size_t i = 0; i <= UPGRADE_HEADER_BYTES_MAX; i++)
        strbuf_add_byte(&text, 'a');
    strbuf_add_c(&text, "\r\n\r\n");
    assert_int_equal(judge(text.at, text.len), 400);
    strbuf_clear(&text);
    strbuf_add_c(&text, REQUEST_LINE HOST "X: ");
    while (text.len < 1024)
        strbuf_add_byte(&text, 'a');
    assert_int_equal(judge(text.at, text.len - 1), 0);
    assert_int_equal(judge(text.at, text.len), 431);
    strbuf_finish(&text);
}

static void test_sealed_tokens(void **state)
{
    (void)state;
    const uint8_t binding[WIRE_BINDING_BYTES] = {1};
    struct tunnel_upgrade upgrade = good();
    struct tunnel_credential credential;
    struct error err;
    upgrade.authorization = STR("culverT  abc.def ");
    assert_int_equal(tunnel_upgrade_check(&upgrade, &credential, &err), 401); // a connection without a binding
    upgrade.binding = binding;
    assert_int_equal(tunnel_upgrade_check(&upgrade, &credential, &err), 101);
    assert_true(str_eq(credential.token, STR("abc.def")));
    assert_ptr_equal(credential.binding, binding);
    upgrade.authorization = STR("Bearer abc.def");
    assert_int_equal(tunnel_upgrade_check(&upgrade, &credential, &err), 101);
    assert_null(credential.binding);
}

static void test_accept(void **state)
{
    (void)state;
    struct strbuf out;
    strbuf_init(&out, UPGRADE_ANSWER_BYTES_MAX);
    tunnel_upgrade_accept(STR("dGhlIHNhbXBsZSBub25jZQ=="), STR_EMPTY, &out); // RFC 6455 section 1.3
    assert_non_null(strstr(out.at, "HTTP/1.1 101 "));
    assert_non_null(strstr(out.at, "\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert_non_null(strstr(out.at, "\r\nsec-websocket-protocol: culvert.tunnel.1\r\n\r\n"));
    strbuf_clear(&out);
    tunnel_upgrade_accept(STR("dGhlIHNhbXBsZSBub25jZQ=="), STR("abc"), &out);
    assert_non_null(strstr(out.at, "\r\nsec-websocket-protocol: culvert.tunnel.1\r\nculvert-proof: abc\r\n\r\n"));
    strbuf_finish(&out);
}

static void test_answers(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *contains;
    } cases[] = {{400, "HTTP/1.1 400 Bad Request\r\n"},
                 {401, "\r\nwww-authenticate: Bearer"},
                 {426, "\r\nsec-websocket-protocol: culvert.tunnel.1\r\n"},
                 {503, "\r\nretry-after: 7\r\n"},
                 {403, "\r\nconnection: close\r\n"},
                 {404, "\r\n\r\nwhy\n"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err;
        (void)error_set(&err, ERROR_INVALID, "why");
        struct strbuf out;
        strbuf_init(&out, UPGRADE_ANSWER_BYTES_MAX);
        tunnel_upgrade_answer(cases[i].status, 7, &err, &out);
        assert_false(out.overflow);
        assert_non_null(strstr(out.at, cases[i].contains));
        assert_non_null(strstr(out.at, "\r\ncontent-length: 4\r\n"));
        strbuf_finish(&out);
    }
    // The longest text there is still fits.
    struct error err = {0};
    memset(err.text, 'x', sizeof(err.text) - 1);
    struct strbuf out;
    strbuf_init(&out, UPGRADE_ANSWER_BYTES_MAX);
    tunnel_upgrade_answer(426, 0, &err, &out);
    assert_false(out.overflow);
    strbuf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gate),
                                       cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_every_piece_of_a_request_is_incomplete),
                                       cmocka_unit_test(test_limits_of_a_request),
                                       cmocka_unit_test(test_sealed_tokens),
                                       cmocka_unit_test(test_accept),
                                       cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
