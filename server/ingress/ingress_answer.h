// ingress_answer: the bytes of an HTTP/1.1 answer: heads with one framing (RFC 9112 section 6.3).
// Pure; any thread.
#ifndef CULVERT_SERVER_INGRESS_ANSWER_H
#define CULVERT_SERVER_INGRESS_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/http1/http1.h"
#include "base/strbuf.h"
#include "tunnel/broker.h"

enum { INGRESS_ANSWER_HEAD_BYTES_MAX = 128 * 1024 };

struct ingress_answer {
    int status;
    const struct http_header *headers; // without framing, Connection and the like
    size_t header_count;
    struct str hsts; // Strict-Transport-Security; empty: none
    struct str request_id;
    enum http1_body body; // how its end is told; HTTP1_BODY_NONE for HEAD, 204, 304
    uint64_t length;      // Content-Length to be written; UINT64_MAX: none
    bool close;           // "connection: close"
};

// How the answer to this request will be framed. length: what the cluster said, UINT64_MAX: nothing.
enum http1_body ingress_answer_body(struct str method, int minor, int status, uint64_t length);
void ingress_answer_write(const struct ingress_answer *answer, struct strbuf *out);

#endif
