#include "agent/reports/reporter.h"

#include <string.h>

#include "agent/reports/reporter_parts.h"
#include "agent/tunnel/session.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "tunnel/wire/report.h"

enum {
    TICK_MS = 250,
    SNAPSHOT_TICK_MS = 50,
    PROBE_TICK_MS = 250,
    LIMIT_RETRY_MS = 600000,
    KEEP_MS = 600000, // without a stream the cluster is still watched for so long
    FETCHED_MAX = 64, // so many objects are fetched one by one; for more, lists are cheaper
};

// ---- what found no room ------------------------------------------------------------------------

static uint64_t left_out(const struct reporter *reporter)
{
    return reporter->objects.refused + collector_left_out(reporter->collector);
}

// What found no room is in no digest and no snapshot, so that nothing may be concluded from these.
static bool is_whole(const struct reporter *reporter)
{
    return collector_is_complete(reporter->collector) && overflow_is_over(&reporter->overflow, left_out(reporter));
}

static void follow_overflow(struct reporter *reporter, uint64_t now_ms)
{
    uint64_t count = left_out(reporter), before = reporter->overflow.before;
    uint64_t retry_ms = reporter->options.limit_retry_ms ? reporter->options.limit_retry_ms : LIMIT_RETRY_MS;
    bool are_complete = collector_is_complete(reporter->collector);
    switch (overflow_look(&reporter->overflow, count, are_complete, now_ms, retry_ms)) {
    case OVERFLOW_WAIT: break;
    case OVERFLOW_NOTICED:
        log_error("reporter", "object_limit_reached", log_uint("left_out", count - before),
                  log_uint("objects", outbox_count(reporter->outbox)));
        break;
    case OVERFLOW_LIST_AGAIN: collector_relist(reporter->collector); break;
    }
}

// ---- the stream --------------------------------------------------------------------------------

static void show_metrics(struct reporter *reporter)
{
    uint64_t count = reporter->collector ? left_out(reporter) : 0, behind_ms, blind_ms;
    reporter_lag(reporter, &behind_ms, &blind_ms);
    reporter_metrics_show(&reporter->metrics, reporter->outbox, reporter->collector, count,
                          behind_ms > blind_ms ? behind_ms : blind_ms);
}

static void on_turn(void *arg)
{
    struct reporter *reporter = arg;
    if (!reporter->stream) return;
    bool was_in_snapshot = report_stream_in_snapshot(reporter->stream);
    uint64_t wait_ms = 0;
    report_stream_pump(reporter->stream, is_whole(reporter), clock_mono_ms(), &wait_ms);
    if (!reporter->stream) return; // the sink ended it
    if (was_in_snapshot && !report_stream_in_snapshot(reporter->stream)) {
        catch_up_end_snapshot(&reporter->catch_up, clock_mono_ms());
    }
    // Half empty again: the watches may go on.
    size_t bytes_max = reporter->options.outbox.bytes_max ? reporter->options.outbox.bytes_max : 64 * 1024 * 1024;
    if (reporter->held_back && outbox_bytes(reporter->outbox) < bytes_max / 2) {
        reporter->held_back = false;
        collector_resume(reporter->collector);
        managed_clusters_resume(reporter->managed);
    }
    if (wait_ms && wait_ms < TICK_MS) timer_start(&reporter->turn, wait_ms, 0);
}

static void relist(struct reporter *reporter)
{
    collector_relist(reporter->collector);
    managed_clusters_relist(reporter->managed);
}

static void begin_snapshot(struct reporter *reporter)
{
    catch_up_begin_snapshot(&reporter->catch_up);
    if (reporter->digests) resync_stop(reporter->digests);
    report_stream_begin_snapshot(reporter->stream);
    relist(reporter);
    log_info("reporter", "snapshot_begin", log_uint("sequence", reporter->sequence));
}

static void let_go(struct reporter *reporter);

// The lists are complete, and what happened before this moment has been told and taken, if that
// ever comes to an end.
static bool may_compare(const struct reporter *reporter, uint64_t now_ms)
{
    const struct catch_up *catch_up = &reporter->catch_up;
    if (!catch_up_compares(catch_up) || catch_up_is_asking(catch_up) || !is_whole(reporter)) return false;
    bool is_quiet = outbox_queued(reporter->outbox) == 0 && outbox_in_flight(reporter->outbox) == 0;
    return catch_up_may_compare(catch_up, is_quiet, outbox_wanted(reporter->outbox), now_ms);
}

