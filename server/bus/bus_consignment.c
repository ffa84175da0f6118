#include "server/bus/bus_consignment.h"

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

struct consignment {
    struct consignment *next; // while it waits
    struct bus_consignee *consignee;
    struct amqp_delivery *delivery;
    size_t left; // what must end before it is settled
    enum amqp_settlement settlement;
};

// A copy of what was kept out, on its way to the dead messages.
struct dead_letter {
    struct amqp_publication publication; // first
    struct consignment *consignment;
    struct strbuf bytes;
};

void bus_consignee_init(struct bus_consignee *consignee)
{
    struct metric_family *dead =
        metrics_counter("culvert_bus_dead_letters_total", "Messages that became dead letters.", "cause", NULL);
    consignee->dead_refused = metric_with(dead, "refused");
    consignee->dead_unreadable = metric_with(dead, "unreadable");
    consignee->dead_returned = metric_with(dead, "returned");
    consignee->dead_forged = metric_with(dead, "forged");
    consignee->dead_expired = metric_with(dead, "expired");
    consignee->reports =
        metric_with(metrics_counter("culvert_bus_consumed_reports_total", "Reports in messages from RabbitMQ.", NULL));
}

static void settle(struct consignment *consignment, enum amqp_settlement settlement)
{
    amqp_delivery_settle(consignment->delivery, settlement);
    mem_free(consignment);
}

static void part_ends(struct consignment *consignment)
{
    struct bus_consignee *consignee = consignment->consignee;
    if (--consignment->left > 0) return;
    consignee->count--;
    settle(consignment, consignment->settlement);
    bus_consignee_pump(consignee);
}

// ---- dead messages ------------------------------------------------------------------------------

static void dead_letter_end(struct dead_letter *letter, bool is_kept)
{
    struct consignment *consignment = letter->consignment;
    strbuf_finish(&letter->bytes);
    mem_free(letter);
    // Not by us, then: RabbitMQ moves the whole message. What was applied of it stays applied.
    if (!is_kept && consignment->settlement == AMQP_APPLIED) consignment->settlement = AMQP_DEAD;
    part_ends(consignment);
}

static void on_dead_verdict(struct bus_letter *letter, void *ctx)
{
    struct dead_letter *dead = (struct dead_letter *)letter; // its first member's first
    (void)ctx;
    amqp_publisher_release(dead->consignment->consignee->publisher, dead->bytes.len);
    dead_letter_end(dead, dead->publication.verdict == AMQP_CONFIRMED);
}

// The loop has ended, and its consignee is gone; the message comes again.
static void on_dead_dropped(struct bus_letter *letter)
{
    struct dead_letter *dead = (struct dead_letter *)letter;
    struct consignment *consignment = dead->consignment;
    strbuf_finish(&dead->bytes);
    mem_free(dead);
    if (--consignment->left == 0) settle(consignment, AMQP_KEPT);
}

// Takes bytes. is_ours: they get a signature, so that they could be published again; what others
// wrote gets none.
static void bury(struct consignment *consignment, struct strbuf *bytes, const char *reason, bool is_ours)
{
    struct bus_consignee *consignee = consignment->consignee;
    if (!amqp_publisher_reserve(consignee->publisher)) {
        strbuf_finish(bytes);
        if (consignment->settlement == AMQP_APPLIED) consignment->settlement = AMQP_DEAD;
        return;
    }
    struct dead_letter *letter = mem_zalloc(sizeof *letter);
    letter->consignment = consignment;
    letter->bytes = *bytes;
    letter->publication = (struct amqp_publication){
        .letter = {.open = on_dead_verdict, .drop = on_dead_dropped},
        .port = consignee->port,
        .body = strbuf_str(bytes),
        .shard = amqp_delivery_shard(consignment->delivery),
        .is_dead = true,
    };
    snprintf(letter->publication.reason, sizeof letter->publication.reason, "%s", reason);
    if (is_ours && amqp_delivery_signature(consignment->delivery).len) // not where unsigned ones are accepted
        rabbitmq_sign(consignee->rabbitmq, letter->publication.shard, letter->publication.body,
                      letter->publication.signature);
    consignment->left++;
    amqp_publisher_send(consignee->publisher, &letter->publication);
}

static void bury_report(struct consignment *consignment, const struct report *report, const char *reason)
{
    struct bus_message_writer writer;
    struct strbuf bytes;
    struct error err;
    metric_add(consignment->consignee->dead_refused, 1);
    bus_message_begin(&writer, report, clock_wall_ms());
    if (bus_message_add(&writer, report, &err) != ERROR_NONE) { // it came in such a message
        bus_message_abandon(&writer);
        return;
    }
    bus_message_end(&writer, &bytes);
    bury(consignment, &bytes, reason, true);
}

static void bury_message(struct consignment *consignment, const char *reason)
{
    struct str body = amqp_delivery_body(consignment->delivery);
    struct strbuf bytes;
    log_limited(LOG_ERROR, "bus", "message_dead_lettered", STR_EMPTY, STR_EMPTY,
                log_uint("shard", amqp_delivery_shard(consignment->delivery)), log_uint("bytes", body.len),
                log_c("error", reason));
    strbuf_init(&bytes, body.len + 1);
    strbuf_add_str(&bytes, body);
    bury(consignment, &bytes, reason, true);
}

