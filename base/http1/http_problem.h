// http_problem: the answer to a request that could not be carried out, as application/problem+json
// (RFC 9457). Every endpoint writes it here, so that all of them have the same members: type,
// title, status, code (for machines; the header culvert-cause repeats it on calls), detail (what
// failed, with the value and what is accepted), traceId, and field (the setting or input field)
// where one is to blame. Pure; any thread.
#ifndef CULVERT_BASE_HTTP1_HTTP_PROBLEM_H
#define CULVERT_BASE_HTTP1_HTTP_PROBLEM_H

#include "base/http_header.h"
#include "base/strbuf.h"

enum { HTTP_PROBLEM_BYTES_MAX = 8192, HTTP_PROBLEM_HEADERS_MAX = 8, HTTP_PROBLEM_RETRY_BYTES = 16 };

#define HTTP_PROBLEM_TYPE "application/problem+json"

struct http_problem {
    int status;             // 400..599
    const char *code;       // "no-tunnel"
    struct str detail;      // for people; cut at ERROR_TEXT_BYTES; never a secret; may be empty
    struct str field;       // what of the input is to blame: "Content-Length"; may be empty
    struct str request_id;  // traceId; may be empty
    unsigned retry_after_s; // for 429 and 503; 0: one of the writer's
};

// Reason phrase of a status (RFC 9110 section 15), "Error" for an error without one here.
const char *http_reason(int status);
// The body, at most HTTP_PROBLEM_BYTES_MAX; added to out.
void http_problem_write(const struct http_problem *problem, struct strbuf *out);
// Seconds for Retry-After; 0: none.
unsigned http_problem_retry_after(const struct http_problem *problem);
// The header of such an answer, without framing, x-request-id and culvert-cause. Fills out
// (HTTP_PROBLEM_HEADERS_MAX); views into retry_after (HTTP_PROBLEM_RETRY_BYTES) and static texts.
size_t http_problem_headers(const struct http_problem *problem, char *retry_after, struct http_header *out);

#endif