static void compare(struct reporter *reporter, uint64_t now_ms)
{
    if (catch_up_give_up(&reporter->catch_up, now_ms)) resync_stop(reporter->digests);
    if (!may_compare(reporter, now_ms)) return;
    catch_up_begin_compare(&reporter->catch_up, now_ms);
    reporter->fetched = 0;
    resync_begin(reporter->digests);
}

// What found no room on the platform is offered again by comparing, ever more slowly, until there
// is room. Until then the agent is behind.
static void offer_again(struct reporter *reporter, uint64_t now_ms)
{
    if (!reporter->catch_up.lacks_room || !catch_up_is_idle(&reporter->catch_up)) return;
    uint64_t wait_ms = catch_up_offer_again(&reporter->catch_up, now_ms);
    log_warn("reporter", "storage_quota_exceeded", log_uint("offer_again_ms", wait_ms),
             log_c("reason", reporter->refusal));
}

// Whether a kind that could not be read when all was compared can be now.
static bool has_new_kinds(const struct reporter *reporter)
{
    struct strbuf now;
    struct str then = str_c(reporter->unread), line;
    bool any = false;
    strbuf_init(&now, WIRE_REPORT_UNREAD_BYTES_MAX);
    reporter_gather_unread(reporter, &now);
    while (!any && str_cut(&then, '\n', &line)) {
        struct str rest = strbuf_str(&now), other;
        any = true;
        while (any && str_cut(&rest, '\n', &other))
            any = !str_eq(line, other);
    }
    strbuf_finish(&now);
    return any;
}

static void log_snapshot(const struct reporter *reporter, uint64_t now_ms)
{
    if (reporter->catch_up.state != CATCH_UP_SNAPSHOT_DUE) return;
    log_info("reporter", "resync_wanted", log_uint("wait_ms", reporter->catch_up.due_at_ms - now_ms));
}

// What went while its kind could not be read is not missed when it can be read again by an agent
// that never saw it: the next comparison finds it.
static void compare_new_kinds(struct reporter *reporter, uint64_t now_ms)
{
    if (!reporter->unread || !catch_up_is_idle(&reporter->catch_up)) return;
    if (!is_whole(reporter) || !has_new_kinds(reporter)) return;
    log_info("reporter", "kinds_readable");
    mem_free(reporter->unread);
    reporter->unread = NULL;
    catch_up_new_kinds(&reporter->catch_up, reporter->digests != NULL, now_ms);
    log_snapshot(reporter, now_ms);
}

static void on_tick(void *arg)
{
    struct reporter *reporter = arg;
    uint64_t now_ms = clock_mono_ms();
    if (!reporter->stream && now_ms >= reporter->closed_at_ms + KEEP_MS) {
        let_go(reporter);
        return;
    }
    if (catch_up_snapshot_is_due(&reporter->catch_up, now_ms)) begin_snapshot(reporter);
    collector_tick(reporter->collector, now_ms);
    managed_clusters_tick(reporter->managed, now_ms);
    argo_view_tick(reporter->argo, reporter->collector, now_ms);
    // Reports go first: their lists, too.
    kubernetes_events_tick(reporter->events,
                           reporter->takes_kubernetes_events && collector_is_complete(reporter->collector), now_ms);
    follow_overflow(reporter, now_ms);
    if (reporter->clusters) cluster_report_tick(reporter->clusters, now_ms);
    if (reporter->digests) offer_again(reporter, now_ms);
    if (reporter->stream) compare_new_kinds(reporter, now_ms);
    if (reporter->digests) compare(reporter, now_ms);
    show_metrics(reporter);
    reporter_request_turn(reporter);
    // Each tier of kinds begins in a tick: while something waits for them they come faster.
    bool is_hasty = reporter->catch_up.state == CATCH_UP_SNAPSHOT || catch_up_compares(&reporter->catch_up);
    timer_set_interval(&reporter->tick, is_hasty ? SNAPSHOT_TICK_MS : TICK_MS);
}

// Runs as long as the reporter does: whether the cluster can be read matters also while there is
// no stream.
static void on_probe_tick(void *arg)
{
    struct reporter *reporter = arg;
    kube_probe_tick(reporter->probe, clock_mono_ms());
    cluster_identity_tick(reporter->identity, clock_mono_ms());
    uint64_t since_ms = kube_probe_blind_since_ms(reporter->probe), before_ms = reporter->unanswered_since_ms;
    reporter->unanswered_since_ms = since_ms;
    if (before_ms && !since_ms && reporter->collector) collector_renew(reporter->collector, before_ms);
}

