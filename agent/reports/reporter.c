#include "agent/reports/reporter.h"

#include <string.h>

#include "agent/argo/argo_view.h"
#include "agent/health/health.h"
#include "agent/kube/kube_probe.h"
#include "agent/reports/cluster_identity.h"
#include "agent/reports/cluster_report.h"
#include "agent/reports/collector.h"
#include "agent/reports/findings.h"
#include "agent/reports/projection.h"
#include "agent/reports/redaction_key.h"
#include "agent/reports/reporter_metrics.h"
#include "agent/reports/resync.h"
#include "agent/reports/shortage.h"
#include "agent/tunnel/session.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "tunnel/wire/redaction.h"
#include "tunnel/wire/redaction_scrub.h"
#include "tunnel/wire/report.h"

enum {
    TICK_MS = 250,
    SNAPSHOT_TICK_MS = 50,
    PROBE_TICK_MS = 250,
    RESYNC_BASE_MS = 1000,
    RESYNC_CAP_MS = 300000,
    QUIET_RESYNC_MS = 600000,
    LIMIT_RETRY_MS = 600000,
    KEEP_MS = 600000,       // without a stream the cluster is still watched for so long
    HURRY_MS = 5000,        // a stream that is never quiet is compared all the same
    UNANSWERED_MS = 120000, // then the platform is asked anew
    TEXT_SPARE_BYTES = 64 * 1024,
    FETCHED_MAX = 64, // so many objects are fetched one by one; for more, lists are cheaper
};

// Stream, its exchange of digests and clusters are made when a stream opens and die when it closes. Collector and
// outbox stay for a while, so that the next stream needs no more than a comparison; with a platform that does not
// compare they die, too, and the snapshot of the next stream tells what happened in between.
struct reporter {
    struct loop *loop;
    struct reporter_options options; // texts owned
    struct kube_config kube;
    struct kube_client *client;
    struct kube_probe *probe;
    struct destinations *destinations;
    struct argo_view *argo;            // NULL: no token for Argo CD's API
    struct cluster_identity *identity; // NULL: no cluster Secret may be used
    uint64_t unanswered_since_ms;      // the probe's, as it was last seen; 0: the API server answered
    struct redaction *redaction;
    struct outbox *outbox;
    struct collector *collector;
    struct cluster_report *clusters;
    struct report_stream *stream;
    struct resync *digests; // NULL: the platform does not compare
    struct agent_stream *tunnel_stream;
    char boot_id[ID_UUID_BYTES];
    uint64_t sequence;
    struct backoff resync;
    uint64_t resync_at_ms, snapshot_at_ms; // 0: none
    uint64_t gap_since_ms;                 // there was no stream, and nothing has made up for it yet; 0: none
    bool to_compare;                       // once the lists are complete
    bool takes_details;                    // the platform of the last stream; what the outbox holds was made for it
    bool compares_again;                   // what the platform wanted is being told
    bool lacks_room;                       // the platform refused something that it may take later
    char refusal[256];                     // why it did, until it has taken all; "": it has
    uint64_t opened_at_ms, closed_at_ms, asked_at_ms;
    size_t fetched;   // of what the platform wanted
    bool held_back;   // the outbox was full: watches wait
    uint64_t refused; // objects that found no room in the outbox, ever
    char *unread;     // kinds that the last comparison left out, a line each; NULL: none
    struct shortage shortage;
    struct timer tick, turn, probe_tick;
    struct reporter_metrics metrics;
};

// ---- from an object to the outbox ----------------------------------------------------------------------------

static void request_turn(struct reporter *reporter);

static bool is_application(const struct outbox_object *object)
{
    return str_eq(object->kind, STR("Application")) && str_eq(object->group, STR("argoproj.io"));
}

// The health and sync state an application tells of itself, where no parent application says it.
static void own_status(const json_t *object, struct outbox_object *out)
{
    if (!is_application(out)) return;
    if (!out->sync_status.len) out->sync_status = json_str(json_path(object, "status", "sync", "status", NULL));
    if (!out->health_status.len) out->health_status = json_str(json_path(object, "status", "health", "status", NULL));
    if (out->health_status.len) out->health_source = STR(WIRE_HEALTH_ARGOCD_STATUS);
}

