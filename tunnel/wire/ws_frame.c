#include "tunnel/wire/ws_frame.h"

#include <assert.h>
#include <string.h>

#include "base/id.h"

void ws_frame_decoder_init(struct ws_frame_decoder *d, bool expects_mask)
{
    memset(d, 0, sizeof(*d));
    d->expects_mask = expects_mask;
    d->header_need = 2;
}

static enum error_code decoder_fail(struct ws_frame_decoder *d, uint16_t code, struct error *err, const char *text)
{
    d->closed = true;
    d->fail_code = code;
    return error_set(err, ERROR_PROTOCOL, "websocket: %s", text);
}

static bool is_control(enum ws_frame_opcode opcode)
{
    return ((unsigned)opcode & 8U) != 0;
}

// The first two bytes: everything that can be refused without the length.
static enum error_code check_start(struct ws_frame_decoder *d, struct error *err)
{
    bool fin = (d->header[0] & 0x80) != 0;
    bool masked = (d->header[1] & 0x80) != 0;
    unsigned length = d->header[1] & 0x7fU;
    enum ws_frame_opcode opcode = (enum ws_frame_opcode)(d->header[0] & 0x0f);

    if (d->header[0] & 0x70) return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "reserved bits without extension");
    if (masked != d->expects_mask)
        return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, masked ? "masked frame from server" : "unmasked frame");
    switch (opcode) {
    case WS_FRAME_CONTINUATION:
        if (!d->in_message) return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "continuation of nothing");
        break;
    case WS_FRAME_TEXT:
    case WS_FRAME_BINARY:
        if (d->in_message) return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "message inside a message");
        if (d->binary_only && opcode == WS_FRAME_TEXT)
            return decoder_fail(d, WS_FRAME_CLOSE_UNSUPPORTED, err, "text message");
        break;
    case WS_FRAME_CLOSE:
    case WS_FRAME_PING:
    case WS_FRAME_PONG:
        if (!fin) return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "fragmented control frame");
        if (length > WS_FRAME_CONTROL_BYTES_MAX)
            return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "control frame too long");
        if (opcode == WS_FRAME_CLOSE && length == 1)
            return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "close frame of one byte");
        break;
    default: return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "unknown opcode");
    }
    d->header_need = 2 + (length == 126 ? 2U : length == 127 ? 8U : 0U) + (masked ? WS_FRAME_MASK_BYTES : 0U);
    return ERROR_NONE;
}

// The whole header is there: open its payload.
static enum error_code open_payload(struct ws_frame_decoder *d, struct error *err)
{
    unsigned length_bytes = (d->header[1] & 0x7f) == 126 ? 2U : (d->header[1] & 0x7f) == 127 ? 8U : 0U;
    uint64_t length = length_bytes ? 0 : d->header[1] & 0x7fU;
    for (unsigned i = 0; i < length_bytes; i++)
        length = length << 8 | d->header[2 + i];
    // RFC 6455 section 5.2: the shortest form must be used, and the top bit is zero.
    if ((length_bytes == 2 && length < 126) || (length_bytes == 8 && length < 65536))
        return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "length not in its shortest form");
    if (length >> 63) return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "length over 2^63");

    d->opcode = (enum ws_frame_opcode)(d->header[0] & 0x0f);
    d->masked = (d->header[1] & 0x80) != 0;
    if (d->masked) memcpy(d->mask, d->header + 2 + length_bytes, WS_FRAME_MASK_BYTES);
    d->payload_left = length;
    d->payload_at = 0;
    d->control_len = 0;
    if (!is_control(d->opcode)) {
        if (d->opcode != WS_FRAME_CONTINUATION) d->text = d->opcode == WS_FRAME_TEXT;
        d->in_message = (d->header[0] & 0x80) == 0;
    }
    return ERROR_NONE;
}

static enum error_code finish_control(struct ws_frame_decoder *d, struct ws_frame_event *out, struct error *err)
{
    out->at = d->control;
    out->len = d->control_len;
    if (d->opcode == WS_FRAME_PING) {
        out->type = WS_FRAME_EVENT_PING;
    } else if (d->opcode == WS_FRAME_PONG) {
        out->type = WS_FRAME_EVENT_PONG;
    } else {
        out->close_code = WS_FRAME_CLOSE_NONE;
        if (d->control_len >= 2) {
            out->close_code = (uint16_t)(d->control[0] << 8 | d->control[1]);
            out->at += 2;
            out->len -= 2;
            if (!ws_frame_close_code_valid(out->close_code))
                return decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "close code that may not be sent");
            if (!str_is_utf8(str_of((const char *)out->at, out->len)))
                return decoder_fail(d, WS_FRAME_CLOSE_INVALID_DATA, err, "close reason is not UTF-8");
        }
        d->closed = true;
        out->type = WS_FRAME_EVENT_CLOSE;
    }
    return ERROR_NONE;
}

static void next_header(struct ws_frame_decoder *d)
{
    d->header_len = 0;
    d->header_need = 2;
}

static enum error_code read_header(struct ws_frame_decoder *d, const uint8_t *at, size_t len, size_t *used,
                                   struct error *err)
{
    while (d->header_len < d->header_need && *used < len) {
        d->header[d->header_len++] = at[(*used)++];
        if (d->header_len != d->header_need) continue;
        if (d->header_need == 2) {
            enum error_code code = check_start(d, err);
            if (code) return code;
            if (d->header_need != 2) continue;
        }
        return open_payload(d, err);
    }
    return ERROR_NONE;
}

