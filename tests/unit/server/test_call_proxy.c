// Calls into clusters behave alike wherever they come in: the same situations over the ingress
// listener (HTTP/1.1 and HTTP/2) and over `/runtimes/<name>/proxy/` of the API give the same
// status, cause, header fields, body and trailers to the client, and the same request to the
// broker, which is a test double.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/http1/http1.h"
#include "base/mem.h"
#include "client.h"
#include "fake_broker.h"
#include "server/http/h2o_listener.h"
#include "server/http/runtime_proxy.h"
#include "server/ingress/ingress.h"
#include "server/tls/tcp_listener.h"
#include "server/tls/tls_context.h"

#define ACCOUNT "0123456789abcdef01234567"
#define HOST    "platform.test"
#define BASE    "/runtimes/prod/proxy"

enum { FIELDS_MAX = 64, TEXT_BYTES = 512 * 1024, ACCOUNTS_MAX = 2, LINES_MAX = 128 };

enum endpoint { INGRESS_HTTP1, INGRESS_HTTP2, API, ENDPOINTS };
static const char *const endpoint_names[] = {"ingress over HTTP/1.1", "ingress over HTTP/2", "API"};

static struct platform {
    struct loop *loop;
    struct ingress *ingress;
    struct runtime_proxy *proxy;
    struct h2o_listener *listener;
    struct tls_context *ingress_tls, *api_tls;
    struct connection_limiter *accounts;
    uint16_t ingress_port, api_port;
    sem_t done;
} platform;

// ---- the platform -------------------------------------------------------------------------------

static void authenticate(void *ctx, unsigned loop_index, const struct call_credential *credential, struct str remote,
                         call_authenticated done, void *arg)
{
    static const struct {
        const char *token;
        enum error_code code;
    } refusals[] = {
        {"weak", ERROR_FORBIDDEN}, {"away", ERROR_UNAVAILABLE}, {"often", ERROR_LIMITED}, {"broken", ERROR_INTERNAL}};
    static const struct call_principal ada = {.account_id = {ACCOUNT, sizeof ACCOUNT - 1},
                                              .user_id = {"user-1", 6},
                                              .user_name = {"Ada", 3},
                                              .token_id = {"key-1", 5}};
    struct error err;
    struct str token = credential->token;
    (void)ctx, (void)loop_index, (void)remote;
    if (str_eq(token, STR("good"))) {
        done(arg, NULL, &ada);
        return;
    }
    (void)error_set(&err, ERROR_UNAUTHENTICATED, "unknown");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (str_eq(token, str_c(refusals[i].token))) (void)error_set(&err, refusals[i].code, "refused by the test");
    done(arg, &err, NULL);
}

static void on_request(void *ctx, struct listener_request *request)
{
    (void)ctx;
    runtime_proxy_take(platform.proxy, request, listener_request_target(request));
}

static void run_create(void *arg)
{
    struct error err;
    const struct call_proxy_options calls = {
        .tunnel_domain = "tunnels.test", .platform_host = HOST, .authenticate = authenticate};
    (void)arg;
    platform.ingress = ingress_create(platform.loop,
                                      &(struct ingress_options){.listen = "127.0.0.1:0",
                                                                .tls = tls_context_ssl(platform.ingress_tls),
                                                                .accounts = platform.accounts,
                                                                .calls = calls},
                                      &err);
    platform.proxy = runtime_proxy_create(platform.loop, &calls, platform.accounts, &err);
    platform.listener = h2o_listener_create(platform.loop,
                                            &(struct h2o_listener_options){.name = "api",
                                                                           .listen = "127.0.0.1:0",
                                                                           .tls = tls_context_ssl(platform.api_tls),
                                                                           .request_timeout_ms = 10000,
                                                                           .body_bytes_max = TEXT_BYTES,
                                                                           .on_request = on_request},
                                            &err);
    if (platform.ingress) platform.ingress_port = ingress_port(platform.ingress);
    if (platform.listener) platform.api_port = h2o_listener_port(platform.listener);
    sem_post(&platform.done);
}

static void on_all_closed(void *arg)
{
    (void)arg;
    ingress_destroy(platform.ingress);
    h2o_listener_destroy(platform.listener);
    runtime_proxy_destroy(platform.proxy);
    sem_post(&platform.done);
}