// What Argo CD wrote into the status of an application (2.x does by default), else what its
// resource tree has where it is read, else the agent's own verdict. Messages may quote anything, so
// that they are scrubbed. What is seen here is the object before redaction.
static void take_health(struct reporter *reporter, struct inventory_resource *resource, const json_t *object,
                        const struct health *assessed, struct strbuf *message, struct outbox_object *out)
{
    struct str said = str_c(resource->health_message), of_tree;
    if (is_application(out)) return; // own_status()
    const char *verdict = argo_view_verdict(reporter->argo, resource, object, assessed->status, &of_tree);
    bool is_said = out->health_status.len > 0;
    if (!is_said && !verdict) return;
    bool is_own = verdict && assessed->status && strcmp(verdict, assessed->status) == 0;
    if (!is_said) out->health_status = str_c(verdict);
    out->health_source = is_said  ? STR(WIRE_HEALTH_ARGOCD_STATUS)
                         : is_own ? STR(WIRE_HEALTH_AGENT)
                                  : STR(WIRE_HEALTH_ARGOCD_TREE);
    if (!is_said) said = of_tree;
    // Of a verdict that both share the agent knows more.
    bool agrees = assessed->status && str_eq(out->health_status, str_c(assessed->status));
    if (agrees && assessed->message.len) said = strbuf_str(&assessed->message);
    size_t len = said.len < WIRE_REPORT_MESSAGE_BYTES_MAX / 2 ? said.len : WIRE_REPORT_MESSAGE_BYTES_MAX / 2;
    while (len && len < said.len && ((unsigned char)said.at[len] & 0xc0) == 0x80)
        len--;
    redaction_scrub(str_first(said, len), message);
    if (message->overflow) strbuf_clear(message);
    out->health_message = strbuf_str(message);
}

static struct outbox_object object_of(const struct inventory_resource *resource)
{
    static const struct str marks[] = {
        {"", 0},
        {WIRE_MARK_HOOK, sizeof WIRE_MARK_HOOK - 1},
        {WIRE_MARK_REQUIRES_PRUNING, sizeof WIRE_MARK_REQUIRES_PRUNING - 1},
        {WIRE_MARK_REQUIRES_PRUNING "," WIRE_MARK_HOOK, sizeof WIRE_MARK_REQUIRES_PRUNING "," WIRE_MARK_HOOK - 1}};
    return (struct outbox_object){.group = str_c(resource->kind->group),
                                  .version = str_c(resource->kind->version),
                                  .kind = str_c(resource->kind->kind),
                                  .ns = str_c(resource->ns),
                                  .name = str_c(resource->name),
                                  .uid = str_c(resource->uid),
                                  .application_ns = inventory_application_ns(resource),
                                  .application_name = inventory_application_name(resource),
                                  .sync_status = str_c(resource->sync_status),
                                  .health_status = str_c(resource->health_status),
                                  .marks = marks[resource->requires_pruning * 2 + resource->is_hook],
                                  .observed_at_ms = clock_wall_ms()};
}

// Into the redacted text of an Application: what is known of its commits, as other reporters give
// it. An annotation of that name in the cluster is not taken for it: redaction has digested it.
static void add_commits(struct strbuf *text, const json_t *commits)
{
    json_t *object;
    if (!commits || json_decode(strbuf_str(text), NULL, &object, NULL) != ERROR_NONE) return;
    json_t *metadata = json_get_object(object, "metadata"), *annotations = json_get_object(metadata, "annotations");
    if (!annotations) json_object_set_new(metadata, "annotations", annotations = json_object());
    size_t len;
    char *value = json_canonical(commits, &len);
    json_object_set_new(annotations, "app.meta.revisions-metadata", json_new_str(str_of(value, len)));
    mem_free(value);
    value = json_canonical(object, &len);
    if (len < text->max) {
        strbuf_clear(text);
        strbuf_add(text, value, len);
    }
    mem_free(value);
    json_decref(object);
}

// What may leave of the object, as canonical JSON, and its SHA-256. False: nothing may, since it could not be read.
static bool redact(struct reporter *reporter, const json_t *object, const json_t *commits, struct outbox_object *out,
                   struct strbuf *text)
{
    struct error err;
    size_t len;
    AUTO_FREE char *whole = json_canonical(object, &len);
    const struct redaction_object identity = {.group = out->group, .kind = out->kind, .ns = out->ns, .name = out->name};
    strbuf_init(text, 2 * len + REDACTION_GROWTH_BYTES_MAX + TEXT_SPARE_BYTES);
    enum error_code code = redaction_apply(reporter->redaction, &identity, str_of(whole, len), text, &err);
    explicit_bzero(whole, len);
    if (code != ERROR_NONE) {
        log_error("reporter", "not_redacted", log_str("kind", out->kind), log_str("namespace", out->ns),
                  log_str("name", out->name), log_err(&err));
        return false;
    }
    add_commits(text, commits);
    out->manifest = strbuf_str(text);
    id_sha256(text->at, text->len, out->hash);
    return true;
}

