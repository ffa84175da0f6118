#include "server/intake/tunnel_report.h"

#include "base/mem.h"
#include "server/intake/zstd_frame.h"
#include "storage/manifests/manifest_blob.h"
#include "tunnel/wire/digest_tree.h"

bool tunnel_report_read(const struct tunnel_session_info *session, const struct wire_report *record, struct report *out)
{
    static const enum report_type types[] = {
        [WIRE_REPORT_OBJECT] = REPORT_OBJECT,
        [WIRE_REPORT_DELETED] = REPORT_DELETED,
        [WIRE_REPORT_SNAPSHOT_BEGIN] = REPORT_SNAPSHOT_BEGIN,
        [WIRE_REPORT_SNAPSHOT_END] = REPORT_SNAPSHOT_END,
        [WIRE_REPORT_CLUSTER] = REPORT_CLUSTER,
        [WIRE_REPORT_KUBERNETES_EVENT] = REPORT_KUBERNETES_EVENT,
    };
    if (record->type == WIRE_REPORT_HELLO || record->type == WIRE_REPORT_DIGEST) return false;
    *out = (struct report){
        .type = types[record->type],
        .source = REPORT_FROM_TUNNEL,
        .account_id = str_c(session->identity.account_id),
        .runtime = str_c(session->identity.runtime),
        .epoch = session->epoch,
        .sequence = record->sequence,
        .ref = record->ref,
        .cluster = record->cluster,
        .application_ns = record->application_ns,
        .application_name = record->application_name,
        .sync_status = record->sync_status,
        .health_status = record->health_status,
        .health_message = record->health_message,
        .health_source = record->health_source,
        .presence = record->presence,
        .api_resource = record->resource,
        .marks = record->marks,
        .observed_at_ms = record->observed_at_ms,
        .count = record->count,
        .unread = record->unread,
    };
    return true;
}

// The manifest as plain JSON: a view of the record, or *out_owned. Counted before it is unpacked.
static enum error_code unpack(ZSTD_DCtx *unpacker, const struct wire_report *record, struct str *out, char **out_owned,
                              struct error *err)
{
    *out_owned = NULL;
    if (record->encoding == WIRE_REPORT_PLAIN || record->manifest.len == 0) {
        if (record->manifest.len > MANIFEST_BYTES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "a manifest of %zu bytes, the limit is %d", record->manifest.len,
                             MANIFEST_BYTES_MAX);
        *out = record->manifest;
        return ERROR_NONE;
    }
    size_t size;
    enum error_code code = zstd_frame_size(record->manifest, MANIFEST_BYTES_MAX, WIRE_REPORT_RATIO_MAX, &size, err);
    if (code != ERROR_NONE) return code;
    if (size != record->manifest_bytes)
        return error_set(err, ERROR_INVALID, "zstd: the frame states %zu bytes, the record %llu", size,
                         (unsigned long long)record->manifest_bytes);
    char *plain = mem_alloc(size + 1);
    code = zstd_frame_unpack(unpacker, record->manifest, plain, size, err);
    if (code != ERROR_NONE) {
        mem_free(plain);
        return code;
    }
    *out_owned = plain;
    *out = str_of(plain, size);
    return ERROR_NONE;
}

// What the record says of its object, as one entry of the digest tree.
static void make_entry(const struct wire_report *record, const uint8_t sha256[ID_SHA256_BYTES],
                       uint8_t out[DIGEST_ENTRY_BYTES])
{
    digest_entry_make(&(struct digest_object){.cluster = record->cluster,
                                              .ref = record->ref,
                                              .application_ns = record->application_ns,
                                              .application_name = record->application_name,
                                              .sync_status = record->sync_status,
                                              .health_status = record->health_status,
                                              .health_message = record->health_message,
                                              .health_source = record->health_source,
                                              .presence = record->presence,
                                              .resource = record->resource,
                                              .marks = record->marks,
                                              .manifest_sha256 = sha256},
                      out);
}

enum error_code tunnel_report_unpack(ZSTD_DCtx *unpacker, const struct wire_report *record, struct report *report,
                                     char **out_owned, struct error *err)
{
    enum error_code code = unpack(unpacker, record, &report->manifest, out_owned, err);
    if (*out_owned) report->packed_manifest = record->manifest;
    if (record->type != WIRE_REPORT_OBJECT) return code;
    // The manifest's own digest is ours, not the agent's word, but where there is no more than its word.
    uint8_t sha256[ID_SHA256_BYTES];
    if (code == ERROR_NONE) id_sha256(report->manifest.at, report->manifest.len, sha256);
    make_entry(record, code == ERROR_NONE ? sha256 : record->hash, report->content_hash);
    if (code != ERROR_NONE) report->type = REPORT_KEPT_OUT;
    return code;
}
