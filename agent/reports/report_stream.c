#include "agent/reports/report_stream.h"

#include "agent/reports/kubernetes_event_queue.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "tunnel/wire/digest.h"
#include "tunnel/wire/report.h"

enum { WRITE_BYTES_MAX = 64 * 1024, ACK_BYTES_MAX = 256 * 1024, CLUSTERS_MAX = 100, CLUSTER_BYTES_MAX = 64 * 1024 };

struct report_stream {
    struct report_stream_options options;
    struct strbuf out; // the record that is being written
    size_t out_offset;
    struct strbuf acks; // what has arrived of an acknowledgement
    char *clusters[CLUSTERS_MAX];
    size_t cluster_count;
    uint64_t acknowledged;              // the highest
    uint64_t last_awaited;              // the last record that will be
    uint64_t waits_for, waits_since_ms; // a record that is not, and since when; 0: all are
    bool hello_written, begin_wanted, in_snapshot, full, failed;
};

static struct metric_family *records_total(void)
{
    return metrics_counter("culvert_agent_records_total", "Report records written to the platform.", "type", NULL);
}

struct report_stream *report_stream_create(const struct report_stream_options *options)
{
    struct report_stream *stream = mem_zalloc(sizeof *stream);
    stream->options = *options;
    strbuf_init(&stream->out, WIRE_REPORT_RECORD_BYTES_MAX + WRITE_BYTES_MAX);
    strbuf_init(&stream->acks, ACK_BYTES_MAX);
    return stream;
}

void report_stream_destroy(struct report_stream *stream)
{
    if (!stream) return;
    for (size_t i = 0; i < stream->cluster_count; i++)
        mem_free(stream->clusters[i]);
    strbuf_finish(&stream->out);
    strbuf_finish(&stream->acks);
    mem_free(stream);
}

void report_stream_begin_snapshot(struct report_stream *stream)
{
    outbox_mark(stream->options.outbox);
    stream->begin_wanted = true;
    stream->in_snapshot = true;
}

bool report_stream_in_snapshot(const struct report_stream *stream)
{
    return stream->in_snapshot;
}

void report_stream_writable(struct report_stream *stream)
{
    stream->full = false;
}

void report_stream_cluster(struct report_stream *stream, struct str manifest)
{
    if (stream->cluster_count == CLUSTERS_MAX || manifest.len > CLUSTER_BYTES_MAX) return;
    stream->clusters[stream->cluster_count++] = mem_strndup(manifest.at, manifest.len);
}

// ---- records -------------------------------------------------------------------------------------------------

// Gives the record its number. False: it cannot be told (a text is too long), and nothing was used up.
static bool emit(struct report_stream *stream, struct wire_report *record, const char *type)
{
    struct error err;
    record->sequence = *stream->options.sequence + 1;
    size_t before = stream->out.len;
    if (wire_report_encode(record, &stream->out, &err) != ERROR_NONE) {
        log_warn("reporter", "record_not_encoded", log_c("type", type), log_str("kind", record->ref.kind),
                 log_err(&err));
        stream->out.len = before;
        stream->out.overflow = false;
        return false;
    }
    *stream->options.sequence = record->sequence;
    // These two are answered in another way, or not at all.
    bool is_awaited = record->type != WIRE_REPORT_HELLO && record->type != WIRE_REPORT_DIGEST;
    if (is_awaited) stream->last_awaited = record->sequence;
    if (is_awaited && !stream->waits_for) {
        stream->waits_for = record->sequence;
        stream->waits_since_ms = clock_mono_ms();
    }
    metric_add(metric_with(records_total(), type), 1);
    return true;
}

static void emit_slot(struct report_stream *stream, struct outbox_slot *slot)
{
    const struct outbox_object *object = &slot->object;
    struct str own = str_c(stream->options.cluster_name);
    struct wire_report record = {
        .type = slot->deleted ? WIRE_REPORT_DELETED : WIRE_REPORT_OBJECT,
        .ref = object->ref,
        .cluster = object->cluster.len ? object->cluster : own,
        .application_ns = object->application_ns,
        .application_name = object->application_name,
        .observed_at_ms = slot->deleted ? clock_wall_ms() : object->observed_at_ms,
    };
    if (!slot->deleted) {
        record.sync_status = object->sync_status;
        record.health_status = object->health_status;
        record.health_message = object->health_message;
        record.health_source = object->health_source;
        record.presence = object->presence;
        record.resource = object->resource;
        record.marks = object->marks;
        memcpy(record.hash, object->hash, sizeof record.hash);
        record.encoding = slot->is_plain ? WIRE_REPORT_PLAIN : WIRE_REPORT_ZSTD;
        record.manifest_bytes = slot->manifest_bytes;
        record.manifest = object->manifest;
    }
    bool is_emitted = emit(stream, &record, slot->deleted ? "deleted" : "object");
    // What cannot be encoded uses up a number nobody sees on the wire; the sequence only has to grow.
    if (!is_emitted) ++*stream->options.sequence;
    outbox_written(stream->options.outbox, slot, *stream->options.sequence);
    if (!is_emitted) outbox_refuse(stream->options.outbox, *stream->options.sequence);
}

