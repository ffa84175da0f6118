#include "server/intake/intake.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/bus/rabbitmq.h"
#include "server/chores/traffic.h"
#include "server/intake/flapping.h"
#include "server/intake/http_group.h"
#include "server/intake/resyncs.h"
#include "server/intake/snapshot_ends.h"
#include "server/intake/source.h"
#include "server/intake/tunnel_report.h"
#include "server/intake/unpack_budget.h"
#include "storage/manifests/manifest_blob.h"

enum {
    PARK_MS = 5000,
    FLAPPING_OBJECTS_MAX = 8192,
    FLAPPING_FLUSH_MS = 5000,
    RESUMES_MAX = 256,
    BAD_FRAMES_MAX = 100, // compressed manifests of a session that are refused; one a second is forgiven
};

struct intake {
    struct loop *loop;
    void (*on_committed)(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count);
    void *ctx; // of on_committed
    struct traffic *traffic;
    struct intake_sessions sessions; // functions NULL: none yet, or none any more
    struct pg *pg;
    struct event_handler *handler;
    struct bus *bus;
    ZSTD_DCtx *unpacker;
    struct unpack_budget *budget;
    struct metric_family *frames_refused;
    struct flapping *flapping; // NULL: nobody listens
    struct metric *lag;
    struct resyncs *resyncs;
    struct source_table *sources;
    struct list unacknowledged, paused; // heads; the paused ones in the order of their pausing
    struct snapshot_ends *ends;         // NULL: the bus is local
};

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
        traffic_count_reports(intake->traffic, &(struct runtime_key){reports[i].account_id, reports[i].runtime},
                              (unsigned)(i + 1 - first));
        first = i + 1;
    }
}

static void on_committed(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count)
{
    struct intake *intake = ctx;
    observe_lag(intake, reports, count);
    count_traffic(intake, reports, count);
    if (intake->on_committed) intake->on_committed(intake->ctx, reports, outcomes, count);
    if (intake->flapping) flapping_take(intake->flapping, reports, outcomes, count, clock_mono_ms());
}

// ---- one report ----------------------------------------------------------------------------------------------------

static bool has_sessions(const struct intake *intake)
{
    return intake->sessions.ack != NULL;
}

static void send_ack(struct intake *intake, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    if (has_sessions(intake)) intake->sessions.ack(intake->sessions.ctx, ref, ack);
}

static void reject(struct intake *intake, struct tunnel_session_ref ref, const struct report *report,
                   const char *reason)
{
    log_limited(LOG_WARN, "intake", "report_rejected", report->account_id, report->runtime,
                log_str("account", report->account_id), log_str("runtime", report->runtime),
                log_uint("sequence", report->sequence), log_c("error", reason));
    send_ack(intake, ref,
             &(struct wire_ack){.type = WIRE_ACK_REJECT, .sequence = report->sequence, .reason = str_c(reason)});
}

static void on_tunnel_done(void *arg, const struct error *err, const struct report *report,
                           const struct report_outcome *outcome)
{
    struct in_flight *in_flight = arg;
    struct intake *intake = in_flight->owner;
    bool is_awaited = !err && !report && in_flight->is_end;
    struct source *source = in_flight_leave(in_flight, !err);
    if (!source || err || !has_sessions(intake)) return;
    if (outcome->result == REPORT_RESYNC) source->resync = true;
    if (is_awaited) snapshot_ends_await(intake->ends, source);
    list_add_last(&intake->unacknowledged, &source->unacknowledged);
    if (outcome->result == REPORT_REFUSED || outcome->result == REPORT_OVER_QUOTA)
        reject(intake, source->ref, report, outcome->detail ? outcome->detail : "");
}

static void submit(struct intake *intake, struct source *source, const struct report *report)
{
    struct tunnel_session_ref ref = source->ref;
    struct in_flight *in_flight = source_enter(source, intake, report->sequence, report->type == REPORT_SNAPSHOT_END);
    struct error err;
    if (bus_submit(intake->bus, report, true, on_tunnel_done, in_flight, &err) == ERROR_NONE) return;
    in_flight_withdraw(in_flight);
    reject(intake, ref, report, err.text);
}

