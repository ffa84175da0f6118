#include "base/http1/http_problem.h"

#include <stdio.h>

#include "base/error.h"

const char *http_reason(int status)
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

unsigned http_problem_retry_after(const struct http_problem *problem)
{
    if (problem->status != 503 && problem->status != 429) return 0;
    if (problem->retry_after_s) return problem->retry_after_s;
    return problem->status == 503 ? 5 : 1;
}

static void add_member(struct strbuf *out, const char *name, struct str value)
{
    if (value.len == 0) return;
    strbuf_addf(out, ",\"%s\":", name);
    strbuf_add_json(out, value);
}

void http_problem_write(const struct http_problem *problem, struct strbuf *out)
{
    strbuf_addf(out, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d", http_reason(problem->status),
                problem->status);
    add_member(out, "code", str_c(problem->code));
    add_member(out, "detail", str_first(problem->detail, ERROR_TEXT_BYTES));
    add_member(out, "field", problem->field);
    add_member(out, "traceId", problem->request_id);
    strbuf_add_c(out, "}\n");
}

size_t http_problem_headers(const struct http_problem *problem, char *retry_after, struct http_header *out)
{
    size_t n = 0;
    out[n++] = (struct http_header){STR("content-type"), STR(HTTP_PROBLEM_TYPE)};
    out[n++] = (struct http_header){STR("cache-control"), STR("no-store")};
    out[n++] = (struct http_header){STR("x-content-type-options"), STR("nosniff")};
    if (problem->status == 401)
        out[n++] = (struct http_header){STR("www-authenticate"), STR("Bearer realm=\"culvert\"")};
    if (problem->status == 426) out[n++] = (struct http_header){STR("sec-websocket-version"), STR("13")};
    unsigned seconds = http_problem_retry_after(problem);
    if (seconds) {
        int len = snprintf(retry_after, HTTP_PROBLEM_RETRY_BYTES, "%u", seconds);
        out[n++] = (struct http_header){STR("retry-after"), str_of(retry_after, (size_t)len)};
    }
    return n;
}
