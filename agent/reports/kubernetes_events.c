#include "agent/reports/kubernetes_events.h"

#include <stdlib.h>
#include <string.h>

#include "agent/reports/collector.h"
#include "agent/reports/findings.h"
#include "agent/reports/watch.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tunnel/wire/redaction_scrub.h"

enum { TEXT_BYTES_MAX = 4096, MESSAGE_BYTES_MAX = 1024, NAME_BYTES_MAX = 128, OBJECT_NAME_BYTES_MAX = 253 };

struct kubernetes_events {
    struct kubernetes_events_options options;
    char *namespaces;
    struct kubernetes_event_queue *queue;
    struct watch *watches[COLLECTOR_NAMESPACES_MAX];
    size_t watch_count;
};

// ---- what leaves of an Event -------------------------------------------------------------------

// At most len bytes, cut between characters.
static struct str cut(struct str text, size_t len)
{
    if (text.len <= len) return text;
    while (len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    return str_first(text, len);
}

// Without credentials, and in one line.
static json_t *scrubbed(struct str text, size_t bytes_max)
{
    struct strbuf out;
    strbuf_init(&out, 2 * TEXT_BYTES_MAX);
    redaction_scrub(cut(text, TEXT_BYTES_MAX), &out);
    if (out.overflow) strbuf_clear(&out);
    for (size_t i = 0; i < out.len; i++)
        if ((unsigned char)out.at[i] < ' ' || out.at[i] == 0x7f) out.at[i] = ' ';
    json_t *value = out.len ? json_new_str(cut(strbuf_str(&out), bytes_max)) : NULL;
    strbuf_finish(&out);
    return value;
}

static struct object_ref ref_of(const json_t *object)
{
    struct object_ref ref = {.kind = json_get_str(object, "kind"),
                             .ns = json_get_str(object, "namespace"),
                             .name = json_get_str(object, "name"),
                             .uid = json_get_str(object, "uid")};
    object_ref_set_api_version(&ref, json_get_str(object, "apiVersion"));
    return ref;
}

static bool is_ref(const struct object_ref *ref)
{
    return ref->kind.len && ref->kind.len <= NAME_BYTES_MAX && ref->name.len &&
           ref->name.len <= OBJECT_NAME_BYTES_MAX && ref->ns.len <= OBJECT_NAME_BYTES_MAX &&
           ref->group.len <= OBJECT_NAME_BYTES_MAX && ref->version.len <= NAME_BYTES_MAX &&
           ref->uid.len <= NAME_BYTES_MAX;
}

static int64_t count_of(const json_t *event)
{
    const json_t *series = json_object_get(json_get_object(event, "series"), "count");
    const json_t *count = series ? series : json_object_get(event, "count");
    return json_is_integer(count) && json_integer_value(count) > 0 ? json_integer_value(count) : 1;
}

// The first of these times that the Event has.
static void set_time(json_t *out, const char *member, const json_t *event, const struct str *times, size_t count)
{
    struct str time = json_get_str(json_get_object(event, "metadata"), "creationTimestamp");
    for (size_t i = count; i-- > 0;)
        if (times[i].len) time = times[i];
    if (time.len && time.len <= NAME_BYTES_MAX) json_object_set_new(out, member, json_new_str(time));
}

static void set_times(json_t *out, const json_t *event)
{
    const struct str at = json_get_str(event, "eventTime");
    const struct str first[] = {json_get_str(event, "firstTimestamp"), at};
    const struct str last[] = {json_get_str(json_get_object(event, "series"), "lastObservedTime"),
                               json_get_str(event, "lastTimestamp"), at};
    set_time(out, "firstAt", event, first, sizeof first / sizeof *first);
    set_time(out, "lastAt", event, last, sizeof last / sizeof *last);
}

static void set_text(json_t *out, const char *member, struct str text, size_t bytes_max)
{
    json_t *value = text.len ? scrubbed(text, bytes_max) : NULL;
    if (value) json_object_set_new(out, member, value);
}

static char *text_of(const json_t *event, struct str uid, bool is_warning)
{
    json_t *out = json_object();
    struct str component = json_get_str(json_get_object(event, "source"), "component");
    if (!component.len) component = json_get_str(event, "reportingComponent");
    json_object_set_new(out, "uid", json_new_str(uid));
    json_object_set_new(out, "type", json_string(is_warning ? "Warning" : "Normal"));
    set_text(out, "reason", json_get_str(event, "reason"), NAME_BYTES_MAX);
    set_text(out, "message", json_get_str(event, "message"), MESSAGE_BYTES_MAX);
    set_text(out, "component", component, NAME_BYTES_MAX);
    json_object_set_new(out, "count", json_integer(count_of(event)));
    set_times(out, event);
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    return text;
}

static void on_object(void *arg, struct watch *watch, enum watch_event what, json_t *event)
{
    struct kubernetes_events *events = arg;
    struct str uid = json_get_str(json_get_object(event, "metadata"), "uid");
    struct object_ref ref = ref_of(json_get_object(event, "involvedObject"));
    (void)watch;
    // One that is deleted has expired.
    if (what == WATCH_DELETED || !uid.len || uid.len > NAME_BYTES_MAX || !is_ref(&ref)) return;
    bool is_warning = str_eq(json_get_str(event, "type"), STR("Warning"));
    char *text = text_of(event, uid, is_warning);
    if (!text) return;
    const struct kubernetes_event entry = {ref, uid, str_c(text), is_warning};
    kubernetes_event_queue_put(events->queue, &entry, clock_mono_ms());
    free(text);
}

// ---- watches -----------------------------------------------------------------------------------

static void on_listing(void *arg, struct watch *watch)
{
    (void)arg, (void)watch;
}

static void on_listed(void *arg, struct watch *watch, int status)
{
    (void)arg, (void)watch, (void)status;
}

static const struct watch_events watch_events = {on_object, on_listing, on_listed, NULL};

static void add_watch(struct kubernetes_events *events, const char *ns)
{
    const struct kubernetes_events_options *o = &events->options;
    if (events->watch_count == COLLECTOR_NAMESPACES_MAX) return;
    events->watches[events->watch_count++] = watch_create(&(struct watch_options){.client = o->client,
                                                                                  .group = "",
                                                                                  .version = "v1",
                                                                                  .plural = "events",
                                                                                  .kind = "Event",
                                                                                  .ns = ns,
                                                                                  .page_limit = o->page_limit,
                                                                                  .watch_seconds = o->watch_seconds,
                                                                                  .silence_ms = o->silence_ms,
                                                                                  .absent_retry_ms = o->absent_retry_ms,
                                                                                  .events = &watch_events,
                                                                                  .arg = events});
}

static void begin(struct kubernetes_events *events)
{
    struct str rest = str_c(events->namespaces), name;
    while (str_cut(&rest, ',', &name)) {
        name = str_trim(name);
        if (!name.len) continue;
        AUTO_FREE char *ns = mem_strndup(name.at, name.len);
        add_watch(events, ns);
    }
    if (!events->watch_count) add_watch(events, NULL);
}

struct kubernetes_events *kubernetes_events_create(const struct kubernetes_events_options *options)
{
    struct kubernetes_events *events = mem_zalloc(sizeof *events);
    events->options = *options;
    events->namespaces = mem_strdup(options->namespaces);
    events->options.namespaces = NULL;
    events->queue = kubernetes_event_queue_create(&(struct kubernetes_event_queue_options){
        .outbox = options->outbox, .count_max = options->count_max, .per_second = options->per_second});
    return events;
}

void kubernetes_events_let_go(struct kubernetes_events *events)
{
    if (!events) return;
    for (size_t i = 0; i < events->watch_count; i++)
        watch_destroy(events->watches[i]);
    events->watch_count = 0;
    kubernetes_event_queue_clear(events->queue);
}

void kubernetes_events_destroy(struct kubernetes_events *events)
{
    if (!events) return;
    kubernetes_events_let_go(events);
    kubernetes_event_queue_destroy(events->queue);
    mem_free(events->namespaces);
    mem_free(events);
}

void kubernetes_events_tick(struct kubernetes_events *events, bool may_begin, uint64_t now_ms)
{
    if (!events) return;
    if (!events->watch_count && may_begin) begin(events);
    for (size_t i = 0; i < events->watch_count; i++)
        watch_tick(events->watches[i], now_ms);
}

void kubernetes_events_pause(struct kubernetes_events *events)
{
    if (events) kubernetes_event_queue_pause(events->queue);
}

void kubernetes_events_findings(const struct kubernetes_events *events, json_t *findings)
{
    for (size_t i = 0; events && i < events->watch_count; i++)
        if (watch_is_forbidden(events->watches[i]))
            findings_add_right(findings, "", "events", watch_ns(events->watches[i]),
                               watch_state(events->watches[i]) == WATCH_DENIED);
}

struct kubernetes_event_queue *kubernetes_events_queue(struct kubernetes_events *events)
{
    return events ? events->queue : NULL;
}