// ---- comparing ---------------------------------------------------------------------------------

static void on_wanted(void *arg, const struct outbox_slot *slot)
{
    struct reporter *reporter = arg;
    const struct outbox_object *object = &slot->object;
    struct collector *collector = reporter_collector_of_cluster(reporter, object->cluster);
    if (collector && reporter->fetched++ < FETCHED_MAX) collector_fetch(collector, &object->ref);
}

// What was found to be outdated is told first, and then it is compared again: only when nothing
// is missing any more, or only what changed meanwhile, the gap has been made up for.
static void on_settled(void *arg, size_t differs, size_t wanted)
{
    struct reporter *reporter = arg;
    bool is_first = reporter->catch_up.state == CATCH_UP_COMPARING;
    if (is_first) metric_add(differs ? reporter->metrics.differences : reporter->metrics.unchanged, 1);
    bool is_over = catch_up_settle(&reporter->catch_up, differs, wanted, clock_mono_ms());
    if (is_over && !reporter->catch_up.lacks_room) reporter->refusal[0] = '\0';
    log_info("reporter", "compared", log_uint("objects", outbox_count(reporter->outbox)), log_uint("wanted", wanted));
    if (wanted > FETCHED_MAX) relist(reporter);
}

// The platform wants everything.
static void on_snapshot(void *arg)
{
    struct reporter *reporter = arg;
    uint64_t now_ms = clock_mono_ms();
    enum catch_up_step step = catch_up_want_snapshot(&reporter->catch_up, now_ms);
    if (step == CATCH_UP_WAIT) return;
    metric_add(reporter->metrics.full, 1);
    if (step == CATCH_UP_BEGIN_SNAPSHOT)
        begin_snapshot(reporter);
    else
        log_snapshot(reporter, now_ms);
}

static void on_later(void *arg)
{
    struct reporter *reporter = arg;
    log_info("reporter", "compare_later", log_uint("wait_ms", catch_up_later(&reporter->catch_up, clock_mono_ms())));
}

static const struct resync_events resync_events = {on_settled, on_wanted, on_snapshot, on_later};

// ---- opening and closing -----------------------------------------------------------------------

static void on_resync(void *arg)
{
    struct reporter *reporter = arg;
    uint64_t now_ms = clock_mono_ms();
    if (catch_up_schedule_snapshot(&reporter->catch_up, now_ms) == CATCH_UP_SCHEDULED) log_snapshot(reporter, now_ms);
}

static void on_no_room(void *arg, struct str reason)
{
    struct reporter *reporter = arg;
    struct str kept = str_first(reason, sizeof reporter->refusal - 1);
    metric_add(reporter->metrics.no_room, 1);
    reporter->catch_up.lacks_room = true;
    memcpy(reporter->refusal, kept.at, kept.len);
    reporter->refusal[kept.len] = '\0';
}

// Forgets the cluster.
static void let_go(struct reporter *reporter)
{
    timer_stop(&reporter->tick);
    argo_view_let_go(reporter->argo);
    collector_destroy(reporter->collector);
    reporter->collector = NULL;
    managed_clusters_let_go(reporter->managed);
    kubernetes_events_let_go(reporter->events);
    outbox_clear(reporter->outbox);
    reporter->held_back = false;
    reporter->objects.refused = 0;
    reporter->overflow = (struct overflow){0};
    show_metrics(reporter);
}

void reporter_stream_closed(struct reporter *reporter)
{
    if (!reporter->stream) return;
    bool keep = reporter->digests != NULL;
    timer_stop(&reporter->turn);
    cluster_report_destroy(reporter->clusters);
    report_stream_destroy(reporter->stream);
    resync_destroy(reporter->digests);
    reporter->clusters = NULL;
    reporter->stream = NULL;
    reporter->digests = NULL;
    reporter->tunnel_stream = NULL;
    reporter->refusal[0] = '\0';
    mem_free(reporter->unread);
    reporter->unread = NULL;
    reporter->closed_at_ms = clock_mono_ms();
    catch_up_close(&reporter->catch_up, reporter->closed_at_ms);
    if (!keep) {
        let_go(reporter);
        return;
    }
    outbox_pause(reporter->outbox);
    kubernetes_events_pause(reporter->events);
    show_metrics(reporter);
}

