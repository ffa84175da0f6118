// amqp_shard: the messages of one queue that the consumer has taken and not given back yet, in the
// order of their tags: which of them may be handed to a loop, and which can be given back. The
// consumer's; its thread.
#ifndef CULVERT_SERVER_BUS_AMQP_SHARD_H
#define CULVERT_SERVER_BUS_AMQP_SHARD_H

#include "server/bus/amqp_consumer.h"
#include "server/bus/amqp_link.h"
#include "server/bus/bus_signature.h"

enum amqp_delivery_state { AMQP_DELIVERY_WAITS, AMQP_DELIVERY_WITH_A_LOOP, AMQP_DELIVERY_APPLIED, AMQP_DELIVERY_DEAD };

struct amqp_delivery {
    struct bus_port_item item; // first
    struct amqp_consumer *consumer;
    struct amqp_delivery *next_settled; // the consumer's list of those that loops gave back
    struct amqp_delivery *next;         // of its shard
    enum amqp_delivery_state state;
    enum amqp_settlement settlement;
    bool is_stale; // of a connection that is over
    bool is_head;  // nothing of its shard came before it on this connection
    unsigned shard;
    uint64_t tag, returns;
    char signature[BUS_SIGNATURE_TEXT_BYTES]; // empty: none came
    size_t len;
    char body[];
};

// Copies the message.
struct amqp_delivery *amqp_delivery_create(const amqp_message_t *message);

struct amqp_shard {
    struct amqp_delivery *first, **last;
    struct amqp_delivery *waits; // the first of them that no loop has yet
    bool has_seen;               // something came on this connection
};

void amqp_shard_init(struct amqp_shard *shard);
void amqp_shard_add(struct amqp_shard *shard, struct amqp_delivery *delivery);
// The one that a loop may have now, NULL: none.
struct amqp_delivery *amqp_shard_hand_over(struct amqp_shard *shard);
struct amqp_delivery *amqp_shard_pop(struct amqp_shard *shard); // the first, of which there is one
// What is done stands at the head.
bool amqp_shard_has_done(const struct amqp_shard *shard);
bool amqp_shard_is_at_work(const struct amqp_shard *shard); // loops have some of it
// The connection is over: gives what is left, one after the other, then NULL.
struct amqp_delivery *amqp_shard_forget(struct amqp_shard *shard);

#endif
