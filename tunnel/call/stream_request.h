// stream_request: the header fields of a request as nghttp2 takes them. Drops what belongs to one hop (RFC 9113 section
// 8.2.2) and what only the platform may say, signs the caller's identity, refuses what cannot be sent as it is.
// Private to tunnel/; a value on the stack.
#ifndef CULVERT_TUNNEL_CALL_STREAM_REQUEST_H
#define CULVERT_TUNNEL_CALL_STREAM_REQUEST_H

#include "tunnel/call/stream.h"
#include "tunnel/wire/handshake.h"

struct stream_request {
    nghttp2_nv fields[TUNNEL_HEADERS_MAX + 8];
    size_t count;
    size_t bytes;
    struct strbuf identity;
};

// Views into request; they must live until nghttp2 has copied them (nghttp2_submit_request does).
MUST_CHECK enum error_code stream_request_init(struct stream_request *fields, struct tunnel_session *session,
                                               const struct tunnel_request *request, bool is_reports,
                                               struct error *err);
void stream_request_finish(struct stream_request *fields);
// What a request is for, as a metric's label: one of a closed set, static.
const char *stream_request_route(const struct tunnel_request *request);
// How urgent its body is (tunnel/wire/scheduler.h).
enum wire_urgency stream_request_urgency(const struct tunnel_request *request);
// Views into headers, at most TUNNEL_HEADERS_MAX of them: what may stand in a trailer section and can be sent. Returns
// how many.
size_t stream_request_trailers(const struct http_header *headers, size_t count, nghttp2_nv *out);

#endif