static void begin(struct reporter *reporter)
{
    catch_up_open(&reporter->catch_up, reporter->digests != NULL, clock_mono_ms());
    if (!reporter->digests) {
        begin_snapshot(reporter);
        return;
    }
    outbox_set_mode(reporter->outbox, OUTBOX_ASKS);
    if (!collector_is_complete(reporter->collector)) resync_probe(reporter->digests);
}

void reporter_sink_open(struct reporter *reporter, const struct report_sink *sink)
{
    reporter_stream_closed(reporter);
    const struct reporter_options *o = &reporter->options;
    struct error err;
    // What is held was made for a platform of another version.
    if (reporter->collector && reporter->objects.takes_details != sink->takes_details) let_go(reporter);
    reporter->objects.takes_details = sink->takes_details;
    reporter->takes_kubernetes_events = sink->takes_kubernetes_events;
    if (!sink->takes_kubernetes_events) kubernetes_events_let_go(reporter->events);
    if (!reporter->collector && reporter_open_collector(reporter, &err)) { // checked when the reporter was made
        log_error("reporter", "not_started", log_err(&err));
        sink->fail(sink->arg);
        return;
    }
    reporter->clusters = cluster_report_create(&(struct cluster_report_options){.client = reporter->client,
                                                                                .probe = reporter->probe,
                                                                                .cluster_name = o->cluster_name,
                                                                                .managed = o->clusters,
                                                                                .arg = reporter,
                                                                                .on_cluster = reporter_on_cluster,
                                                                                .on_named = reporter_on_named,
                                                                                .counts = reporter_cluster_counts,
                                                                                .findings = reporter_cluster_findings});
    if (sink->compares) reporter->digests = resync_create(reporter->outbox, &resync_events, reporter);
    reporter->stream = report_stream_create(&(struct report_stream_options){
        .outbox = reporter->outbox,
        .resync = reporter->digests,
        .events = sink->takes_kubernetes_events ? kubernetes_events_queue(reporter->events) : NULL,
        .sink = *sink,
        .boot_id = reporter->boot_id,
        .cluster_name = o->cluster_name,
        .sequence = &reporter->sequence,
        .arg = reporter,
        .on_resync = on_resync,
        .on_no_room = on_no_room,
        .is_there = reporter_is_there,
        .unread = reporter_unread});
    begin(reporter);
    timer_start(&reporter->tick, 0, TICK_MS);
}

static bool tunnel_write(void *arg, const void *at, size_t len)
{
    struct reporter *reporter = arg;
    return agent_stream_write(reporter->tunnel_stream, at, len);
}

static void tunnel_fail(void *arg)
{
    struct reporter *reporter = arg;
    agent_stream_reset(reporter->tunnel_stream, AGENT_STREAM_PROTOCOL_ERROR);
}

void reporter_stream_open(struct reporter *reporter, struct agent_stream *stream, bool compares, bool takes_details,
                          bool takes_kubernetes_events)
{
    reporter_stream_closed(reporter);
    reporter->tunnel_stream = stream;
    reporter_sink_open(reporter, &(struct report_sink){tunnel_write, tunnel_fail, reporter, compares, takes_details,
                                                       takes_kubernetes_events});
    // Opening forgot the stream before, and this one with it.
    reporter->tunnel_stream = stream;
}

void reporter_on_ack_bytes(struct reporter *reporter, const uint8_t *at, size_t len)
{
    if (!reporter->stream) return;
    report_stream_ack_bytes(reporter->stream, at, len);
    reporter_request_turn(reporter);
}

void reporter_stream_writable(struct reporter *reporter)
{
    if (!reporter->stream) return;
    report_stream_writable(reporter->stream);
    reporter_request_turn(reporter);
}

// ---- life --------------------------------------------------------------------------------------

static char *copy_text(const char *text, const char *def)
{
    return mem_strdup(text && *text ? text : def);
}

