#include "agent/reports/kubernetes_event_queue.h"

#include <string.h>

#include "agent/reports/outbox.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { COUNT_MAX = 1000, OBJECT_COUNT_MAX = 20, PER_SECOND = 50, EXPIRY_MS = 15000, LOOK_MS = 500 };

// In the order of sending, and against it where room is made. UNKNOWN: its object is not reported,
// or not yet.
enum event_class { CLASS_WARNING, CLASS_NORMAL, CLASS_UNKNOWN, CLASSES };

struct event_entry {
    struct list place; // in its class, or among those in flight
    struct object_ref ref;
    char *texts; // of ref, uid and text
    struct str uid, text;
    bool is_warning;
    enum event_class class;
    uint64_t sequence; // 0: not in flight
    uint64_t put_at_ms;
};

struct kubernetes_event_queue {
    struct kubernetes_event_queue_options options;
    struct list classes[CLASSES], in_flight;
    size_t count, unknown_count;
    struct event_entry *next; // that next() gave
    double tokens;
    uint64_t tokens_at_ms, look_at_ms;
    struct metric *sent, *repeated, *dropped, *not_reported, *waiting;
};

static struct metric *counter(const char *result)
{
    return metric_with(metrics_counter("culvert_agent_kubernetes_events_total",
                                       "Kubernetes Events that were watched, by what became of them.", "result", NULL),
                       result);
}

struct kubernetes_event_queue *kubernetes_event_queue_create(const struct kubernetes_event_queue_options *options)
{
    struct kubernetes_event_queue *queue = mem_zalloc(sizeof *queue);
    queue->options = *options;
    if (!queue->options.count_max) queue->options.count_max = COUNT_MAX;
    if (!queue->options.per_second) queue->options.per_second = PER_SECOND;
    for (size_t i = 0; i < CLASSES; i++)
        list_init(&queue->classes[i]);
    list_init(&queue->in_flight);
    queue->tokens = queue->options.per_second;
    queue->sent = counter("sent");
    queue->repeated = counter("repeated");
    queue->dropped = counter("dropped");
    queue->not_reported = counter("not_reported");
    queue->waiting = metric_with(metrics_gauge("culvert_agent_kubernetes_events_waiting",
                                               "Kubernetes Events that wait to be sent or acknowledged.", NULL));
    return queue;
}

// ---- entries -----------------------------------------------------------------------------------

static void place(struct kubernetes_event_queue *queue, struct event_entry *entry, enum event_class class)
{
    queue->unknown_count -= entry->class == CLASS_UNKNOWN && !entry->sequence;
    queue->unknown_count += class == CLASS_UNKNOWN;
    list_remove(&entry->place);
    list_add_last(&queue->classes[class], &entry->place);
    entry->class = class;
    entry->sequence = 0;
}

static void drop(struct kubernetes_event_queue *queue, struct event_entry *entry, struct metric *why)
{
    queue->unknown_count -= entry->class == CLASS_UNKNOWN && !entry->sequence;
    list_remove(&entry->place);
    if (queue->next == entry) queue->next = NULL;
    metric_add(why, 1);
    metric_set(queue->waiting, (int64_t)--queue->count);
    mem_free(entry->texts);
    mem_free(entry);
}

void kubernetes_event_queue_clear(struct kubernetes_event_queue *queue)
{
    while (!list_is_empty(&queue->in_flight))
        drop(queue, LIST_OWNER(queue->in_flight.next, struct event_entry, place), queue->dropped);
    for (size_t i = 0; i < CLASSES; i++)
        while (!list_is_empty(&queue->classes[i]))
            drop(queue, LIST_OWNER(queue->classes[i].next, struct event_entry, place),
                 i == CLASS_UNKNOWN ? queue->not_reported : queue->dropped);
}

void kubernetes_event_queue_destroy(struct kubernetes_event_queue *queue)
{
    if (!queue) return;
    kubernetes_event_queue_clear(queue);
    mem_free(queue);
}

static struct str keep(char **at, struct str text)
{
    if (text.len) memcpy(*at, text.at, text.len);
    struct str kept = str_of(*at, text.len);
    *at += text.len;
    return kept;
}