// ---- acknowledging -------------------------------------------------------------------------------------------------

// The session may end inside these calls, and the source with it.
static void tell(struct intake *intake, struct source *source)
{
    struct tunnel_session_ref ref = source->ref;
    bool more = source->acknowledge > source->sent, resync = source->resync;
    uint64_t sequence = source->acknowledge;
    source->sent = sequence;
    source->resync = false;
    if (more) send_ack(intake, ref, &(struct wire_ack){.type = WIRE_ACK, .sequence = sequence});
    if (resync) send_ack(intake, ref, &(struct wire_ack){.type = WIRE_ACK_RESYNC, .sequence = sequence});
}

static bool has_room(const struct intake *intake, const struct source *source)
{
    return bus_has_room(intake->bus, &(struct runtime_key){str_c(source->account_id), str_c(source->runtime)}) &&
           unpack_budget_has_room(intake->budget, str_c(source->account_id), clock_mono_ms());
}

// False: there is no room for it.
static bool resume(struct intake *intake, struct source *source)
{
    bool room = has_room(intake, source);
    if (room)
        intake->sessions.resume(intake->sessions.ctx, source->ref);
    else
        list_add_last(&intake->paused, &source->paused);
    return room;
}

// Who has waited longest goes on first; whose share is used up goes to the end. Resuming may deliver reports, and those
// may pause it again, at the end. Some at a time, unless nothing is under way: then nobody would come here again.
static void resume_paused(struct intake *intake)
{
    bool all_went = true;
    if (!list_is_empty(&intake->paused)) unpack_budget_wait(intake->budget);
    for (unsigned looks = 0; has_sessions(intake) && !list_is_empty(&intake->paused); looks++) {
        if (looks >= RESUMES_MAX && !(all_went && bus_is_idle(intake->bus))) return;
        struct source *source = LIST_OWNER(intake->paused.next, struct source, paused);
        list_remove(&source->paused);
        if (!resume(intake, source)) all_went = false;
    }
}

static void on_progress(void *ctx)
{
    struct intake *intake = ctx;
    while (has_sessions(intake) && !list_is_empty(&intake->unacknowledged)) {
        struct source *source = LIST_OWNER(intake->unacknowledged.next, struct source, unacknowledged);
        struct tunnel_session_ref ref = source->ref;
        list_remove(&source->unacknowledged);
        tell(intake, source);
        source = source_table_find(intake->sources, ref);
        if (!source || source->end.state != SOURCE_END_HELD || source->first) continue;
        snapshot_ends_release(intake->ends, source);
        source = source_table_find(intake->sources, ref);
        if (source) (void)resume(intake, source);
    }
    resume_paused(intake);
}

// Accounts that were paused for their budget go on as it fills again.
static void on_refill(void *ctx)
{
    resume_paused(ctx);
}

static void submit_end(void *ctx, struct source *source, const struct report *end)
{
    submit(ctx, source, end);
}

static void on_resync(void *ctx, struct source *source)
{
    struct intake *intake = ctx;
    source->resync = true;
    list_add_last(&intake->unacknowledged, &source->unacknowledged);
    on_progress(intake);
}

static void on_resync_answer(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    send_ack(ctx, ref, ack);
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
        log_warn("intake", "tombstone_not_accepted", log_str("runtime", tombstone->runtime), log_err(&err));
}

static struct bus *create_bus(struct intake *intake, const struct intake_options *options)
{
    if (!options->rabbitmq) return bus_local_create(intake->handler);
    return (options->create_remote_bus ? options->create_remote_bus : bus_rabbitmq_create)(
        intake->loop, intake->handler,
        &(struct bus_rabbitmq_options){.rabbitmq = options->rabbitmq,
                                       .pg = intake->pg,
                                       .known = options->known,
                                       .on_progress = on_progress,
                                       .ctx = intake});
}

static const struct intake_store postgresql_store = {
    .prepare = report_store_prepare,
    .submit = report_transaction_submit,
    .discard = report_transaction_destroy,
    .digests = {digest_store_tree, digest_store_confirm, digest_store_holds_any, digest_store_rows},
};