struct reporter *reporter_create_with(struct loop *loop, const struct reporter_options *options, struct error *err)
{
    struct reporter *reporter = mem_zalloc(sizeof *reporter);
    reporter->loop = loop;
    reporter->options = *options;
    reporter->options.kubeconfig = copy_text(options->kubeconfig, "");
    reporter->options.cluster_name = copy_text(options->cluster_name, "in-cluster");
    reporter->options.namespaces = copy_text(options->namespaces, "");
    reporter->options.state_folder = copy_text(options->state_folder, "");
    reporter_metrics_init(&reporter->metrics);
    if (reporter_start_parts(reporter, err) != ERROR_NONE) {
        kube_probe_destroy(reporter->probe);
        cluster_identity_destroy(reporter->identity);
        managed_clusters_destroy(reporter->managed);
        if (reporter->client) kube_client_close(reporter->client);
        reporter_free_parts(reporter);
        mem_free(reporter);
        return NULL;
    }
    reporter->options.cluster_aliases = NULL; // read
    reporter->options.argo = (struct argo_view_options){0};
    reporter->options.cluster_secrets = NULL;
    catch_up_init(&reporter->catch_up);
    id_uuid7(reporter->boot_id);
    timer_init(&reporter->tick, loop_uv(loop), on_tick, reporter);
    timer_init(&reporter->turn, loop_uv(loop), on_turn, reporter);
    timer_init(&reporter->probe_tick, loop_uv(loop), on_probe_tick, reporter);
    timer_start(&reporter->probe_tick, 0, PROBE_TICK_MS);
    log_info("reporter", "ready", log_c("api", reporter->kube.server),
             log_c("cluster", reporter->options.cluster_name));
    return reporter;
}

void reporter_destroy(struct reporter *reporter)
{
    if (!reporter) return;
    reporter_stream_closed(reporter);
    let_go(reporter);
    kube_probe_destroy(reporter->probe);
    cluster_identity_destroy(reporter->identity);
    managed_clusters_destroy(reporter->managed);
    kube_client_close(reporter->client);
    reporter_free_parts(reporter);
    timer_finish(&reporter->tick);
    timer_finish(&reporter->turn);
    timer_finish(&reporter->probe_tick);
    mem_free(reporter);
}

const struct destinations *reporter_destinations(const struct reporter *reporter)
{
    return reporter->destinations;
}

struct kube_client *reporter_kube_client(const struct reporter *reporter)
{
    return reporter->client;
}

size_t reporter_outbox_depth(const struct reporter *reporter)
{
    return outbox_queued(reporter->outbox);
}

void reporter_lag(const struct reporter *reporter, uint64_t *out_behind_ms, uint64_t *out_blind_ms)
{
    uint64_t now_ms = clock_mono_ms();
    *out_behind_ms = outbox_oldest_ms(reporter->outbox, now_ms);
    uint64_t gap_since_ms = reporter->catch_up.gap_since_ms, gap_ms = gap_since_ms ? now_ms - gap_since_ms : 0;
    uint64_t cut_ms = reporter->overflow.since_ms ? now_ms - reporter->overflow.since_ms : 0;
    *out_blind_ms = gap_ms > cut_ms ? gap_ms : cut_ms;
    if (!reporter->stream) return;
    uint64_t waits_ms = report_stream_waits_ms(reporter->stream, now_ms);
    uint64_t blind_ms = collector_blind_ms(reporter->collector, now_ms);
    uint64_t unanswered_since_ms = kube_probe_blind_since_ms(reporter->probe);
    if (unanswered_since_ms && now_ms - unanswered_since_ms > blind_ms) blind_ms = now_ms - unanswered_since_ms;
    if (waits_ms > *out_behind_ms) *out_behind_ms = waits_ms;
    if (blind_ms > *out_blind_ms) *out_blind_ms = blind_ms;
}

// A full quota is no reason to restart the agent or to hold a rollout up.
static bool note_refusal(const struct reporter *reporter, struct strbuf *why)
{
    if (reporter->refusal[0])
        strbuf_addf(why,
                    "warning: the platform refuses reports: %s; delete objects or raise the quota (culvertd admin "
                    "set-quota)\n",
                    reporter->refusal);
    return true;
}

bool reporter_is_ready(const struct reporter *reporter, struct strbuf *why)
{
    const struct kube_problem *problem = kube_probe_problem(reporter->probe);
    if (!kube_probe_changes(reporter->probe))
        strbuf_addf(why, "cluster: %s has not answered yet\n", reporter->kube.server);
    else if (problem->kind != KUBE_PROBLEM_NONE)
        strbuf_addf(why, "cluster: %s; %s\n", problem->cause, problem->cure);
    else if (reporter->collector && collector_lacks_applications(reporter->collector))
        strbuf_add_c(why, "cluster: the agent may not list applications.argoproj.io; apply deploy/agent-rbac.yaml, and "
                          "check with: kubectl auth can-i list applications.argoproj.io\n");
    else
        return note_refusal(reporter, why);
    return false;
}
