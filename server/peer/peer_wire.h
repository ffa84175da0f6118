// peer_wire: what two replicas say to each other about a call that one received and the other's session carries: the
// hop. Pure: header fields in, a request or a cause out. The form is ours and may change with the ALPN name.
//
// A hop is an HTTP/2 stream (RFC 9113) on a connection with TLS 1.3, certificates on both sides and the ALPN name
// "culvert.peer.1"; the replica that received the call is the HTTP/2 client. HPACK has no dynamic table either way.
//
// Request: :method, :path, :protocol (RFC 8441) as the call has them, :scheme https, :authority "peer"; then
//   culvert-hop-account, -runtime, -epoch     whose session: the owner takes the call only if exactly this one is here
//   culvert-hop-authority                     the call's own authority, when it has one
//   culvert-hop-user, culvert-hop-user-name   who calls, base64url of UTF-8; absent: anonymous
//   culvert-hop-head-timeout                  milliseconds, when the call has its own
// then the call's headers. A header of the call that begins with "culvert-hop-" is left out.
//
// Answer: 1xx, head, data and trailers as the session's service sent them. A call that failed:
//   before its head: a status with culvert-hop-cause (tunnel_cause_name) and culvert-hop-detail, no body; 421 when the
//   session is not here, of another epoch or about to go (no agent has done anything: the caller may look up again);
//   later: RST_STREAM with PEER_WIRE_RESET + cause.
// Cancelling is RST_STREAM(CANCEL) either way. REFUSED_STREAM, and streams above a GOAWAY's last id: not processed.
#ifndef CULVERT_SERVER_PEER_WIRE_H
#define CULVERT_SERVER_PEER_WIRE_H

#include "base/arena.h"
#include "tunnel/broker.h"

#define PEER_WIRE_ALPN "culvert.peer.1"

enum {
    PEER_WIRE_FIELDS_MAX = 128 + 16, // headers of a call, and ours
    PEER_WIRE_HEAD_BYTES_MAX = 80 * 1024,
    PEER_WIRE_RESET = 0x43560000, // RST_STREAM's code is this plus enum tunnel_cause
    PEER_WIRE_FAIL_FIELDS = 3,
    PEER_WIRE_DETAIL_BYTES = 160,
};

// Fields for the hop, pseudo-headers first; texts are the request's or the arena's. ERROR_INVALID, ERROR_TOO_LARGE.
MUST_CHECK enum error_code peer_wire_request_encode(const struct tunnel_request *request, uint64_t epoch,
                                                    struct arena *arena, struct http_header out[PEER_WIRE_FIELDS_MAX],
                                                    size_t *out_count, struct error *err);
// The other way round; out->epoch is set, and out->end_stream is the caller's to set. Texts are the fields' or the
// arena's. ERROR_PROTOCOL: a field is missing, twice or malformed.
MUST_CHECK enum error_code peer_wire_request_decode(const struct http_header *fields, size_t count, struct arena *arena,
                                                    struct tunnel_request *out, struct error *err);

// Is this a field of the hop's own? Such fields of a service's answer are left out.
bool peer_wire_is_ours(struct str name);
// A failed call's answer. text has PEER_WIRE_DETAIL_BYTES.
int peer_wire_fail_encode(enum tunnel_cause cause, const char *detail, char *text,
                          struct http_header out[PEER_WIRE_FAIL_FIELDS], size_t *out_count);
// TUNNEL_CAUSE_NONE: the head is a service's own.
enum tunnel_cause peer_wire_fail_decode(const struct http_header *fields, size_t count, struct str *out_detail);
uint32_t peer_wire_reset_code(enum tunnel_cause cause);
enum tunnel_cause peer_wire_reset_cause(uint32_t code); // TUNNEL_CAUSE_NONE: not one of ours

#endif
