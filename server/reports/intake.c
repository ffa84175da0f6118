#include "server/reports/intake.h"

#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "server/bus/rabbitmq.h"
#include "server/reports/live_updates.h"
#include "server/reports/noise.h"
#include "server/reports/resyncs.h"
#include "server/reports/source.h"
#include "server/traffic.h"
#include "storage/manifest_blob.h"
#include "storage/manifest_known.h"
#include "storage/snapshot_verdict_store.h"
#include "tunnel/wire/digest_tree.h"

enum {
    BUCKETS = 4096,
    NOISE_OBJECTS_MAX = 8192,
    NOISE_FLUSH_MS = 5000,
    RESUMES_MAX = 256,
    VERDICTS_MS = 1000,
    VERDICTS_AT_ONCE = 64,
    END_AGAIN_MS = 60000,
};

struct intake {
    struct loop *loop;
    struct redis *redis;
    struct traffic *traffic;
    struct tunnel_node *node;
    struct pg *pg;
    struct event_handler *handler;
    struct bus *bus;
    ZSTD_DCtx *unpacker;
    struct noise *noise; // NULL: nobody listens
    struct manifest_known *known;
    struct metric *lag;
    struct resyncs *resyncs;
    struct source *buckets[BUCKETS];     // by the session's id, which counts up
    struct hook untold, paused, awaited; // heads; the paused ones in the order of their pausing
    uv_timer_t *timer;                   // of a remote bus: looks for verdicts
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

// The link that points to it, or the one at the end of its bucket.
static struct source **source_link(struct intake *intake, struct tunnel_session_ref ref)
{
    struct source **link = &intake->buckets[ref.id % BUCKETS];
    while (*link && !same_ref((*link)->ref, ref))
        link = &(*link)->next;
    return link;
}

// From what the agent's clock said when it saw the change to now: clocks that differ by more are none of our business.
static void observe_lag(struct intake *intake, const struct report *reports, size_t count)
{
    int64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < count; i++)
        if (reports[i].observed_at_ms > 0)
            metric_observe(intake->lag, (double)(now_ms - reports[i].observed_at_ms) / 1e3);
}

// A batch is of one account and of few runtimes, mostly one after the other.
static void count_traffic(struct intake *intake, const struct report *reports, size_t count)
{
    for (size_t i = 0, first = 0; i < count && intake->traffic; i++) {
        if (i + 1 < count && str_eq(reports[i + 1].runtime, reports[i].runtime)) continue;
        traffic_count_reports(intake->traffic, reports[i].account_id, reports[i].runtime, (unsigned)(i + 1 - first));
        first = i + 1;
    }
}

static void on_committed(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count)
{
    struct intake *intake = ctx;
    observe_lag(intake, reports, count);
    count_traffic(intake, reports, count);
    live_updates_publish(intake->redis, reports, outcomes, count);
    if (intake->noise) noise_take(intake->noise, reports, outcomes, count, clock_mono_ms());
}

// ---- one report ----------------------------------------------------------------------------------------------------

static void reject(struct intake *intake, struct tunnel_session_ref ref, const struct report *report,
                   const char *reason)
{
    log_warn("intake", "report_rejected", log_str("account", report->account_id), log_str("runtime", report->runtime),
             log_uint("sequence", report->sequence), log_c("error", reason));
    tunnel_reports_ack(
        intake->node, ref,
        &(struct wire_ack){.type = WIRE_ACK_REJECT, .sequence = report->sequence, .reason = str_c(reason)});
}

static void await_verdict(struct intake *intake, struct source *source)
{
    source->end.state = SOURCE_END_AWAITED;
    source->end.since_ms = clock_mono_ms();
    hook_add(&intake->awaited, &source->awaited);
}

static void on_tunnel_done(void *arg, const struct error *err, const struct report *report,
                           const struct report_outcome *outcome)
{
    struct passage *passage = arg;
    struct intake *intake = passage->owner;
    bool is_awaited = !err && !report && passage->is_end;
    struct source *source = passage_leave(passage, !err);
    if (!source || err || !intake->node) return;
    if (outcome->result == REPORT_RESYNC) source->resync = true;
    if (is_awaited) await_verdict(intake, source);
    hook_add(&intake->untold, &source->untold);
    if (outcome->result == REPORT_REFUSED) reject(intake, source->ref, report, outcome->detail ? outcome->detail : "");
}

static void submit(struct intake *intake, struct source *source, const struct report *report)
{
    struct tunnel_session_ref ref = source->ref;
    struct passage *passage = source_enter(source, intake, report->sequence, report->type == REPORT_SNAPSHOT_END);
    struct error err;
    if (bus_submit(intake->bus, report, true, on_tunnel_done, passage, &err) == ERROR_NONE) return;
    passage_withdraw(passage);
    reject(intake, ref, report, err.text);
}

