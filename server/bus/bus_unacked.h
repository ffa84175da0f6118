// bus_unacked: one message from the broker while its reports are being applied. It is settled
// once all of them are: applied, or kept out and among the dead messages with the reason. While the
// handler's queue is full messages stay as they came, packed and in their order. One loop's.
#ifndef CULVERT_SERVER_BUS_BUS_UNACKED_H
#define CULVERT_SERVER_BUS_BUS_UNACKED_H

#include "server/bus/amqp_consumer.h"
#include "server/bus/amqp_publisher.h"
#include "server/intake/event_handler.h"

struct bus_unacked;
struct rabbitmq;

// What the deliveries of a loop share; its bus's, and outlives the handler's last callbacks.
struct bus_receiver {
    struct event_handler *handler;
    struct pg *pg;
    struct amqp_publisher *publisher;
    struct bus_port *port;
    const struct rabbitmq *rabbitmq;                  // knows whose messages are genuine
    size_t count;                                     // of deliveries that are being applied
    struct bus_unacked *first_waiting, *last_waiting; // not yet unpacked
    bool stopped, pumping;
    struct metric *reports, *dead_refused, *dead_unreadable, *dead_returned, *dead_forged, *dead_expired;
    // Forged messages since the last log line, and the time before which none is written
    // (monotonic).
    uint64_t forged, quiet_until_ms;
};

void bus_receiver_init(struct bus_receiver *receiver);
// What waits goes on, as far as there is room.
void bus_receiver_pump(struct bus_receiver *receiver);
// What waits goes back, and so does what comes from now on.
void bus_receiver_stop(struct bus_receiver *receiver);
bool bus_receiver_is_idle(const struct bus_receiver *receiver);
void bus_unacked_take(struct bus_receiver *receiver, struct amqp_delivery *delivery);

#endif
