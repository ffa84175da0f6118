#include "tunnel/wire/report.h"

#include <stdbool.h>

#include "tunnel/wire/bytes.h"
#include "tunnel/wire/digest.h"

enum {
    RECORD_VERSION = 1,
    RECORD_LENGTH_BYTES = 4,
    RECORD_HEAD_BYTES = 1 + 1 + 8, // version, type, sequence
    FIELD_HEAD_BYTES = 1 + 4,
    TEXT_BYTES_MAX = 512,
    ACK_BYTES_MAX = RECORD_HEAD_BYTES + DIGEST_ANSWER_BYTES_MAX,
};

enum report_tag {
    TAG_BOOT_ID = 1,
    TAG_GROUP = 2,
    TAG_VERSION = 3,
    TAG_KIND = 4,
    TAG_NS = 5,
    TAG_NAME = 6,
    TAG_UID = 7,
    TAG_CLUSTER = 8,
    TAG_APPLICATION_NS = 9,
    TAG_APPLICATION_NAME = 10,
    TAG_SYNC_STATUS = 11,
    TAG_HEALTH_STATUS = 12,
    TAG_OBSERVED_AT = 13,
    TAG_HASH = 14,
    TAG_ENCODING = 15,
    TAG_MANIFEST_BYTES = 16,
    TAG_MANIFEST = 17,
    TAG_COUNT = 18,
    TAG_DIGEST = 19,
    TAG_UNREAD = 20,
    TAG_HEALTH_MESSAGE = 21,
    TAG_HEALTH_SOURCE = 22,
    TAG_PRESENCE = 23,
    TAG_RESOURCE = 24,
    TAG_MARKS = 25,
    TAG_LAST = TAG_MARKS,
};

#define BIT(tag) (1u << (tag))

static const uint8_t text_tags[] = {
    TAG_BOOT_ID,     TAG_GROUP,         TAG_VERSION,        TAG_KIND,           TAG_NS,
    TAG_NAME,        TAG_UID,           TAG_CLUSTER,        TAG_APPLICATION_NS, TAG_APPLICATION_NAME,
    TAG_SYNC_STATUS, TAG_HEALTH_STATUS, TAG_HEALTH_MESSAGE, TAG_HEALTH_SOURCE,  TAG_PRESENCE,
    TAG_RESOURCE,    TAG_MARKS};
enum { TEXT_TAGS = sizeof text_tags / sizeof *text_tags };

// What a record of a type cannot do without. Empty texts are not sent, so that this also means "not
// empty".
static uint32_t report_required(enum wire_report_type type)
{
    switch (type) {
    case WIRE_REPORT_HELLO: return BIT(TAG_BOOT_ID);
    case WIRE_REPORT_OBJECT:
        return BIT(TAG_VERSION) | BIT(TAG_KIND) | BIT(TAG_NAME) | BIT(TAG_HASH) | BIT(TAG_MANIFEST);
    case WIRE_REPORT_DELETED: return BIT(TAG_KIND) | BIT(TAG_NAME);
    case WIRE_REPORT_SNAPSHOT_BEGIN: return 0;
    case WIRE_REPORT_SNAPSHOT_END: return BIT(TAG_COUNT);
    case WIRE_REPORT_CLUSTER: return BIT(TAG_MANIFEST);
    case WIRE_REPORT_DIGEST: return BIT(TAG_DIGEST);
    case WIRE_REPORT_KUBERNETES_EVENT: return BIT(TAG_KIND) | BIT(TAG_NAME) | BIT(TAG_MANIFEST);
    }
    return UINT32_MAX;
}

static struct str *report_text(struct wire_report *report, unsigned tag)
{
    switch (tag) {
    case TAG_BOOT_ID: return &report->boot_id;
    case TAG_GROUP: return &report->ref.group;
    case TAG_VERSION: return &report->ref.version;
    case TAG_KIND: return &report->ref.kind;
    case TAG_NS: return &report->ref.ns;
    case TAG_NAME: return &report->ref.name;
    case TAG_UID: return &report->ref.uid;
    case TAG_CLUSTER: return &report->cluster;
    case TAG_APPLICATION_NS: return &report->application_ns;
    case TAG_APPLICATION_NAME: return &report->application_name;
    case TAG_SYNC_STATUS: return &report->sync_status;
    case TAG_HEALTH_STATUS: return &report->health_status;
    case TAG_HEALTH_MESSAGE: return &report->health_message;
    case TAG_HEALTH_SOURCE: return &report->health_source;
    case TAG_PRESENCE: return &report->presence;
    case TAG_RESOURCE: return &report->resource;
    case TAG_MARKS: return &report->marks;
    default: return NULL;
    }
}

