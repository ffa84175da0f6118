#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/access/request_rates.h"
#include "api/http/compression.h"
#include "api/http/request.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

static const char json_content_type[] = "application/json; charset=utf-8";

void api_add_header(struct api_request *request, struct str name, struct str value)
{
    assert(request->header_count < sizeof request->headers / sizeof *request->headers);
    request->headers[request->header_count++] =
        (struct http_header){arena_str(request->arena, name), arena_str(request->arena, value)};
}

static void respond(struct api_request *request, const struct api_http_response *response)
{
    struct api_http_response whole = *response;
    assert(whole.status >= 200 && whole.status <= 599);
    assert(whole.header_count + request->header_count <= sizeof whole.headers / sizeof *whole.headers);
    for (size_t i = 0; i < request->header_count; i++)
        whole.headers[whole.header_count++] = request->headers[i];
    struct request_rates *rates = request->api->options.rates;
    if (rates && request->authenticated && request->query_cost)
        request_rates_charge(rates, &request->principal, request->query_cost, clock_mono_ms());
    request->on_responded(request->arg, &whole);
    access_rules_unref(request->rules);
    arena_destroy(request->arena);
    mem_free(request);
}

static void add_header(struct api_http_response *response, struct str name, const char *value)
{
    response->headers[response->header_count++] = (struct http_header){name, str_c(value)};
}

// The length of an answer tells a part of what is in it (BREACH): what may hold credentials stays
// as it is.
static void respond_compressed(struct api_request *request, struct api_http_response *response)
{
    const struct api_options *options = &request->api->options;
    struct strbuf packed;
    strbuf_init(&packed, options->compress_bytes_max);
    bool fits = response->body.len >= options->compress_bytes_min && response->body.len <= options->compress_bytes_max;
    if (fits && !request->is_secret) {
        add_header(response, STR("vary"), "Accept, Accept-Encoding");
        if (compress_body(request->coding, response->body, &packed)) {
            response->body = strbuf_str(&packed);
            add_header(response, STR("content-encoding"), content_coding_name(request->coding));
        }
    }
    respond(request, response);
    strbuf_finish(&packed);
}

void api_respond(struct api_request *request, int status, const char *content_type, struct str body)
{
    respond(request, &(struct api_http_response){.status = status, .content_type = content_type, .body = body});
}

void api_respond_compressed(struct api_request *request, int status, const char *content_type, struct str body)
{
    struct api_http_response response = {.status = status, .content_type = content_type, .body = body};
    respond_compressed(request, &response);
}

void api_respond_graphql(struct api_request *request, int status, const char *allow, struct str body)
{
    struct api_http_response response = {.status = status, .content_type = json_content_type, .body = body};
    if (request->media == GRAPHQL_MEDIA_RESPONSE)
        response.content_type = "application/graphql-response+json; charset=utf-8";
    if (allow) add_header(&response, STR("allow"), allow);
    respond_compressed(request, &response);
}

void api_respond_stream(struct api_request *request, void (*on_stream)(void *arg, struct api_stream *stream), void *arg)
{
    struct api_http_response response = {
        .status = 200, .content_type = "text/event-stream; charset=utf-8", .on_stream = on_stream, .stream_arg = arg};
    add_header(&response, STR("x-accel-buffering"), "no"); // nginx passes pieces on as they come
    respond(request, &response);
}

void api_respond_json(struct api_request *request, int status, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    api_respond(request, status, json_content_type, str_c(text));
    mem_free(text);
}

// What the caller holds in its pieces ends with the call.
static void respond_problem(struct api_request *request, const struct http_problem *problem, struct str allow)
{
    struct api_http_response response = {
        .status = problem->status, .content_type = HTTP_PROBLEM_TYPE, .problem = problem};
    if (allow.len) response.headers[response.header_count++] = (struct http_header){STR("allow"), allow};
    respond(request, &response);
}

void api_respond_problem(struct api_request *request, int status, const char *code, const char *format, ...)
{
    char detail[ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    respond_problem(request,
                    &(struct http_problem){.status = status,
                                           .code = code,
                                           .detail = str_c(detail),
                                           .retry_after_s = request->retry_after_s ? request->retry_after_s : 1},
                    STR_EMPTY);
}

void api_respond_not_allowed(struct api_request *request, struct str methods)
{
    const char *detail = arena_printf(request->arena, "%.*s is not allowed at this path, but %.*s",
                                      STR_ARG(request->method), STR_ARG(methods));
    respond_problem(
        request, &(struct http_problem){.status = 405, .code = "method_not_allowed", .detail = str_c(detail)}, methods);
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
