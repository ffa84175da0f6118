#include "server/ingress_answer.h"

#include <stdio.h>

#include "server/ingress_problem.h"

enum http1_body ingress_answer_body(struct str method, int minor, int status, uint64_t length)
{
    if (str_eq(method, STR("HEAD")) || status == 204 || status == 304) return HTTP1_BODY_NONE;
    if (length != UINT64_MAX) return HTTP1_BODY_LENGTH;
    return minor == 1 ? HTTP1_BODY_CHUNKED : HTTP1_BODY_UNTIL_CLOSE;
}

static void add_header(struct strbuf *out, struct str name, struct str value)
{
    strbuf_add_str(out, name);
    strbuf_add(out, ": ", 2);
    strbuf_add_str(out, value);
    strbuf_add(out, "\r\n", 2);
}

void ingress_answer_write(const struct ingress_answer *answer, struct strbuf *out)
{
    strbuf_addf(out, "HTTP/1.1 %d %s\r\n", answer->status, ingress_problem_reason(answer->status));
    for (size_t i = 0; i < answer->header_count; i++)
        add_header(out, answer->headers[i].name, answer->headers[i].value);
    if (answer->request_id.len) add_header(out, STR("x-request-id"), answer->request_id);
    // 204 must not have one (RFC 9110 section 8.6).
    if (answer->length != UINT64_MAX && answer->status != 204)
        strbuf_addf(out, "content-length: %llu\r\n", (unsigned long long)answer->length);
    if (answer->body == HTTP1_BODY_CHUNKED) add_header(out, STR("transfer-encoding"), STR("chunked"));
    if (answer->close) add_header(out, STR("connection"), STR("close"));
    strbuf_add(out, "\r\n", 2);
}

void ingress_answer_write_problem(struct strbuf *out, struct str method, int status, const char *code,
                                  struct str detail, struct str request_id, bool close)
{
    struct strbuf body;
    char retry_after[16];
    struct tunnel_header headers[8];
    size_t n = 0;
    strbuf_init(&body, INGRESS_PROBLEM_BYTES_MAX);
    ingress_problem_write(&body, status, code, detail, request_id);
    headers[n++] = (struct tunnel_header){STR("content-type"), STR("application/problem+json")};
    headers[n++] = (struct tunnel_header){STR("cache-control"), STR("no-store")};
    headers[n++] = (struct tunnel_header){STR("x-content-type-options"), STR("nosniff")};
    headers[n++] = (struct tunnel_header){STR("culvert-cause"), str_c(code)};
    if (status == 401) headers[n++] = (struct tunnel_header){STR("www-authenticate"), STR("Bearer realm=\"culvert\"")};
    if (status == 426) headers[n++] = (struct tunnel_header){STR("sec-websocket-version"), STR("13")};
    unsigned seconds = ingress_problem_retry_after(status);
    if (seconds) {
        int len = snprintf(retry_after, sizeof retry_after, "%u", seconds);
        headers[n++] = (struct tunnel_header){STR("retry-after"), str_of(retry_after, (size_t)len)};
    }
    ingress_answer_write(&(struct ingress_answer){.status = status,
                                                  .headers = headers,
                                                  .header_count = n,
                                                  .request_id = request_id,
                                                  .body = HTTP1_BODY_LENGTH,
                                                  .length = body.len,
                                                  .close = close},
                         out);
    if (!str_eq(method, STR("HEAD"))) strbuf_add_str(out, strbuf_str(&body));
    strbuf_finish(&body);
}
