// amqp_topology: what Culvert needs in RabbitMQ, declared at every connect (a declaration of what
// is there changes nothing): a direct exchange, one quorum queue a shard with a single active
// consumer each, and behind them an exchange and a quorum queue for dead messages. Names begin with
// the prefix: <prefix>.reports, <prefix>.reports.<shard>, <prefix>.reports.dead. A queue is full at
// its bound: it refuses (basic.nack) rather than forgets.
#ifndef CULVERT_SERVER_BUS_AMQP_TOPOLOGY_H
#define CULVERT_SERVER_BUS_AMQP_TOPOLOGY_H

#include "base/runtime_key.h"
#include "base/str.h"
#include "server/bus/amqp_link.h"

enum { AMQP_SHARDS_MAX = 64, AMQP_NAME_BYTES = 128 };

struct amqp_topology {
    const char *prefix;
    unsigned shards;
    uint64_t delivery_limit;   // after so many returns a message may be dead; see amqp_delivery_is_doomed()
    uint64_t queue_bytes_max;  // a shard
    uint64_t dead_letters_max; // the oldest go first
};

MUST_CHECK enum error_code amqp_topology_declare(const struct amqp_topology *topology, struct amqp_link *link,
                                                 amqp_channel_t channel, struct error *err);
// Where messages about a runtime go.
unsigned amqp_topology_shard(const struct amqp_topology *topology, const struct runtime_key *key);

void amqp_topology_exchange(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES]);
void amqp_topology_dead(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES]); // exchange and queue
void amqp_topology_queue(const struct amqp_topology *topology, unsigned shard, char out[AMQP_NAME_BYTES]);

#endif
