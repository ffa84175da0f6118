#include "tunnel/call/stream_request.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/http2/http2_session.h"
#include "tunnel/wire/identity.h"

static void request_add(struct stream_request *fields, struct str name, struct str value)
{
    fields->fields[fields->count++] = http2_field(name, value);
    fields->bytes += name.len + value.len;
}

static bool request_is_sendable(const struct http_header *header)
{
    return nghttp2_check_header_name((const uint8_t *)header->name.at, header->name.len) && header->name.at[0] != ':' &&
           nghttp2_check_header_value_rfc9113((const uint8_t *)(header->value.at ? header->value.at : ""),
                                              header->value.len);
}

static bool request_is_dropped(const struct http_header *header)
{
    static const char *const names[] = {"connection",         "keep-alive",      "proxy-connection",
                                        "transfer-encoding",  "upgrade",         "http2-settings",
                                        WIRE_HEADER_IDENTITY, WIRE_HEADER_CAUSE, "host"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (str_eq(header->name, str_c(names[i]))) return true;
    return str_eq(header->name, STR("te")) && !str_eq_nocase(str_trim(header->value), STR("trailers"));
}

static enum error_code request_add_headers(struct stream_request *fields, const struct tunnel_request *request,
                                           struct error *err)
{
    if (request->header_count > TUNNEL_HEADERS_MAX)
        return error_set(err, ERROR_TOO_LARGE, "%zu request headers", request->header_count);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        if (request_is_dropped(header)) continue;
        if (!request_is_sendable(header))
            return error_set(err, ERROR_INVALID, "request header %zu cannot be sent over HTTP/2", i);
        request_add(fields, header->name, header->value);
    }
    if (fields->bytes > TUNNEL_HEADER_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "%zu bytes of request headers", fields->bytes);
    return ERROR_NONE;
}

// The platform's time as the agent knows it. Clocks that nobody corrects part by seconds a day.
static int64_t agreed_time(struct tunnel_session *session)
{
    enum { TELL_AGAIN_MS = 5 * 60 * 1000 };
    uint64_t now_ms = clock_mono_ms();
    if (now_ms - session->sent_time_at_ms >= TELL_AGAIN_MS) {
        session->sent_time_ms = clock_wall_ms();
        session->sent_time_at_ms = now_ms;
        // Leaves before the call: control frames go in front of new streams.
        tunnel_session_send_control(
            session, &(struct wire_control){.type = WIRE_CONTROL_TIME, .time_ms = (uint64_t)session->sent_time_ms});
    }
    return session->sent_time_ms + (int64_t)(now_ms - session->sent_time_at_ms);
}

static enum error_code request_add_identity(struct stream_request *fields, struct tunnel_session *session,
                                            const struct tunnel_request *request, struct error *err)
{
    const struct tunnel_identity *of = &session->entry->info.identity;
    bool is_bound = session->entry->info.binds_identities;
    int64_t now_ms = is_bound ? agreed_time(session) : clock_wall_ms();
    // For an older agent in whole seconds: it verifies the calls of a user within one by the same text.
    struct wire_identity identity = {.expires_at_ms = is_bound ? now_ms + WIRE_IDENTITY_BOUND_LIFE_MS
                                                               : now_ms - now_ms % 1000 + WIRE_IDENTITY_LIFE_MS};
    snprintf(identity.account_id, sizeof(identity.account_id), "%s", of->account_id);
    snprintf(identity.runtime, sizeof(identity.runtime), "%s", of->runtime);
    snprintf(identity.user_id, sizeof(identity.user_id), "%s", request->user_id ? request->user_id : "");
    snprintf(identity.user_name, sizeof(identity.user_name), "%s", request->user_name ? request->user_name : "");
    const struct wire_identity_call call = {request->method, request->protocol,
                                            request->authority.len ? request->authority : STR("runtime"),
                                            request->path};
    identity.epoch = session->entry->info.epoch;
    identity.number = ++session->calls_signed;
    enum error_code code =
        is_bound ? wire_identity_sign_call(&identity, &call, session->identity_key, &fields->identity, err)
                 : wire_identity_sign(&identity, session->identity_key, &fields->identity, err);
    if (code) return code;
    request_add(fields, STR(WIRE_HEADER_IDENTITY), strbuf_str(&fields->identity));
    return ERROR_NONE;
}

