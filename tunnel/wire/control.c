#include "tunnel/wire/control.h"

#include <stdbool.h>

#include "tunnel/wire/bytes.h"

enum { CONTROL_VERSION = 1, CONTROL_HEAD_BYTES = 2 };

enum control_tag {
    TAG_SESSION = 1,
    TAG_EPOCH = 2,
    TAG_CAPABILITIES = 3,
    TAG_PING_AFTER = 4,
    TAG_DEAD_AFTER = 5,
    TAG_DEADLINE = 6,
    TAG_SPREAD = 7,
    TAG_REASON = 8,
    TAG_STREAMS_OPEN = 9,
    TAG_OUTBOX_DEPTH = 10,
    TAG_RSS_BYTES = 11,
    // 12 was the token of TOKEN_REFRESH
    TAG_BEHIND = 13,
    TAG_BLIND = 14,
    TAG_TIME = 15,
    TAG_OPERATION = 16,
    TAG_ATTEMPT = 17,
    TAG_TTL = 18,
    TAG_DOCUMENT = 19,
    TAG_STATE = 20,
    TAG_CODE = 21,
    TAG_LAST = TAG_CODE,
};

#define BIT(tag) (1u << (tag))

// Which fields a type has, and which of them it cannot do without.
static const struct control_shape {
    const char *name;
    uint32_t allowed;
    uint32_t required;
} control_shapes[] = {
    [WIRE_CONTROL_HELLO_ACK] = {"hello_ack",
                                BIT(TAG_SESSION) | BIT(TAG_EPOCH) | BIT(TAG_CAPABILITIES) | BIT(TAG_PING_AFTER) |
                                    BIT(TAG_DEAD_AFTER) | BIT(TAG_TIME),
                                BIT(TAG_SESSION) | BIT(TAG_EPOCH)},
    [WIRE_CONTROL_DRAIN] = {"drain", BIT(TAG_DEADLINE) | BIT(TAG_SPREAD) | BIT(TAG_REASON),
                            BIT(TAG_DEADLINE) | BIT(TAG_SPREAD)},
    [WIRE_CONTROL_STATS] = {"stats",
                            BIT(TAG_STREAMS_OPEN) | BIT(TAG_OUTBOX_DEPTH) | BIT(TAG_RSS_BYTES) | BIT(TAG_BEHIND) |
                                BIT(TAG_BLIND),
                            0},
    [WIRE_CONTROL_SUPERSEDED] = {"superseded", BIT(TAG_EPOCH) | BIT(TAG_REASON), BIT(TAG_EPOCH)},
    [WIRE_CONTROL_TIME] = {"time", BIT(TAG_TIME), BIT(TAG_TIME)},
    [WIRE_CONTROL_STANDBY] = {"standby", BIT(TAG_REASON), 0},
    [WIRE_CONTROL_OPERATION] = {"operation", BIT(TAG_OPERATION) | BIT(TAG_ATTEMPT) | BIT(TAG_TTL) | BIT(TAG_DOCUMENT),
                                BIT(TAG_OPERATION) | BIT(TAG_ATTEMPT) | BIT(TAG_TTL) | BIT(TAG_DOCUMENT)},
    [WIRE_CONTROL_OPERATION_STATE] = {"operation_state",
                                      BIT(TAG_OPERATION) | BIT(TAG_ATTEMPT) | BIT(TAG_STATE) | BIT(TAG_CODE) |
                                          BIT(TAG_REASON),
                                      BIT(TAG_OPERATION) | BIT(TAG_ATTEMPT) | BIT(TAG_STATE)},
};

enum { CONTROL_TYPES = sizeof(control_shapes) / sizeof(control_shapes[0]) };

const char *wire_control_name(enum wire_control_type type)
{
    if ((size_t)type >= CONTROL_TYPES || !control_shapes[type].name) return "unknown";
    return control_shapes[type].name;
}

static uint64_t *control_number(struct wire_control *control, unsigned tag)
{
    switch (tag) {
    case TAG_SESSION: return &control->session;
    case TAG_EPOCH: return &control->epoch;
    case TAG_CAPABILITIES: return &control->capabilities;
    case TAG_PING_AFTER: return &control->ping_after_ms;
    case TAG_DEAD_AFTER: return &control->dead_after_ms;
    case TAG_DEADLINE: return &control->deadline_ms;
    case TAG_SPREAD: return &control->spread_ms;
    case TAG_STREAMS_OPEN: return &control->streams_open;
    case TAG_OUTBOX_DEPTH: return &control->outbox_depth;
    case TAG_RSS_BYTES: return &control->rss_bytes;
    case TAG_BEHIND: return &control->behind_ms;
    case TAG_BLIND: return &control->blind_ms;
    case TAG_TIME: return &control->time_ms;
    case TAG_ATTEMPT: return &control->attempt;
    case TAG_TTL: return &control->ttl_ms;
    case TAG_STATE: return &control->state;
    default: return NULL;
    }
}