static size_t report_text_bytes_max(unsigned tag)
{
    return tag == TAG_HEALTH_MESSAGE ? WIRE_REPORT_MESSAGE_BYTES_MAX : TEXT_BYTES_MAX;
}

static bool report_has_hash(const struct wire_report *report)
{
    static const uint8_t none[WIRE_REPORT_HASH_BYTES];
    return report->type == WIRE_REPORT_OBJECT || memcmp(report->hash, none, sizeof(none)) != 0;
}

static void report_put_field(struct strbuf *out, unsigned tag, const void *at, size_t len)
{
    bytes_put_u8(out, (uint8_t)tag);
    bytes_put_u32(out, (uint32_t)len);
    strbuf_add(out, at, len);
}

static void report_put_number(struct strbuf *out, unsigned tag, uint64_t value)
{
    bytes_put_u8(out, (uint8_t)tag);
    bytes_put_u32(out, 8);
    bytes_put_u64(out, value);
}

// Also counts: the length in front must be known before anything is written.
static size_t report_bytes(struct wire_report *report)
{
    size_t total = RECORD_HEAD_BYTES;
    for (size_t i = 0; i < TEXT_TAGS; i++)
        if (report_text(report, text_tags[i])->len) total += FIELD_HEAD_BYTES + report_text(report, text_tags[i])->len;
    if (report->observed_at_ms) total += FIELD_HEAD_BYTES + 8;
    if (report_has_hash(report)) total += FIELD_HEAD_BYTES + WIRE_REPORT_HASH_BYTES;
    if (report->encoding != WIRE_REPORT_PLAIN) total += FIELD_HEAD_BYTES + 1;
    if (report->manifest_bytes) total += FIELD_HEAD_BYTES + 8;
    if (report->manifest.len) total += FIELD_HEAD_BYTES + report->manifest.len;
    if (report->type == WIRE_REPORT_SNAPSHOT_END) total += FIELD_HEAD_BYTES + 8;
    if (report->digest.len) total += FIELD_HEAD_BYTES + report->digest.len;
    if (report->unread.len) total += FIELD_HEAD_BYTES + report->unread.len;
    return total;
}

enum error_code wire_report_encode(const struct wire_report *report, struct strbuf *out, struct error *err)
{
    if (report_required(report->type) == UINT32_MAX)
        return error_set(err, ERROR_INVALID, "report of unknown type %d", (int)report->type);
    if (report->sequence == 0) return error_set(err, ERROR_INVALID, "report without a sequence");
    struct wire_report copy = *report;
    for (size_t i = 0; i < TEXT_TAGS; i++)
        if (report_text(&copy, text_tags[i])->len > report_text_bytes_max(text_tags[i]))
            return error_set(err, ERROR_TOO_LARGE, "report text of %zu bytes", report_text(&copy, text_tags[i])->len);
    if (report->manifest.len > WIRE_REPORT_RECORD_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "manifest of %zu bytes", report->manifest.len);
    if (report->digest.len > DIGEST_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "digest of %zu bytes", report->digest.len);
    if (report->unread.len > WIRE_REPORT_UNREAD_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "unread kinds of %zu bytes", report->unread.len);
    size_t total = report_bytes(&copy);
    if (total > WIRE_REPORT_RECORD_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "report of %zu bytes", total);

    bytes_put_u32(out, (uint32_t)total);
    bytes_put_u8(out, RECORD_VERSION);
    bytes_put_u8(out, (uint8_t)report->type);
    bytes_put_u64(out, report->sequence);
    for (size_t i = 0; i < TEXT_TAGS; i++) {
        struct str text = *report_text(&copy, text_tags[i]);
        if (text.len) report_put_field(out, text_tags[i], text.at, text.len);
    }
    if (report->observed_at_ms) report_put_number(out, TAG_OBSERVED_AT, (uint64_t)report->observed_at_ms);
    if (report_has_hash(report)) report_put_field(out, TAG_HASH, report->hash, WIRE_REPORT_HASH_BYTES);
    if (report->encoding != WIRE_REPORT_PLAIN) {
        uint8_t encoding = (uint8_t)report->encoding;
        report_put_field(out, TAG_ENCODING, &encoding, 1);
    }
    if (report->manifest_bytes) report_put_number(out, TAG_MANIFEST_BYTES, report->manifest_bytes);
    if (report->manifest.len) report_put_field(out, TAG_MANIFEST, report->manifest.at, report->manifest.len);
    if (report->type == WIRE_REPORT_SNAPSHOT_END) report_put_number(out, TAG_COUNT, report->count);
    if (report->digest.len) report_put_field(out, TAG_DIGEST, report->digest.at, report->digest.len);
    if (report->unread.len) report_put_field(out, TAG_UNREAD, report->unread.at, report->unread.len);
    if (out->overflow) return error_set(err, ERROR_TOO_LARGE, "report does not fit the buffer");
    return ERROR_NONE;
}