static void on_listener_closed(void *arg)
{
    runtime_proxy_close(platform.proxy, on_all_closed, arg);
}

static void on_ingress_closed(void *arg)
{
    h2o_listener_close(platform.listener, on_listener_closed, arg);
}

static void run_close(void *arg)
{
    ingress_close(platform.ingress, on_ingress_closed, arg);
}

static int set_up(void **state)
{
    struct error err;
    char folder[] = "/tmp/test_call_proxy.XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    char *certificate AUTO_FREE = mem_printf("%s/certificate.pem", folder);
    char *key AUTO_FREE = mem_printf("%s/key.pem", folder);
    client_make_certificate(certificate, key);
    platform = (struct platform){.ingress_tls = tls_context_create(certificate, key, true, &err),
                                 .api_tls = tls_context_create(certificate, key, false, &err),
                                 .accounts = connection_limiter_create(ACCOUNTS_MAX),
                                 .loop = loop_create("calls-test", 0)};
    unlink(certificate);
    unlink(key);
    rmdir(folder);
    sem_init(&platform.done, 0, 0);
    fake_broker_start(platform.loop);
    assert_int_equal(loop_start(platform.loop, &err), ERROR_NONE);
    loop_post(platform.loop, run_create, NULL);
    sem_wait(&platform.done);
    assert_non_null(platform.ingress);
    assert_non_null(platform.listener);
    assert_non_null(platform.proxy);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    loop_post(platform.loop, run_close, NULL);
    sem_wait(&platform.done);
    loop_stop(platform.loop);
    loop_join(platform.loop);
    loop_destroy(platform.loop);
    fake_broker_stop();
    tls_context_destroy(platform.ingress_tls);
    tls_context_destroy(platform.api_tls);
    connection_limiter_destroy(platform.accounts);
    sem_destroy(&platform.done);
    return 0;
}

// ---- situations ---------------------------------------------------------------------------------

struct situation {
    const char *path; // behind BASE, unless it begins with '!'
    int status;
    const char *cause;                                            // NULL: none
    const char *method, *token, *headers[3][2], *body, *trailers; // NULL: GET, "good", none
    bool only_http1; // HTTP/2 has no such thing, or does something else by its own rules
};

static const struct situation situations[] = {
    {.path = "/hello", .status = 200},
    {.path = "/status/200", .status = 200, .method = "HEAD"},
    {.path = "/hello?a=b&c=%20",
     .status = 200,
     .headers = {{"x-access-token", "none"}, {"x-a", "1"}, {"x-forwarded-for", "9.9.9.9"}}},
    {.path = "/hello",
     .status = 200,
     .headers = {{"cookie", "a=b"}, {"impersonate-user", "root"}, {"culvert-identity", "x"}}},
    {.path = "/chunked", .status = 200, .headers = {{"te", "trailers"}}},
    {.path = "/chunked", .status = 200, .only_http1 = true}, // over HTTP/2 nobody has to ask for trailers
    {.path = "/hostile", .status = 200},
    {.path = "/big/300000", .status = 200},
    {.path = "/short", .status = 200, .only_http1 = true}, // a reset may overtake its head,
    {.path = "/long", .status = 200, .only_http1 = true},
    {.path = "/status/204", .status = 204},
    {.path = "/status/304", .status = 304},
    {.path = "/status/404", .status = 404},
    {.path = "/status/503", .status = 503},
    {.path = "/sink", .status = 200, .method = "POST", .body = "twelve bytes"},
    {.path = "/hello", .status = 200, .method = "POST", .body = ""},
    {.path = "/sink",
     .status = 200,
     .method = "POST",
     .body = "digested",
     .trailers = "content-digest: sha-256=:AA==:\r\n"},
    {.path = "/echo", .status = 200, .method = "PUT", .body = "there and back"},
    {.path = "/fail/1", .status = 503, .cause = "no-tunnel"},
    {.path = "/fail/2", .status = 503, .cause = "overloaded"},
    {.path = "/fail/3", .status = 502, .cause = "tunnel-lost"},
    {.path = "/fail/4", .status = 502, .cause = "dial-failed"},
    {.path = "/fail/5", .status = 403, .cause = "not-allowed"},
    {.path = "/fail/6", .status = 404, .cause = "no-route"},
    {.path = "/fail/7", .status = 504, .cause = "head-timeout"},
    {.path = "/fail/8", .status = 504, .cause = "stalled"},
    {.path = "/fail/9", .status = 502, .cause = "upstream-failed"},
    {.path = "/fail/1", .status = 503, .cause = "no-tunnel", .method = "HEAD"},
    {.path = "/webhooks/x", .status = 401, .cause = "unauthenticated", .token = ""},
    {.path = "/hello", .status = 401, .cause = "unauthenticated", .token = ""},
    {.path = "/hello", .status = 401, .cause = "unauthenticated", .token = "unknown"},
    {.path = "/hello", .status = 403, .cause = "forbidden", .token = "weak"},
    {.path = "/hello", .status = 429, .cause = "limited", .token = "often"},
    {.path = "/hello", .status = 500, .cause = "internal", .token = "broken"},
    {.path = "/hello", .status = 503, .cause = "unavailable", .token = "away"},
    {.path = "/a/../b", .status = 400, .cause = "bad-request"},
    {.path = "/a//b", .status = 400, .cause = "bad-request"},
    {.path = "/a%2fb", .status = 400, .cause = "bad-request"},
    {.path = "!/runtimes/prod/other/hello", .status = 404, .cause = "not-found"},
    {.path = "!/runtimes/prod", .status = 404, .cause = "not-found"},
    {.path = "/hello", .status = 405, .cause = "method-not-allowed", .method = "TRACE"},
    {.path = "/hello", .status = 501, .cause = "not-implemented", .method = "BREW"},
    {.path = "/sink",
     .status = 417,
     .cause = "expectation-failed",
     .method = "POST",
     .body = "x",
     .headers = {{"expect", "tea"}}},
};

