#include "server/ingress/ingress_problem.h"

#include <stdio.h>

const char *ingress_problem_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {102, "Processing"},
        {103, "Early Hints"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return status < 400 ? "" : "Error";
}

unsigned ingress_problem_retry_after(int status)
{
    return status == 503 ? 5 : status == 429 ? 1 : 0;
}

void ingress_problem_write(struct strbuf *out, int status, const char *code, struct str detail, struct str request_id)
{
    strbuf_addf(out,
                "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":", ingress_problem_reason(status),
                status);
    strbuf_add_json(out, str_c(code));
    if (detail.len) {
        strbuf_add_c(out, ",\"detail\":");
        strbuf_add_json(out, str_first(detail, ERROR_TEXT_BYTES));
    }
    if (request_id.len) {
        strbuf_add_c(out, ",\"traceId\":");
        strbuf_add_json(out, request_id);
    }
    strbuf_add_c(out, "}\n");
}

size_t ingress_problem_headers(int status, const char *code, char *retry_after, struct http_header *out)
{
    size_t n = 0;
    out[n++] = (struct http_header){STR("content-type"), STR("application/problem+json")};
    out[n++] = (struct http_header){STR("cache-control"), STR("no-store")};
    out[n++] = (struct http_header){STR("x-content-type-options"), STR("nosniff")};
    out[n++] = (struct http_header){STR("culvert-cause"), str_c(code)};
    if (status == 401) out[n++] = (struct http_header){STR("www-authenticate"), STR("Bearer realm=\"culvert\"")};
    if (status == 426) out[n++] = (struct http_header){STR("sec-websocket-version"), STR("13")};
    unsigned seconds = ingress_problem_retry_after(status);
    if (seconds) {
        int len = snprintf(retry_after, 16, "%u", seconds);
        out[n++] = (struct http_header){STR("retry-after"), str_of(retry_after, (size_t)len)};
    }
    return n;
}
