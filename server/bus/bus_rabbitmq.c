// bus_rabbitmq: one loop's half of the form `rabbitmq`. Reports of one turn of the loop and one
// runtime share a message. Whatever the broker does not take at once, or does not confirm in time,
// goes to the handler of this loop, as with the form `local`; what it confirms after that is
// applied twice, which changes nothing.
#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/bus/bus_batch.h"
#include "server/bus/bus_unacked.h"
#include "server/bus/rabbitmq.h"
#include "storage/manifests/manifest_known.h"

enum { TICK_MS = 100, DATABASE_AWAY_MS = 5000 };

struct bus_rabbitmq {
    struct bus bus;
    struct loop *loop;
    struct event_handler *handler;
    struct pg *pg;
    struct rabbitmq *rabbitmq;
    const struct rabbitmq_options *options;
    struct amqp_publisher *publisher;
    struct bus_port *port;
    void (*on_progress)(void *ctx);
    void *ctx;
    struct bus_receiver receiver;
    struct manifest_known *known;
    struct bus_batch *open;                   // being filled, singly linked
    struct bus_batch *sent_first, *sent_last; // in the order of their deadlines
    struct timer timer;
    uint64_t database_seen_ms;
    bool has_database, stopped, will_seal;
    struct metric_family *diverted;
    struct metric *reports, *confirm_seconds;
};

static struct bus_rabbitmq *rabbitmq_of(struct bus *bus)
{
    return (struct bus_rabbitmq *)bus; // its first member
}

// ---- messages -----------------------------------------------------------------------------------

static void sent_add(struct bus_rabbitmq *bus, struct bus_batch *batch)
{
    batch->next = NULL;
    batch->prev = bus->sent_last;
    if (bus->sent_last)
        bus->sent_last->next = batch;
    else
        bus->sent_first = batch;
    bus->sent_last = batch;
}

static void sent_remove(struct bus_rabbitmq *bus, struct bus_batch *batch)
{
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        bus->sent_first = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
    else
        bus->sent_last = batch->prev;
}

static void divert(struct bus_rabbitmq *bus, struct bus_batch *batch, const char *cause)
{
    metric_add(metric_with(bus->diverted, cause), batch->count);
    bus_batch_divert(batch, bus->handler);
}

static void on_verdict(struct bus_port_item *item, void *ctx)
{
    static const char *const causes[] = {[AMQP_RETURNED] = "returned", [AMQP_NACKED] = "nacked", [AMQP_LOST] = "lost"};
    static const struct report_outcome taken = {REPORT_UNCHANGED, ""};
    struct bus_rabbitmq *bus = ctx;
    struct bus_batch *batch = (struct bus_batch *)item; // its first member's first
    sent_remove(bus, batch);
    amqp_publisher_release(bus->publisher, batch->bytes.len);
    if (batch->is_late) amqp_publisher_note_late(bus->publisher, -1);
    metric_observe(bus->confirm_seconds, (double)(clock_mono_ms() - batch->sent_ms) / 1e3);
    if (batch->publication.verdict != AMQP_CONFIRMED) {
        divert(bus, batch, causes[batch->publication.verdict]);
    } else {
        metric_add(bus->reports, batch->count);
        bus_batch_tell(batch, NULL, &taken);
    }
    bus_batch_destroy(batch);
    bus->on_progress(bus->ctx);
}

static void on_verdict_dropped(struct bus_port_item *item)
{
    bus_batch_destroy((struct bus_batch *)item);
}

static void seal(struct bus_rabbitmq *bus, struct bus_batch *batch)
{
    bus_batch_seal(batch);
    batch->sent_ms = clock_mono_ms();
    batch->deadline_ms = batch->sent_ms + bus->options->confirm_timeout_ms;
    batch->publication.item = (struct bus_port_item){.open = on_verdict, .drop = on_verdict_dropped};
    batch->publication.port = bus->port;
    batch->publication.shard =
        rabbitmq_shard(bus->rabbitmq, &(struct runtime_key){str_c(batch->account_id), str_c(batch->runtime)});
    rabbitmq_sign(bus->rabbitmq, batch->publication.shard, batch->publication.body, batch->publication.signature);
    sent_add(bus, batch);
    amqp_publisher_send(bus->publisher, &batch->publication);
}

static void seal_one(struct bus_rabbitmq *bus, struct bus_batch **link)
{
    struct bus_batch *batch = *link;
    *link = batch->next;
    seal(bus, batch);
}

static void seal_all(struct bus_rabbitmq *bus)
{
    while (bus->open)
        seal_one(bus, &bus->open);
}