// ---- ends of snapshots, when a broker lies between -----------------------------------------------------------------

static void submit_end(struct intake *intake, struct source *source)
{
    struct report end = {
        .type = REPORT_SNAPSHOT_END,
        .source = REPORT_FROM_TUNNEL,
        .account_id = str_c(source->account_id),
        .runtime = str_c(source->runtime),
        .epoch = source->epoch,
        .sequence = source->end.sequence,
        .observed_at_ms = source->end.observed_at_ms,
        .count = source->end.count,
    };
    source->end.state = SOURCE_END_NONE;
    submit(intake, source, &end);
}

// False: the end must wait for what came before it, and the session with it.
static bool note_snapshot(struct intake *intake, struct source *source, const struct report *report)
{
    bool is_end = report->type == REPORT_SNAPSHOT_END;
    if (!bus_is_remote(intake->bus) || (!is_end && report->type != REPORT_SNAPSHOT_BEGIN)) return true;
    hook_remove(&source->awaited); // an older one's verdict is of no interest any more
    source->end = (struct source_end){.state = SOURCE_END_NONE,
                                      .sequence = report->sequence,
                                      .count = report->count,
                                      .observed_at_ms = report->observed_at_ms};
    if (!is_end || !source->first) return true;
    source->end.state = SOURCE_END_HELD;
    return false;
}

struct question {
    struct intake *intake;
    struct tunnel_session_ref ref;
    uint64_t sequence;
};

static void on_progress(void *ctx);

static void on_verdict(void *arg, const struct error *err, enum snapshot_verdict verdict)
{
    struct question *question = arg;
    struct intake *intake = question->intake;
    struct source *source = *source_link(intake, question->ref);
    bool is_ours = source && source->end.state == SOURCE_END_AWAITED && source->end.sequence == question->sequence;
    mem_free(question);
    if (!is_ours || !intake->node) return;
    source->end.is_asking = false;
    if (err) return;
    if (verdict == SNAPSHOT_UNDECIDED) {
        // It may have been lost with whoever applied it, or lie behind much else. Applying it twice changes nothing.
        if (clock_mono_ms() - source->end.since_ms < END_AGAIN_MS) return;
        hook_remove(&source->awaited);
        submit_end(intake, source);
        return;
    }
    hook_remove(&source->awaited);
    source->end.state = SOURCE_END_NONE;
    if (verdict != SNAPSHOT_NEEDS_RESYNC) return;
    source->resync = true;
    hook_add(&intake->untold, &source->untold);
    on_progress(intake);
}

// Some of those that wait, in turns.
static void on_timer(uv_timer_t *timer)
{
    struct intake *intake = timer->data;
    for (unsigned i = 0; i < VERDICTS_AT_ONCE && intake->awaited.next != &intake->awaited; i++) {
        struct source *source = intake->awaited.next->source;
        hook_remove(&source->awaited);
        hook_add(&intake->awaited, &source->awaited);
        if (source->end.is_asking) break; // all others are, too
        source->end.is_asking = true;
        struct question *question = mem_alloc(sizeof *question);
        *question = (struct question){intake, source->ref, source->end.sequence};
        snapshot_verdict_find(intake->pg, str_c(source->account_id), str_c(source->runtime), source->epoch,
                              source->end.sequence, on_verdict, question);
    }
}

// ---- acknowledging -------------------------------------------------------------------------------------------------

// The session may end inside these calls, and the source with it.
static void tell(struct intake *intake, struct source *source)
{
    struct tunnel_session_ref ref = source->ref;
    bool more = source->acknowledge > source->told, resync = source->resync;
    uint64_t sequence = source->acknowledge;
    source->told = sequence;
    source->resync = false;
    if (more) tunnel_reports_ack(intake->node, ref, &(struct wire_ack){.type = WIRE_ACK, .sequence = sequence});
    if (resync)
        tunnel_reports_ack(intake->node, ref, &(struct wire_ack){.type = WIRE_ACK_RESYNC, .sequence = sequence});
}

static bool has_room(const struct intake *intake, const struct source *source)
{
    return bus_has_room(intake->bus, str_c(source->account_id), str_c(source->runtime));
}

static void resume(struct intake *intake, struct source *source)
{
    if (has_room(intake, source))
        tunnel_reports_resume(intake->node, source->ref);
    else
        hook_add(&intake->paused, &source->paused);
}

