#include "server/bus/amqp_consumer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/bus/amqp_link.h"
#include "server/bus/amqp_shard.h"

enum { CHANNEL = 1, IDLE_MS = 500, RETIRED_MS = 50 };

struct amqp_consumer {
    struct amqp_link link;
    struct amqp_consumer_options options;
    struct bus_port **ports;
    unsigned port_count;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; // guards settled
    struct amqp_delivery *settled, **settled_last;
    atomic_bool retiring, stopping;
    struct amqp_shard shards[AMQP_SHARDS_MAX];
    struct metric *consumed, *redelivered, *acknowledged, *rejected, *unsettled;
};

static void make_metrics(struct amqp_consumer *consumer)
{
    struct metric_family *consumed =
        metrics_counter("culvert_bus_consumed_total", "Messages consumed from RabbitMQ.", "delivery", NULL);
    consumer->consumed = metric_with(consumed, "first");
    consumer->redelivered = metric_with(consumed, "again");
    struct metric_family *settled =
        metrics_counter("culvert_bus_settled_total", "Messages acknowledged to or rejected at RabbitMQ.", "how", NULL);
    consumer->acknowledged = metric_with(settled, "acknowledged");
    consumer->rejected = metric_with(settled, "rejected");
    consumer->unsettled = metric_with(
        metrics_gauge("culvert_bus_unsettled", "Messages consumed and not yet acknowledged or rejected.", NULL));
}

struct amqp_consumer *amqp_consumer_create(const struct amqp_consumer_options *options)
{
    struct amqp_consumer *consumer = mem_zalloc(sizeof *consumer);
    consumer->options = *options;
    consumer->settled_last = &consumer->settled;
    amqp_link_init(&consumer->link, options->link);
    pthread_mutex_init(&consumer->mutex, NULL);
    make_metrics(consumer);
    for (unsigned i = 0; i < AMQP_SHARDS_MAX; i++)
        amqp_shard_init(&consumer->shards[i]);
    return consumer;
}

static void delivery_free(struct amqp_delivery *delivery)
{
    metric_move(delivery->consumer->unsettled, -1);
    mem_free(delivery);
}

void amqp_consumer_destroy(struct amqp_consumer *consumer)
{
    if (!consumer) return;
    for (struct amqp_delivery *delivery = consumer->settled, *next; delivery; delivery = next) {
        next = delivery->next_settled;
        delivery_free(delivery);
    }
    for (unsigned i = 0; i < consumer->port_count; i++)
        bus_port_unref(consumer->ports[i]);
    mem_free(consumer->ports);
    amqp_link_finish(&consumer->link);
    pthread_mutex_destroy(&consumer->mutex);
    mem_free(consumer);
}

// ---- for loops -----------------------------------------------------------------------------------------------------

struct str amqp_delivery_body(const struct amqp_delivery *delivery)
{
    return str_of(delivery->body, delivery->len);
}

struct str amqp_delivery_signature(const struct amqp_delivery *delivery)
{
    return str_of(delivery->signature, strnlen(delivery->signature, sizeof delivery->signature - 1));
}

unsigned amqp_delivery_shard(const struct amqp_delivery *delivery)
{
    return delivery->shard;
}

void amqp_delivery_settle(struct amqp_delivery *delivery, enum amqp_settlement settlement)
{
    struct amqp_consumer *consumer = delivery->consumer;
    delivery->settlement = settlement;
    delivery->next_settled = NULL;
    pthread_mutex_lock(&consumer->mutex);
    bool first = consumer->settled == NULL;
    *consumer->settled_last = delivery;
    consumer->settled_last = &delivery->next_settled;
    pthread_mutex_unlock(&consumer->mutex);
    if (first) amqp_link_wake(&consumer->link);
}

bool amqp_delivery_is_doomed(const struct amqp_delivery *delivery)
{
    return delivery->is_head && delivery->returns >= delivery->consumer->options.topology->delivery_limit;
}

static void on_item(struct bus_port_item *item, void *ctx)
{
    struct amqp_delivery *delivery = (struct amqp_delivery *)item; // its first member
    delivery->consumer->options.on_delivery(ctx, delivery);
}

static void on_item_dropped(struct bus_port_item *item)
{
    struct amqp_delivery *delivery = (struct amqp_delivery *)item;
    amqp_delivery_settle(delivery, AMQP_KEPT);
}

// ---- deliveries ----------------------------------------------------------------------------------------------------

static void hand_over(struct amqp_consumer *consumer, unsigned index)
{
    for (struct amqp_delivery *delivery; (delivery = amqp_shard_hand_over(&consumer->shards[index]));)
        bus_port_send(consumer->ports[index % consumer->port_count], &delivery->item);
}