// ---- the end of a turn ---------------------------------------------------------------------------------------------

static void on_turn_end(struct bus_port_item *item, void *ctx)
{
    struct bus_rabbitmq *bus = ctx;
    mem_free(item);
    bus->will_seal = false;
    seal_all(bus);
}

static void on_turn_dropped(struct bus_port_item *item)
{
    mem_free(item);
}

// A message to ourselves arrives after the current work of the loop.
static void seal_soon(struct bus_rabbitmq *bus)
{
    if (bus->will_seal) return;
    struct bus_port_item *item = mem_alloc(sizeof *item);
    *item = (struct bus_port_item){.open = on_turn_end, .drop = on_turn_dropped};
    bus->will_seal = true;
    bus_port_send(bus->port, item);
}

// ---- taking --------------------------------------------------------------------------------------------------------

static struct bus_batch **find_open(struct bus_rabbitmq *bus, const struct report *report)
{
    struct bus_batch **link = &bus->open;
    while (*link && !bus_batch_is_for(*link, report))
        link = &(*link)->next;
    return link;
}

static size_t bytes_of(const struct report *report)
{
    return report_text_bytes(report) - (report->packed_manifest.len ? report->manifest.len : 0);
}

// Why the report cannot go to the broker, or NULL.
static const char *refusal_of(const struct bus_rabbitmq *bus, const struct report *report)
{
    if (bus->stopped) return "stopping";
    if (bytes_of(report) > bus->options->message_bytes) return "large";
    if (report->account_id.len >= sizeof((struct bus_batch *)NULL)->account_id ||
        report->runtime.len >= sizeof((struct bus_batch *)NULL)->runtime)
        return "name";
    // A replica of the version before could not read the message.
    if (report->type == REPORT_KUBERNETES_EVENT) return "kubernetes-event";
    // No path leads back to the agent for what another replica refuses later.
    struct error ignored;
    if (report->type == REPORT_KEPT_OUT || report_store_check(report, &ignored) != ERROR_NONE) return "invalid";
    if (manifest_known_is_full(bus->known, report->account_id)) return "quota"; // nor for want of room
    const char *refusal = amqp_publisher_refusal(bus->publisher);
    // The end of a snapshot follows what belongs to it: through the broker, and past the window,
    // one a session.
    if (refusal && str_eq(str_c(refusal), STR("full")) && report->type == REPORT_SNAPSHOT_END) return NULL;
    return refusal;
}

// A batch with room for the report, or NULL with the cause.
static struct bus_batch **room_for(struct bus_rabbitmq *bus, const struct report *report, const char **out_cause)
{
    *out_cause = refusal_of(bus, report);
    if (*out_cause && !str_eq(str_c(*out_cause), STR("full"))) return NULL;
    struct bus_batch **link = find_open(bus, report);
    if (*link && bus_batch_has_room(*link, report)) return link;
    if (*link) seal_one(bus, link); // so that what is older goes first
    if (*out_cause) return NULL;
    if (!amqp_publisher_reserve(bus->publisher)) {
        *out_cause = "full";
        if (report->type != REPORT_SNAPSHOT_END) return NULL;
        amqp_publisher_reserve_past(bus->publisher);
    }
    struct bus_batch *batch = bus_batch_create(report, (size_t)bus->options->message_count);
    batch->next = bus->open;
    bus->open = batch;
    seal_soon(bus);
    return &bus->open;
}

static enum error_code submit(struct bus *of, const struct report *report, bool patient, event_item_done on_done,
                              void *arg, struct error *err)
{
    struct bus_rabbitmq *bus = rabbitmq_of(of);
    const char *cause;
    struct bus_batch **link = room_for(bus, report, &cause);
    if (link) {
        struct bus_batch *batch = *link;
        enum error_code code = bus_batch_add(batch, report, patient, on_done, arg, err);
        if (code != ERROR_NONE) return code;
        if (batch->count == batch->capacity || batch->writer.body.len >= bus->options->message_bytes)
            seal_one(bus, link);
        return ERROR_NONE;
    }
    metric_add(metric_with(bus->diverted, cause), 1);
    return event_handler_submit(bus->handler, report, patient, on_done, arg, err);
}

static bool has_room(const struct bus *of, const struct runtime_key *key)
{
    const struct bus_rabbitmq *bus = (const struct bus_rabbitmq *)of;
    return !amqp_publisher_refusal(bus->publisher) || event_handler_has_room(bus->handler, key);
}