static struct str *control_text(struct wire_control *control, unsigned tag)
{
    switch (tag) {
    case TAG_REASON: return &control->reason;
    case TAG_OPERATION: return &control->operation;
    case TAG_DOCUMENT: return &control->document;
    case TAG_CODE: return &control->code;
    default: return NULL;
    }
}

static size_t control_text_bytes_max(unsigned tag)
{
    switch (tag) {
    case TAG_DOCUMENT: return WIRE_CONTROL_DOCUMENT_BYTES_MAX;
    case TAG_OPERATION:
    case TAG_CODE: return WIRE_CONTROL_ID_BYTES_MAX;
    default: return WIRE_CONTROL_TEXT_BYTES_MAX;
    }
}

enum error_code wire_control_encode(const struct wire_control *control, struct strbuf *out, struct error *err)
{
    if ((size_t)control->type >= CONTROL_TYPES || !control_shapes[control->type].name)
        return error_set(err, ERROR_INVALID, "control message of unknown type %d", (int)control->type);
    struct wire_control copy = *control;
    size_t start = out->len;
    bytes_put_u8(out, CONTROL_VERSION);
    bytes_put_u8(out, (uint8_t)control->type);
    for (unsigned tag = 1; tag <= TAG_LAST; tag++) {
        if (!(control_shapes[control->type].allowed & BIT(tag))) continue;
        const struct str *text = control_text(&copy, tag);
        if (text && text->len == 0) continue;
        if (text && text->len > control_text_bytes_max(tag))
            return error_set(err, ERROR_TOO_LARGE, "control text of %zu bytes", text->len);
        bytes_put_u8(out, (uint8_t)tag);
        bytes_put_u16(out, (uint16_t)(text ? text->len : 8));
        if (text)
            strbuf_add_str(out, *text);
        else
            bytes_put_u64(out, *control_number(&copy, tag));
    }
    if (out->overflow || out->len - start > WIRE_CONTROL_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "control message does not fit");
    return ERROR_NONE;
}

static enum error_code control_take_field(struct wire_control *control, unsigned tag, const uint8_t *at, size_t len,
                                          struct error *err)
{
    uint64_t *number = control_number(control, tag);
    if (number) {
        if (len != 8) return error_set(err, ERROR_PROTOCOL, "control number of %zu bytes", len);
        *number = bytes_get_u64(at);
        return ERROR_NONE;
    }
    struct str text = str_of((const char *)at, len);
    if (len > control_text_bytes_max(tag) || !str_is_utf8(text))
        return error_set(err, ERROR_PROTOCOL, "control text is too long or not UTF-8");
    *control_text(control, tag) = text;
    return ERROR_NONE;
}

enum error_code wire_control_decode(const uint8_t *at, size_t len, struct wire_control *out, struct error *err)
{
    if (len < CONTROL_HEAD_BYTES || len > WIRE_CONTROL_BYTES_MAX)
        return error_set(err, ERROR_PROTOCOL, "control message of %zu bytes", len);
    if (at[0] != CONTROL_VERSION) return error_set(err, ERROR_NOT_FOUND, "control version %u", at[0]);
    if (at[1] >= CONTROL_TYPES || !control_shapes[at[1]].name)
        return error_set(err, ERROR_NOT_FOUND, "control type %u", at[1]);

    const struct control_shape *shape = &control_shapes[at[1]];
    struct wire_control control = {.type = (enum wire_control_type)at[1]};
    uint32_t seen = 0;
    size_t offset = CONTROL_HEAD_BYTES;
    while (offset < len) {
        if (len - offset < 3) return error_set(err, ERROR_PROTOCOL, "control field is truncated");
        unsigned tag = at[offset];
        size_t field_len = bytes_get_u16(at + offset + 1);
        offset += 3;
        if (field_len > len - offset) return error_set(err, ERROR_PROTOCOL, "control field is truncated");
        if (tag >= 1 && tag <= TAG_LAST && (shape->allowed & BIT(tag))) {
            if (seen & BIT(tag)) return error_set(err, ERROR_PROTOCOL, "duplicate control field %u", tag);
            seen |= BIT(tag);
            enum error_code code = control_take_field(&control, tag, at + offset, field_len, err);
            if (code) return code;
        }
        offset += field_len;
    }
    if ((seen & shape->required) != shape->required)
        return error_set(err, ERROR_PROTOCOL, "control message %s has a missing field", shape->name);
    *out = control;
    return ERROR_NONE;
}
