#include "agent/reports/object_report.h"

#include <string.h>

#include "agent/health/health.h"
#include "agent/reports/application_notes.h"
#include "agent/reports/projection.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/wire/redaction_scrub.h"
#include "tunnel/wire/report.h"

enum { TEXT_SPARE_BYTES = 64 * 1024 };

static bool is_application(const struct outbox_object *object)
{
    return object_ref_is_application(&object->ref);
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
static void take_health(struct object_report *report, struct inventory_resource *resource, const json_t *object,
                        const struct health *assessed, struct strbuf *message, struct outbox_object *out)
{
    struct str said = str_c(resource->health_message), of_tree;
    if (is_application(out)) return; // own_status()
    const char *verdict = argo_view_verdict(report->argo, resource, object, assessed->status, &of_tree);
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
    return (struct outbox_object){.ref = inventory_ref(resource),
                                  .application_ns = inventory_application_ns(resource),
                                  .application_name = inventory_application_name(resource),
                                  .sync_status = str_c(resource->sync_status),
                                  .health_status = str_c(resource->health_status),
                                  .marks = marks[resource->requires_pruning * 2 + resource->is_hook],
                                  .observed_at_ms = clock_wall_ms()};
}

// What is added to an Application (application_notes.h); each NULL: nothing.
struct notes {
    json_t *commits, *unread;
};

// What may leave of the object, as canonical JSON, and its SHA-256. False: nothing may, since it
// could not be read.
static bool redact(struct object_report *report, const json_t *object, const struct notes *notes,
                   struct outbox_object *out, struct strbuf *text)
{
    struct error err;
    size_t len;
    AUTO_FREE char *whole = json_canonical(object, &len);
    const struct redaction_object identity = {.ref = out->ref};
    strbuf_init(text, 2 * len + REDACTION_GROWTH_BYTES_MAX + TEXT_SPARE_BYTES);
    enum error_code code = redaction_apply(report->redaction, &identity, str_of(whole, len), text, &err);
    explicit_bzero(whole, len);
    if (code != ERROR_NONE) {
        log_error("reporter", "not_redacted", log_str("kind", out->ref.kind), log_str("namespace", out->ref.ns),
                  log_str("name", out->ref.name), log_err(&err));
        return false;
    }
    application_notes_add(text, notes->commits, notes->unread);
    out->manifest = strbuf_str(text);
    id_sha256(text->at, text->len, out->hash);
    return true;
}

// What of the object may leave goes into the outbox. True: it waits there to be written.
static bool put(struct object_report *report, struct outbox_object *out, const json_t *object,
                const struct notes *notes)
{
    struct strbuf text;
    enum outbox_put put = OUTBOX_PUT_REFUSED;
    if (redact(report, object, notes, out, &text)) put = outbox_put(report->outbox, out, clock_mono_ms());
    strbuf_finish(&text);
    if (put == OUTBOX_PUT_REFUSED) report->refused++;
    return put == OUTBOX_PUT_QUEUED;
}

// Why the resources of this Application are not read; NULL: they are.
static json_t *unread_of(const struct object_report *report, const json_t *object)
{
    const json_t *destination = json_path(object, "spec", "destination", NULL);
    return destinations_unread(report->destinations, json_get_str(destination, "server"),
                               json_get_str(destination, "name"));
}

bool object_report_put(struct object_report *report, struct str cluster, struct inventory_resource *resource,
                       json_t *object)
{
    struct health health;
    struct strbuf message;
    struct outbox_object out = object_of(resource);
    out.cluster = cluster;
    struct notes notes = {0};
    if (is_application(&out))
        notes = (struct notes){argo_view_application(report->argo, object), unread_of(report, object)};
    strbuf_init(&message, WIRE_REPORT_MESSAGE_BYTES_MAX);
    health_init(&health);
    health_assess(&health, out.ref.group, out.ref.kind, object);
    take_health(report, resource, object, &health, &message, &out);
    projection_apply(object);
    own_status(object, &out);
    if (!report->takes_details) out.health_message = out.health_source = out.marks = STR_EMPTY;
    bool is_queued = put(report, &out, object, &notes);
    health_finish(&health);
    strbuf_finish(&message);
    json_decref(notes.commits);
    json_decref(notes.unread);
    return is_queued;
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
bool object_report_put_absent(struct object_report *report, struct str cluster, struct inventory_resource *resource,
                              const char *presence, const char *plural)
{
    if (!report->takes_details) return false;
    struct strbuf message;
    strbuf_init(&message, WIRE_REPORT_MESSAGE_BYTES_MAX);
    struct outbox_object out = object_of(resource);
    out.cluster = cluster;
    const struct argo_node *node = argo_view_node(report->argo, resource);
    out.presence = str_c(presence);
    out.resource = str_c(plural);
    take_absent_health(resource, node, presence, &message, &out);
    const struct inventory_kind *kind = resource->kind;
    AUTO_FREE char *api = *kind->group ? mem_printf("%s/%s", kind->group, kind->version) : mem_strdup(kind->version);
    json_t *stub =
        json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", api, "kind", kind->kind, "metadata", "name", resource->name);
    if (*resource->ns) json_object_set_new(json_object_get(stub, "metadata"), "namespace", json_string(resource->ns));
    if (strcmp(presence, WIRE_PRESENCE_UNREADABLE) == 0) add_node(stub, node);
    bool is_queued = put(report, &out, stub, &(struct notes){0});
    strbuf_finish(&message);
    json_decref(stub);
    return is_queued;
}

void object_report_delete(struct object_report *report, struct str cluster, const struct inventory_resource *resource)
{
    const struct outbox_object identity = {.cluster = cluster, .ref = inventory_ref(resource)};
    outbox_delete(report->outbox, &identity, clock_mono_ms());
}