static bool is_idle(const struct bus *of)
{
    const struct bus_rabbitmq *bus = (const struct bus_rabbitmq *)of;
    return !bus->open && !bus->sent_first && bus_receiver_is_idle(&bus->receiver) &&
           event_handler_is_idle(bus->handler);
}

// ---- from the broker -----------------------------------------------------------------------------------------------

void bus_rabbitmq_on_delivery(void *ctx, struct amqp_delivery *delivery)
{
    struct bus_rabbitmq *bus = ctx;
    bus_unacked_take(&bus->receiver, delivery);
}

// ---- time ----------------------------------------------------------------------------------------------------------

static void note_database(struct bus_rabbitmq *bus, uint64_t now)
{
    if (pg_is_ready(bus->pg)) bus->database_seen_ms = now;
    bool is_there = !bus->stopped && bus->database_seen_ms && now - bus->database_seen_ms < DATABASE_AWAY_MS;
    if (is_there == bus->has_database) return;
    bus->has_database = is_there;
    rabbitmq_note_database(bus->rabbitmq, is_there);
}

static void on_tick(void *arg)
{
    struct bus_rabbitmq *bus = arg;
    uint64_t now = clock_mono_ms();
    bool late = false;
    note_database(bus, now);
    for (struct bus_batch *batch = bus->sent_first; batch && batch->deadline_ms <= now; batch = batch->next) {
        late = true;
        if (batch->is_late) continue;
        batch->is_late = true;
        amqp_publisher_note_late(bus->publisher, 1);
        divert(bus, batch, "timeout");
    }
    if (late) amqp_publisher_check_progress(bus->publisher);
    bus_receiver_pump(&bus->receiver);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void stop(struct bus *of)
{
    struct bus_rabbitmq *bus = rabbitmq_of(of);
    if (bus->stopped) return;
    bus->stopped = true;
    note_database(bus, clock_mono_ms());
    timer_stop(&bus->timer);
    bus_receiver_stop(&bus->receiver);
}

// What the publisher holds is freed when it comes back to the closed port.
static void destroy(struct bus *of)
{
    struct bus_rabbitmq *bus = rabbitmq_of(of);
    struct error err;
    stop(of);
    error_set(&err, ERROR_CANCELLED, "the server is shutting down");
    for (struct bus_batch *batch = bus->open, *next; batch; batch = next) {
        next = batch->next;
        bus_batch_tell(batch, &err, NULL);
        bus_batch_destroy(batch);
    }
    for (struct bus_batch *batch = bus->sent_first; batch; batch = batch->next)
        bus_batch_tell(batch, &err, NULL);
    bus_port_close(bus->port);
    bus_port_unref(bus->port);
    timer_finish(&bus->timer);
    mem_free(bus);
}

static void make_metrics(struct bus_rabbitmq *bus)
{
    bus->diverted = metrics_counter("culvert_bus_diverted_total",
                                    "Reports that took the local path instead of RabbitMQ, by cause.", "cause", NULL);
    bus->reports = metric_with(
        metrics_counter("culvert_bus_confirmed_reports_total", "Reports that became durable in RabbitMQ.", NULL));
    bus->confirm_seconds = metric_with(
        metrics_histogram("culvert_bus_confirm_seconds", "Time from publishing a message to its confirm.", NULL));
}

struct bus *bus_rabbitmq_create(struct loop *loop, struct event_handler *handler, const struct bus_rabbitmq_options *of)
{
    static const struct bus_form form = {.submit = submit,
                                         .has_room = has_room,
                                         .is_idle = is_idle,
                                         .stop = stop,
                                         .destroy = destroy,
                                         .is_remote = true};
    struct bus_rabbitmq *bus = mem_zalloc(sizeof *bus);
    bus->bus.form = &form;
    bus->loop = loop;
    bus->handler = handler;
    bus->known = of->known;
    bus->pg = of->pg;
    bus->rabbitmq = of->rabbitmq;
    bus->options = rabbitmq_options(of->rabbitmq);
    bus->publisher = rabbitmq_publisher(of->rabbitmq);
    bus->on_progress = of->on_progress;
    bus->ctx = of->ctx;
    bus->port = bus_port_create(loop, bus);
    bus->receiver = (struct bus_receiver){
        .handler = handler, .pg = of->pg, .publisher = bus->publisher, .port = bus->port, .rabbitmq = bus->rabbitmq};
    bus_receiver_init(&bus->receiver);
    make_metrics(bus);
    timer_init(&bus->timer, loop_uv(loop), on_tick, bus);
    timer_start(&bus->timer, 0, TICK_MS);
    rabbitmq_attach(of->rabbitmq, bus->port);
    return &bus->bus;
}