// What of the object may leave goes into the outbox.
static void put(struct reporter *reporter, struct outbox_object *out, const json_t *object, const json_t *commits)
{
    struct strbuf text;
    enum outbox_put put = OUTBOX_PUT_REFUSED;
    if (redact(reporter, object, commits, out, &text)) put = outbox_put(reporter->outbox, out, clock_mono_ms());
    strbuf_finish(&text);
    if (put == OUTBOX_PUT_REFUSED) reporter->refused++;
    if (put == OUTBOX_PUT_QUEUED) request_turn(reporter);
}

static void on_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    struct reporter *reporter = arg;
    struct health health;
    struct strbuf message;
    struct outbox_object out = object_of(resource);
    json_t *commits = is_application(&out) ? argo_view_application(reporter->argo, object) : NULL;
    strbuf_init(&message, WIRE_REPORT_MESSAGE_BYTES_MAX);
    health_init(&health);
    health_assess(&health, out.group, out.kind, object);
    take_health(reporter, resource, object, &health, &message, &out);
    projection_apply(object);
    own_status(object, &out);
    if (!reporter->takes_details) out.health_message = out.health_source = out.marks = STR_EMPTY;
    put(reporter, &out, object, commits);
    health_finish(&health);
    strbuf_finish(&message);
    json_decref(commits);
}

// What Argo CD's tree knows of an object that is not at hand.
static void add_node(json_t *stub, const struct argo_node *node)
{
    json_t *metadata = json_object_get(stub, "metadata");
    if (!node) return;
    if (node->uid) json_object_set_new(metadata, "uid", json_string(node->uid));
    if (node->created_at) json_object_set_new(metadata, "creationTimestamp", json_string(node->created_at));
    if (!node->owner_uid || !node->owner_kind || !node->owner_name || !node->owner_api) return;
    json_object_set_new(metadata, "ownerReferences",
                        json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", node->owner_api, "kind", node->owner_kind,
                                  "name", node->owner_name, "uid", node->owner_uid));
}

static void take_absent_health(struct inventory_resource *resource, const struct argo_node *node, const char *presence,
                               struct strbuf *message, struct outbox_object *out)
{
    bool is_unreadable = strcmp(presence, WIRE_PRESENCE_UNREADABLE) == 0;
    resource->shown = node && is_unreadable ? node->status : NULL;
    resource->version = node ? argo_version_of(str_c(node->uid)) : 0;
    if (out->health_status.len) {
        out->health_source = STR(WIRE_HEALTH_ARGOCD_STATUS);
    } else if (resource->shown) {
        out->health_status = str_c(resource->shown);
        out->health_source = STR(WIRE_HEALTH_ARGOCD_TREE);
        redaction_scrub(str_c(node->message), message);
        out->health_message = message->overflow ? STR_EMPTY : strbuf_str(message);
    } else if (!is_unreadable) {
        out->health_status = STR("Missing");
        out->health_source = STR(WIRE_HEALTH_AGENT);
    }
}

// What is not at hand has no content but its name, and what Argo CD's tree has of it.
static void on_absent(void *arg, struct inventory_resource *resource, const char *presence, const char *plural)
{
    struct reporter *reporter = arg;
    if (!reporter->takes_details) return;
    struct strbuf message;
    strbuf_init(&message, WIRE_REPORT_MESSAGE_BYTES_MAX);
    struct outbox_object out = object_of(resource);
    const struct argo_node *node = argo_view_node(reporter->argo, resource);
    out.presence = str_c(presence);
    out.resource = str_c(plural);
    take_absent_health(resource, node, presence, &message, &out);
    const struct inventory_kind *kind = resource->kind;
    AUTO_FREE char *api = *kind->group ? mem_printf("%s/%s", kind->group, kind->version) : mem_strdup(kind->version);
    json_t *stub =
        json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", api, "kind", kind->kind, "metadata", "name", resource->name);
    if (*resource->ns) json_object_set_new(json_object_get(stub, "metadata"), "namespace", json_string(resource->ns));
    if (strcmp(presence, WIRE_PRESENCE_UNREADABLE) == 0) add_node(stub, node);
    put(reporter, &out, stub, NULL);
    strbuf_finish(&message);
    json_decref(stub);
}

static void on_gone(void *arg, const struct inventory_resource *resource)
{
    struct reporter *reporter = arg;
    if (strcmp(resource->kind->kind, "Application") == 0)
        argo_view_forget(reporter->argo, str_c(resource->ns), str_c(resource->name));
    outbox_delete(reporter->outbox, str_c(resource->kind->group), str_c(resource->kind->kind), str_c(resource->ns),
                  str_c(resource->name), clock_mono_ms());
    request_turn(reporter);
}

static bool may_read(void *arg)
{
    struct reporter *reporter = arg;
    if (outbox_is_full(reporter->outbox)) reporter->held_back = true;
    return !reporter->held_back;
}

