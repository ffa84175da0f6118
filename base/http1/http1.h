// http1: strict HTTP/1.1 message heads and chunked bodies: one meaning or an error (RFC 9112). Pure, fuzzed; any
// thread. Refused: bare CR or LF, obs-fold, white space before the colon, repeated Host / Content-Length /
// Transfer-Encoding, Content-Length with Transfer-Encoding, any coding but a single `chunked`, NUL and control
// bytes, HTTP/1.0 with Transfer-Encoding, a request without exactly one valid Host, chunk sizes that are not plain
// hex, chunk extensions over 256 bytes.
#ifndef CULVERT_BASE_HTTP1_HTTP1_H
#define CULVERT_BASE_HTTP1_HTTP1_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/http_header.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { HTTP1_HEADERS_MAX = 100, HTTP1_HEAD_BYTES_MAX = 32 * 1024 };

enum http1_body { HTTP1_BODY_NONE, HTTP1_BODY_LENGTH, HTTP1_BODY_CHUNKED, HTTP1_BODY_UNTIL_CLOSE };

struct http1_head {
    struct str method; // requests
    struct str target; // requests: origin-form, or "*" with OPTIONS; absolute-form and authority-form are refused
    struct str host;   // requests: the Host value
    int status;        // responses: 100..599
    struct str reason; // responses
    int minor;         // HTTP/1.<minor>: 0 or 1
    struct http_header headers[HTTP1_HEADERS_MAX];
    size_t header_count;
    enum http1_body body;
    uint64_t content_length; // with HTTP1_BODY_LENGTH
    bool keep_alive;
    bool expect_continue;
    struct str upgrade; // the Upgrade value when Connection names it, else empty
};

// at..len is what has arrived so far. ERROR_AGAIN: incomplete; ERROR_TOO_LARGE: over the limit (431);
// ERROR_INVALID: 400 and close. Views point into `at`. *out_bytes: the head's length with its empty line.
MUST_CHECK enum error_code http1_parse_request(const char *at, size_t len, size_t head_bytes_max,
                                               struct http1_head *out, size_t *out_bytes, struct error *err);
// Whether a head that was incomplete at its first looked_at bytes is to be parsed again now that it has len: its first
// line or its end came since, or it has reached the limit. Parsing at every read would let a client that sends a few
// bytes at a time make the server read all of the head for each of them.
bool http1_head_is_due(const char *at, size_t len, size_t looked_at, size_t head_bytes_max);
// request_method decides whether a body can follow (HEAD, CONNECT).
MUST_CHECK enum error_code http1_parse_response(const char *at, size_t len, size_t head_bytes_max,
                                                struct str request_method, struct http1_head *out, size_t *out_bytes,
                                                struct error *err);
// Whether the method is one that HTTP or an extension of it defines (RFC 9110, PATCH, WebDAV and its extensions,
// QUERY); one that is not is answered 501 (RFC 9110 section 9.1). Methods are case-sensitive.
bool http1_is_known_method(struct str method);
// First header of that name, or the empty view.
struct str http1_find(const struct http1_head *head, struct str name);
// Is `token` in the comma-separated list of any header of that name (without case)?
bool http1_has_token(const struct http1_head *head, struct str name, struct str token);
// RFC 9110 token / field value (visible, space, tab, obs-text).
bool http1_is_token(struct str s);
bool http1_is_field_value(struct str s);

// Decoder of a chunked body, fed with what arrives; gives back views into the input.
struct http1_chunked {
    int state;
    uint64_t left;
    size_t line_bytes;
    size_t trailer_bytes;
    struct strbuf *trailers; // where the trailer section's text goes, for http1_parse_trailers(); NULL: dropped
};

void http1_chunked_init(struct http1_chunked *c);
// Reads from at..len: *out_used bytes were taken, *out_data is body data among them (may be empty). Call again
// with the rest until out_used == len. *out_done: the last chunk and its trailers were read.
MUST_CHECK enum error_code http1_chunked_feed(struct http1_chunked *c, const char *at, size_t len, size_t *out_used,
                                              struct str *out_data, bool *out_done, struct error *err);
// The fields of a trailer section that http1_chunked_feed() has read; returns how many were put into out.
size_t http1_parse_trailers(struct str text, struct http_header *out, size_t out_max);

#endif