static void set_contents(struct event_entry *entry, const struct kubernetes_event *event)
{
    const struct object_ref *ref = &event->ref;
    mem_free(entry->texts);
    char *at = entry->texts = mem_alloc(ref->group.len + ref->version.len + ref->kind.len + ref->ns.len +
                                        ref->name.len + ref->uid.len + event->uid.len + event->text.len + 1);
    entry->ref = (struct object_ref){.group = keep(&at, ref->group),
                                     .version = keep(&at, ref->version),
                                     .kind = keep(&at, ref->kind),
                                     .ns = keep(&at, ref->ns),
                                     .name = keep(&at, ref->name),
                                     .uid = keep(&at, ref->uid)};
    entry->uid = keep(&at, event->uid);
    entry->text = keep(&at, event->text);
    entry->is_warning = event->is_warning;
}

// ---- whether the platform has the object -------------------------------------------------------

static const struct outbox_slot *slot_of(const struct kubernetes_event_queue *queue, const struct object_ref *ref)
{
    const struct outbox_object identity = {.ref = *ref};
    const struct outbox_slot *slot = outbox_find(queue->options.outbox, &identity);
    if (!slot || slot->deleted) return NULL;
    // Of an object that had the name before.
    bool is_another = ref->uid.len && slot->object.ref.uid.len && !str_eq(ref->uid, slot->object.ref.uid);
    return is_another ? NULL : slot;
}

static enum event_class class_of(const struct kubernetes_event_queue *queue, const struct object_ref *ref,
                                 bool is_warning)
{
    if (!slot_of(queue, ref)) return CLASS_UNKNOWN;
    return is_warning ? CLASS_WARNING : CLASS_NORMAL;
}

// ---- putting -----------------------------------------------------------------------------------

// What waits already of the Event and of its object.
struct found {
    struct event_entry *same, *oldest; // of the object, a Normal one if there is one
    size_t of_object;
};

static void look_at(struct found *found, struct event_entry *entry, const struct kubernetes_event *event)
{
    if (str_eq(entry->uid, event->uid)) found->same = entry;
    if (!object_ref_eq(&entry->ref, &event->ref)) return;
    found->of_object++;
    if (!found->oldest || (found->oldest->is_warning && !entry->is_warning)) found->oldest = entry;
}

static struct found find(const struct kubernetes_event_queue *queue, const struct kubernetes_event *event)
{
    struct found found = {0};
    const struct list *heads[] = {&queue->in_flight, &queue->classes[CLASS_WARNING], &queue->classes[CLASS_NORMAL],
                                  &queue->classes[CLASS_UNKNOWN]};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (struct list *at = heads[i]->next; at != heads[i]; at = at->next)
            look_at(&found, LIST_OWNER(at, struct event_entry, place), event);
    return found;
}

// Makes room for one of this class. False: what waits is worth more.
static bool make_room(struct kubernetes_event_queue *queue, enum event_class class)
{
    size_t unknown_max = queue->options.count_max / 4;
    bool is_full = queue->count >= queue->options.count_max;
    bool too_many_unknown = class == CLASS_UNKNOWN && queue->unknown_count >= unknown_max;
    if (!is_full && !too_many_unknown) return true;
    for (int victim = CLASS_UNKNOWN; victim >= (int)class; victim--) {
        struct list *head = &queue->classes[victim];
        if (list_is_empty(head)) continue;
        drop(queue, LIST_OWNER(head->next, struct event_entry, place),
             victim == CLASS_UNKNOWN ? queue->not_reported : queue->dropped);
        return true;
    }
    return false;
}

void kubernetes_event_queue_put(struct kubernetes_event_queue *queue, const struct kubernetes_event *event,
                                uint64_t now_ms)
{
    struct found found = find(queue, event);
    enum event_class class = class_of(queue, &event->ref, event->is_warning);
    queue->look_at_ms = 0;
    if (found.same) {
        set_contents(found.same, event);
        // It keeps its place in the order, unless it was on its way.
        if (found.same->sequence || found.same->class != class) place(queue, found.same, class);
        metric_add(queue->repeated, 1);
        return;
    }
    if (found.of_object >= OBJECT_COUNT_MAX) drop(queue, found.oldest, queue->dropped);
    if (!make_room(queue, class)) {
        metric_add(class == CLASS_UNKNOWN ? queue->not_reported : queue->dropped, 1);
        return;
    }
    struct event_entry *entry = mem_zalloc(sizeof *entry);
    list_init(&entry->place);
    entry->class = CLASSES; // none yet
    entry->put_at_ms = now_ms;
    set_contents(entry, event);
    place(queue, entry, class);
    metric_set(queue->waiting, (int64_t)++queue->count);
}