// Kinds that may not be read: what is held of them must not be taken for gone.
static void gather_unread(struct report_stream *stream, struct strbuf *out)
{
    strbuf_init(out, WIRE_REPORT_UNREAD_BYTES_MAX);
    stream->options.unread(stream->options.arg, out);
}

static void emit_snapshot_end(struct report_stream *stream, uint64_t now_ms)
{
    struct outbox *outbox = stream->options.outbox;
    size_t gone = outbox_delete_unlisted(outbox, now_ms, stream->options.is_there, stream->options.arg);
    struct strbuf unread;
    gather_unread(stream, &unread);
    struct wire_report record = {
        .type = WIRE_REPORT_SNAPSHOT_END, .count = outbox_synced_count(outbox), .unread = strbuf_str(&unread)};
    emit(stream, &record, "snapshot_end");
    strbuf_finish(&unread);
    stream->in_snapshot = false;
    log_info("reporter", "snapshot_complete", log_uint("objects", record.count), log_uint("gone", gone),
             log_uint("sequence", record.sequence));
}

static void emit_cluster(struct report_stream *stream)
{
    char *manifest = stream->clusters[--stream->cluster_count];
    struct wire_report record = {.type = WIRE_REPORT_CLUSTER,
                                 .cluster = str_c(stream->options.cluster_name),
                                 .observed_at_ms = clock_wall_ms(),
                                 .manifest_bytes = strlen(manifest),
                                 .manifest = str_c(manifest)};
    emit(stream, &record, "cluster");
    mem_free(manifest);
}

static bool emit_digest(struct report_stream *stream)
{
    if (!stream->options.resync) return false;
    struct strbuf payload, unread = {0};
    strbuf_init(&payload, DIGEST_BYTES_MAX);
    bool any = resync_next(stream->options.resync, &payload);
    if (any) {
        struct wire_report record = {.type = WIRE_REPORT_DIGEST, .digest = strbuf_str(&payload)};
        if ((uint8_t)payload.at[0] == DIGEST_ROOT) {
            gather_unread(stream, &unread);
            record.unread = strbuf_str(&unread);
        }
        any = emit(stream, &record, "digest");
    }
    strbuf_finish(&payload);
    strbuf_finish(&unread);
    return any;
}

static bool emit_event(struct report_stream *stream, uint64_t now_ms, uint64_t *out_wait_ms)
{
    struct kubernetes_event event;
    struct kubernetes_event_queue *events = stream->options.events;
    uint64_t wait_ms = 0;
    if (!events) return false;
    if (!kubernetes_event_queue_next(events, now_ms, &event, &wait_ms)) {
        if (wait_ms && (!*out_wait_ms || wait_ms < *out_wait_ms)) *out_wait_ms = wait_ms;
        return false;
    }
    struct wire_report record = {.type = WIRE_REPORT_KUBERNETES_EVENT,
                                 .ref = event.ref,
                                 .cluster = str_c(stream->options.cluster_name),
                                 .observed_at_ms = clock_wall_ms(),
                                 .manifest_bytes = event.text.len,
                                 .manifest = event.text};
    bool is_emitted = emit(stream, &record, "kubernetes_event");
    if (is_emitted)
        kubernetes_event_queue_written(events, record.sequence);
    else
        kubernetes_event_queue_skip(events);
    return true;
}

// Encodes the next record into `out`. False: nothing is due.
static bool next_record(struct report_stream *stream, bool lists_complete, uint64_t now_ms, uint64_t *out_wait_ms)
{
    if (!stream->hello_written) {
        struct wire_report hello = {.type = WIRE_REPORT_HELLO, .boot_id = str_c(stream->options.boot_id)};
        stream->hello_written = true;
        return emit(stream, &hello, "hello");
    }
    if (emit_digest(stream)) return true;
    if (stream->begin_wanted) {
        struct wire_report begin = {.type = WIRE_REPORT_SNAPSHOT_BEGIN};
        stream->begin_wanted = false;
        return emit(stream, &begin, "snapshot_begin");
    }
    if (stream->cluster_count) {
        emit_cluster(stream);
        return true;
    }
    struct outbox_slot *slot = outbox_next(stream->options.outbox, now_ms, out_wait_ms);
    if (slot) {
        emit_slot(stream, slot);
        return true;
    }
    if (stream->in_snapshot && lists_complete && !outbox_has_unsynced(stream->options.outbox)) {
        emit_snapshot_end(stream, now_ms);
        return true;
    }
    return !stream->in_snapshot && emit_event(stream, now_ms, out_wait_ms);
}