struct outcome {
    int status;
    bool whole;
    size_t count, trailer_count;
    char text[TEXT_BYTES]; // of fields
    size_t text_len;
    char lines[FIELDS_MAX][512]; // "name: value", sorted; trailers as "trailer name: value"
    char body[TEXT_BYTES];
    size_t body_len;
    char seen[sizeof((struct fake_broker_seen *)NULL)->headers]; // by the broker, sorted
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

// What belongs to one version of HTTP, or to the server that speaks it.
static bool is_of_the_hop(struct str name)
{
    static const char *const names[] = {"date", "server", "connection", "transfer-encoding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq_nocase(name, str_c(names[i]))) return true;
    return false;
}

static void note_field(struct outcome *out, const char *kind, struct str name, struct str value)
{
    if (is_of_the_hop(name)) return;
    assert_true(out->count < FIELDS_MAX);
    char *line = out->lines[out->count++];
    snprintf(line, sizeof out->lines[0], "%s%.*s: %.*s", kind, STR_ARG(name), STR_ARG(value));
    for (char *at = line; *at && *at != ':'; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
}

static const char *token_of(const struct situation *situation)
{
    return situation->token ? situation->token : "good";
}

static void write_target(const struct situation *situation, struct strbuf *out)
{
    bool is_whole = situation->path[0] == '!';
    strbuf_addf(out, "%s%s", is_whole ? "" : BASE, situation->path + is_whole);
}

// ---- over HTTP/1.1 ------------------------------------------------------------------------------

static void write_request(const struct situation *situation, struct strbuf *out)
{
    strbuf_addf(out, "%s ", situation->method ? situation->method : "GET");
    write_target(situation, out);
    strbuf_addf(out, " HTTP/1.1\r\nHost: " HOST "\r\nX-Request-Id: a-situation\r\n");
    if (token_of(situation)[0]) strbuf_addf(out, "Authorization: Bearer %s\r\n", token_of(situation));
    for (size_t i = 0; i < 3 && situation->headers[i][0]; i++)
        strbuf_addf(out, "%s: %s\r\n", situation->headers[i][0], situation->headers[i][1]);
    bool asks = situation->headers[0][0] && strcmp(situation->headers[0][0], "te") == 0;
    strbuf_addf(out, "Connection: close%s\r\n", asks ? ", te" : "");
    if (situation->trailers)
        strbuf_addf(out, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n%s\r\n", strlen(situation->body),
                    situation->body, situation->trailers);
    else if (situation->body)
        strbuf_addf(out, "Content-Length: %zu\r\n\r\n%s", strlen(situation->body), situation->body);
    else
        strbuf_add_c(out, "\r\n");
}

static void read_chunks(struct outcome *out, const char *at, size_t len)
{
    struct http1_chunked chunked;
    struct strbuf text;
    struct error err;
    size_t used;
    struct str data;
    http1_chunked_init(&chunked);
    strbuf_init(&text, TEXT_BYTES);
    chunked.trailers = &text;
    while (len > 0 && !out->whole) {
        assert_int_equal(http1_chunked_feed(&chunked, at, len, &used, &data, &out->whole, &err), ERROR_NONE);
        if (data.len) memcpy(out->body + out->body_len, data.at, data.len);
        out->body_len += data.len;
        at += used;
        len -= used;
    }
    assert_int_equal(len, 0);
    struct http_header trailers[FIELDS_MAX];
    size_t count = http1_parse_trailers(strbuf_str(&text), trailers, FIELDS_MAX);
    for (size_t i = 0; i < count; i++)
        note_field(out, "trailer ", trailers[i].name, trailers[i].value);
    strbuf_finish(&text);
}

static void ask_http1(uint16_t port, const struct situation *situation, struct outcome *out)
{
    static struct http1_head head;
    struct strbuf request;
    struct error err;
    size_t got, len = 0, bytes = 0;
    struct client *client = client_connect(port, true, NULL);
    assert_non_null(client);
    strbuf_init(&request, TEXT_BYTES);
    write_request(situation, &request);
    client_send(client, strbuf_str(&request));
    strbuf_finish(&request);
    while ((got = client_read(client, out->text + len, sizeof out->text - len)) > 0)
        len += got;
    client_close(client);
    assert_int_equal(http1_parse_response(out->text, len, 0, str_c(situation->method ? situation->method : "GET"),
                                          &head, &bytes, &err),
                     ERROR_NONE);
    out->status = head.status;
    for (size_t i = 0; i < head.header_count; i++)
        note_field(out, "", head.headers[i].name, head.headers[i].value);
    if (head.body == HTTP1_BODY_CHUNKED) {
        read_chunks(out, out->text + bytes, len - bytes);
        return;
    }
    out->body_len = len - bytes;
    memcpy(out->body, out->text + bytes, out->body_len);
    out->whole = head.body == HTTP1_BODY_NONE || head.content_length == out->body_len;
}

// ---- over HTTP/2 --------------------------------------------------------------------------------

struct http2_client {
    struct outcome *out;
    const struct situation *situation;
    size_t sent;
    bool over;
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct http2_client *client = arg;
    struct str key = str_of((const char *)name, name_len), text = str_of((const char *)value, value_len);
    (void)session, (void)flags;
    if (str_eq(key, STR(":status")))
        client->out->status = atoi((const char *)value);
    else
        note_field(client->out, frame->headers.cat == NGHTTP2_HCAT_HEADERS ? "trailer " : "", key, text);
    return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    struct http2_client *client = arg;
    (void)session, (void)flags, (void)id;
    assert_true(client->out->body_len + len <= TEXT_BYTES);
    memcpy(client->out->body + client->out->body_len, at, len);
    client->out->body_len += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct http2_client *client = arg;
    (void)session, (void)id;
    client->over = true;
    client->out->whole = code == NGHTTP2_NO_ERROR;
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
    struct http2_client *client = arg;
    struct str left = str_from(str_c(client->situation->body), client->sent);
    size_t take = left.len < len ? left.len : len;
    (void)source;
    if (take) memcpy(buffer, left.at, take);
    client->sent += take;
    if (take < left.len) return (ssize_t)take;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (client->situation->trailers) {
        struct str value = str_c(client->situation->trailers), name;
        (void)str_cut(&value, ':', &name);
        value = str_trim(str_first(value, value.len - 2));
        const nghttp2_nv field = {(uint8_t *)(uintptr_t)name.at, (uint8_t *)(uintptr_t)value.at, name.len, value.len,
                                  NGHTTP2_NV_FLAG_NONE};
        assert_int_equal(nghttp2_submit_trailer(session, id, &field, 1), 0);
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
    return (ssize_t)take;
}

static nghttp2_nv field_of(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static void submit(nghttp2_session *session, const struct situation *situation)
{
    nghttp2_nv fields[12];
    size_t count = 0;
    struct strbuf target;
    char authorization[64], length[24];
    strbuf_init(&target, 1024);
    write_target(situation, &target);
    strbuf_add_byte(&target, '\0');
    fields[count++] = field_of(":method", situation->method ? situation->method : "GET");
    fields[count++] = field_of(":scheme", "https");
    fields[count++] = field_of(":authority", HOST);
    fields[count++] = field_of(":path", target.at);
    fields[count++] = field_of("x-request-id", "a-situation");
    snprintf(authorization, sizeof authorization, "Bearer %s", token_of(situation));
    if (token_of(situation)[0]) fields[count++] = field_of("authorization", authorization);
    for (size_t i = 0; i < 3 && situation->headers[i][0]; i++)
        fields[count++] = field_of(situation->headers[i][0], situation->headers[i][1]);
    if (situation->body) snprintf(length, sizeof length, "%zu", strlen(situation->body));
    if (situation->body && !situation->trailers) fields[count++] = field_of("content-length", length);
    bool has_data = situation->body && (situation->body[0] || situation->trailers);
    const nghttp2_data_provider body = {.read_callback = read_body};
    assert_true(nghttp2_submit_request(session, NULL, fields, count, has_data ? &body : NULL, NULL) > 0);
    strbuf_finish(&target);
}

static void ask_http2(uint16_t port, const struct situation *situation, struct outcome *out)
{
    struct http2_client state = {.out = out, .situation = situation};
    struct client *client = client_connect(port, true, "\x02h2");
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    static char in[16 * 1024];
    const uint8_t *bytes;
    ssize_t len;
    assert_non_null(client);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new(&session, callbacks, &state), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    submit(session, situation);
    while (!state.over) {
        while ((len = nghttp2_session_mem_send(session, &bytes)) > 0)
            client_send(client, str_of((const char *)bytes, (size_t)len));
        size_t got = client_read(client, in, sizeof in);
        assert_true(got > 0);
        assert_int_equal(nghttp2_session_mem_recv(session, (const uint8_t *)in, got), got);
    }
    nghttp2_session_del(session);
    client_close(client);
}

// ---- the comparison -----------------------------------------------------------------------------

// The header fields that the broker saw, in order; what came in whatever order is the same request.
static void note_seen(struct outcome *out, unsigned opened_before)
{
    static char lines[LINES_MAX][512];
    struct fake_broker_seen seen = fake_broker_seen();
    size_t count = 0, len = 0;
    struct str rest = str_c(seen.headers), line;
    if (seen.opened == opened_before) return;
    while (str_cut(&rest, '\n', &line)) {
        assert_true(count < LINES_MAX);
        snprintf(lines[count++], sizeof lines[0], "%.*s", STR_ARG(line));
    }
    qsort(lines, count, sizeof lines[0], compare_lines);
    len = (size_t)snprintf(out->seen, sizeof out->seen, "%s %s %s\n", seen.method, seen.path, seen.runtime);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(out->seen + len, sizeof out->seen - len, "%s\n", lines[i]);
}

static void ask(enum endpoint endpoint, const struct situation *situation, struct outcome *out)
{
    unsigned opened = fake_broker_seen().opened;
    memset(out, 0, sizeof *out);
    if (endpoint == INGRESS_HTTP2)
        ask_http2(platform.ingress_port, situation, out);
    else
        ask_http1(endpoint == API ? platform.api_port : platform.ingress_port, situation, out);
    note_seen(out, opened);
    qsort(out->lines, out->count, sizeof out->lines[0], compare_lines);
}

static const char *find_line(const struct outcome *outcome, const char *start)
{
    for (size_t i = 0; i < outcome->count; i++)
        if (strncmp(outcome->lines[i], start, strlen(start)) == 0) return outcome->lines[i] + strlen(start);
    return NULL;
}

static void check_outcome(const struct situation *situation, const struct outcome *outcome)
{
    const char *cause = find_line(outcome, "culvert-cause: ");
    assert_int_equal(outcome->status, situation->status);
    if (situation->cause) {
        assert_non_null(cause);
        assert_string_equal(cause, situation->cause);
        assert_string_equal(find_line(outcome, "content-type: "), "application/problem+json");
    } else {
        assert_null(cause);
    }
    assert_string_equal(find_line(outcome, "x-request-id: "), "a-situation");
    assert_null(find_line(outcome, "set-cookie: "));
}

static void compare(const struct outcome *expected, const struct outcome *outcome)
{
    for (size_t i = 0; i < expected->count && i < outcome->count; i++)
        assert_string_equal(outcome->lines[i], expected->lines[i]);
    assert_int_equal(outcome->count, expected->count);
    assert_int_equal(outcome->whole, expected->whole);
    if (outcome->whole) { // of one that was cut as much has come as had left
        assert_int_equal(outcome->body_len, expected->body_len);
        assert_memory_equal(outcome->body, expected->body, expected->body_len);
    }
    assert_string_equal(outcome->seen, expected->seen);
}

static void test_endpoints_answer_alike(void **state)
{
    static struct outcome expected, outcome;
    (void)state;
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
        const struct situation *situation = &situations[i];
        print_message("%s %s, token %s\n", situation->method ? situation->method : "GET", situation->path,
                      token_of(situation));
        ask(INGRESS_HTTP1, situation, &expected);
        check_outcome(situation, &expected);
        for (enum endpoint endpoint = INGRESS_HTTP2; endpoint < ENDPOINTS; endpoint++) {
            if (endpoint == INGRESS_HTTP2 && situation->only_http1) continue;
            print_message("    %s\n", endpoint_names[endpoint]);
            ask(endpoint, situation, &outcome);
            check_outcome(situation, &outcome);
            compare(&expected, &outcome);
        }
    }
}

static void test_trailers_pass_both_ways(void **state)
{
    static const struct situation down = {.path = "/chunked", .status = 200, .headers = {{"te", "trailers"}}};
    static const struct situation up = {.path = "/sink",
                                        .status = 200,
                                        .method = "POST",
                                        .body = "digested",
                                        .trailers = "content-digest: sha-256=:AA==:\r\n"};
    static struct outcome outcome;
    (void)state;
    for (enum endpoint endpoint = INGRESS_HTTP1; endpoint < ENDPOINTS; endpoint++) {
        ask(endpoint, &down, &outcome);
        assert_string_equal(find_line(&outcome, "trailer grpc-status: "), "0");
        assert_null(find_line(&outcome, "trailer set-cookie: "));
        ask(endpoint, &up, &outcome);
    }
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.trailers, "content-digest: sha-256=:AA==:\ncontent-digest: sha-256=:AA==:\n"
                                       "content-digest: sha-256=:AA==:\n");
}

static struct client *hold(uint16_t port)
{
    static struct client_answer answer;
    struct client *client = client_connect(port, true, NULL);
    assert_non_null(client);
    client_send_text(client, "GET " BASE "/hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: good\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &answer));
    assert_int_equal(answer.status, 200);
    assert_true(answer.keep_alive);
    return client;
}

// The account's places are counted together, whichever endpoint a connection came to.
static void test_connections_of_an_account_are_counted_together(void **state)
{
    static const struct situation hello = {.path = "/hello", .status = 200};
    static const struct situation refused = {.path = "/hello", .status = 503, .cause = "too-many-connections"};
    static struct outcome expected, outcome;
    struct client *held[ACCOUNTS_MAX] = {hold(platform.ingress_port), hold(platform.api_port)};
    (void)state;
    ask(INGRESS_HTTP1, &refused, &expected);
    check_outcome(&refused, &expected);
    for (enum endpoint endpoint = INGRESS_HTTP2; endpoint < ENDPOINTS; endpoint++) {
        ask(endpoint, &refused, &outcome);
        check_outcome(&refused, &outcome);
        compare(&expected, &outcome);
    }
    for (size_t i = 0; i < ACCOUNTS_MAX; i++)
        client_close(held[i]);
    do // the places are free when the platform has noticed
        ask(API, &hello, &outcome);
    while (outcome.status == 503);
    check_outcome(&hello, &outcome);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); // as the platform does
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_endpoints_answer_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_trailers_pass_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_connections_of_an_account_are_counted_together, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
