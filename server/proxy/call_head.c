#include "server/proxy/call_head.h"

#include "base/http1/http1.h"

struct str call_head_find(const struct call_head *head, struct str name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (str_eq_nocase(head->headers[i].name, name)) return head->headers[i].value;
    return STR_EMPTY;
}

static bool refuse(struct call_refusal *out, int status, const char *code, const char *detail)
{
    *out = (struct call_refusal){.status = status, .code = code, .detail = detail};
    return false;
}

// Refused for its form: what follows on the connection cannot be trusted either.
static bool refuse_form(struct call_refusal *out, int status, const char *code, const char *detail)
{
    (void)refuse(out, status, code, detail);
    out->last = true;
    return false;
}

static bool check_front(const struct call_head *head, struct call_refusal *out)
{
    switch (head->refused) {
    case CALL_REFUSED_NOT: return true;
    case CALL_REFUSED_TOO_LARGE: return refuse(out, 431, "head-too-large", "the request's header list is too large");
    case CALL_REFUSED_BAD: break;
    }
    return refuse(out, 400, "bad-request", "the request's authority has no single meaning");
}

static bool check_method(const struct call_head *head, struct call_refusal *out)
{
    bool plain_connect = str_eq(head->method, STR("CONNECT")) && head->protocol.len == 0;
    if (str_eq(head->method, STR("TRACE")) || plain_connect)
        return refuse(out, 405, "method-not-allowed", "TRACE and CONNECT are not carried");
    if (!http1_is_known_method(head->method))
        return refuse_form(out, 501, "not-implemented", "the method is not one of HTTP");
    return true;
}

// What an upgrade may ask for.
static bool check_protocol(const struct call_head *head, const struct call_route *route, struct call_refusal *out)
{
    if (head->protocol.len == 0) return true;
    if (str_eq(head->protocol, STR("websocket")))
        return str_eq(call_head_find(head, STR("sec-websocket-version")), STR("13")) ||
               refuse(out, 426, "websocket-version", "only WebSocket version 13 is spoken here");
    if (!str_eq(head->protocol, STR("connect-tcp")))
        return refuse(out, 501, "not-implemented", "websocket and connect-tcp are offered here");
    return call_route_is_tcp(route->path) || refuse(out, 404, "no-route", "TCP connections go to /tcp/<name>");
}

bool call_head_admit(const struct call_head *head, struct str tunnel_domain, struct str platform_host,
                     struct call_route *route, struct call_refusal *refusal, struct error *err)
{
    if (!check_front(head, refusal) || !check_method(head, refusal)) return false;
    if (head->expect.len > 0 && !str_eq_nocase(head->expect, STR("100-continue")))
        return refuse(refusal, 417, "expectation-failed", "only 100-continue can be expected here");
    enum error_code code = head->on_platform
                               ? call_route_parse_proxy(head->target, route, err)
                               : call_route_parse(head->host, head->target, tunnel_domain, platform_host, route, err);
    if (code == ERROR_NOT_FOUND) return refuse(refusal, 404, "not-found", err->text);
    if (code != ERROR_NONE) return refuse_form(refusal, 400, "bad-request", err->text);
    return check_protocol(head, route, refusal);
}
