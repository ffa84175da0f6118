#include "server/bus/bus_unacked.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/bus/bus_message.h"
#include "server/bus/rabbitmq.h"
#include "storage/reports/snapshot_verdict_store.h"

#define FORGED "its signature is missing or wrong: no replica of this deployment wrote it"

enum { QUIET_MS = 60 * 1000 };

struct bus_unacked {
    struct bus_unacked *next; // while it waits
    struct bus_receiver *receiver;
    struct amqp_delivery *delivery;
    size_t left; // what must end before it is settled
    enum amqp_settlement settlement;
};

// A copy of what was kept out, on its way to the dead messages.
struct dead_letter {
    struct amqp_publication publication; // first
    struct bus_unacked *unacked;
    struct strbuf bytes;
};

void bus_receiver_init(struct bus_receiver *receiver)
{
    struct metric_family *dead =
        metrics_counter("culvert_bus_dead_letters_total", "Messages that became dead letters.", "cause", NULL);
    receiver->dead_refused = metric_with(dead, "refused");
    receiver->dead_unreadable = metric_with(dead, "unreadable");
    receiver->dead_returned = metric_with(dead, "returned");
    receiver->dead_forged = metric_with(dead, "forged");
    receiver->dead_expired = metric_with(dead, "expired");
    receiver->reports =
        metric_with(metrics_counter("culvert_bus_consumed_reports_total", "Reports in messages from RabbitMQ.", NULL));
}

static void settle(struct bus_unacked *unacked, enum amqp_settlement settlement)
{
    amqp_delivery_settle(unacked->delivery, settlement);
    mem_free(unacked);
}

static void part_ends(struct bus_unacked *unacked)
{
    struct bus_receiver *receiver = unacked->receiver;
    if (--unacked->left > 0) return;
    receiver->count--;
    settle(unacked, unacked->settlement);
    bus_receiver_pump(receiver);
}

// ---- dead messages ------------------------------------------------------------------------------

static void dead_letter_end(struct dead_letter *item, bool is_kept)
{
    struct bus_unacked *unacked = item->unacked;
    strbuf_finish(&item->bytes);
    mem_free(item);
    // Not by us, then: RabbitMQ moves the whole message. What was applied of it stays applied.
    if (!is_kept && unacked->settlement == AMQP_APPLIED) unacked->settlement = AMQP_DEAD;
    part_ends(unacked);
}

static void on_dead_verdict(struct bus_port_item *item, void *ctx)
{
    struct dead_letter *dead = (struct dead_letter *)item; // its first member's first
    (void)ctx;
    amqp_publisher_release(dead->unacked->receiver->publisher, dead->bytes.len);
    dead_letter_end(dead, dead->publication.verdict == AMQP_CONFIRMED);
}

// The loop has ended, and its receiver is gone; the message comes again.
static void on_dead_dropped(struct bus_port_item *item)
{
    struct dead_letter *dead = (struct dead_letter *)item;
    struct bus_unacked *unacked = dead->unacked;
    strbuf_finish(&dead->bytes);
    mem_free(dead);
    if (--unacked->left == 0) settle(unacked, AMQP_KEPT);
}

// Takes bytes. is_ours: they get a signature, so that they could be published again; what others
// wrote gets none.
static void bury(struct bus_unacked *unacked, struct strbuf *bytes, const char *reason, bool is_ours)
{
    struct bus_receiver *receiver = unacked->receiver;
    if (!amqp_publisher_reserve(receiver->publisher)) {
        strbuf_finish(bytes);
        if (unacked->settlement == AMQP_APPLIED) unacked->settlement = AMQP_DEAD;
        return;
    }
    struct dead_letter *item = mem_zalloc(sizeof *item);
    item->unacked = unacked;
    item->bytes = *bytes;
    item->publication = (struct amqp_publication){
        .item = {.open = on_dead_verdict, .drop = on_dead_dropped},
        .port = receiver->port,
        .body = strbuf_str(bytes),
        .shard = amqp_delivery_shard(unacked->delivery),
        .is_dead = true,
    };
    snprintf(item->publication.reason, sizeof item->publication.reason, "%s", reason);
    if (is_ours && amqp_delivery_signature(unacked->delivery).len) // not where unsigned ones are accepted
        rabbitmq_sign(receiver->rabbitmq, item->publication.shard, item->publication.body, item->publication.signature);
    unacked->left++;
    amqp_publisher_send(receiver->publisher, &item->publication);
}

static void bury_report(struct bus_unacked *unacked, const struct report *report, const char *reason)
{
    struct bus_message_writer writer;
    struct strbuf bytes;
    struct error err;
    metric_add(unacked->receiver->dead_refused, 1);
    bus_message_begin(&writer, report, clock_wall_ms());
    if (bus_message_add(&writer, report, &err) != ERROR_NONE) { // it came in such a message
        bus_message_abandon(&writer);
        return;
    }
    bus_message_end(&writer, &bytes);
    bury(unacked, &bytes, reason, true);
}

static void bury_message(struct bus_unacked *unacked, const char *reason)
{
    struct str body = amqp_delivery_body(unacked->delivery);
    struct strbuf bytes;
    log_limited(LOG_ERROR, "bus", "message_dead_lettered", STR_EMPTY, STR_EMPTY,
                log_uint("shard", amqp_delivery_shard(unacked->delivery)), log_uint("bytes", body.len),
                log_c("error", reason));
    strbuf_init(&bytes, body.len + 1);
    strbuf_add_str(&bytes, body);
    bury(unacked, &bytes, reason, true);
}

