// ws_frame: WebSocket frames (RFC 6455 section 5) as a byte pipe. The decoder reads headers and
// payload as they arrive, whole or in pieces, unmasks in place and keeps no payload but that of
// control frames (125 bytes). Message boundaries and fragmentation carry no meaning for a pipe:
// they are checked, then forgotten. Pure; any thread.
#ifndef CULVERT_TUNNEL_WIRE_WS_FRAME_H
#define CULVERT_TUNNEL_WIRE_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum ws_frame_opcode {
    WS_FRAME_CONTINUATION = 0,
    WS_FRAME_TEXT = 1,
    WS_FRAME_BINARY = 2,
    WS_FRAME_CLOSE = 8,
    WS_FRAME_PING = 9,
    WS_FRAME_PONG = 10,
};

enum {
    WS_FRAME_HEADER_BYTES_MAX = 14,
    WS_FRAME_CONTROL_BYTES_MAX = 125,
    WS_FRAME_MASK_BYTES = 4,
};

// Close codes (RFC 6455 section 7.4.1) that this project sends.
enum ws_frame_close_code {
    WS_FRAME_CLOSE_NORMAL = 1000,
    WS_FRAME_CLOSE_GOING_AWAY = 1001,
    WS_FRAME_CLOSE_PROTOCOL = 1002,
    WS_FRAME_CLOSE_UNSUPPORTED = 1003,
    WS_FRAME_CLOSE_NONE = 1005, // never on the wire: the peer gave no code
    WS_FRAME_CLOSE_INVALID_DATA = 1007,
    WS_FRAME_CLOSE_POLICY = 1008,
    WS_FRAME_CLOSE_TOO_BIG = 1009,
};

// ---- decoding ------------------------------------------------------------------------------------------------

enum ws_frame_event_type {
    WS_FRAME_EVENT_NONE, // more input is needed
    WS_FRAME_EVENT_DATA, // bytes of the pipe
    WS_FRAME_EVENT_PING, // answer with a PONG of the same payload
    WS_FRAME_EVENT_PONG,
    WS_FRAME_EVENT_CLOSE, // the last frame of this direction
};

struct ws_frame_event {
    enum ws_frame_event_type type;
    bool text;         // DATA of a text message
    const uint8_t *at; // payload: in the input (DATA) or in the decoder (control, until the next call)
    size_t len;
    uint16_t close_code; // CLOSE: as sent, or WS_FRAME_CLOSE_NONE; `at` is then the reason (UTF-8)
};

struct ws_frame_decoder {
    bool expects_mask; // we are the server
    bool binary_only;  // set after init: text messages are refused with 1003
    bool in_message;   // a fragmented data message is open
    bool text;
    bool closed; // CLOSE was seen: nothing may follow
    uint8_t header[WS_FRAME_HEADER_BYTES_MAX];
    unsigned header_len, header_need;
    enum ws_frame_opcode opcode; // of the frame whose payload is being read
    uint64_t payload_left;
    uint64_t payload_at; // offset in the payload: phase of the mask
    uint8_t mask[WS_FRAME_MASK_BYTES];
    bool masked;
    uint8_t control[WS_FRAME_CONTROL_BYTES_MAX];
    size_t control_len;
    uint16_t fail_code; // after ERROR_PROTOCOL: the close code to send
};

// expects_mask: frames must be masked (the peer is a client), otherwise they must not be (RFC 6455
// section 5.1).
void ws_frame_decoder_init(struct ws_frame_decoder *d, bool expects_mask);
// Takes *out_used bytes of at..len (changed in place) and gives at most one event. Call again with
// the rest until it gives NONE. ERROR_PROTOCOL: close with d->fail_code; the decoder is dead.
MUST_CHECK enum error_code ws_frame_decode(struct ws_frame_decoder *d, uint8_t *at, size_t len, size_t *out_used,
                                           struct ws_frame_event *out, struct error *err);
// No frame and no message has begun that has not ended.
static inline bool ws_frame_decoder_is_between(const struct ws_frame_decoder *d)
{
    return d->header_len == 0 && !d->in_message;
}

// ---- encoding ------------------------------------------------------------------------------------------------

// A reserve of unpredictable masks (RFC 6455 section 10.3): filled from OpenSSL's generator 256 at
// a time.
struct ws_frame_masks {
    uint8_t pool[256 * WS_FRAME_MASK_BYTES];
    size_t at; // next unused byte
};

void ws_frame_masks_init(struct ws_frame_masks *masks);
void ws_frame_masks_next(struct ws_frame_masks *masks, uint8_t out[WS_FRAME_MASK_BYTES]);

// How long ws_frame_header() will be for this payload.
size_t ws_frame_header_bytes(uint64_t payload_bytes, bool masked);
// Writes the header of an unfragmented frame; mask NULL: unmasked. Returns its length.
size_t ws_frame_header(uint8_t *out, enum ws_frame_opcode opcode, uint64_t payload_bytes, const uint8_t *mask);
// XORs at..len in place; offset is the position of `at` in the payload. Its own inverse.
void ws_frame_apply_mask(uint8_t *at, size_t len, const uint8_t mask[WS_FRAME_MASK_BYTES], uint64_t offset);
// A complete control frame (CLOSE, PING, PONG) with at most 125 bytes of payload: at most 131
// bytes. Returns its length.
size_t ws_frame_control(uint8_t *out, enum ws_frame_opcode opcode, const void *payload, size_t len,
                        const uint8_t *mask);
// A complete CLOSE frame: code and a reason that is cut to fit. Returns its length (at most 131).
size_t ws_frame_close(uint8_t *out, uint16_t code, struct str reason, const uint8_t *mask);
// May this code stand in a CLOSE frame? (section 7.4)
bool ws_frame_close_code_valid(uint16_t code);

#endif