enum error_code ws_frame_decode(struct ws_frame_decoder *d, uint8_t *at, size_t len, size_t *out_used,
                                struct ws_frame_event *out, struct error *err)
{
    size_t used = 0;
    *out = (struct ws_frame_event){.type = WS_FRAME_EVENT_NONE};
    *out_used = 0;
    if (d->closed)
        return len ? decoder_fail(d, WS_FRAME_CLOSE_PROTOCOL, err, "data after the close frame") : ERROR_NONE;

    while (out->type == WS_FRAME_EVENT_NONE) {
        if (d->header_len < d->header_need) {
            enum error_code code = read_header(d, at, len, &used, err);
            if (code) return code;
            if (d->header_len < d->header_need) break;
        }
        size_t here = len - used < d->payload_left ? len - used : (size_t)d->payload_left;
        if (here && d->masked) ws_frame_apply_mask(at + used, here, d->mask, d->payload_at);
        if (is_control(d->opcode)) {
            memcpy(d->control + d->control_len, at + used, here);
            d->control_len += here;
        } else if (here) {
            *out = (struct ws_frame_event){.type = WS_FRAME_EVENT_DATA, .text = d->text, .at = at + used, .len = here};
        }
        used += here;
        d->payload_at += here;
        d->payload_left -= here;
        if (d->payload_left) break;
        if (is_control(d->opcode)) {
            enum error_code code = finish_control(d, out, err);
            if (code) return code;
        }
        next_header(d);
    }
    *out_used = used;
    return ERROR_NONE;
}

void ws_frame_masks_init(struct ws_frame_masks *masks)
{
    masks->at = sizeof(masks->pool);
}

void ws_frame_masks_next(struct ws_frame_masks *masks, uint8_t out[WS_FRAME_MASK_BYTES])
{
    if (masks->at + WS_FRAME_MASK_BYTES > sizeof(masks->pool)) {
        id_random(masks->pool, sizeof(masks->pool));
        masks->at = 0;
    }
    memcpy(out, masks->pool + masks->at, WS_FRAME_MASK_BYTES);
    masks->at += WS_FRAME_MASK_BYTES;
}

size_t ws_frame_header_bytes(uint64_t payload_bytes, bool masked)
{
    return 2 + (payload_bytes < 126 ? 0U : payload_bytes < 65536 ? 2U : 8U) + (masked ? WS_FRAME_MASK_BYTES : 0U);
}

size_t ws_frame_header(uint8_t *out, enum ws_frame_opcode opcode, uint64_t payload_bytes, const uint8_t *mask)
{
    uint8_t mask_bit = mask ? 0x80 : 0;
    size_t n = 0;
    out[n++] = (uint8_t)(0x80U | (unsigned)opcode);
    if (payload_bytes < 126) {
        out[n++] = (uint8_t)(mask_bit | payload_bytes);
    } else {
        unsigned length_bytes = payload_bytes < 65536 ? 2 : 8;
        out[n++] = mask_bit | (length_bytes == 2 ? 126 : 127);
        for (unsigned i = length_bytes; i-- > 0;)
            out[n++] = (uint8_t)(payload_bytes >> (8 * i));
    }
    if (mask) {
        memcpy(out + n, mask, WS_FRAME_MASK_BYTES);
        n += WS_FRAME_MASK_BYTES;
    }
    return n;
}

void ws_frame_apply_mask(uint8_t *at, size_t len, const uint8_t mask[WS_FRAME_MASK_BYTES], uint64_t offset)
{
    uint8_t pattern[8];
    for (unsigned i = 0; i < 8; i++)
        pattern[i] = mask[(offset + i) % WS_FRAME_MASK_BYTES];
    uint64_t word;
    memcpy(&word, pattern, sizeof(word));

    size_t i = 0;
    for (; i + 8 <= len; i += 8) { // memcpy, because payload is not aligned; the compiler makes vectors of it
        uint64_t eight;
        memcpy(&eight, at + i, sizeof(eight));
        eight ^= word;
        memcpy(at + i, &eight, sizeof(eight));
    }
    for (; i < len; i++)
        at[i] ^= pattern[i % 8];
}

size_t ws_frame_control(uint8_t *out, enum ws_frame_opcode opcode, const void *payload, size_t len, const uint8_t *mask)
{
    assert(len <= WS_FRAME_CONTROL_BYTES_MAX && is_control(opcode));
    size_t n = ws_frame_header(out, opcode, len, mask);
    if (len) memcpy(out + n, payload, len);
    if (mask) ws_frame_apply_mask(out + n, len, mask, 0);
    return n + len;
}

size_t ws_frame_close(uint8_t *out, uint16_t code, struct str reason, const uint8_t *mask)
{
    uint8_t payload[WS_FRAME_CONTROL_BYTES_MAX];
    size_t len = reason.len < sizeof(payload) - 2 ? reason.len : sizeof(payload) - 2;
    while (len && len < reason.len && ((uint8_t)reason.at[len] & 0xc0) == 0x80)
        len--; // never in the middle of a character
    payload[0] = (uint8_t)(code >> 8);
    payload[1] = (uint8_t)code;
    if (len) memcpy(payload + 2, reason.at, len);
    return ws_frame_control(out, WS_FRAME_CLOSE, payload, 2 + len, mask);
}

bool ws_frame_close_code_valid(uint16_t code)
{
    if (code >= 1000 && code <= 1014) return code != 1004 && code != 1005 && code != 1006;
    return code >= 3000 && code <= 4999;
}