// Who has waited longest goes on first; whose share is used up goes to the end. Resuming may deliver reports, and those
// may pause it again, at the end.
static void resume_paused(struct intake *intake)
{
    for (unsigned looks = 0; looks < RESUMES_MAX && intake->node; looks++) {
        if (intake->paused.next == &intake->paused) return;
        struct source *source = intake->paused.next->source;
        hook_remove(&source->paused);
        resume(intake, source);
    }
}

static void on_progress(void *ctx)
{
    struct intake *intake = ctx;
    while (intake->node && intake->untold.next != &intake->untold) {
        struct source *source = intake->untold.next->source;
        struct tunnel_session_ref ref = source->ref;
        hook_remove(&source->untold);
        tell(intake, source);
        source = *source_link(intake, ref);
        if (!source || source->end.state != SOURCE_END_HELD || source->first) continue;
        submit_end(intake, source);
        source = *source_link(intake, ref);
        if (source) resume(intake, source);
    }
    resume_paused(intake);
}

static void on_resync_answer(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    struct intake *intake = ctx;
    if (intake->node) tunnel_reports_ack(intake->node, ref, ack);
}

static void on_gone_done(void *arg, const struct error *err, const struct report *report,
                         const struct report_outcome *outcome)
{
    (void)arg;
    (void)err;
    (void)report;
    (void)outcome;
}

// A tombstone like any other; one that is lost with the process is found again by the next comparison.
static void on_gone(void *ctx, const struct report *tombstone)
{
    struct intake *intake = ctx;
    struct error err;
    if (event_handler_submit(intake->handler, tombstone, true, on_gone_done, intake, &err) != ERROR_NONE)
        log_warn("intake", "tombstone_not_taken", log_str("runtime", tombstone->runtime), log_err(&err));
}

static void start_timer(struct intake *intake)
{
    intake->timer = mem_zalloc(sizeof *intake->timer);
    uv_timer_init(loop_uv(intake->loop), intake->timer);
    intake->timer->data = intake;
    uv_timer_start(intake->timer, on_timer, VERDICTS_MS, VERDICTS_MS);
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

static struct bus *create_bus(struct intake *intake, struct rabbitmq *rabbitmq)
{
    if (!rabbitmq) return bus_local_create(intake->handler);
    return bus_rabbitmq_create(intake->loop, intake->handler,
                               &(struct bus_rabbitmq_options){
                                   .rabbitmq = rabbitmq, .pg = intake->pg, .on_progress = on_progress, .ctx = intake});
}

struct intake *intake_create(struct loop *loop, const struct intake_options *options)
{
    struct intake *intake = mem_zalloc(sizeof *intake);
    intake->loop = loop;
    intake->redis = options->redis;
    intake->traffic = options->traffic;
    intake->pg = options->pg;
    intake->lag = metric_with(metrics_histogram("culvert_reports_lag_seconds",
                                                "From the change as the agent saw it to its COMMIT here.", NULL));
    intake->unpacker = ZSTD_createDCtx();
    intake->known = manifest_known_create();
    hook_init(&intake->untold, NULL);
    hook_init(&intake->paused, NULL);
    hook_init(&intake->awaited, NULL);
    intake->handler =
        event_handler_create(loop, &(struct event_handler_options){
                                       .pg = options->pg,
                                       .known = intake->known,
                                       .batch_count = options->batch_count,
                                       .batch_bytes = options->batch_bytes,
                                       .batch_delay_ms = options->batch_delay_ms,
                                       .queue_bytes_max = options->queue_bytes_max,
                                       .account_bytes_max = options->queue_bytes_max / 100 * options->account_share,
                                       .runtime_bytes_max = options->queue_bytes_max / 100 * options->runtime_share,
                                       .transactions_max = options->transactions_max,
                                       .prepare = report_store_prepare,
                                       .submit = report_transaction_submit,
                                       .discard = report_transaction_destroy,
                                       .on_committed = on_committed,
                                       .on_progress = on_progress,
                                       .ctx = intake,
                                   });
    if (options->noise_burst)
        intake->noise = noise_create(loop, &(struct noise_options){.pg = options->pg,
                                                                   .burst = options->noise_burst,
                                                                   .interval_ms = options->noise_interval_ms,
                                                                   .objects_max = NOISE_OBJECTS_MAX,
                                                                   .flush_ms = NOISE_FLUSH_MS,
                                                                   .put = noise_store_put});
    intake->bus = create_bus(intake, options->rabbitmq);
    if (bus_is_remote(intake->bus)) start_timer(intake);
    intake->resyncs = resyncs_create(
        &(struct resyncs_options){.pg = options->pg, .ctx = intake, .answer = on_resync_answer, .on_gone = on_gone});
    return intake;
}

void intake_set_node(struct intake *intake, struct tunnel_node *node)
{
    intake->node = node;
}

void intake_stop(struct intake *intake)
{
    if (!intake) return;
    if (intake->noise) noise_stop(intake->noise);
    if (intake->timer) uv_timer_stop(intake->timer);
    bus_stop(intake->bus);
    event_handler_stop(intake->handler);
}

void intake_destroy(struct intake *intake)
{
    if (!intake) return;
    intake->node = NULL;
    resyncs_destroy(intake->resyncs);
    event_handler_destroy(intake->handler);
    bus_destroy(intake->bus);
    if (intake->timer) uv_close((uv_handle_t *)intake->timer, free_timer);
    ZSTD_freeDCtx(intake->unpacker);
    noise_destroy(intake->noise);
    manifest_known_destroy(intake->known);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct source *source = intake->buckets[i], *next; source; source = next) {
            next = source->next;
            source_destroy(source);
        }
    }
    mem_free(intake);
}