static enum error_code report_take_number(unsigned tag, const uint8_t *at, size_t len, struct wire_report *report,
                                          struct error *err)
{
    if (len != 8) return error_set(err, ERROR_PROTOCOL, "report number of %zu bytes", len);
    uint64_t value = bytes_get_u64(at);
    if (tag == TAG_OBSERVED_AT) {
        if (value > INT64_MAX) return error_set(err, ERROR_PROTOCOL, "report time out of range");
        report->observed_at_ms = (int64_t)value;
    } else if (tag == TAG_MANIFEST_BYTES) {
        if (value > WIRE_REPORT_RECORD_BYTES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "manifest of %llu bytes", (unsigned long long)value);
        report->manifest_bytes = value;
    } else {
        report->count = value;
    }
    return ERROR_NONE;
}

static enum error_code report_take_field(unsigned tag, const uint8_t *at, size_t len, struct wire_report *report,
                                         struct error *err)
{
    struct str *text = report_text(report, tag);
    if (text) {
        *text = str_of((const char *)at, len);
        if (len == 0 || len > report_text_bytes_max(tag) || !str_is_utf8(*text))
            return error_set(err, ERROR_PROTOCOL, "report text %u is empty, too long or not UTF-8", tag);
        return ERROR_NONE;
    }
    switch (tag) {
    case TAG_HASH:
        if (len != WIRE_REPORT_HASH_BYTES) return error_set(err, ERROR_PROTOCOL, "report hash of %zu bytes", len);
        memcpy(report->hash, at, len);
        return ERROR_NONE;
    case TAG_ENCODING:
        if (len != 1 || at[0] > WIRE_REPORT_ZSTD) return error_set(err, ERROR_PROTOCOL, "unknown report encoding");
        report->encoding = (enum wire_report_encoding)at[0];
        return ERROR_NONE;
    case TAG_MANIFEST:
        if (len == 0) return error_set(err, ERROR_PROTOCOL, "report manifest is empty");
        report->manifest = str_of((const char *)at, len);
        return ERROR_NONE;
    case TAG_DIGEST:
        if (len == 0 || len > DIGEST_BYTES_MAX) return error_set(err, ERROR_PROTOCOL, "digest of %zu bytes", len);
        report->digest = str_of((const char *)at, len);
        return ERROR_NONE;
    case TAG_UNREAD:
        report->unread = str_of((const char *)at, len);
        if (len == 0 || len > WIRE_REPORT_UNREAD_BYTES_MAX || memchr(at, 0, len) || !str_is_utf8(report->unread))
            return error_set(err, ERROR_PROTOCOL, "report's unread kinds are empty, too long or not text");
        return ERROR_NONE;
    default: return report_take_number(tag, at, len, report, err);
    }
}

// The frame around a record or an acknowledgement: its length, version, type and sequence.
static enum error_code record_open(const uint8_t *at, size_t len, size_t bytes_max, size_t *out_bytes, size_t *out_used,
                                   struct error *err)
{
    if (len < RECORD_LENGTH_BYTES) {
        *out_used = 0;
        return ERROR_AGAIN;
    }
    size_t bytes = bytes_get_u32(at);
    if (bytes > bytes_max) return error_set(err, ERROR_TOO_LARGE, "record of %zu bytes", bytes);
    if (bytes < RECORD_HEAD_BYTES) return error_set(err, ERROR_PROTOCOL, "record of %zu bytes", bytes);
    if (len - RECORD_LENGTH_BYTES < bytes) {
        *out_used = RECORD_LENGTH_BYTES + bytes;
        return ERROR_AGAIN;
    }
    if (at[RECORD_LENGTH_BYTES] != RECORD_VERSION)
        return error_set(err, ERROR_PROTOCOL, "record version %u", at[RECORD_LENGTH_BYTES]);
    *out_bytes = bytes;
    return ERROR_NONE;
}

