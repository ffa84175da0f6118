#include "server/bus/bus_message.h"

#include <zstd.h>

#include "base/arena.h"
#include "base/mem.h"
#include "server/intake/zstd_frame.h"
#include "tunnel/wire/report.h"

enum {
    VERSION = 1,
    FLAG_COMPRESSED = 1,
    HEAD_BYTES = 9,
    RECORD_BYTES = 1 + 8 + 8 + 8 + ID_SHA256_BYTES,
    MANIFEST_BYTES_MAX = 10 * 1024 * 1024,
    COMPRESS_FROM_BYTES = 512,
    COMPRESSION_LEVEL = 1,
    BODY_RATIO_MAX = 1000, // many manifests of one kind are alike; a body that compresses better travels plain
    // For the reports themselves, and what alignment takes of each manifest.
    ARENA_SPARE_BYTES = 4 * 1024 * 1024,
};

_Static_assert(BUS_MESSAGE_BYTES_MAX + BUS_MESSAGE_UNPACKED_BYTES_MAX <= BUS_MESSAGE_PLAIN_BYTES_MAX,
               "what is written can be read");
_Static_assert(BUS_MESSAGE_COUNT_MAX *(sizeof(struct report) + 64) < ARENA_SPARE_BYTES / 2, "the spare part is enough");

enum { TAG_MANIFEST = 1, TAG_MANIFEST_ZSTD = 2 };

static const struct {
    uint8_t tag;
    size_t offset;
} fields[] = {
    {3, offsetof(struct report, desired_manifest)},
    {4, offsetof(struct report, git_manifest)},
    {5, offsetof(struct report, ref.group)},
    {6, offsetof(struct report, ref.version)},
    {7, offsetof(struct report, ref.kind)},
    {8, offsetof(struct report, ref.ns)},
    {9, offsetof(struct report, ref.name)},
    {10, offsetof(struct report, ref.uid)},
    {11, offsetof(struct report, cluster)},
    {12, offsetof(struct report, application_ns)},
    {13, offsetof(struct report, application_name)},
    {14, offsetof(struct report, sync_status)},
    {15, offsetof(struct report, health_status)},
    {16, offsetof(struct report, health_message)},
    {17, offsetof(struct report, repo_url)},
    {18, offsetof(struct report, path)},
    {19, offsetof(struct report, revision)},
    {20, offsetof(struct report, commit_message)},
    {21, offsetof(struct report, commit_author)},
    {22, offsetof(struct report, commit_date)},
    {23, offsetof(struct report, errors)},
    {24, offsetof(struct report, unread)},
    {25, offsetof(struct report, resource_version)},
    {26, offsetof(struct report, created_at)},
    {27, offsetof(struct report, app_versions)},
    {28, offsetof(struct report, health_source)},
    {29, offsetof(struct report, presence)},
    {30, offsetof(struct report, api_resource)},
    {31, offsetof(struct report, marks)},
};

// A report with one thing more loses it on the way through a broker, unless that is written here,
// too. The last 8 bytes are is_kept, which is of this process alone.
_Static_assert(sizeof(struct report) == 2 * sizeof(int) + 4 * 8 + ID_SHA256_BYTES + 33 * sizeof(struct str) + 8,
               "struct report has changed: let its new member travel (a new tag), then correct this sum");

static const struct str *field_of(const struct report *report, size_t i)
{
    return (const struct str *)(const void *)((const char *)report + fields[i].offset);
}

// ---- writing -------------------------------------------------------------------------------------------------------

static void put(struct strbuf *out, uint64_t value, unsigned bytes)
{
    char text[8];
    for (unsigned i = 0; i < bytes; i++)
        text[i] = (char)(value >> (8 * (bytes - 1 - i)));
    strbuf_add(out, text, bytes);
}

static void put_field(struct strbuf *out, uint8_t tag, struct str text)
{
    if (!text.len) return;
    put(out, tag, 1);
    put(out, text.len, 4);
    strbuf_add_str(out, text);
}

static void put_short(struct strbuf *out, struct str text)
{
    struct str s = str_first(text, UINT8_MAX);
    put(out, s.len, 1);
    strbuf_add_str(out, s);
}

enum { COUNT_AT = 1 + 8 + 8 };

void bus_message_begin(struct bus_message_writer *writer, const struct report *first, int64_t received_at_ms)
{
    *writer = (struct bus_message_writer){0};
    strbuf_init(&writer->body, BUS_MESSAGE_BYTES_MAX);
    put(&writer->body, (uint64_t)first->source, 1);
    put(&writer->body, first->epoch, 8);
    put(&writer->body, (uint64_t)received_at_ms, 8);
    put(&writer->body, 0, 2);
    put_short(&writer->body, first->account_id);
    put_short(&writer->body, first->runtime);
}

static size_t record_bytes(const struct report *report)
{
    size_t bytes = RECORD_BYTES;
    struct str packed = report->packed_manifest, manifest = packed.len ? packed : report->manifest;
    if (manifest.len) bytes += 5 + manifest.len;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (field_of(report, i)->len) bytes += 5 + field_of(report, i)->len;
    return bytes;
}