// No replica of this deployment wrote it: it is not looked into. An attacker may send any number,
// so the log has one line a minute.
static void bury_forged(struct bus_unacked *unacked)
{
    struct bus_receiver *receiver = unacked->receiver;
    struct str body = amqp_delivery_body(unacked->delivery);
    struct strbuf bytes;
    uint64_t now_ms = clock_mono_ms();
    metric_add(receiver->dead_forged, 1);
    receiver->forged++;
    if (now_ms >= receiver->quiet_until_ms) {
        log_error("bus", "message_refused", log_uint("shard", amqp_delivery_shard(unacked->delivery)),
                  log_uint("count", receiver->forged), log_c("error", FORGED));
        receiver->forged = 0;
        receiver->quiet_until_ms = now_ms + QUIET_MS;
    }
    strbuf_init(&bytes, body.len + 1);
    strbuf_add_str(&bytes, body);
    bury(unacked, &bytes, FORGED, false);
}

// ---- applying ------------------------------------------------------------------------------------------------------

static void on_verdict_noted(void *arg, const struct error *err, uint64_t count)
{
    (void)count;
    // The replica that waits for it sends the end of the snapshot again.
    if (err) log_warn("bus", "snapshot_verdict_lost", log_err(err));
    part_ends(arg);
}

static void on_report_done(void *arg, const struct error *err, const struct report *report,
                           const struct report_outcome *outcome)
{
    struct bus_unacked *unacked = arg;
    if (err) {
        unacked->settlement = AMQP_KEPT;
    } else if (outcome->result == REPORT_REFUSED) {
        bury_report(unacked, report, outcome->detail ? outcome->detail : "refused");
    } else if (report->type == REPORT_SNAPSHOT_END) {
        unacked->left++;
        snapshot_verdict_put(unacked->receiver->pg, report, outcome->result == REPORT_RESYNC, on_verdict_noted,
                             unacked);
    }
    part_ends(unacked);
}

static void apply(struct bus_unacked *unacked, const struct bus_message *message)
{
    struct bus_receiver *receiver = unacked->receiver;
    metric_add(receiver->reports, message->count);
    for (size_t i = 0; i < message->count; i++) {
        struct error err;
        unacked->left++;
        // A report that cannot even be queued has an account that does not exist.
        if (event_handler_submit(receiver->handler, &message->reports[i], true, on_report_done, unacked, &err) ==
            ERROR_NONE)
            continue;
        bury_report(unacked, &message->reports[i], err.text);
        unacked->left--;
    }
}

static bool is_expired(const struct bus_receiver *receiver, const struct bus_message *message)
{
    uint64_t age_max_ms = rabbitmq_options(receiver->rabbitmq)->message_age_max_ms;
    return clock_wall_ms() - message->received_at_ms > (int64_t)age_max_ms;
}

static void open_unacked(struct bus_unacked *unacked)
{
    struct bus_receiver *receiver = unacked->receiver;
    struct str body = amqp_delivery_body(unacked->delivery);
    struct bus_message message;
    struct error err;
    receiver->count++;
    if (!rabbitmq_is_signed(receiver->rabbitmq, amqp_delivery_shard(unacked->delivery), body,
                            amqp_delivery_signature(unacked->delivery))) {
        bury_forged(unacked);
    } else if (amqp_delivery_is_doomed(unacked->delivery)) {
        metric_add(receiver->dead_returned, 1);
        bury_message(unacked, "redelivered too often: replicas ended while they applied it");
    } else if (bus_message_open(&message, body.at, body.len, &err) == ERROR_NONE) {
        if (is_expired(receiver, &message)) {
            metric_add(receiver->dead_expired, 1);
            bury_message(unacked, "was published longer ago than rabbitmq.message_age_max");
        } else {
            apply(unacked, &message);
        }
        bus_message_close(&message);
    } else {
        metric_add(receiver->dead_unreadable, 1);
        bury_message(unacked, err.text);
    }
    part_ends(unacked);
}

// ---- waiting -------------------------------------------------------------------------------------------------------

static struct bus_unacked *take_waiting(struct bus_receiver *receiver)
{
    struct bus_unacked *unacked = receiver->first_waiting;
    receiver->first_waiting = unacked->next;
    if (!receiver->first_waiting) receiver->last_waiting = NULL;
    return unacked;
}

void bus_receiver_pump(struct bus_receiver *receiver)
{
    if (receiver->pumping) return; // one that ended at once
    receiver->pumping = true;
    while (receiver->first_waiting && !receiver->stopped && !event_handler_is_full(receiver->handler))
        open_unacked(take_waiting(receiver));
    receiver->pumping = false;
}

void bus_receiver_stop(struct bus_receiver *receiver)
{
    receiver->stopped = true;
    while (receiver->first_waiting)
        settle(take_waiting(receiver), AMQP_KEPT);
}

bool bus_receiver_is_idle(const struct bus_receiver *receiver)
{
    return !receiver->count && !receiver->first_waiting;
}

void bus_unacked_take(struct bus_receiver *receiver, struct amqp_delivery *delivery)
{
    struct bus_unacked *unacked = mem_alloc(sizeof *unacked);
    *unacked = (struct bus_unacked){.receiver = receiver, .delivery = delivery, .left = 1, .settlement = AMQP_APPLIED};
    if (receiver->stopped) {
        settle(unacked, AMQP_KEPT);
        return;
    }
    if (receiver->last_waiting)
        receiver->last_waiting->next = unacked;
    else
        receiver->first_waiting = unacked;
    receiver->last_waiting = unacked;
    bus_receiver_pump(receiver);
}