static enum error_code take_delivery(struct amqp_consumer *consumer, amqp_channel_t channel, uint64_t tag,
                                     bool is_again, struct error *err)
{
    amqp_message_t message;
    amqp_rpc_reply_t reply = amqp_read_message(consumer->link.connection, channel, &message, 0);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) return error_set(err, ERROR_UNAVAILABLE, "message is truncated");
    unsigned index = (unsigned)channel - 1;
    struct amqp_delivery *delivery = amqp_delivery_create(&message);
    amqp_destroy_message(&message);
    delivery->item = (struct bus_port_item){.open = on_item, .drop = on_item_dropped};
    delivery->consumer = consumer;
    delivery->shard = index;
    delivery->tag = tag;
    amqp_shard_add(&consumer->shards[index], delivery);
    metric_add(is_again ? consumer->redelivered : consumer->consumed, 1);
    metric_move(consumer->unsettled, 1);
    hand_over(consumer, index);
    return ERROR_NONE;
}

static enum error_code read_deliveries(struct amqp_consumer *consumer, struct error *err)
{
    for (;;) {
        amqp_frame_t frame;
        enum error_code code = amqp_link_next(&consumer->link, &frame, err);
        if (code == ERROR_AGAIN) return ERROR_NONE;
        if (code != ERROR_NONE) return code;
        if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_DELIVER_METHOD) continue;
        const amqp_basic_deliver_t *deliver = frame.payload.method.decoded;
        if (frame.channel < 1 || frame.channel > consumer->options.topology->shards) continue;
        code = take_delivery(consumer, frame.channel, deliver->delivery_tag, deliver->redelivered, err);
        if (code != ERROR_NONE) return code;
    }
}

// ---- settling ------------------------------------------------------------------------------------------------------

static struct amqp_delivery *take_settled(struct amqp_consumer *consumer)
{
    pthread_mutex_lock(&consumer->mutex);
    struct amqp_delivery *settled = consumer->settled;
    consumer->settled = NULL;
    consumer->settled_last = &consumer->settled;
    pthread_mutex_unlock(&consumer->mutex);
    return settled;
}

// What comes back from loops: marked, or freed when its connection is over.
static void note_settled(struct amqp_consumer *consumer)
{
    for (struct amqp_delivery *delivery = take_settled(consumer), *next; delivery; delivery = next) {
        next = delivery->next_settled;
        if (delivery->is_stale)
            delivery_free(delivery);
        else if (delivery->settlement != AMQP_KEPT)
            delivery->state = delivery->settlement == AMQP_APPLIED ? AMQP_DELIVERY_APPLIED : AMQP_DELIVERY_DEAD;
    }
}

// All that is done at the head, with as few frames as possible.
static enum error_code acknowledge(struct amqp_consumer *consumer, unsigned index, struct error *err)
{
    struct amqp_shard *shard = &consumer->shards[index];
    amqp_connection_state_t connection = consumer->link.connection;
    amqp_channel_t channel = (amqp_channel_t)(index + 1);
    uint64_t up_to = 0;
    int status = AMQP_STATUS_OK;
    while (amqp_shard_has_done(shard) && status == AMQP_STATUS_OK) {
        struct amqp_delivery *delivery = amqp_shard_pop(shard);
        if (delivery->state == AMQP_DELIVERY_APPLIED) {
            up_to = delivery->tag;
            metric_add(consumer->acknowledged, 1);
        } else {
            if (up_to) status = amqp_basic_ack(connection, channel, up_to, 1);
            up_to = 0;
            if (status == AMQP_STATUS_OK) status = amqp_basic_reject(connection, channel, delivery->tag, 0);
            metric_add(consumer->rejected, 1);
        }
        delivery_free(delivery);
    }
    if (up_to && status == AMQP_STATUS_OK) status = amqp_basic_ack(connection, channel, up_to, 1);
    return amqp_link_status(status, "acknowledge", err);
}

static enum error_code acknowledge_all(struct amqp_consumer *consumer, struct error *err)
{
    enum error_code code = ERROR_NONE;
    note_settled(consumer);
    for (unsigned i = 0; i < consumer->options.topology->shards && code == ERROR_NONE; i++) {
        code = acknowledge(consumer, i, err);
        if (code == ERROR_NONE && !atomic_load(&consumer->retiring)) hand_over(consumer, i);
    }
    return code;
}

// The connection is over: what loops hold is freed when it comes back.
static void forget_all(struct amqp_consumer *consumer)
{
    for (unsigned i = 0; i < AMQP_SHARDS_MAX; i++) {
        for (struct amqp_delivery *delivery; (delivery = amqp_shard_forget(&consumer->shards[i]));) {
            if (delivery->state == AMQP_DELIVERY_WITH_A_LOOP)
                delivery->is_stale = true;
            else
                delivery_free(delivery);
        }
    }
}

// ---- the thread ----------------------------------------------------------------------------------------------------