bool bus_message_fits(const struct bus_message_writer *writer, const struct report *report)
{
    size_t body_bytes = writer->body.len + record_bytes(report);
    size_t unpacked_bytes = writer->unpacked_bytes + (report->packed_manifest.len ? report->manifest.len : 0);
    return body_bytes <= BUS_MESSAGE_BYTES_MAX && unpacked_bytes <= BUS_MESSAGE_UNPACKED_BYTES_MAX &&
           writer->count < BUS_MESSAGE_COUNT_MAX && report->account_id.len <= UINT8_MAX &&
           report->runtime.len <= UINT8_MAX;
}

enum error_code bus_message_add(struct bus_message_writer *writer, const struct report *report, struct error *err)
{
    struct strbuf *out = &writer->body;
    struct str packed = report->packed_manifest;
    if (!bus_message_fits(writer, report))
        return error_set(err, ERROR_TOO_LARGE, "a message of %zu bytes and %zu more", out->len, record_bytes(report));
    put(out, record_bytes(report), 4);
    put(out, (uint64_t)report->type, 1);
    put(out, report->sequence, 8);
    put(out, (uint64_t)report->observed_at_ms, 8);
    put(out, report->count, 8);
    strbuf_add(out, report->content_hash, ID_SHA256_BYTES);
    put_field(out, packed.len ? TAG_MANIFEST_ZSTD : TAG_MANIFEST, packed.len ? packed : report->manifest);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put_field(out, fields[i].tag, *field_of(report, i));
    writer->count++;
    if (packed.len) writer->unpacked_bytes += report->manifest.len;
    writer->has_plain |= !packed.len && report->manifest.len;
    return ERROR_NONE;
}

static void put_head(struct strbuf *out, uint8_t flags, size_t plain_bytes)
{
    strbuf_add(out, "CVB", 3);
    put(out, VERSION, 1);
    put(out, flags, 1);
    put(out, plain_bytes, 4);
}

void bus_message_end(struct bus_message_writer *writer, struct strbuf *out)
{
    struct strbuf *body = &writer->body;
    body->at[COUNT_AT] = (char)(writer->count >> 8);
    body->at[COUNT_AT + 1] = (char)writer->count;
    bool compress = writer->has_plain && body->len >= COMPRESS_FROM_BYTES;
    size_t bound = compress ? ZSTD_compressBound(body->len) : body->len;
    strbuf_init(out, HEAD_BYTES + bound);
    put_head(out, compress ? FLAG_COMPRESSED : 0, body->len);
    if (compress) {
        size_t n = ZSTD_compress(strbuf_reserve(out, bound), bound, body->at, body->len, COMPRESSION_LEVEL);
        // An error does not occur for input of a bounded size; as it is, then.
        if (ZSTD_isError(n) || (body->len > WIRE_REPORT_RATIO_FREE_BYTES && n < body->len / BODY_RATIO_MAX + 1)) {
            strbuf_clear(out);
            put_head(out, 0, body->len);
            strbuf_add_str(out, strbuf_str(body));
        } else {
            strbuf_commit(out, n);
        }
    } else {
        strbuf_add_str(out, strbuf_str(body));
    }
    bus_message_abandon(writer);
}

void bus_message_abandon(struct bus_message_writer *writer)
{
    strbuf_finish(&writer->body);
    *writer = (struct bus_message_writer){0};
}

// ---- reading -------------------------------------------------------------------------------------------------------

// A cursor; what is not there reads as 0 and sets `short_of`.
struct reader {
    const uint8_t *at;
    size_t len;
    bool short_of;
};

static struct str take(struct reader *r, size_t len)
{
    if (len > r->len) {
        r->short_of = true;
        r->len = 0;
        return STR_EMPTY;
    }
    struct str s = len ? str_of((const char *)r->at, len) : STR_EMPTY;
    r->at += len;
    r->len -= len;
    return s;
}

static uint64_t take_number(struct reader *r, unsigned bytes)
{
    struct str s = take(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++)
        value = value << 8 | (uint8_t)s.at[i];
    return value;
}

// bytes_max is what the message declares, or what one of its parts may be: neither is trusted.
static enum error_code unpack(struct bus_message *message, struct str packed, size_t bytes_max, unsigned ratio_max,
                              struct str *out, struct error *err)
{
    size_t bytes;
    enum error_code code = zstd_frame_size(packed, bytes_max, ratio_max, &bytes, err);
    if (code != ERROR_NONE) return code;
    if (bytes > BUS_MESSAGE_PLAIN_BYTES_MAX - message->unpacked_bytes)
        return error_set(err, ERROR_TOO_LARGE, "more than %d bytes, unpacked", BUS_MESSAGE_PLAIN_BYTES_MAX);
    message->unpacked_bytes += bytes;
    char *plain = arena_alloc(message->arena, bytes + 1);
    code = zstd_frame_unpack(NULL, packed, plain, bytes, err);
    if (code == ERROR_NONE) *out = bytes ? str_of(plain, bytes) : STR_EMPTY;
    return code;
}

