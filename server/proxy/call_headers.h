// call_headers: what of a request's headers goes into a cluster, and what of an answer's headers
// comes out. The cluster is the customer's and may be hostile to the platform's origin, and a
// caller may be hostile to the cluster: so both directions are rebuilt, never passed. Pure; any
// thread. Used by the ingress listener and by the API listener's proxy.
#ifndef CULVERT_SERVER_CALL_HEADERS_H
#define CULVERT_SERVER_CALL_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/http1/http1.h"
#include "base/str.h"
#include "tunnel/broker.h"

enum {
    CALL_REQUEST_ADDED_MAX = 10, // headers that the platform sets itself
    CALL_RESPONSE_HEADERS_MAX = 64,
    CALL_HEADER_BYTES_MAX = 8 * 1024, // of one value that comes out of a cluster
    CALL_FORWARDED_BYTES_MAX = 4096,  // of what a trusted proxy says about those before it
};

// ---- into the cluster ---------------------------------------------------------------------------

struct call_caller {
    struct str peer;       // the client's address, without port
    struct str host;       // as the client named us, with port
    struct str prefix;     // what was cut off before the path, else empty
    struct str request_id; // goes into x-request-id
    bool tls;
    bool is_trusted_proxy; // its X-Forwarded-For, -Proto and Forwarded are kept and added to
    bool expect_continue;  // the client waits for 100 Continue before it sends the body
    bool anonymous;        // a webhook: an Authorization that is not one of our keys is the event source's
    bool websocket;        // keep Sec-WebSocket-Protocol, -Version and -Extensions
    bool body;             // keep Content-Length
};

// Fills out (room for count + CALL_REQUEST_ADDED_MAX) with lower-case names; everything lives in
// the arena or is a view into headers. Dropped: hop-by-hop fields and all that Connection names,
// credentials and cookies, whatever asserts an identity or a forwarding path (Impersonate-*,
// X-Remote-*, X-Forwarded-*, Culvert-*, ...), and names with an underscore, which many servers read
// as a dash.
size_t call_headers_request(const struct http_header *headers, size_t count, const struct call_caller *caller,
                            struct arena *arena, struct http_header *out);
// The credential for the platform: Authorization (raw or Bearer) or x-access-token; empty: none.
struct str call_headers_credential(const struct http_header *headers, size_t count);
// The same, or else the cookie where takes_cookie.
struct call_credential;
void call_headers_take_credential(const struct http_header *headers, size_t count, bool takes_cookie,
                                  struct call_credential *out);
// The client's x-request-id when it is one (1-64 of [A-Za-z0-9._-]), else the empty view.
struct str call_headers_request_id(const struct http_header *headers, size_t count);

// Does the client take trailers (RFC 9110 section 10.1.4)?
bool call_headers_take_trailers(const struct http_header *headers, size_t count);
// Fields that may come behind a request's body. Fills out with lower-case names; views otherwise.
size_t call_headers_request_trailers(const struct http_header *trailers, size_t count, struct arena *arena,
                                     struct http_header *out, size_t out_max);

// ---- out of the cluster -------------------------------------------------------------------------

// Where the answer will live in a browser.
struct call_origin {
    struct str host;   // as the client named us
    struct str prefix; // before the cluster's paths, without trailing slash; empty on a runtime's own host
    bool platform;     // the platform's own origin: nothing of the cluster may run or be allowed there
};

// Fills out (CALL_RESPONSE_HEADERS_MAX) with the fields on the allow-list and the platform's own.
// What is not text, repeats a singleton or is too long is left out. Content-Length is kept out of
// it: *out_length has it, UINT64_MAX when there is none or it is no number. False: two different
// Content-Lengths; the answer cannot be trusted.
bool call_headers_response(const struct http_header *headers, size_t count, const struct call_origin *origin,
                           struct arena *arena, struct http_header *out, size_t *out_count, uint64_t *out_length);
// Fields that may come behind a chunked body (gRPC-Web's status, digests).
size_t call_headers_trailers(const struct http_header *headers, size_t count, struct http_header *out, size_t out_max);

#endif
