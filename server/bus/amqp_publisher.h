// amqp_publisher: messages to RabbitMQ, persistent and mandatory, each answered once by a verdict:
// a thread of its own, since publishing blocks, and a connection of its own, since RabbitMQ stops
// reading one that publishes while it is short of memory or disk. Loops reserve a place in the
// window, hand a publication over, and get it back by message.
#ifndef CULVERT_SERVER_BUS_AMQP_PUBLISHER_H
#define CULVERT_SERVER_BUS_AMQP_PUBLISHER_H

#include "base/error.h"
#include "base/str.h"
#include "server/bus/amqp_topology.h"
#include "server/bus/bus_port.h"
#include "server/bus/bus_signature.h"

struct amqp_publisher;
struct amqp_link_options;

struct amqp_publisher_options {
    const struct amqp_link_options *link;
    const struct amqp_topology *topology;
    uint64_t window, window_bytes; // publications that may be unanswered
    uint64_t confirm_timeout_ms;
};

enum amqp_verdict {
    AMQP_CONFIRMED, // a quorum has it
    AMQP_RETURNED,  // no queue for it
    AMQP_NACKED,    // the queue is full, or RabbitMQ could not
    AMQP_LOST,      // the connection ended before the answer: it may be there or not
};

enum { AMQP_REASON_BYTES = 256 };

// Embedded in what is published. Between hand-over and return it is the publisher's; body and port
// outlive that.
struct amqp_publication {
    struct bus_port_item item;
    struct bus_port *port;
    struct str body;
    unsigned shard;
    bool is_dead; // to the dead messages, with the reason and where it came from
    char reason[AMQP_REASON_BYTES];
    char signature[BUS_SIGNATURE_TEXT_BYTES]; // empty: none, which is what a message that we did not write has
    enum amqp_verdict verdict;
    bool is_returned; // the publisher's own
    uint64_t tag;
};

struct amqp_publisher *amqp_publisher_create(const struct amqp_publisher_options *options);
MUST_CHECK enum error_code amqp_publisher_start(struct amqp_publisher *publisher, struct error *err);
// Thread of main, when no loop hands anything over any more: waits for the answers (for at most the
// timeout), closes the connection and ends the thread.
void amqp_publisher_stop(struct amqp_publisher *publisher);
void amqp_publisher_destroy(struct amqp_publisher *publisher);

// Any thread from here on. Why a message cannot go to the broker now; NULL: it can.
const char *amqp_publisher_refusal(const struct amqp_publisher *publisher);
// Takes a place in the window; false: none. Given back, with the bytes, when the message was
// opened.
bool amqp_publisher_reserve(struct amqp_publisher *publisher);
void amqp_publisher_reserve_past(struct amqp_publisher *publisher); // although the window is full
void amqp_publisher_release(struct amqp_publisher *publisher, size_t bytes);
void amqp_publisher_send(struct amqp_publisher *publisher, struct amqp_publication *publication);
// A publication has no answer in time: as long as there is such a one (+1, later -1), nothing new
// is taken.
void amqp_publisher_note_late(struct amqp_publisher *publisher, int by);
// Something is late: a connection that has not even taken bytes for as long is cut.
void amqp_publisher_check_progress(struct amqp_publisher *publisher);

#endif