static const struct collector_events collector_events = {on_report, on_absent, on_gone, may_read};

static bool is_there(void *arg, const struct outbox_object *object)
{
    const struct reporter *reporter = arg;
    return collector_reports(reporter->collector, object->group, object->kind, object->ns, object->name);
}

// The platform keeps what it has of these kinds: it is compared once they can be read.
static void unread(void *arg, struct strbuf *out)
{
    struct reporter *reporter = arg;
    collector_unread(reporter->collector, out);
    mem_free(reporter->unread);
    reporter->unread = out->len ? mem_strndup(out->at, out->len) : NULL;
}

static void on_cluster(void *arg, struct str manifest)
{
    struct reporter *reporter = arg;
    report_stream_cluster(reporter->stream, manifest);
    request_turn(reporter);
}

static void cluster_counts(void *arg, size_t *out_applications, size_t *out_resources, size_t *out_kinds)
{
    const struct reporter *reporter = arg;
    *out_applications = collector_application_count(reporter->collector);
    *out_resources = collector_resource_count(reporter->collector);
    *out_kinds = collector_kind_count(reporter->collector);
}

static void cluster_findings(void *arg, json_t *out)
{
    const struct reporter *reporter = arg;
    findings_add_problem(out, kube_probe_problem(reporter->probe));
    collector_findings(reporter->collector, out);
    destinations_findings(reporter->destinations, out);
    argo_view_findings(reporter->argo, out);
    cluster_identity_findings(reporter->identity, out);
}

// What its Applications name is looked at once they are listed again.
static void on_named(void *arg, struct str name, struct str server)
{
    struct reporter *reporter = arg;
    if (destinations_learn(reporter->destinations, name, server)) collector_relist(reporter->collector);
}

// The Applications of what is or is no longer taken for the own cluster are looked at again.
static void on_identified(void *arg, struct str name, struct str server, bool is_own)
{
    struct reporter *reporter = arg;
    if (!destinations_identify(reporter->destinations, name, server, is_own)) return;
    log_info("reporter", is_own ? "cluster_is_own" : "cluster_is_another", log_str("cluster", name),
             log_str("server", server));
    if (reporter->collector) collector_relist(reporter->collector);
}

// ---- what found no room ------------------------------------------------------------------------------------------

static uint64_t left_out(const struct reporter *reporter)
{
    return reporter->refused + collector_left_out(reporter->collector);
}

// What found no room is in no digest and no snapshot, so that nothing may be concluded from these.
static bool is_whole(const struct reporter *reporter)
{
    return collector_is_complete(reporter->collector) && shortage_is_over(&reporter->shortage, left_out(reporter));
}

static void follow_shortage(struct reporter *reporter, uint64_t now_ms)
{
    uint64_t count = left_out(reporter), before = reporter->shortage.before;
    uint64_t retry_ms = reporter->options.limit_retry_ms ? reporter->options.limit_retry_ms : LIMIT_RETRY_MS;
    bool are_complete = collector_is_complete(reporter->collector);
    switch (shortage_look(&reporter->shortage, count, are_complete, now_ms, retry_ms)) {
    case SHORTAGE_WAIT: break;
    case SHORTAGE_NOTICED:
        log_error("reporter", "object_limit_reached", log_uint("left_out", count - before),
                  log_uint("objects", outbox_count(reporter->outbox)));
        break;
    case SHORTAGE_LIST_AGAIN: collector_relist(reporter->collector); break;
    }
}

// ---- the stream ----------------------------------------------------------------------------------------------

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
        reporter->snapshot_at_ms = clock_mono_ms();
        reporter->gap_since_ms = 0;
    }
    // Half empty again: the watches may go on.
    size_t bytes_max = reporter->options.outbox.bytes_max ? reporter->options.outbox.bytes_max : 64 * 1024 * 1024;
    if (reporter->held_back && outbox_bytes(reporter->outbox) < bytes_max / 2) {
        reporter->held_back = false;
        collector_resume(reporter->collector);
    }
    if (wait_ms && wait_ms < TICK_MS) timer_start(&reporter->turn, wait_ms, 0);
}

// Writes in the loop's next turn: a burst of changes becomes one write, and nothing is called back into.
static void request_turn(struct reporter *reporter)
{
    if (reporter->stream) timer_start(&reporter->turn, 0, 0);
}

static void begin_snapshot(struct reporter *reporter)
{
    reporter->resync_at_ms = 0;
    reporter->to_compare = reporter->compares_again = false;
    if (reporter->digests) resync_stop(reporter->digests);
    report_stream_begin_snapshot(reporter->stream);
    collector_relist(reporter->collector);
    log_info("reporter", "snapshot_begin", log_uint("sequence", reporter->sequence));
}

