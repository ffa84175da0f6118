// amqp_consumer: messages from RabbitMQ, acknowledged by hand once they are applied: a thread and a
// connection of its own. Each shard's queue has one active consumer among all replicas; a shard's
// messages go to one loop, in order, at most `prefetch` of them at once; one that came back more
// than once goes alone. What was not acknowledged when the connection ends is delivered again, here
// or to another replica.
#ifndef CULVERT_SERVER_BUS_AMQP_CONSUMER_H
#define CULVERT_SERVER_BUS_AMQP_CONSUMER_H

#include "base/error.h"
#include "base/str.h"
#include "server/bus/amqp_topology.h"
#include "server/bus/bus_port.h"

struct amqp_consumer;
struct amqp_delivery;
struct amqp_link_options;

struct amqp_consumer_options {
    const struct amqp_link_options *link;
    const struct amqp_topology *topology;
    unsigned prefetch; // a shard
    // On the loop of the port: take the delivery, which is the loop's until amqp_delivery_settle().
    void (*on_delivery)(void *ctx, struct amqp_delivery *delivery);
    // May shards be consumed now? Asked by the thread, from time to time.
    bool (*may_consume)(void *arg);
    void *arg;
};

struct amqp_consumer *amqp_consumer_create(const struct amqp_consumer_options *options);
// Main thread. Shard i goes to ports[i % port_count]; takes references.
MUST_CHECK enum error_code amqp_consumer_start(struct amqp_consumer *consumer, struct bus_port *const *ports,
                                               unsigned port_count, struct error *err);
// Any thread: takes no more, so that what was taken can be applied and acknowledged.
void amqp_consumer_retire(struct amqp_consumer *consumer);
// Thread of main, when no loop applies anything any more: acknowledges what is settled, closes the
// connection and ends the thread.
void amqp_consumer_stop(struct amqp_consumer *consumer);
void amqp_consumer_destroy(struct amqp_consumer *consumer);

struct str amqp_delivery_body(const struct amqp_delivery *delivery);
struct str amqp_delivery_signature(const struct amqp_delivery *delivery); // empty: it has none
unsigned amqp_delivery_shard(const struct amqp_delivery *delivery);
// Came back more often than the limit allows, and nothing else can be the cause: must not be
// applied again.
bool amqp_delivery_is_doomed(const struct amqp_delivery *delivery);

enum amqp_settlement {
    AMQP_APPLIED, // it may go
    AMQP_DEAD,    // to the dead messages, by RabbitMQ itself
    AMQP_KEPT,    // not decided: it comes again when the connection ends
};
// Any thread; the delivery is the consumer's again.
void amqp_delivery_settle(struct amqp_delivery *delivery, enum amqp_settlement settlement);

#endif