// ---- sending -----------------------------------------------------------------------------------

static bool take_token(struct kubernetes_event_queue *queue, uint64_t now_ms, uint64_t *out_wait_ms)
{
    double per_second = queue->options.per_second;
    queue->tokens += (double)(now_ms - queue->tokens_at_ms) * per_second / 1e3;
    if (queue->tokens > per_second) queue->tokens = per_second;
    queue->tokens_at_ms = now_ms;
    if (queue->tokens >= 1) return true;
    *out_wait_ms = (uint64_t)((1 - queue->tokens) * 1e3 / per_second) + 1;
    return false;
}

// Those whose object is reported by now join their class; those that have waited too long go.
static void look_again(struct kubernetes_event_queue *queue, uint64_t now_ms)
{
    struct list *head = &queue->classes[CLASS_UNKNOWN];
    for (struct list *at = head->next, *next; at != head; at = next) {
        struct event_entry *entry = LIST_OWNER(at, struct event_entry, place);
        next = at->next;
        enum event_class class = class_of(queue, &entry->ref, entry->is_warning);
        if (class != CLASS_UNKNOWN)
            place(queue, entry, class);
        else if (now_ms - entry->put_at_ms >= EXPIRY_MS)
            drop(queue, entry, queue->not_reported);
    }
}

static struct event_entry *first_ready(struct kubernetes_event_queue *queue)
{
    for (enum event_class class = CLASS_WARNING; class < CLASS_UNKNOWN; class ++) {
        struct list *head = &queue->classes[class];
        for (struct list *at = head->next, *next; at != head; at = next) {
            struct event_entry *entry = LIST_OWNER(at, struct event_entry, place);
            next = at->next;
            const struct outbox_slot *slot = slot_of(queue, &entry->ref);
            if (!slot)
                drop(queue, entry, queue->not_reported); // its object is gone
            else if (slot->sync == OUTBOX_SYNCED || slot->sync == OUTBOX_MAYBE_SYNCED)
                return entry;
        }
    }
    return NULL;
}

bool kubernetes_event_queue_next(struct kubernetes_event_queue *queue, uint64_t now_ms, struct kubernetes_event *out,
                                 uint64_t *out_wait_ms)
{
    *out_wait_ms = 0;
    queue->next = NULL;
    if (!queue->count) return false;
    if (!take_token(queue, now_ms, out_wait_ms)) return false;
    *out_wait_ms = LOOK_MS;
    if (now_ms < queue->look_at_ms) return false;
    look_again(queue, now_ms);
    struct event_entry *entry = queue->next = first_ready(queue);
    if (!entry) {
        queue->look_at_ms = now_ms + LOOK_MS; // objects may be written by then
        return false;
    }
    *out = (struct kubernetes_event){entry->ref, entry->uid, entry->text, entry->is_warning};
    return true;
}

void kubernetes_event_queue_written(struct kubernetes_event_queue *queue, uint64_t sequence)
{
    struct event_entry *entry = queue->next;
    if (!entry) return;
    queue->next = NULL;
    queue->tokens -= 1;
    list_remove(&entry->place);
    list_add_last(&queue->in_flight, &entry->place);
    entry->sequence = sequence;
}

void kubernetes_event_queue_skip(struct kubernetes_event_queue *queue)
{
    if (queue->next) drop(queue, queue->next, queue->dropped);
}

void kubernetes_event_queue_acknowledge(struct kubernetes_event_queue *queue, uint64_t sequence)
{
    while (!list_is_empty(&queue->in_flight)) {
        struct event_entry *entry = LIST_OWNER(queue->in_flight.next, struct event_entry, place);
        if (entry->sequence > sequence) return;
        drop(queue, entry, queue->sent);
    }
}

void kubernetes_event_queue_pause(struct kubernetes_event_queue *queue)
{
    queue->look_at_ms = 0;
    while (!list_is_empty(&queue->in_flight)) {
        struct event_entry *entry = LIST_OWNER(queue->in_flight.next, struct event_entry, place);
        place(queue, entry, entry->is_warning ? CLASS_WARNING : CLASS_NORMAL);
    }
}

size_t kubernetes_event_queue_count(const struct kubernetes_event_queue *queue)
{
    return queue->count;
}
