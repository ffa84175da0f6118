#include "agent/calls/calls.h"

#include "agent/calls/answer.h"
#include "agent/calls/identity_cache.h"
#include "agent/calls/proxy.h"
#include "agent/reports/reporter.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/identity.h"

struct agent_calls {
    struct agent_calls_options options;
    struct identity_cache *identities;
    struct agent_stream *reports; // the one that the reporter writes to, or NULL
    struct metric_family *total;
};

// ---- identity --------------------------------------------------------------------------------------------------

static struct str find_header(const struct agent_stream_request *request, struct str name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq(request->headers[i].name, name)) return request->headers[i].value;
    return STR_EMPTY;
}

// The account that an identity claims. The agent is not told its account: the token's key stands for it, and a claim
// that was not signed with that key fails in the verification that follows.
static enum error_code claimed_account(struct str text, char out[64], struct error *err)
{
    uint8_t json_text[WIRE_IDENTITY_BYTES_MAX];
    const struct json_limits limits = {.bytes_max = sizeof(json_text), .depth_max = 2, .tokens_max = 32};
    struct str signature = text, body;
    json_t *json = NULL;
    size_t len = 0;
    if (text.len > WIRE_IDENTITY_BYTES_MAX || !str_cut(&signature, '.', &body))
        return error_set(err, ERROR_UNAUTHENTICATED, "identity is missing or malformed");
    enum error_code code = parse_base64url(body, json_text, sizeof(json_text), &len, err);
    if (!code) code = json_decode(str_of((const char *)json_text, len), &limits, &json, err);
    if (code) return code;
    struct str account = json_get_str(json, "account");
    bool fits = account.len < 64;
    if (fits && account.len) memcpy(out, account.at, account.len);
    out[fits ? account.len : 0] = '\0';
    json_decref(json);
    return fits ? ERROR_NONE : error_set(err, ERROR_INVALID, "identity's account is too long");
}

static enum error_code check_user(const struct wire_identity *identity, struct error *err)
{
    if (identity->user_id[0]) return ERROR_NONE;
    return error_set(err, ERROR_FORBIDDEN, "anonymous requests may call webhooks only");
}

// Of a platform that does not bind identities to calls: a version older than this agent.
static enum error_code check_unbound(const struct agent_calls *calls, const struct agent_stream_request *request,
                                     const uint8_t key[ID_SHA256_BYTES], struct error *err)
{
    struct wire_identity identity;
    char account[64];
    struct str text = find_header(request, STR(WIRE_HEADER_IDENTITY));
    int64_t now_ms = clock_wall_ms();
    if (identity_cache_find(calls->identities, text, key, now_ms)) return ERROR_NONE;
    enum error_code code = claimed_account(text, account, err);
    if (code) return code;
    code = wire_identity_verify(text, key, str_c(account), str_c(calls->options.runtime), now_ms, &identity, err);
    if (code) return code;
    code = check_user(&identity, err);
    if (code) return code;
    identity_cache_put(calls->identities, text, key, identity.expires_at_ms + WIRE_IDENTITY_SKEW_MS);
    return ERROR_NONE;
}

// What it says of the caller is read once, since it is the same text for all calls of a user; the signature is verified
// for each call.
static enum error_code check_bound(const struct agent_calls *calls, const struct agent_stream_request *request,
                                   struct agent_tunnel_trust *trust, struct str *out_caller, struct error *err)
{
    const struct wire_identity_call call = {request->method, request->protocol, request->authority, request->path};
    struct wire_identity_bound bound;
    struct wire_identity identity;
    int64_t now_ms = (int64_t)clock_mono_ms() + trust->platform_ahead_ms;
    enum error_code code = wire_identity_verify_call(find_header(request, STR(WIRE_HEADER_IDENTITY)), &call, trust->key,
                                                     trust->epoch, now_ms, &bound, err);
    if (code) return code;
    if (!replay_window_take(&trust->replays, bound.number))
        return error_set(err, ERROR_UNAUTHENTICATED, "identity was used before, or is too old to be checked");
    *out_caller = bound.caller;
    if (identity_cache_find(calls->identities, bound.caller, trust->key, 0)) return ERROR_NONE;
    code = wire_identity_read_caller(bound.caller, str_c(calls->options.runtime), &identity, err);
    if (!code) code = check_user(&identity, err);
    if (!code) identity_cache_put(calls->identities, bound.caller, trust->key, INT64_MAX);
    return code;
}

static enum error_code check_identity(const struct agent_calls *calls, const struct agent_stream_request *request,
                                      struct agent_tunnel_trust *trust, struct str *out_caller, struct error *err)
{
    *out_caller = STR_EMPTY;
    return trust->is_bound ? check_bound(calls, request, trust, out_caller, err)
                           : check_unbound(calls, request, trust->key, err);
}

static void start_app_proxy(const struct agent_calls *calls, struct agent_stream *stream, struct str path,
                            struct str caller)
{
    struct wire_identity identity = {.user_name = ""};
    if (caller.len && wire_identity_read_caller(caller, str_c(calls->options.runtime), &identity, NULL) != ERROR_NONE)
        identity.user_name[0] = '\0';
    agent_app_proxy_start(&calls->options.app_proxy, stream, path, str_c(identity.user_name));
}

// ---- streams that are answered at once ---------------------------------------------------------------------------

static void on_refused_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    (void)arg;
    (void)at;
    agent_stream_consumed(stream, len);
}

static void on_refused(void *arg, struct agent_stream *stream)
{
    (void)arg;
    (void)stream;
}

static void on_refused_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    (void)arg;
    (void)stream;
    (void)code;
}