static void let_go(struct reporter *reporter);
static void schedule_snapshot(struct reporter *reporter);

// The lists are complete, and what happened before this moment has been told and taken, if that ever comes to an end.
static bool may_compare(const struct reporter *reporter, uint64_t now_ms)
{
    if (!reporter->to_compare || resync_is_asking(reporter->digests) || now_ms < reporter->resync_at_ms) return false;
    if (!is_whole(reporter)) return false;
    bool quiet = outbox_queued(reporter->outbox) == 0 && outbox_in_flight(reporter->outbox) == 0;
    if (reporter->compares_again && outbox_wanted(reporter->outbox))
        return now_ms >= reporter->asked_at_ms + UNANSWERED_MS;
    return quiet || now_ms >= reporter->opened_at_ms + HURRY_MS;
}

static void compare(struct reporter *reporter, uint64_t now_ms)
{
    if (resync_is_asking(reporter->digests) && now_ms >= reporter->asked_at_ms + UNANSWERED_MS)
        resync_stop(reporter->digests);
    if (!may_compare(reporter, now_ms)) return;
    reporter->resync_at_ms = 0;
    reporter->asked_at_ms = now_ms;
    reporter->fetched = 0;
    resync_begin(reporter->digests);
}

// What found no room on the platform is offered again by comparing, ever more slowly, until there is room. Until then
// the agent is behind.
static void offer_again(struct reporter *reporter, uint64_t now_ms)
{
    bool is_busy = reporter->to_compare || reporter->resync_at_ms || resync_is_asking(reporter->digests);
    if (!reporter->lacks_room || is_busy) return;
    uint64_t wait_ms = backoff_next_ms(&reporter->resync);
    reporter->lacks_room = false;
    reporter->to_compare = reporter->compares_again = true;
    reporter->resync_at_ms = now_ms + wait_ms;
    if (!reporter->gap_since_ms) reporter->gap_since_ms = now_ms;
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
    collector_unread(reporter->collector, &now);
    while (!any && str_cut(&then, '\n', &line)) {
        struct str rest = strbuf_str(&now), other;
        any = true;
        while (any && str_cut(&rest, '\n', &other))
            any = !str_eq(line, other);
    }
    strbuf_finish(&now);
    return any;
}

// What went while its kind could not be read is not missed when it can be read again by an agent
// that never saw it: the next comparison finds it.
static void compare_new_kinds(struct reporter *reporter, uint64_t now_ms)
{
    bool is_busy = reporter->to_compare || reporter->resync_at_ms || report_stream_in_snapshot(reporter->stream) ||
                   (reporter->digests && resync_is_asking(reporter->digests));
    if (!reporter->unread || is_busy || !is_whole(reporter) || !has_new_kinds(reporter)) return;
    log_info("reporter", "kinds_readable");
    mem_free(reporter->unread);
    reporter->unread = NULL;
    if (!reporter->gap_since_ms) reporter->gap_since_ms = now_ms;
    if (reporter->digests)
        reporter->to_compare = true;
    else
        schedule_snapshot(reporter);
}

static void on_tick(void *arg)
{
    struct reporter *reporter = arg;
    uint64_t now_ms = clock_mono_ms();
    if (!reporter->stream && now_ms >= reporter->closed_at_ms + KEEP_MS) {
        let_go(reporter);
        return;
    }
    bool in_snapshot = reporter->stream && report_stream_in_snapshot(reporter->stream);
    if (reporter->stream && !reporter->to_compare && !in_snapshot && reporter->resync_at_ms &&
        now_ms >= reporter->resync_at_ms) {
        begin_snapshot(reporter);
        in_snapshot = true;
    }
    collector_tick(reporter->collector, now_ms);
    argo_view_tick(reporter->argo, reporter->collector, now_ms);
    follow_shortage(reporter, now_ms);
    if (reporter->clusters) cluster_report_tick(reporter->clusters, now_ms);
    if (reporter->digests && !in_snapshot) offer_again(reporter, now_ms);
    if (reporter->stream) compare_new_kinds(reporter, now_ms);
    if (reporter->digests) compare(reporter, now_ms);
    show_metrics(reporter);
    request_turn(reporter);
    // Each tier of kinds begins in a tick: while something waits for them they come faster.
    timer_set_interval(&reporter->tick, in_snapshot || reporter->to_compare ? SNAPSHOT_TICK_MS : TICK_MS);
}

