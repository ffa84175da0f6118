#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "tests/unit/agent/tunnel_pair.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/identity.h"

enum { BODY_BYTES_MAX = 64 * 1024 * 1024, RUN_MS_MAX = 10000 };

#define ACCOUNT "0123456789abcdef01234567"
#define RUNTIME "demo"

static struct pair_call *call_of(struct tunnel_pair *pair, int32_t id)
{
    for (unsigned i = 0; i < pair->call_count; i++)
        if (id && pair->call[i].id == id) return &pair->call[i];
    return NULL;
}

// ---- the platform's callbacks ----------------------------------------------------------------------------------

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct pair_call *call = call_of(arg, frame->hd.stream_id);
    (void)h2;
    (void)flags;
    struct str n = str_of((const char *)name, name_len), v = str_of((const char *)value, value_len);
    if (str_eq(n, STR(":status"))) {
        if (v.at[0] == '1')
            call->infos++;
        else
            call->status = (v.at[0] - '0') * 100 + (v.at[1] - '0') * 10 + (v.at[2] - '0');
        return 0;
    }
    strbuf_addf(call->body.len || frame->headers.cat != NGHTTP2_HCAT_RESPONSE ? &call->trailers : &call->heads,
                "%.*s: %.*s\n", STR_ARG(n), STR_ARG(v));
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    struct pair_call *call = call_of(arg, id);
    (void)flags;
    strbuf_add(&call->body, at, len);
    nghttp2_session_consume_connection(h2, len);
    if (call->hold)
        call->held += len;
    else
        nghttp2_session_consume_stream(h2, id, len);
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct tunnel_pair *pair = arg;
    struct pair_call *call = call_of(pair, frame->hd.stream_id);
    (void)h2;
    bool carries_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (call && carries_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) call->end = true;
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && call)
        pair->granted_bytes += (uint64_t)frame->window_update.window_size_increment;
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && !call)
        pair->connection_window_bytes += (uint64_t)frame->window_update.window_size_increment;
    if (frame->hd.type == NGHTTP2_GOAWAY) pair->goaway = true;
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct pair_call *call = call_of(arg, id);
    (void)h2;
    call->closed = true;
    call->code = code;
    return 0;
}

static nghttp2_nv pair_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static void submit_trailers(nghttp2_session *h2, const struct pair_call *call)
{
    nghttp2_nv nv[16];
    size_t n = 0;
    for (const char *const *h = call->up_trailers; *h; h += 2)
        nv[n++] = pair_nv(h[0], h[1]);
    nghttp2_submit_trailer(h2, call->id, nv, n);
}

static ssize_t read_up(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    struct pair_call *call = source->ptr;
    (void)h2;
    (void)id;
    (void)arg;
    size_t left = call->up.len - call->up_at, n = left < len ? left : len;
    if (!n && !call->up_end) {
        call->up_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n) memcpy(buf, call->up.at + call->up_at, n);
    call->up_at += n;
    if (!call->up_end || call->up_at < call->up.len) return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (call->up_trailers) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(h2, call);
    }
    return (ssize_t)n;
}

// ---- the agent's callbacks -------------------------------------------------------------------------------------

static void on_request(void *arg, struct agent_stream *stream)
{
    struct tunnel_pair *pair = arg;
    agent_calls_accept(pair->calls, stream, &pair->trust);
}

static void on_wants_write(void *arg)
{
    (void)arg;
}

// ---- life ------------------------------------------------------------------------------------------------------

static void create_platform(struct tunnel_pair *pair)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 65536}};
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new2(&pair->platform, callbacks, pair, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_submit_settings(pair->platform, NGHTTP2_FLAG_NONE, settings, 2);
    nghttp2_session_set_local_window_size(pair->platform, NGHTTP2_FLAG_NONE, 0, 0x7fffffff);
}

void tunnel_pair_init(struct tunnel_pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    pair->loop = loop_create("test", 0);
}