void intake_forget_session(struct intake *intake, struct tunnel_session_ref ref)
{
    struct source **link = source_link(intake, ref), *source = *link;
    resyncs_forget(intake->resyncs, ref);
    if (!source) return;
    *link = source->next;
    source_destroy(source);
}

bool intake_is_idle(const struct intake *intake)
{
    return bus_is_idle(intake->bus);
}

// ---- tunnel --------------------------------------------------------------------------------------------------------

// The manifest as plain JSON: a view of the record, or *out_owned. Counted before it is unpacked.
static enum error_code unpack(struct intake *intake, const struct wire_report *record, struct str *out,
                              char **out_owned, struct error *err)
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
    size_t n = ZSTD_decompressDCtx(intake->unpacker, plain, (size_t)size, record->manifest.at, record->manifest.len);
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
    if (record->type == WIRE_REPORT_HELLO || record->type == WIRE_REPORT_DIGEST) return false;
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

static struct source *source_get(struct intake *intake, const struct tunnel_session_info *session)
{
    struct source **link = source_link(intake, session->ref);
    if (!*link) *link = source_create(session);
    return *link;
}

// What the record says of its object, as one entry of the digest tree.
static void make_entry(const struct wire_report *record, const uint8_t sha256[ID_SHA256_BYTES],
                       uint8_t out[DIGEST_ENTRY_BYTES])
{
    digest_entry_make(&(struct digest_object){.cluster = record->cluster,
                                              .group = record->group,
                                              .kind = record->kind,
                                              .ns = record->ns,
                                              .name = record->name,
                                              .version = record->version,
                                              .uid = record->uid,
                                              .application_ns = record->application_ns,
                                              .application_name = record->application_name,
                                              .sync_status = record->sync_status,
                                              .health_status = record->health_status,
                                              .manifest_sha256 = sha256},
                      out);
}

bool intake_take_tunnel(struct intake *intake, const struct tunnel_session_info *session,
                        const struct wire_report *record)
{
    struct report report;
    if (record->type == WIRE_REPORT_DIGEST) resyncs_take(intake->resyncs, session, record);
    if (record->type == WIRE_REPORT_SNAPSHOT_BEGIN) resyncs_count_snapshot(intake->resyncs);
    if (!to_report(session, record, &report)) return true; // HELLO names the boot, which the session already told
    struct source *source = source_get(intake, session);
    if (!note_snapshot(intake, source, &report)) return false;
    struct error err;
    char *owned;
    bool good = unpack(intake, record, &report.manifest, &owned, &err) == ERROR_NONE;
    if (!good && record->type != WIRE_REPORT_OBJECT) {
        reject(intake, session->ref, &report, err.text);
        return true;
    }
    if (owned) report.packed_manifest = record->manifest;
    if (record->type == WIRE_REPORT_OBJECT) {
        // The manifest's own digest is ours, not the agent's word, but where there is no more than its word.
        uint8_t sha256[ID_SHA256_BYTES];
        if (good) id_sha256(report.manifest.at, report.manifest.len, sha256);
        make_entry(record, good ? sha256 : record->hash, report.content_hash);
    }
    if (!good) {
        report.type = REPORT_KEPT_OUT; // noted, so that no comparison asks for it again
        report.errors = str_c(err.text);
    }
    submit(intake, source, &report);
    mem_free(owned);
    if (bus_has_room(intake->bus, report.account_id, report.runtime)) return true;
    // Looked up again: what was submitted may have been answered at once.
    source = *source_link(intake, session->ref);
    if (source) hook_add(&intake->paused, &source->paused);
    return false;
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
        if (bus_submit(intake->bus, &reports[i], false, on_http_done, group, &err) == ERROR_NONE) continue;
        if (group->err.code == ERROR_NONE) group->err = err;
        group->left--;
    }
    group_end(group);
}