// No replica of this deployment wrote it: it is not looked into. An attacker may send any number,
// so the log has one line a minute.
static void bury_forged(struct consignment *consignment)
{
    struct bus_consignee *consignee = consignment->consignee;
    struct str body = amqp_delivery_body(consignment->delivery);
    struct strbuf bytes;
    uint64_t now_ms = clock_mono_ms();
    metric_add(consignee->dead_forged, 1);
    consignee->forged++;
    if (now_ms >= consignee->quiet_until_ms) {
        log_error("bus", "message_refused", log_uint("shard", amqp_delivery_shard(consignment->delivery)),
                  log_uint("count", consignee->forged), log_c("error", FORGED));
        consignee->forged = 0;
        consignee->quiet_until_ms = now_ms + QUIET_MS;
    }
    strbuf_init(&bytes, body.len + 1);
    strbuf_add_str(&bytes, body);
    bury(consignment, &bytes, FORGED, false);
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
    struct consignment *consignment = arg;
    if (err) {
        consignment->settlement = AMQP_KEPT;
    } else if (outcome->result == REPORT_REFUSED) {
        bury_report(consignment, report, outcome->detail ? outcome->detail : "refused");
    } else if (report->type == REPORT_SNAPSHOT_END) {
        consignment->left++;
        snapshot_verdict_put(consignment->consignee->pg, report, outcome->result == REPORT_RESYNC, on_verdict_noted,
                             consignment);
    }
    part_ends(consignment);
}

static void apply(struct consignment *consignment, const struct bus_message *message)
{
    struct bus_consignee *consignee = consignment->consignee;
    metric_add(consignee->reports, message->count);
    for (size_t i = 0; i < message->count; i++) {
        struct error err;
        consignment->left++;
        // A report that cannot even be queued has an account that does not exist.
        if (event_handler_submit(consignee->handler, &message->reports[i], true, on_report_done, consignment, &err) ==
            ERROR_NONE)
            continue;
        bury_report(consignment, &message->reports[i], err.text);
        consignment->left--;
    }
}

static bool is_expired(const struct bus_consignee *consignee, const struct bus_message *message)
{
    uint64_t age_max_ms = rabbitmq_options(consignee->rabbitmq)->message_age_max_ms;
    return clock_wall_ms() - message->received_at_ms > (int64_t)age_max_ms;
}

static void open_consignment(struct consignment *consignment)
{
    struct bus_consignee *consignee = consignment->consignee;
    struct str body = amqp_delivery_body(consignment->delivery);
    struct bus_message message;
    struct error err;
    consignee->count++;
    if (!rabbitmq_is_signed(consignee->rabbitmq, amqp_delivery_shard(consignment->delivery), body,
                            amqp_delivery_signature(consignment->delivery))) {
        bury_forged(consignment);
    } else if (amqp_delivery_is_doomed(consignment->delivery)) {
        metric_add(consignee->dead_returned, 1);
        bury_message(consignment, "redelivered too often: replicas ended while they applied it");
    } else if (bus_message_open(&message, body.at, body.len, &err) == ERROR_NONE) {
        if (is_expired(consignee, &message)) {
            metric_add(consignee->dead_expired, 1);
            bury_message(consignment, "was published longer ago than rabbitmq.message_age_max");
        } else {
            apply(consignment, &message);
        }
        bus_message_close(&message);
    } else {
        metric_add(consignee->dead_unreadable, 1);
        bury_message(consignment, err.text);
    }
    part_ends(consignment);
}

// ---- waiting -------------------------------------------------------------------------------------------------------

static struct consignment *take_waiting(struct bus_consignee *consignee)
{
    struct consignment *consignment = consignee->first_waiting;
    consignee->first_waiting = consignment->next;
    if (!consignee->first_waiting) consignee->last_waiting = NULL;
    return consignment;
}

void bus_consignee_pump(struct bus_consignee *consignee)
{
    if (consignee->pumping) return; // one that ended at once
    consignee->pumping = true;
    while (consignee->first_waiting && !consignee->stopped && !event_handler_is_full(consignee->handler))
        open_consignment(take_waiting(consignee));
    consignee->pumping = false;
}

void bus_consignee_stop(struct bus_consignee *consignee)
{
    consignee->stopped = true;
    while (consignee->first_waiting)
        settle(take_waiting(consignee), AMQP_KEPT);
}

bool bus_consignee_is_idle(const struct bus_consignee *consignee)
{
    return !consignee->count && !consignee->first_waiting;
}

void bus_consignment_take(struct bus_consignee *consignee, struct amqp_delivery *delivery)
{
    struct consignment *consignment = mem_alloc(sizeof *consignment);
    *consignment =
        (struct consignment){.consignee = consignee, .delivery = delivery, .left = 1, .settlement = AMQP_APPLIED};
    if (consignee->stopped) {
        settle(consignment, AMQP_KEPT);
        return;
    }
    if (consignee->last_waiting)
        consignee->last_waiting->next = consignment;
    else
        consignee->first_waiting = consignment;
    consignee->last_waiting = consignment;
    bus_consignee_pump(consignee);
}