static enum error_code read_manifest(struct bus_message *message, uint8_t tag, struct str text, struct report *out,
                                     struct error *err)
{
    if (tag == TAG_MANIFEST && text.len > MANIFEST_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "a manifest of more than %d bytes", MANIFEST_BYTES_MAX);
    out->manifest = text;
    out->packed_manifest = STR_EMPTY;
    if (tag == TAG_MANIFEST) return ERROR_NONE;
    out->packed_manifest = text;
    return unpack(message, text, MANIFEST_BYTES_MAX, WIRE_REPORT_RATIO_MAX, &out->manifest, err);
}

static enum error_code read_fields(struct bus_message *message, struct reader *r, struct report *out, struct error *err)
{
    while (r->len && !r->short_of) {
        uint8_t tag = (uint8_t)take_number(r, 1);
        struct str text = take(r, (size_t)take_number(r, 4));
        enum error_code code = ERROR_NONE;
        if (r->short_of) break;
        if (tag == TAG_MANIFEST || tag == TAG_MANIFEST_ZSTD) code = read_manifest(message, tag, text, out, err);
        if (code != ERROR_NONE) return code;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (fields[i].tag == tag) *(struct str *)(void *)((char *)out + fields[i].offset) = text;
    }
    return r->short_of ? error_set(err, ERROR_INVALID, "record is truncated") : ERROR_NONE;
}

static enum error_code read_record(struct bus_message *message, struct reader *r, struct report *out, struct error *err)
{
    struct str bytes = take(r, (size_t)take_number(r, 4));
    struct reader record = {(const uint8_t *)bytes.at, bytes.len, false};
    uint64_t type = take_number(&record, 1);
    out->sequence = take_number(&record, 8);
    out->observed_at_ms = (int64_t)take_number(&record, 8);
    out->count = take_number(&record, 8);
    struct str hash = take(&record, ID_SHA256_BYTES);
    if (r->short_of || record.short_of) return error_set(err, ERROR_INVALID, "record is truncated");
    if (type > REPORT_CLUSTER) return error_set(err, ERROR_INVALID, "a record of type %d", (int)type);
    out->type = (enum report_type)type;
    memcpy(out->content_hash, hash.at, ID_SHA256_BYTES);
    return read_fields(message, &record, out, err);
}

static enum error_code read_body(struct bus_message *message, struct str body, struct error *err)
{
    struct reader r = {(const uint8_t *)body.at, body.len, false};
    struct report common = {0};
    uint64_t source = take_number(&r, 1);
    common.epoch = take_number(&r, 8);
    message->received_at_ms = (int64_t)take_number(&r, 8);
    message->count = (size_t)take_number(&r, 2);
    common.account_id = take(&r, (size_t)take_number(&r, 1));
    common.runtime = take(&r, (size_t)take_number(&r, 1));
    if (r.short_of || source > REPORT_FROM_HTTP || !message->count || message->count > BUS_MESSAGE_COUNT_MAX ||
        message->count > r.len / RECORD_BYTES)
        return error_set(err, ERROR_INVALID, "invalid head of a message");
    common.source = (enum report_source)source;
    message->reports = arena_array(message->arena, message->count, sizeof *message->reports);
    for (size_t i = 0; i < message->count; i++) {
        message->reports[i] = common;
        enum error_code code = read_record(message, &r, &message->reports[i], err);
        if (code != ERROR_NONE) return code;
    }
    return r.len ? error_set(err, ERROR_INVALID, "%zu bytes after the last record", r.len) : ERROR_NONE;
}

static enum error_code open_message(struct bus_message *message, struct reader *r, struct error *err)
{
    struct str magic = take(r, 3);
    uint64_t version = take_number(r, 1), flags = take_number(r, 1), bytes = take_number(r, 4);
    if (r->short_of || !str_eq(magic, STR("CVB"))) return error_set(err, ERROR_INVALID, "not a message of culvertd");
    if (version != VERSION || flags > FLAG_COMPRESSED)
        return error_set(err, ERROR_INVALID, "version %d, flags %d: written by a newer culvertd", (int)version,
                         (int)flags);
    if (bytes > BUS_MESSAGE_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "a body of more than %d bytes", BUS_MESSAGE_BYTES_MAX);
    struct str body = str_of((const char *)r->at, r->len);
    if (flags & FLAG_COMPRESSED) {
        enum error_code code = unpack(message, body, (size_t)bytes, BODY_RATIO_MAX, &body, err);
        if (code != ERROR_NONE) return code;
    }
    if (body.len != bytes) return error_set(err, ERROR_INVALID, "length of the body differs from the stated one");
    return read_body(message, body, err);
}

enum error_code bus_message_open(struct bus_message *out, const void *at, size_t len, struct error *err)
{
    struct reader r = {at, len, false};
    struct bus_message message = {.arena = arena_create(BUS_MESSAGE_PLAIN_BYTES_MAX + ARENA_SPARE_BYTES)};
    enum error_code code = open_message(&message, &r, err);
    if (code != ERROR_NONE)
        bus_message_close(&message);
    else
        *out = message;
    return code;
}

void bus_message_close(struct bus_message *message)
{
    arena_destroy(message->arena);
    *message = (struct bus_message){0};
}
