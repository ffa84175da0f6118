// control: the messages about the tunnel itself between its two ends: the payload of HTTP/2
// extension frames of type 0xE0 on stream 0 (RFC 9113 section 5.5; nghttp2's user-defined extension
// frames carry them). Pure codec: bytes in,
// bytes out; any thread. A payload is  u8 version = 1 | u8 type | fields, a field being  u8 tag | u16 length (big-
// endian) | bytes, numbers being 8 bytes big-endian. Unknown tags are skipped, unknown types are
// for newer peers.
#ifndef CULVERT_TUNNEL_WIRE_CONTROL_H
#define CULVERT_TUNNEL_WIRE_CONTROL_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum {
    WIRE_CONTROL_FRAME = 0xE0,     // the HTTP/2 frame type
    WIRE_CONTROL_BYTES_MAX = 8192, // of one payload
    WIRE_CONTROL_TEXT_BYTES_MAX = 512,
    WIRE_CONTROL_DOCUMENT_BYTES_MAX = 6 * 1024, // of an operation's document
    WIRE_CONTROL_ID_BYTES_MAX = 64,
};

// What the platform does in this session, of what the agent announced (WIRE_HEADER_FEATURES).
enum wire_capability {
    WIRE_CAPABILITY_BOUND_IDENTITY = 1, // every identity is bound to its call
};

enum wire_control_type {
    WIRE_CONTROL_HELLO_ACK = 1, // platform: the session carries calls from now on
    WIRE_CONTROL_DRAIN = 2,     // platform: open another tunnel after rand(0, spread_ms); this one ends at deadline_ms
    WIRE_CONTROL_STATS = 3,     // agent: how it is doing
    // 4 was TOKEN_REFRESH: a new token comes from the operator of the cluster, never through the
    // tunnel
    WIRE_CONTROL_SUPERSEDED = 5,      // platform: a newer session took over; do not dial again for this instance's sake
    WIRE_CONTROL_TIME = 7,            // platform: what its clock shows, now and then (WIRE_CAPABILITY_BOUND_IDENTITY)
    WIRE_CONTROL_STANDBY = 6,         // platform: another instance serves; stay, HELLO_ACK comes when it has gone
    WIRE_CONTROL_OPERATION = 8,       // platform: change the cluster (WIRE_FEATURE_OPERATIONS)
    WIRE_CONTROL_OPERATION_STATE = 9, // agent: what became of an operation
};

// What an agent reports of an operation, in the order in which they follow each other.
enum wire_operation_state {
    WIRE_OPERATION_ACCEPTED = 1, // permitted and queued in the agent
    WIRE_OPERATION_RUNNING = 2,  // the API server took the change; a controller works on it
    WIRE_OPERATION_DONE = 3,
    WIRE_OPERATION_FAILED = 4,
    WIRE_OPERATION_UNKNOWN = 5, // it may have run in an agent that is gone
};

// Views into the decoder's input (decode) or the caller's memory (encode). A field that does not
// belong to the type is neither written nor read.
struct wire_control {
    enum wire_control_type type;
    uint64_t session;       // HELLO_ACK: for logs on both sides
    uint64_t epoch;         // HELLO_ACK: ours; SUPERSEDED: the newer one
    uint64_t capabilities;  // HELLO_ACK: bit set of WIRE_CAPABILITY_
    uint64_t time_ms;       // HELLO_ACK, TIME: the platform's wall clock, by which identities expire
    uint64_t ping_after_ms; // HELLO_ACK: silence after which the platform pings
    uint64_t dead_after_ms; // HELLO_ACK: and how much longer until it gives up
    uint64_t deadline_ms;   // DRAIN: from now
    uint64_t spread_ms;     // DRAIN
    struct str reason;      // DRAIN, SUPERSEDED, STANDBY, OPERATION_STATE: a sentence for people
    uint64_t streams_open;  // STATS
    uint64_t outbox_depth;  // STATS: objects that wait to be reported
    uint64_t rss_bytes;     // STATS
    uint64_t behind_ms;     // STATS: age of the oldest change that the platform has not acknowledged
    uint64_t blind_ms;      // STATS: for how long some of the cluster could not be watched
    struct str operation;   // OPERATION, OPERATION_STATE: its id
    uint64_t attempt;       // OPERATION, OPERATION_STATE: deliveries so far
    uint64_t ttl_ms;        // OPERATION: time left to begin it; 0: only report
    struct str document;    // OPERATION: what to do, JSON (agent/operations/operation.h)
    uint64_t state;         // OPERATION_STATE: enum wire_operation_state
    struct str code;        // OPERATION_STATE: why it failed, a constant name such as NOT_ALLOWED
};

MUST_CHECK enum error_code wire_control_encode(const struct wire_control *control, struct strbuf *out,
                                               struct error *err);
// at..len is one whole payload. ERROR_NOT_FOUND: a type this build does not know, to be ignored.
// ERROR_PROTOCOL: broken; close.
MUST_CHECK enum error_code wire_control_decode(const uint8_t *at, size_t len, struct wire_control *out,
                                               struct error *err);
const char *wire_control_name(enum wire_control_type type); // "hello_ack"

#endif