static void refuse(struct agent_stream *stream, int status, const char *cause, const char *detail)
{
    static const struct agent_stream_events events = {
        .on_data = on_refused_data, .on_end = on_refused, .on_room = on_refused, .on_close = on_refused_close};
    agent_stream_attach(stream, &events, NULL);
    agent_answer_cause(stream, status, cause, detail);
}

// ---- reports ---------------------------------------------------------------------------------------------------

static void on_reports_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    struct agent_calls *calls = arg;
    if (calls->reports == stream) reporter_on_ack_bytes(calls->options.reporter, at, len);
    agent_stream_consumed(stream, len);
}

static void close_reports(struct agent_calls *calls, struct agent_stream *stream)
{
    if (calls->reports != stream) return; // a newer stream has taken its place
    calls->reports = NULL;
    reporter_stream_closed(calls->options.reporter);
}

static void on_reports_end(void *arg, struct agent_stream *stream)
{
    close_reports(arg, stream); // no acknowledgement will come any more
    agent_stream_end(stream, NULL, 0);
}

static void on_reports_writable(void *arg, struct agent_stream *stream)
{
    struct agent_calls *calls = arg;
    if (calls->reports == stream) reporter_stream_writable(calls->options.reporter);
}

static void on_reports_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    (void)code;
    close_reports(arg, stream);
}

static void start_reports(struct agent_calls *calls, struct agent_stream *stream,
                          const struct agent_stream_request *request)
{
    static const struct agent_stream_events events = {.on_data = on_reports_data,
                                                      .on_end = on_reports_end,
                                                      .on_room = on_reports_writable,
                                                      .on_close = on_reports_close};
    const struct http_header headers[] = {{STR("content-type"), STR("application/octet-stream")}};
    if (!calls->options.reporter) {
        refuse(stream, 404, "no-route", "this agent does not report");
        return;
    }
    if (calls->reports) agent_calls_stop_reports(calls);
    bool compares = str_eq(find_header(request, STR(WIRE_HEADER_DIGEST)), STR(WIRE_DIGEST_VERSION));
    bool takes_details = str_eq(find_header(request, STR(WIRE_HEADER_DETAILS)), STR(WIRE_DETAILS_VERSION));
    bool takes_events =
        str_eq(find_header(request, STR(WIRE_HEADER_KUBERNETES_EVENTS)), STR(WIRE_KUBERNETES_EVENTS_VERSION));
    agent_stream_attach(stream, &events, calls);
    agent_stream_respond(stream, 200, headers, 1, false);
    calls->reports = stream;
    reporter_stream_open(calls->options.reporter, stream, compares, takes_details, takes_events);
}

void agent_calls_stop_reports(struct agent_calls *calls)
{
    struct agent_stream *stream = calls->reports;
    if (!stream) return;
    close_reports(calls, stream);
    agent_stream_end(stream, NULL, 0);
}

// ---- accept ----------------------------------------------------------------------------------------------------

static bool check_protocol(const struct agent_stream_request *request)
{
    if (!str_eq(request->method, STR("CONNECT"))) return !request->protocol.len;
    return str_eq(request->protocol, STR("websocket")) || str_eq(request->protocol, STR("connect-tcp"));
}

static const char *refusal_text(const struct agent_route *route)
{
    if (route->status == 403) return "this service is not in the agent's allow-list";
    return route->status == 404 ? "no service answers under this path" : "the path cannot be routed";
}

void agent_calls_accept(struct agent_calls *calls, struct agent_stream *stream, struct agent_tunnel_trust *trust)
{
    const struct agent_stream_request *request = agent_stream_request(stream);
    struct agent_route route;
    struct str caller = STR_EMPTY;
    struct error err = {0};
    agent_router_route(calls->options.router, request->method, request->authority, request->path, &route);
    metric_add(metric_with(calls->total, route.label), 1);

    if (!check_protocol(request)) {
        refuse(stream, 501, "no-route", "this protocol is not served");
    } else if (route.kind == AGENT_ROUTE_REPORTS && !find_header(request, STR(WIRE_HEADER_IDENTITY)).len) {
        start_reports(calls, stream, request); // of the platform itself: a call for a person carries an identity
    } else if (route.kind == AGENT_ROUTE_REPORTS) {
        refuse(stream, 404, "no-route", "no service answers under this path");
    } else if (!route.anonymous && check_identity(calls, request, trust, &caller, &err)) {
        // Before the allow-list's verdict, so that nobody learns what is in it.
        log_limited(LOG_WARN, "calls", "identity_refused", STR_EMPTY, STR_EMPTY, log_err(&err),
                    log_int("stream", agent_stream_id(stream)));
        refuse(stream, 403, "not-allowed", "the caller's identity is not valid here");
    } else if (route.kind == AGENT_ROUTE_REFUSED) {
        refuse(stream, route.status, route.cause, refusal_text(&route));
    } else if (route.kind == AGENT_ROUTE_APP_PROXY) {
        start_app_proxy(calls, stream, route.path, caller);
    } else {
        agent_proxy_start(calls->options.pool, calls->options.http2, stream, &route);
    }
}

struct agent_calls *agent_calls_create(const struct agent_calls_options *options)
{
    struct agent_calls *calls = mem_zalloc(sizeof(*calls));
    calls->options = *options;
    calls->identities = identity_cache_create();
    calls->total = metrics_counter("culvert_agent_calls_total", "Calls received through the tunnel.", "route", NULL);
    return calls;
}

void agent_calls_destroy(struct agent_calls *calls)
{
    if (!calls) return;
    identity_cache_destroy(calls->identities);
    mem_free(calls);
}