struct intake *intake_create(struct loop *loop, const struct intake_options *options)
{
    const struct intake_store *store = options->store ? options->store : &postgresql_store;
    struct intake *intake = mem_zalloc(sizeof *intake);
    intake->loop = loop;
    intake->on_committed = options->on_committed;
    intake->ctx = options->ctx;
    intake->traffic = options->traffic;
    intake->pg = options->pg;
    intake->lag = metric_with(metrics_histogram("culvert_reports_lag_seconds",
                                                "Time from a change as seen by the agent to its commit.", NULL));
    intake->unpacker = ZSTD_createDCtx();
    intake->budget = unpack_budget_create(loop, options->unpacked_per_second, on_refill, intake);
    intake->frames_refused =
        metrics_counter("culvert_reports_frames_refused_total",
                        "Compressed manifests that tunnels sent and that were refused.", "reason", NULL);
    list_init(&intake->unacknowledged);
    list_init(&intake->paused);
    intake->sources = source_table_create();
    intake->handler =
        event_handler_create(loop, &(struct event_handler_options){
                                       .pg = options->pg,
                                       .kinds = options->kinds,
                                       .known = options->known,
                                       .batch_count = options->batch_count,
                                       .batch_bytes = options->batch_bytes,
                                       .batch_delay_ms = options->batch_delay_ms,
                                       .park_ms = PARK_MS,
                                       .queue_bytes_max = options->queue_bytes_max,
                                       .account_bytes_max = options->queue_bytes_max / 100 * options->account_share,
                                       .runtime_bytes_max = options->queue_bytes_max / 100 * options->runtime_share,
                                       .transactions_max = options->transactions_max,
                                       .prepare = store->prepare,
                                       .submit = store->submit,
                                       .discard = store->discard,
                                       .on_committed = on_committed,
                                       .on_progress = on_progress,
                                       .ctx = intake,
                                   });
    if (options->flapping_burst)
        intake->flapping =
            flapping_create(loop, &(struct flapping_options){.pg = options->pg,
                                                             .burst = options->flapping_burst,
                                                             .interval_ms = options->flapping_interval_ms,
                                                             .objects_max = FLAPPING_OBJECTS_MAX,
                                                             .flush_ms = FLAPPING_FLUSH_MS,
                                                             .put = flapping_store_put});
    intake->bus = create_bus(intake, options);
    if (bus_is_remote(intake->bus))
        intake->ends = snapshot_ends_create(
            loop,
            &(struct snapshot_ends_options){.pg = options->pg,
                                            .find = store->find_verdict ? store->find_verdict : snapshot_verdict_find,
                                            .sources = intake->sources,
                                            .submit = submit_end,
                                            .on_resync = on_resync,
                                            .ctx = intake});
    intake->resyncs = resyncs_create(&(struct resyncs_options){
        .pg = options->pg, .store = store->digests, .ctx = intake, .answer = on_resync_answer, .on_gone = on_gone});
    return intake;
}

void intake_set_sessions(struct intake *intake, const struct intake_sessions *sessions)
{
    intake->sessions = sessions ? *sessions : (struct intake_sessions){0};
}

static void node_ack(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    tunnel_reports_ack(ctx, ref, ack);
}

static void node_resume(void *ctx, struct tunnel_session_ref ref)
{
    tunnel_reports_resume(ctx, ref);
}

static void node_abuse(void *ctx, struct tunnel_session_ref ref, const char *reason)
{
    tunnel_reports_abuse(ctx, ref, reason);
}

void intake_set_node(struct intake *intake, struct tunnel_node *node)
{
    if (node)
        intake_set_sessions(intake, &(struct intake_sessions){node_ack, node_resume, node_abuse, node});
    else
        intake_set_sessions(intake, NULL);
}

void intake_stop(struct intake *intake)
{
    if (!intake) return;
    if (intake->flapping) flapping_stop(intake->flapping);
    snapshot_ends_stop(intake->ends);
    bus_stop(intake->bus);
    event_handler_stop(intake->handler);
}

