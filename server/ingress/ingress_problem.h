// ingress_problem: the answer to a request that could not be carried out: application/problem+json (RFC 9457) with a
// code for machines, the same word that the header culvert-cause has. Pure; any thread. Used by the ingress door and by
// the API door's proxy.
#ifndef CULVERT_SERVER_INGRESS_PROBLEM_H
#define CULVERT_SERVER_INGRESS_PROBLEM_H

#include "base/error.h"
#include "base/strbuf.h"
#include "tunnel/broker.h"

enum { INGRESS_PROBLEM_BYTES_MAX = 4096, INGRESS_PROBLEM_HEADERS_MAX = 8 };

// Reason phrase of a status, "Error" for those without one here.
const char *ingress_problem_reason(int status);
// The body. code: "no-tunnel"; detail: a sentence for people, may be empty; never a secret.
void ingress_problem_write(struct strbuf *out, int status, const char *code, struct str detail, struct str request_id);
// Seconds for Retry-After, 0: none.
unsigned ingress_problem_retry_after(int status);
// The header of such an answer. Fills out (INGRESS_PROBLEM_HEADERS_MAX) with views into code and retry_after (16
// bytes).
size_t ingress_problem_headers(int status, const char *code, char *retry_after, struct http_header *out);

#endif
