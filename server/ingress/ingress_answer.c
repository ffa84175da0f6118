#include "server/ingress/ingress_answer.h"

#include "base/http1/http_problem.h"

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

// Heads are written for each request: no printf here.
static void add_number(struct strbuf *out, uint64_t number)
{
    char digits[20];
    size_t used = sizeof digits;
    do
        digits[--used] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    strbuf_add(out, digits + used, sizeof digits - used);
}

void ingress_answer_write(const struct ingress_answer *answer, struct strbuf *out)
{
    strbuf_add_c(out, "HTTP/1.1 ");
    add_number(out, (uint64_t)answer->status);
    strbuf_add_byte(out, ' ');
    strbuf_add_c(out, http_reason(answer->status));
    strbuf_add_c(out, "\r\n");
    for (size_t i = 0; i < answer->header_count; i++)
        add_header(out, answer->headers[i].name, answer->headers[i].value);
    if (answer->hsts.len) add_header(out, STR("strict-transport-security"), answer->hsts);
    if (answer->request_id.len) add_header(out, STR("x-request-id"), answer->request_id);
    // 204 must not have one (RFC 9110 section 8.6).
    if (answer->length != UINT64_MAX && answer->status != 204) {
        strbuf_add_c(out, "content-length: ");
        add_number(out, answer->length);
        strbuf_add_c(out, "\r\n");
    }
    if (answer->body == HTTP1_BODY_CHUNKED) add_header(out, STR("transfer-encoding"), STR("chunked"));
    if (answer->close) add_header(out, STR("connection"), STR("close"));
    strbuf_add(out, "\r\n", 2);
}