enum error_code wire_report_decode(const uint8_t *at, size_t len, struct wire_report *out, size_t *out_used,
                                   struct error *err)
{
    size_t bytes = 0;
    enum error_code code = record_open(at, len, WIRE_REPORT_RECORD_BYTES_MAX, &bytes, out_used, err);
    if (code) return code;
    const uint8_t *body = at + RECORD_LENGTH_BYTES;
    struct wire_report report = {.type = (enum wire_report_type)body[1], .sequence = bytes_get_u64(body + 2)};
    uint32_t required = report_required(report.type);
    if (required == UINT32_MAX) return error_set(err, ERROR_PROTOCOL, "report type %u is unknown", body[1]);
    if (report.sequence == 0) return error_set(err, ERROR_PROTOCOL, "report without a sequence");

    uint32_t seen = 0;
    size_t offset = RECORD_HEAD_BYTES;
    while (offset < bytes) {
        if (bytes - offset < FIELD_HEAD_BYTES) return error_set(err, ERROR_PROTOCOL, "report field is truncated");
        unsigned tag = body[offset];
        size_t field_len = bytes_get_u32(body + offset + 1);
        offset += FIELD_HEAD_BYTES;
        if (field_len > bytes - offset) return error_set(err, ERROR_PROTOCOL, "report field is truncated");
        if (tag >= 1 && tag <= TAG_LAST) {
            if (seen & BIT(tag)) return error_set(err, ERROR_PROTOCOL, "duplicate report field %u", tag);
            seen |= BIT(tag);
            code = report_take_field(tag, body + offset, field_len, &report, err);
            if (code) return code;
        }
        offset += field_len;
    }
    if ((seen & required) != required)
        return error_set(err, ERROR_PROTOCOL, "report of type %u has a missing field", body[1]);
    *out = report;
    *out_used = RECORD_LENGTH_BYTES + bytes;
    return ERROR_NONE;
}

enum error_code wire_ack_encode(const struct wire_ack *ack, struct strbuf *out, struct error *err)
{
    if (ack->type < WIRE_ACK || ack->type > WIRE_ACK_DIGEST)
        return error_set(err, ERROR_INVALID, "acknowledgement of unknown type %d", (int)ack->type);
    struct str text = ack->type == WIRE_ACK_DIGEST ? ack->digest : ack->reason;
    if (text.len > (ack->type == WIRE_ACK_DIGEST ? DIGEST_ANSWER_BYTES_MAX : TEXT_BYTES_MAX))
        return error_set(err, ERROR_TOO_LARGE, "acknowledgement of %zu bytes", text.len);
    bytes_put_u32(out, (uint32_t)(RECORD_HEAD_BYTES + text.len));
    bytes_put_u8(out, RECORD_VERSION);
    bytes_put_u8(out, (uint8_t)ack->type);
    bytes_put_u64(out, ack->sequence);
    if (text.len) strbuf_add_str(out, text);
    if (out->overflow) return error_set(err, ERROR_TOO_LARGE, "acknowledgement does not fit the buffer");
    return ERROR_NONE;
}

enum error_code wire_ack_decode(const uint8_t *at, size_t len, struct wire_ack *out, size_t *out_used,
                                struct error *err)
{
    size_t bytes = 0;
    enum error_code code = record_open(at, len, ACK_BYTES_MAX, &bytes, out_used, err);
    if (code) return code;
    const uint8_t *body = at + RECORD_LENGTH_BYTES;
    if (body[1] < WIRE_ACK || body[1] > WIRE_ACK_DIGEST)
        return error_set(err, ERROR_PROTOCOL, "acknowledgement type %u is unknown", body[1]);
    struct wire_ack ack = {.type = (enum wire_ack_type)body[1], .sequence = bytes_get_u64(body + 2)};
    struct str text = str_of((const char *)body + RECORD_HEAD_BYTES, bytes - RECORD_HEAD_BYTES);
    if (ack.type == WIRE_ACK_DIGEST)
        ack.digest = text;
    else if (text.len > TEXT_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "acknowledgement's reason of %zu bytes", text.len);
    else if (text.len && !str_is_utf8(text))
        return error_set(err, ERROR_PROTOCOL, "acknowledgement's reason is not UTF-8");
    else
        ack.reason = text;
    *out = ack;
    *out_used = RECORD_LENGTH_BYTES + bytes;
    return ERROR_NONE;
}
