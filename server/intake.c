#include "server/intake.h"

#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/live_updates.h"

enum { MANIFEST_BYTES_MAX = 10 * 1024 * 1024 };

// A session of ours that has sent reports. Named by its reference in items, so that it may vanish at any time.
struct source {
    struct source *next;
    struct tunnel_session_ref ref;
    uint64_t acknowledge; // highest sequence that is durable and not yet told
    uint64_t told;
    bool resync;
    bool paused;
};

struct intake {
    struct loop *loop;
    struct redis *redis;
    struct tunnel_node *node;
    struct event_handler *handler;
    struct source *sources;
};

// One report of a session on its way through the handler.
struct passage {
    struct intake *intake;
    struct tunnel_session_ref ref;
};

struct http_group {
    struct intake *intake;
    size_t left, refused;
    struct error err; // of the first that failed
    char detail[256];
    intake_http_done on_done;
    void *arg;
};

static bool same_ref(struct tunnel_session_ref a, struct tunnel_session_ref b)
{
    return a.node == b.node && a.id == b.id;
}

static struct source *source_find(struct intake *intake, struct tunnel_session_ref ref)
{
    for (struct source *source = intake->sources; source; source = source->next)
        if (same_ref(source->ref, ref)) return source;
    return NULL;
}

static void on_committed(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count)
{
    struct intake *intake = ctx;
    live_updates_publish(intake->redis, reports, outcomes, count);
}

static void tell(struct intake *intake, struct source *source)
{
    if (source->acknowledge > source->told) {
        source->told = source->acknowledge;
        tunnel_reports_ack(intake->node, source->ref, &(struct wire_ack){.type = WIRE_ACK, .sequence = source->told});
    }
    if (source->resync) {
        source->resync = false;
        tunnel_reports_ack(intake->node, source->ref,
                           &(struct wire_ack){.type = WIRE_ACK_RESYNC, .sequence = source->told});
    }
}

static void on_progress(void *ctx)
{
    struct intake *intake = ctx;
    if (!intake->node) return;
    for (struct source *source = intake->sources; source; source = source->next)
        tell(intake, source);
    // Resuming may deliver reports, and those may change the list: one at a time, from the start.
    for (;;) {
        struct source *source = intake->sources;
        while (source && !source->paused)
            source = source->next;
        if (!source || event_handler_is_full(intake->handler)) return;
        source->paused = false;
        tunnel_reports_resume(intake->node, source->ref);
    }
}

struct intake *intake_create(struct loop *loop, const struct intake_options *options)
{
    struct intake *intake = mem_zalloc(sizeof *intake);
    intake->loop = loop;
    intake->redis = options->redis;
    intake->handler = event_handler_create(loop, &(struct event_handler_options){
                                                     .pg = options->pg,
                                                     .batch_count = options->batch_count,
                                                     .batch_bytes = options->batch_bytes,
                                                     .batch_delay_ms = options->batch_delay_ms,
                                                     .queue_bytes_max = options->queue_bytes_max,
                                                     .apply = report_store_apply,
                                                     .on_committed = on_committed,
                                                     .on_progress = on_progress,
                                                     .ctx = intake,
                                                 });
    return intake;
}

void intake_set_node(struct intake *intake, struct tunnel_node *node)
{
    intake->node = node;
}

void intake_destroy(struct intake *intake)
{
    if (!intake) return;
    intake->node = NULL;
    event_handler_destroy(intake->handler);
    for (struct source *source = intake->sources, *next; source; source = next) {
        next = source->next;
        mem_free(source);
    }
    mem_free(intake);
}

void intake_forget_session(struct intake *intake, struct tunnel_session_ref ref)
{
    for (struct source **link = &intake->sources; *link; link = &(*link)->next) {
        struct source *source = *link;
        if (!same_ref(source->ref, ref)) continue;
        *link = source->next;
        mem_free(source);
        return;
    }
}

bool intake_is_idle(const struct intake *intake)
{
    return event_handler_is_idle(intake->handler);
}

// ---- tunnel --------------------------------------------------------------------------------------------------------

static void reject(struct intake *intake, struct tunnel_session_ref ref, uint64_t sequence, const char *reason)
{
    log_warn("intake", "report_rejected", log_uint("sequence", sequence), log_c("error", reason));
    tunnel_reports_ack(intake->node, ref,
                       &(struct wire_ack){.type = WIRE_ACK_REJECT, .sequence = sequence, .reason = str_c(reason)});
}

static void on_tunnel_done(void *arg, const struct error *err, const struct report *report,
                           const struct report_outcome *outcome)
{
    struct passage *passage = arg;
    struct intake *intake = passage->intake;
    struct source *source = intake->node ? source_find(intake, passage->ref) : NULL;
    if (source && !err) {
        if (outcome->result == REPORT_REFUSED) reject(intake, source->ref, report->sequence, outcome->detail);
        if (outcome->result == REPORT_RESYNC) source->resync = true;
        if (report->sequence > source->acknowledge) source->acknowledge = report->sequence;
    }
    mem_free(passage);
}

