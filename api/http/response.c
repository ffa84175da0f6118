#include <stdarg.h>
#include <stdio.h>

#include "api/http/request.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/strbuf.h"

static const char json_content_type[] = "application/json; charset=utf-8";
static const char problem_type[] = "application/problem+json";

static void respond(struct api_request *request, const struct api_http_response *response)
{
    request->on_responded(request->arg, response);
    arena_destroy(request->arena);
    mem_free(request);
}

void api_respond(struct api_request *request, int status, const char *content_type, struct str body)
{
    respond(request, &(struct api_http_response){.status = status, .content_type = content_type, .body = body});
}

void api_respond_json(struct api_request *request, int status, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    api_respond(request, status, json_content_type, str_c(text));
    mem_free(text);
}

static const char *title_of(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
    }
}

void api_respond_problem(struct api_request *request, int status, const char *code, const char *format, ...)
{
    char detail[ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    struct strbuf body;
    strbuf_init(&body, 8192);
    strbuf_addf(&body, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\",\"detail\":",
                title_of(status), status, code);
    strbuf_add_json(&body, str_c(detail));
    strbuf_add_c(&body, ",\"traceId\":");
    strbuf_add_json(&body, request->request_id);
    strbuf_add_byte(&body, '}');
    struct api_http_response response = {.status = status, .content_type = problem_type, .body = strbuf_str(&body)};
    if (status == 401)
        response.headers[0] = (struct api_http_header){"www-authenticate", STR("Bearer realm=\"culvert\"")};
    char retry_after[16];
    snprintf(retry_after, sizeof retry_after, "%u", request->retry_after_s ? request->retry_after_s : 1);
    if (status == 503 || status == 429)
        response.headers[0] = (struct api_http_header){"retry-after", str_c(retry_after)};
    respond(request, &response);
    strbuf_finish(&body);
}

void api_respond_error(struct api_request *request, const struct error *err)
{
    static const int statuses[] = {
        [ERROR_INVALID] = 400,         [ERROR_TOO_LARGE] = 413, [ERROR_NOT_FOUND] = 404,   [ERROR_CONFLICT] = 409,
        [ERROR_UNAUTHENTICATED] = 401, [ERROR_FORBIDDEN] = 403, [ERROR_UNAVAILABLE] = 503, [ERROR_TIMEOUT] = 504,
        [ERROR_CANCELLED] = 503,       [ERROR_INTERNAL] = 500,  [ERROR_LIMITED] = 429,
    };
    size_t known = sizeof statuses / sizeof *statuses;
    int status = (size_t)err->code < known && statuses[err->code] ? statuses[err->code] : 500;
    // What is inside stays inside: a client gets the sentence only where it is about its own input.
    bool theirs = status < 500;
    // A 500 is to be found under its traceId; that the database is away need not be said at every request.
    if (status == 500)
        log_warn("api", "request_failed", log_str("trace_id", request->request_id),
                 log_c("code", error_code_name(err->code)), log_err(err));
    else if (!theirs)
        log_limited(LOG_WARN, "api", "request_failed", str_c(error_code_name(err->code)), STR_EMPTY,
                    log_str("trace_id", request->request_id), log_c("code", error_code_name(err->code)), log_err(err));
    api_respond_problem(request, status, error_code_name(err->code), "%s",
                        theirs          ? err->text
                        : status == 500 ? "an internal error; the log has it under this traceId"
                                        : "the platform cannot answer right now, try again");
}