void report_stream_pump(struct report_stream *stream, bool lists_complete, uint64_t now_ms, uint64_t *out_wait_ms)
{
    *out_wait_ms = 0;
    while (!stream->full && !stream->failed) {
        size_t left = stream->out.len - stream->out_offset;
        if (left) {
            size_t len = left < WRITE_BYTES_MAX ? left : WRITE_BYTES_MAX;
            const char *at = stream->out.at + stream->out_offset;
            stream->out_offset += len;
            stream->full = !stream->options.sink.write(stream->options.sink.arg, at, len);
            continue;
        }
        // One huge record must not keep its memory for the life of the stream.
        bool huge = stream->out.cap > 1024 * 1024;
        strbuf_clear(&stream->out);
        if (huge) strbuf_shrink(&stream->out);
        stream->out_offset = 0;
        // Small records are gathered, so that a tunnel frame carries many.
        bool any = false;
        while (stream->out.len < WRITE_BYTES_MAX / 2 && next_record(stream, lists_complete, now_ms, out_wait_ms))
            any = true;
        if (!any) return;
    }
}

// ---- acknowledgements ----------------------------------------------------------------------------------------

// One record at a time is timed: what is written meanwhile waits less long, by as much as that takes.
static void note_acknowledged(struct report_stream *stream, uint64_t sequence)
{
    if (sequence > stream->acknowledged) stream->acknowledged = sequence;
    if (stream->acknowledged < stream->waits_for) return;
    uint64_t last = stream->last_awaited;
    stream->waits_for = stream->acknowledged < last ? last : 0;
    stream->waits_since_ms = clock_mono_ms();
}

static void on_ack(struct report_stream *stream, const struct wire_ack *ack)
{
    switch (ack->type) {
    case WIRE_ACK:
        outbox_acknowledge(stream->options.outbox, ack->sequence);
        if (stream->options.events) kubernetes_event_queue_acknowledge(stream->options.events, ack->sequence);
        note_acknowledged(stream, ack->sequence);
        break;
    case WIRE_ACK_REJECT:
        log_warn("reporter", "record_refused", log_uint("sequence", ack->sequence), log_str("reason", ack->reason));
        outbox_refuse(stream->options.outbox, ack->sequence);
        if (str_starts(ack->reason, STR(WIRE_REASON_QUOTA)))
            stream->options.on_no_room(stream->options.arg, ack->reason);
        break;
    case WIRE_ACK_RESYNC: stream->options.on_resync(stream->options.arg); break;
    case WIRE_ACK_DIGEST: break; // below
    }
}

static void fail(struct report_stream *stream, const char *why)
{
    log_error("reporter", "acknowledgement_unreadable", log_c("error", why));
    stream->failed = true;
    stream->options.sink.fail(stream->options.sink.arg);
}

void report_stream_ack_bytes(struct report_stream *stream, const uint8_t *at, size_t len)
{
    if (stream->failed) return;
    if (!strbuf_add(&stream->acks, at, len)) {
        fail(stream, "too many bytes");
        return;
    }
    size_t offset = 0;
    while (offset < stream->acks.len) {
        struct wire_ack ack;
        struct error err;
        size_t used = 0;
        enum error_code code =
            wire_ack_decode((const uint8_t *)stream->acks.at + offset, stream->acks.len - offset, &ack, &used, &err);
        if (code == ERROR_AGAIN) break;
        if (code == ERROR_NONE && ack.sequence > *stream->options.sequence)
            code = error_set(&err, ERROR_PROTOCOL, "acknowledged sequence was never sent");
        if (code != ERROR_NONE) {
            fail(stream, err.text);
            return;
        }
        offset += used;
        on_ack(stream, &ack);
        if (ack.type != WIRE_ACK_DIGEST || !stream->options.resync) continue;
        if (resync_take(stream->options.resync, ack.digest, &err) == ERROR_NONE) continue;
        fail(stream, err.text);
        return;
    }
    strbuf_drop_front(&stream->acks, offset);
}

uint64_t report_stream_waits_ms(const struct report_stream *stream, uint64_t now_ms)
{
    return stream->waits_for && now_ms > stream->waits_since_ms ? now_ms - stream->waits_since_ms : 0;
}