void tunnel_pair_open(struct tunnel_pair *pair, const char *services, const char *webhooks)
{
    static const struct agent_session_events events = {.on_request = on_request, .on_wants_write = on_wants_write};
    const struct agent_session_options options = {.streams_max = 100, .buffered_bytes_max = 8 << 20};
    struct error err = {0};
    pair->settings.services = mem_strdup(services);
    pair->settings.webhooks = mem_strdup(webhooks);
    pair->settings.workflows = mem_strdup("");
    pair->settings.tcp_allow = mem_strdup(pair->tcp ? pair->tcp : "");
    pair->router = agent_router_create(&pair->settings, &err);
    if (!pair->router) fail_msg("%s", err.text);
    pair->pool = upstream_pool_create(loop_uv(pair->loop), 2000, pair->tls);
    pair->http2 = upstream_http2_create(pair->pool);
    pair->app_proxy = app_proxy_graphql_create(
        pair->loop, &(struct app_proxy_graphql_options){.version = "1.2.3", .platform_host = "wss://platform"});
    pair->calls = agent_calls_create(&(struct agent_calls_options){.router = pair->router,
                                                                   .pool = pair->pool,
                                                                   .http2 = pair->http2,
                                                                   .runtime = RUNTIME,
                                                                   .app_proxy = {.graphql = pair->app_proxy}});
    memset(pair->trust.key, 7, sizeof(pair->trust.key));
    pair->trust.is_bound = true;
    pair->trust.epoch = 5;
    pair->trust.platform_ahead_ms = clock_wall_ms() - (int64_t)clock_mono_ms();
    pair->agent = agent_session_create(&options, &events, pair);
    create_platform(pair);
}

void tunnel_pair_finish(struct tunnel_pair *pair)
{
    agent_session_destroy(pair->agent);
    nghttp2_session_del(pair->platform);
    agent_calls_destroy(pair->calls);
    app_proxy_graphql_destroy(pair->app_proxy);
    upstream_http2_destroy(pair->http2);
    upstream_pool_destroy(pair->pool);
    agent_router_destroy(pair->router);
    for (unsigned i = 0; i < pair->call_count; i++) {
        strbuf_finish(&pair->call[i].heads);
        strbuf_finish(&pair->call[i].body);
        strbuf_finish(&pair->call[i].trailers);
        strbuf_finish(&pair->call[i].up);
    }
    mem_free(pair->settings.services);
    mem_free(pair->settings.webhooks);
    mem_free(pair->settings.workflows);
    mem_free(pair->settings.tcp_allow);
    loop_destroy(pair->loop);
}

// ---- pump ------------------------------------------------------------------------------------------------------

static bool pump(struct tunnel_pair *pair)
{
    static uint8_t buffer[AGENT_SESSION_TAKE_BYTES];
    bool moved = false;
    const uint8_t *at;
    struct error err = {0};
    for (;;) {
        ssize_t n = nghttp2_session_mem_send(pair->platform, &at);
        if (n <= 0) break;
        moved = true;
        if (agent_session_feed(pair->agent, at, (size_t)n, &err)) fail_msg("%s", err.text);
    }
    size_t n = agent_session_take(pair->agent, buffer, sizeof(buffer));
    if (n) assert_int_equal(nghttp2_session_mem_recv(pair->platform, buffer, n), n);
    pair->agent_bytes += n;
    return moved || n;
}

void tunnel_pair_run(struct tunnel_pair *pair, bool (*done)(void *arg), void *arg)
{
    uint64_t deadline = clock_mono_ms() + RUN_MS_MAX;
    for (;;) {
        bool moved = pump(pair);
        if (done(arg)) return;
        if (clock_mono_ms() > deadline) fail_msg("waited for too long");
        // A short poll: the loop may have nothing that wakes it while both sessions wait for each
        // other.
        uv_run(loop_uv(pair->loop), UV_RUN_NOWAIT);
        if (!moved) uv_update_time(loop_uv(pair->loop));
    }
}