// The manifest as plain JSON: a view of the record, or *out_owned. Counted before it is unpacked.
static enum error_code unpack(const struct wire_report *record, struct str *out, char **out_owned, struct error *err)
{
    *out_owned = NULL;
    if (record->encoding == WIRE_REPORT_PLAIN || record->manifest.len == 0) {
        if (record->manifest.len > MANIFEST_BYTES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "a manifest of %zu bytes, the limit is %d", record->manifest.len,
                             MANIFEST_BYTES_MAX);
        *out = record->manifest;
        return ERROR_NONE;
    }
    unsigned long long size = ZSTD_getFrameContentSize(record->manifest.at, record->manifest.len);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size != record->manifest_bytes)
        return error_set(err, ERROR_INVALID, "a compressed manifest that does not say its size");
    if (size > MANIFEST_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "a manifest of %llu bytes, the limit is %d", size, MANIFEST_BYTES_MAX);
    char *plain = mem_alloc((size_t)size + 1);
    size_t n = ZSTD_decompress(plain, (size_t)size, record->manifest.at, record->manifest.len);
    if (ZSTD_isError(n) || n != size) {
        mem_free(plain);
        return error_set(err, ERROR_INVALID, "a manifest that cannot be decompressed");
    }
    *out_owned = plain;
    *out = str_of(plain, n);
    return ERROR_NONE;
}

static bool to_report(const struct tunnel_session_info *session, const struct wire_report *record, struct report *out)
{
    static const enum report_type types[] = {
        [WIRE_REPORT_OBJECT] = REPORT_OBJECT,
        [WIRE_REPORT_DELETED] = REPORT_DELETED,
        [WIRE_REPORT_SNAPSHOT_BEGIN] = REPORT_SNAPSHOT_BEGIN,
        [WIRE_REPORT_SNAPSHOT_END] = REPORT_SNAPSHOT_END,
        [WIRE_REPORT_CLUSTER] = REPORT_CLUSTER,
    };
    if (record->type == WIRE_REPORT_HELLO) return false;
    *out = (struct report){
        .type = types[record->type],
        .source = REPORT_FROM_TUNNEL,
        .account_id = str_c(session->identity.account_id),
        .runtime = str_c(session->identity.runtime),
        .epoch = session->epoch,
        .sequence = record->sequence,
        .group = record->group,
        .version = record->version,
        .kind = record->kind,
        .ns = record->ns,
        .name = record->name,
        .uid = record->uid,
        .cluster = record->cluster,
        .application_ns = record->application_ns,
        .application_name = record->application_name,
        .sync_status = record->sync_status,
        .health_status = record->health_status,
        .observed_at_ms = record->observed_at_ms,
        .count = record->count,
    };
    return true;
}

static struct source *source_get(struct intake *intake, struct tunnel_session_ref ref)
{
    struct source *source = source_find(intake, ref);
    if (source) return source;
    source = mem_zalloc(sizeof *source);
    source->ref = ref;
    source->next = intake->sources;
    intake->sources = source;
    return source;
}

bool intake_take_tunnel(struct intake *intake, const struct tunnel_session_info *session,
                        const struct wire_report *record)
{
    struct report report;
    if (!to_report(session, record, &report)) return true; // HELLO names the boot, which the session already told
    struct source *source = source_get(intake, session->ref);
    struct error err;
    char *owned;
    if (unpack(record, &report.manifest, &owned, &err) != ERROR_NONE) {
        reject(intake, session->ref, record->sequence, err.text);
        return true;
    }
    // Our own digest, not the agent's word: it is the address under which the manifest is stored.
    id_sha256(report.manifest.at, report.manifest.len, report.content_hash);
    struct passage *passage = mem_alloc(sizeof *passage);
    *passage = (struct passage){.intake = intake, .ref = session->ref};
    enum error_code code = event_handler_submit(intake->handler, &report, true, on_tunnel_done, passage, &err);
    if (code != ERROR_NONE) {
        mem_free(passage);
        reject(intake, session->ref, record->sequence, err.text);
    }
    mem_free(owned);
    source->paused = event_handler_is_full(intake->handler);
    return !source->paused;
}

// ---- HTTP ----------------------------------------------------------------------------------------------------------

static void group_end(struct http_group *group)
{
    if (--group->left > 0) return;
    group->on_done(group->arg, group->err.code != ERROR_NONE ? &group->err : NULL, group->refused, group->detail);
    mem_free(group);
}

static void on_http_done(void *arg, const struct error *err, const struct report *report,
                         const struct report_outcome *outcome)
{
    (void)report;
    struct http_group *group = arg;
    if (err && group->err.code == ERROR_NONE) group->err = *err;
    if (!err && outcome->result == REPORT_REFUSED && group->refused++ == 0)
        snprintf(group->detail, sizeof group->detail, "%s", outcome->detail ? outcome->detail : "");
    group_end(group);
}

void intake_take_http(struct intake *intake, const struct report *reports, size_t count, intake_http_done on_done,
                      void *arg)
{
    struct http_group *group = mem_zalloc(sizeof *group);
    *group = (struct http_group){.intake = intake, .left = count + 1, .on_done = on_done, .arg = arg};
    for (size_t i = 0; i < count; i++) {
        struct error err;
        if (event_handler_submit(intake->handler, &reports[i], false, on_http_done, group, &err) == ERROR_NONE)
            continue;
        if (group->err.code == ERROR_NONE) group->err = err;
        group->left--;
    }
    group_end(group);
}