static enum error_code open_shard(struct amqp_consumer *consumer, unsigned index, struct error *err)
{
    struct amqp_link *link = &consumer->link;
    amqp_channel_t channel = (amqp_channel_t)(index + 1);
    char queue[AMQP_NAME_BYTES];
    amqp_topology_queue(consumer->options.topology, index, queue);
    if (channel != CHANNEL) { // the first one declared everything
        amqp_channel_open(link->connection, channel);
        enum error_code code = amqp_link_check(link, "channel", err);
        if (code != ERROR_NONE) return code;
    }
    amqp_basic_qos(link->connection, channel, 0, (uint16_t)consumer->options.prefetch, 0);
    enum error_code code = amqp_link_check(link, "prefetch", err);
    if (code != ERROR_NONE) return code;
    amqp_basic_consume(link->connection, channel, amqp_link_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    return amqp_link_check(link, queue, err);
}

static enum error_code open_all(struct amqp_consumer *consumer, struct error *err)
{
    struct amqp_link *link = &consumer->link;
    enum error_code code = amqp_link_open(link, err);
    if (code != ERROR_NONE) return code;
    amqp_channel_open(link->connection, CHANNEL);
    code = amqp_link_check(link, "channel", err);
    if (code == ERROR_NONE) code = amqp_topology_declare(consumer->options.topology, link, CHANNEL, err);
    for (unsigned i = 0; i < consumer->options.topology->shards && code == ERROR_NONE; i++)
        code = open_shard(consumer, i, err);
    return code;
}

static bool is_waiting(const struct amqp_consumer *consumer)
{
    for (unsigned i = 0; i < consumer->options.topology->shards; i++)
        if (amqp_shard_is_at_work(&consumer->shards[i])) return true;
    return false;
}

// Until the connection breaks (the error), nothing may be consumed any more, or the consumer is
// stopped (ERROR_NONE).
static enum error_code serve(struct amqp_consumer *consumer, struct error *err)
{
    for (;;) {
        // Leaving is the way to take no more: what is not acknowledged goes to the next consumer.
        bool retiring = atomic_load(&consumer->retiring);
        bool leaving = atomic_load(&consumer->stopping) || !consumer->options.may_consume(consumer->options.arg);
        enum error_code code = retiring || leaving ? ERROR_NONE : read_deliveries(consumer, err);
        if (code == ERROR_NONE) code = acknowledge_all(consumer, err);
        if (code != ERROR_NONE) return code;
        if (leaving || (retiring && !is_waiting(consumer))) return ERROR_NONE;
        if (retiring)
            amqp_link_pause(&consumer->link, RETIRED_MS);
        else
            amqp_link_wait(&consumer->link, IDLE_MS);
    }
}

static void run_connection(struct amqp_consumer *consumer)
{
    struct error err = {0};
    enum error_code code = open_all(consumer, &err);
    if (code == ERROR_NONE) {
        backoff_reset(&consumer->link.backoff);
        log_info("bus", "rabbitmq_connected", log_c("link", consumer->link.options.name));
        code = serve(consumer, &err);
    }
    amqp_link_close(&consumer->link, code == ERROR_NONE);
    forget_all(consumer);
    if (code != ERROR_NONE) log_warn("bus", "rabbitmq_lost", log_c("link", consumer->link.options.name), log_err(&err));
}

static void *thread_main(void *arg)
{
    struct amqp_consumer *consumer = arg;
    while (!atomic_load(&consumer->stopping)) {
        bool may = !atomic_load(&consumer->retiring) && consumer->options.may_consume(consumer->options.arg);
        if (may) run_connection(consumer);
        note_settled(consumer);
        if (atomic_load(&consumer->stopping)) break;
        if (may)
            amqp_link_back_off(&consumer->link);
        else
            amqp_link_pause(&consumer->link, IDLE_MS);
    }
    note_settled(consumer);
    return NULL;
}

enum error_code amqp_consumer_start(struct amqp_consumer *consumer, struct bus_port *const *ports, unsigned port_count,
                                    struct error *err)
{
    consumer->ports = mem_array(port_count, sizeof *consumer->ports);
    consumer->port_count = port_count;
    for (unsigned i = 0; i < port_count; i++)
        consumer->ports[i] = bus_port_ref(ports[i]);
    if (pthread_create(&consumer->thread, NULL, thread_main, consumer) != 0)
        return error_set(err, ERROR_IO, "cannot create a thread for RabbitMQ");
    pthread_setname_np(consumer->thread, "bus-consume");
    consumer->has_thread = true;
    return ERROR_NONE;
}

void amqp_consumer_retire(struct amqp_consumer *consumer)
{
    atomic_store(&consumer->retiring, true);
    amqp_link_wake(&consumer->link);
}

void amqp_consumer_stop(struct amqp_consumer *consumer)
{
    if (!consumer || !consumer->has_thread) return;
    atomic_store(&consumer->stopping, true);
    amqp_link_wake(&consumer->link);
    pthread_join(consumer->thread, NULL);
    consumer->has_thread = false;
}