static bool call_closed(void *arg)
{
    const struct pair_call *call = arg;
    return call->closed;
}

void tunnel_pair_run_to_close(struct pair_call *call)
{
    tunnel_pair_run(call->pair, call_closed, call);
}

// ---- calls -----------------------------------------------------------------------------------------------------

static void sign(struct tunnel_pair *pair, const struct pair_request *request, struct strbuf *out)
{
    const struct wire_identity identity = {.account_id = ACCOUNT,
                                           .runtime = RUNTIME,
                                           .user_id = "u1",
                                           .user_name = "somebody",
                                           .expires_at_ms = clock_wall_ms() + WIRE_IDENTITY_BOUND_LIFE_MS,
                                           .epoch = pair->trust.epoch,
                                           .number = ++pair->signed_calls};
    const struct wire_identity_call call = {str_c(request->method), str_c(request->protocol),
                                            str_c(request->authority ? request->authority : "culvert"),
                                            str_c(request->path)};
    if (pair->trust.is_bound)
        assert_int_equal(wire_identity_sign_call(&identity, &call, pair->trust.key, out, NULL), ERROR_NONE);
    else
        assert_int_equal(wire_identity_sign(&identity, pair->trust.key, out, NULL), ERROR_NONE);
}

struct pair_call *tunnel_pair_call(struct tunnel_pair *pair, const struct pair_request *request)
{
    struct pair_call *call = &pair->call[pair->call_count++];
    nghttp2_nv nv[40];
    size_t n = 0;
    struct strbuf identity;
    assert_true(pair->call_count <= PAIR_CALLS_MAX);
    call->pair = pair;
    strbuf_init(&call->heads, BODY_BYTES_MAX);
    strbuf_init(&call->body, BODY_BYTES_MAX);
    strbuf_init(&call->trailers, BODY_BYTES_MAX);
    strbuf_init(&call->up, BODY_BYTES_MAX);
    strbuf_init(&identity, WIRE_IDENTITY_BYTES_MAX);
    nv[n++] = pair_nv(":method", request->method);
    if (request->protocol) nv[n++] = pair_nv(":protocol", request->protocol);
    nv[n++] = pair_nv(":scheme", "https");
    nv[n++] = pair_nv(":authority", request->authority ? request->authority : "culvert");
    nv[n++] = pair_nv(":path", request->path);
    if (!request->anonymous && !request->identity) sign(pair, request, &identity);
    if (request->identity) strbuf_add_c(&identity, request->identity);
    if (identity.len) snprintf(pair->identity, sizeof(pair->identity), "%.*s", (int)identity.len, identity.at);
    if (identity.len) nv[n++] = pair_nv(WIRE_HEADER_IDENTITY, identity.at);
    for (const char *const *h = request->headers; h && *h; h += 2)
        nv[n++] = pair_nv(h[0], h[1]);
    const nghttp2_data_provider up = {.source.ptr = call, .read_callback = read_up};
    // The agent's settings must be known before an extended CONNECT.
    while (pump(pair))
        continue;
    call->id = nghttp2_submit_request(pair->platform, NULL, nv, n, request->body ? &up : NULL, NULL);
    assert_true(call->id > 0);
    strbuf_finish(&identity);
    return call;
}

void tunnel_pair_write(struct pair_call *call, const void *at, size_t len, bool end)
{
    strbuf_add(&call->up, at, len);
    call->up_end = end;
    if (call->up_deferred) nghttp2_session_resume_data(call->pair->platform, call->id);
    call->up_deferred = false;
}

void tunnel_pair_reset(struct pair_call *call)
{
    nghttp2_submit_rst_stream(call->pair->platform, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
}

void tunnel_pair_release(struct pair_call *call)
{
    call->hold = false;
    nghttp2_session_consume_stream(call->pair->platform, call->id, call->held);
    call->held = 0;
}

const char *pair_text(const struct strbuf *b)
{
    return b->at ? b->at : "";
}