void intake_destroy(struct intake *intake)
{
    if (!intake) return;
    intake_set_sessions(intake, NULL);
    resyncs_destroy(intake->resyncs);
    event_handler_destroy(intake->handler);
    bus_destroy(intake->bus);
    ZSTD_freeDCtx(intake->unpacker);
    unpack_budget_destroy(intake->budget);
    flapping_destroy(intake->flapping);
    source_table_destroy(intake->sources);
    snapshot_ends_destroy(intake->ends);
    mem_free(intake);
}

void intake_forget_session(struct intake *intake, struct tunnel_session_ref ref)
{
    resyncs_forget(intake->resyncs, ref);
    source_table_remove(intake->sources, ref);
}

bool intake_is_idle(const struct intake *intake)
{
    return bus_is_idle(intake->bus);
}

// ---- tunnel --------------------------------------------------------------------------------------------------------

// What was unpacked, or stated by a frame that could not be.
static void charge(struct intake *intake, const struct report *report, const struct wire_report *record)
{
    uint64_t bytes = record->manifest_bytes < MANIFEST_BYTES_MAX ? record->manifest_bytes : MANIFEST_BYTES_MAX;
    unpack_budget_take(intake->budget, report->account_id, bytes, clock_mono_ms());
}

// Counts a compressed manifest that was refused. True: the session has sent too many.
static bool is_abused(struct intake *intake, struct source *source, enum error_code code)
{
    uint64_t now_ms = clock_mono_ms(), forgiven = (now_ms - source->bad_at_ms) / 1000;
    metric_add(metric_with(intake->frames_refused, code == ERROR_TOO_LARGE ? "too-large" : "invalid"), 1);
    if (forgiven > 0) {
        source->bad -= forgiven < source->bad ? forgiven : source->bad;
        source->bad_at_ms = now_ms;
    }
    return ++source->bad > BAD_FRAMES_MAX && has_sessions(intake);
}

bool intake_take_tunnel(struct intake *intake, const struct tunnel_session_info *session,
                        const struct wire_report *record)
{
    struct report report;
    if (record->type == WIRE_REPORT_DIGEST) resyncs_take(intake->resyncs, session, record);
    if (record->type == WIRE_REPORT_SNAPSHOT_BEGIN) resyncs_count_snapshot(intake->resyncs);
    if (!tunnel_report_read(session, record, &report)) return true;
    struct source *source = source_table_get(intake->sources, session);
    if (intake->ends && !snapshot_ends_take(intake->ends, source, &report)) return false;
    struct error err;
    char *owned;
    bool is_packed = record->encoding == WIRE_REPORT_ZSTD && record->manifest.len > 0;
    enum error_code code = tunnel_report_unpack(intake->unpacker, record, &report, &owned, &err);
    if (is_packed && code != ERROR_TOO_LARGE) charge(intake, &report, record); // else nothing was unpacked
    if (code != ERROR_NONE && is_packed && is_abused(intake, source, code)) {
        log_limited(LOG_WARN, "intake", "session_abused", report.account_id, report.runtime,
                    log_str("account", report.account_id), log_str("runtime", report.runtime), log_err(&err));
        intake->sessions.abuse(intake->sessions.ctx, session->ref,
                               "too many compressed manifests that cannot be unpacked");
        return true;
    }
    if (code != ERROR_NONE) {
        if (report.type != REPORT_KEPT_OUT) {
            reject(intake, session->ref, &report, err.text);
            return true;
        }
        report.errors = str_c(err.text);
    }
    submit(intake, source, &report);
    mem_free(owned);
    // Looked up again: what was submitted may have been answered at once.
    source = source_table_find(intake->sources, session->ref);
    struct runtime_key key = {report.account_id, report.runtime};
    if (source ? has_room(intake, source) : bus_has_room(intake->bus, &key)) return true;
    if (source) list_add_last(&intake->paused, &source->paused);
    unpack_budget_wait(intake->budget);
    return false;
}

// ---- HTTP ----------------------------------------------------------------------------------------------------------

void intake_take_http(struct intake *intake, const struct report *reports, size_t count, intake_http_done on_done,
                      void *arg)
{
    http_group_submit(intake->bus, reports, count, on_done, arg);
}