// Runs as long as the reporter does: whether the cluster can be read matters also while there is no stream.
static void on_probe_tick(void *arg)
{
    struct reporter *reporter = arg;
    kube_probe_tick(reporter->probe, clock_mono_ms());
    cluster_identity_tick(reporter->identity, clock_mono_ms());
    uint64_t since_ms = kube_probe_blind_since_ms(reporter->probe), before_ms = reporter->unanswered_since_ms;
    reporter->unanswered_since_ms = since_ms;
    if (before_ms && !since_ms && reporter->collector) collector_renew(reporter->collector, before_ms);
}

// ---- comparing -----------------------------------------------------------------------------------------------

static void on_wanted(void *arg, const struct outbox_slot *slot)
{
    struct reporter *reporter = arg;
    const struct outbox_object *object = &slot->object;
    if (reporter->fetched++ < FETCHED_MAX)
        collector_fetch(reporter->collector, object->group, object->kind, object->ns, object->name);
}

// What was found to be outdated is told first, and then it is compared again: only when nothing is missing any more, or
// only what changed meanwhile, the gap has been made up for.
static void on_settled(void *arg, size_t differs, size_t wanted)
{
    struct reporter *reporter = arg;
    uint64_t now_ms = clock_mono_ms();
    bool is_over = differs == 0 || (reporter->compares_again && wanted == 0);
    if (!reporter->compares_again) metric_add(differs ? reporter->metrics.differences : reporter->metrics.unchanged, 1);
    if (is_over) {
        reporter->gap_since_ms = 0;
        if (!reporter->lacks_room) reporter->refusal[0] = '\0';
        backoff_reset(&reporter->resync);
    } else {
        if (!reporter->gap_since_ms) reporter->gap_since_ms = now_ms;
        if (reporter->compares_again) reporter->resync_at_ms = now_ms + backoff_next_ms(&reporter->resync);
    }
    reporter->to_compare = reporter->compares_again = !is_over;
    log_info("reporter", "compared", log_uint("objects", outbox_count(reporter->outbox)), log_uint("wanted", wanted));
    if (wanted > FETCHED_MAX) collector_relist(reporter->collector);
}

static void schedule_snapshot(struct reporter *reporter)
{
    uint64_t now_ms = clock_mono_ms();
    // A platform that is never content gets its snapshots ever more slowly; one long after the last is a new matter.
    if (reporter->snapshot_at_ms && now_ms - reporter->snapshot_at_ms > QUIET_RESYNC_MS)
        backoff_reset(&reporter->resync);
    uint64_t wait_ms = backoff_next_ms(&reporter->resync);
    reporter->resync_at_ms = now_ms + wait_ms;
    log_info("reporter", "resync_wanted", log_uint("wait_ms", wait_ms));
}

// The first snapshot is due at once. A platform that wants one after another has them ever more slowly: each is a list
// of everything.
static void on_snapshot(void *arg)
{
    struct reporter *reporter = arg;
    bool is_due = reporter->resync_at_ms && !reporter->to_compare;
    if (report_stream_in_snapshot(reporter->stream) || is_due) return;
    metric_add(reporter->metrics.full, 1);
    reporter->to_compare = reporter->compares_again = false;
    if (!reporter->snapshot_at_ms)
        begin_snapshot(reporter);
    else
        schedule_snapshot(reporter);
}

static void on_later(void *arg)
{
    struct reporter *reporter = arg;
    uint64_t wait_ms = backoff_next_ms(&reporter->resync);
    reporter->resync_at_ms = clock_mono_ms() + wait_ms;
    log_info("reporter", "compare_later", log_uint("wait_ms", wait_ms));
}

static const struct resync_events resync_events = {on_settled, on_wanted, on_snapshot, on_later};

// ---- opening and closing -------------------------------------------------------------------------------------

static void on_resync(void *arg)
{
    struct reporter *reporter = arg;
    if (!reporter->resync_at_ms && !reporter->to_compare) schedule_snapshot(reporter);
}

static void on_no_room(void *arg, struct str reason)
{
    struct reporter *reporter = arg;
    struct str kept = str_first(reason, sizeof reporter->refusal - 1);
    metric_add(reporter->metrics.no_room, 1);
    reporter->lacks_room = true;
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
    outbox_clear(reporter->outbox);
    reporter->held_back = false;
    reporter->refused = 0;
    reporter->shortage = (struct shortage){0};
    show_metrics(reporter);
}