enum error_code stream_request_init(struct stream_request *fields, struct tunnel_session *session,
                                    const struct tunnel_request *request, bool is_reports, struct error *err)
{
    fields->count = 0;
    fields->bytes = 0;
    strbuf_init(&fields->identity, WIRE_IDENTITY_BYTES_MAX);
    bool is_connect = str_eq(request->method, STR("CONNECT"));
    if (is_connect != (request->protocol.len > 0))
        return error_set(err, ERROR_INVALID, "CONNECT requires :protocol, and :protocol requires CONNECT");
    if (is_connect && !nghttp2_session_get_remote_settings(session->h2, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL))
        return error_set(err, ERROR_UNAVAILABLE, "the agent does not support upgraded connections");
    if (request->path.len == 0 || request->path.at[0] != '/')
        return error_set(err, ERROR_INVALID, "the path must be in origin-form");
    request_add(fields, STR(":method"), request->method);
    if (is_connect) request_add(fields, STR(":protocol"), request->protocol);
    request_add(fields, STR(":scheme"), STR("https"));
    // HTTP/2 wants an authority: "runtime" is the agent's path table, "culvert" the agent itself, for the platform
    // alone.
    if (!is_reports && str_eq_nocase(request->authority, STR("culvert")))
        return error_set(err, ERROR_FORBIDDEN, "this authority is reserved for the platform");
    request_add(fields, STR(":authority"), request->authority.len ? request->authority : STR("runtime"));
    request_add(fields, STR(":path"), request->path);
    for (size_t i = 0; i < fields->count; i++)
        if (!nghttp2_check_header_value_rfc9113(fields->fields[i].value, fields->fields[i].valuelen))
            return error_set(err, ERROR_INVALID, "the request line cannot be sent over HTTP/2");
    enum error_code code = request_add_headers(fields, request, err);
    if (!code && !is_reports) code = request_add_identity(fields, session, request, err);
    if (code) stream_request_finish(fields);
    return code;
}

void stream_request_finish(struct stream_request *fields)
{
    strbuf_finish(&fields->identity);
}

const char *stream_request_route(const struct tunnel_request *request)
{
    // The agent's path table (agent/calls/router.c); an authority names one of its services.
    static const char *const routes[] = {"app-proxy", "services", "webhooks", "workflows", "tcp"};
    struct str rest = str_from(request->path, 1), first;
    if (request->authority.len > 0) return "services";
    (void)str_cut(&rest, '?', &first);
    rest = first;
    (void)str_cut(&rest, '/', &first);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (str_eq(first, str_c(routes[i]))) return routes[i];
    return "other";
}

enum wire_urgency stream_request_urgency(const struct tunnel_request *request)
{
    bool interactive = request->protocol.len || str_eq(request->method, STR("GET")) ||
                       str_eq(request->method, STR("HEAD")) || str_eq(request->method, STR("CONNECT"));
    return interactive ? WIRE_URGENCY_INTERACTIVE : WIRE_URGENCY_DEFAULT;
}

// RFC 9110 section 6.5.1: nothing that frames, routes, controls or authenticates the message.
static bool request_is_no_trailer(struct str name)
{
    static const char *const names[] = {"content-length",
                                        "content-encoding",
                                        "content-type",
                                        "content-range",
                                        "authorization",
                                        "cookie",
                                        "cache-control",
                                        "expect",
                                        "max-forwards",
                                        "range",
                                        "te",
                                        "trailer",
                                        "forwarded"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (str_eq(name, str_c(names[i]))) return true;
    return str_starts_nocase(name, STR("x-forwarded-")) || str_starts_nocase(name, STR("x-remote-")) ||
           str_starts_nocase(name, STR("impersonate-")) || str_starts_nocase(name, STR("culvert-"));
}

size_t stream_request_trailers(const struct http_header *headers, size_t count, nghttp2_nv *out)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < TUNNEL_HEADERS_MAX; i++)
        if (!request_is_dropped(&headers[i]) && !request_is_no_trailer(headers[i].name) &&
            request_is_sendable(&headers[i]))
            out[used++] = http2_field(headers[i].name, headers[i].value);
    return used;
}