void reporter_stream_closed(struct reporter *reporter)
{
    if (!reporter->stream) return;
    if (!reporter->gap_since_ms) reporter->gap_since_ms = clock_mono_ms();
    bool keep = reporter->digests != NULL;
    timer_stop(&reporter->turn);
    cluster_report_destroy(reporter->clusters);
    report_stream_destroy(reporter->stream);
    resync_destroy(reporter->digests);
    reporter->clusters = NULL;
    reporter->stream = NULL;
    reporter->digests = NULL;
    reporter->tunnel_stream = NULL;
    reporter->to_compare = reporter->compares_again = reporter->lacks_room = false;
    reporter->refusal[0] = '\0';
    mem_free(reporter->unread);
    reporter->unread = NULL;
    reporter->resync_at_ms = 0;
    reporter->closed_at_ms = clock_mono_ms();
    if (!keep) {
        let_go(reporter);
        return;
    }
    outbox_pause(reporter->outbox);
    show_metrics(reporter);
}

// Much is seen that is not reported: the Pods of others above all.
static size_t resources_max(const struct reporter_options *options)
{
    size_t most = options->outbox.objects_max * 5 / 2;
    return most > INVENTORY_RESOURCES_MAX ? most : INVENTORY_RESOURCES_MAX;
}

static enum error_code open_collector(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    reporter->collector = collector_create(&(struct collector_options){.client = reporter->client,
                                                                       .namespaces = o->namespaces,
                                                                       .events = &collector_events,
                                                                       .arg = reporter,
                                                                       .watch_seconds = o->watch_seconds,
                                                                       .silence_ms = o->silence_ms,
                                                                       .absent_retry_ms = o->absent_retry_ms,
                                                                       .page_limit = o->page_limit,
                                                                       .resources_max = resources_max(o),
                                                                       .destinations = reporter->destinations},
                                           err);
    return reporter->collector ? ERROR_NONE : err->code;
}

static void begin(struct reporter *reporter)
{
    reporter->opened_at_ms = clock_mono_ms();
    reporter->to_compare = reporter->digests != NULL;
    if (!reporter->to_compare) {
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
    if (reporter->collector && reporter->takes_details != sink->takes_details) let_go(reporter);
    reporter->takes_details = sink->takes_details;
    if (!reporter->collector && open_collector(reporter, &err)) { // checked when the reporter was made
        log_error("reporter", "not_started", log_err(&err));
        sink->fail(sink->arg);
        return;
    }
    reporter->clusters = cluster_report_create(&(struct cluster_report_options){.client = reporter->client,
                                                                                .probe = reporter->probe,
                                                                                .cluster_name = o->cluster_name,
                                                                                .managed = o->clusters,
                                                                                .arg = reporter,
                                                                                .on_cluster = on_cluster,
                                                                                .on_named = on_named,
                                                                                .counts = cluster_counts,
                                                                                .findings = cluster_findings});
    if (sink->compares) reporter->digests = resync_create(reporter->outbox, &resync_events, reporter);
    reporter->stream = report_stream_create(&(struct report_stream_options){.outbox = reporter->outbox,
                                                                            .resync = reporter->digests,
                                                                            .sink = *sink,
                                                                            .boot_id = reporter->boot_id,
                                                                            .cluster_name = o->cluster_name,
                                                                            .sequence = &reporter->sequence,
                                                                            .arg = reporter,
                                                                            .on_resync = on_resync,
                                                                            .on_no_room = on_no_room,
                                                                            .is_there = is_there,
                                                                            .unread = unread});
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

void reporter_stream_open(struct reporter *reporter, struct agent_stream *stream, bool compares, bool takes_details)
{
    reporter_stream_closed(reporter);
    reporter->tunnel_stream = stream;
    reporter_sink_open(reporter, &(struct report_sink){tunnel_write, tunnel_fail, reporter, compares, takes_details});
    // Opening forgot the stream before, and this one with it.
    reporter->tunnel_stream = stream;
}

void reporter_on_ack_bytes(struct reporter *reporter, const uint8_t *at, size_t len)
{
    if (!reporter->stream) return;
    report_stream_ack_bytes(reporter->stream, at, len);
    request_turn(reporter);
}

void reporter_stream_writable(struct reporter *reporter)
{
    if (!reporter->stream) return;
    report_stream_writable(reporter->stream);
    request_turn(reporter);
}

// ---- life ----------------------------------------------------------------------------------------------------

static char *copy_text(const char *text, const char *def)
{
    return mem_strdup(text && *text ? text : def);
}

static void free_parts(struct reporter *reporter)
{
    argo_view_destroy(reporter->argo);
    kube_exec_destroy(reporter->kube.exec);
    kube_config_finish(&reporter->kube);
    redaction_destroy(reporter->redaction);
    outbox_destroy(reporter->outbox);
    destinations_destroy(reporter->destinations);
    mem_free((char *)reporter->options.kubeconfig);
    mem_free((char *)reporter->options.cluster_name);
    mem_free((char *)reporter->options.namespaces);
    mem_free((char *)reporter->options.state_folder);
}

// Everything of the configuration that can be wrong is found here, not when the first stream opens.
// The probe reads in the first of the namespaces that the agent may read.
static enum error_code start_probe(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    size_t start = strspn(o->namespaces, ", "), len = strcspn(o->namespaces + start, ", ");
    AUTO_FREE char *ns = len ? mem_strndup(o->namespaces + start, len) : NULL;
    reporter->probe = kube_probe_create(&(struct kube_probe_options){.loop = reporter->loop,
                                                                     .config = &reporter->kube,
                                                                     .interval_ms = o->probe_interval_ms,
                                                                     .timeout_ms = o->probe_timeout_ms,
                                                                     .ns = ns},
                                        err);
    return reporter->probe ? ERROR_NONE : ERROR_INTERNAL;
}

static enum error_code start_identity(struct reporter *reporter, struct error *err)
{
    const struct cluster_identity_options options = {.loop = reporter->loop,
                                                     .client = reporter->client,
                                                     .secrets = reporter->options.cluster_secrets,
                                                     .interval_ms = reporter->options.cluster_interval_ms,
                                                     .on_cluster = on_identified,
                                                     .arg = reporter};
    return cluster_identity_create(&options, &reporter->identity, err);
}

static enum error_code start_parts(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    enum error_code code = kube_config_load(o->kubeconfig, &reporter->kube, err);
    if (code != ERROR_NONE) return code;
    reporter->kube.transport = o->transport;
    if (reporter->kube.exec_spec && o->exec_forbidden)
        return error_set(err, ERROR_FORBIDDEN,
                         "%s: the exec plugin of the user is disabled (kubeconfig.exec = false): create a kubeconfig "
                         "for a service account (docs/operations.md, \"A kubeconfig for the agent\")",
                         o->kubeconfig);
    if (reporter->kube.exec_spec)
        reporter->kube.exec = kube_exec_create(&(struct kube_exec_options){.loop = reporter->loop,
                                                                           .spec = reporter->kube.exec_spec,
                                                                           .server = reporter->kube.server,
                                                                           .ca_pem = reporter->kube.ca_pem,
                                                                           .timeout_ms = o->exec_timeout_ms});
    reporter->destinations = destinations_create(&(struct destinations_options){.server = reporter->kube.server,
                                                                                .name = o->cluster_name,
                                                                                .aliases = o->cluster_aliases},
                                                 err);
    if (!reporter->destinations) return ERROR_INVALID;
    code = argo_view_create(reporter->loop, &o->argo, &reporter->argo, err);
    if (code != ERROR_NONE) return code;
    uint8_t key[REDACTION_KEY_BYTES];
    code = redaction_key_load(o->state_folder, key, err);
    struct redaction_options redaction = o->redaction;
    redaction.digested = reporter->metrics.digested;
    redaction.scrubbed = reporter->metrics.scrubbed;
    if (code == ERROR_NONE) code = redaction_create(key, &redaction, &reporter->redaction, err);
    explicit_bzero(key, sizeof key);
    if (code != ERROR_NONE) return code;
    struct outbox_options outbox = o->outbox;
    outbox.cluster_name = o->cluster_name;
    reporter->outbox = outbox_create(&outbox);
    reporter->client = kube_client_create(reporter->loop, &reporter->kube, err);
    if (!reporter->client) return ERROR_INTERNAL;
    code = start_probe(reporter, err);
    if (code == ERROR_NONE) code = start_identity(reporter, err);
    if (code != ERROR_NONE) return code;
    struct collector *trial = collector_create(
        &(struct collector_options){
            .client = reporter->client, .namespaces = o->namespaces, .events = &collector_events, .arg = reporter},
        err);
    collector_destroy(trial);
    return trial ? ERROR_NONE : ERROR_INVALID;
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
    if (start_parts(reporter, err) != ERROR_NONE) {
        kube_probe_destroy(reporter->probe);
        cluster_identity_destroy(reporter->identity);
        if (reporter->client) kube_client_close(reporter->client);
        free_parts(reporter);
        mem_free(reporter);
        return NULL;
    }
    reporter->options.cluster_aliases = NULL; // read
    reporter->options.argo = (struct argo_view_options){0};
    reporter->options.cluster_secrets = NULL;
    backoff_init(&reporter->resync, RESYNC_BASE_MS, RESYNC_CAP_MS);
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
    kube_client_close(reporter->client);
    free_parts(reporter);
    timer_finish(&reporter->tick);
    timer_finish(&reporter->turn);
    timer_finish(&reporter->probe_tick);
    mem_free(reporter);
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
    uint64_t gap_ms = reporter->gap_since_ms ? now_ms - reporter->gap_since_ms : 0;
    uint64_t cut_ms = reporter->shortage.since_ms ? now_ms - reporter->shortage.since_ms : 0;
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
