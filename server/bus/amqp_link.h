// amqp_link: one connection to RabbitMQ with one thread that works it, since librabbitmq's calls
// block: dialling, TLS, login, heartbeats, frames, its end. The thread owns the link; others may
// only wake or cut it. AMQP 0-9-1 with RabbitMQ's extensions (connection.blocked, basic.nack,
// consumer cancel notifications).
#ifndef CULVERT_SERVER_BUS_AMQP_LINK_H
#define CULVERT_SERVER_BUS_AMQP_LINK_H

#include <amqp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/error.h"
#include "server/bus/amqp_address.h"

// Everything is kept by reference and outlives the link.
struct amqp_link_options {
    const char *name; // "publish", "consume": for logs, metrics and RabbitMQ's list of connections
    const char *replica;
    const struct amqp_address *address;
    const char *ca_file, *certificate_file, *key_file; // "": the system's CAs, no certificate of our own
    uint64_t connect_timeout_ms, heartbeat_ms;
};

struct amqp_link {
    struct amqp_link_options options;
    amqp_connection_state_t connection; // NULL: not found
    struct backoff backoff;
    pthread_mutex_t mutex; // guards fd
    int fd;
    int wake_fd;
    struct metric *connected, *dials;
};

void amqp_link_init(struct amqp_link *link, const struct amqp_link_options *options);
void amqp_link_finish(struct amqp_link *link);

// Tries one of the hosts, drawn at random. Blocks for at most the timeout per step.
MUST_CHECK enum error_code amqp_link_open(struct amqp_link *link, struct error *err);
// in_order: closes the connection in order (and waits for the answer).
void amqp_link_close(struct amqp_link *link, bool in_order);
// Waits between two tries, with full jitter; amqp_link_wake() ends it early.
void amqp_link_back_off(struct amqp_link *link);
// Waits without looking at the connection; amqp_link_wake() ends it early.
void amqp_link_pause(struct amqp_link *link, uint64_t timeout_ms);

// The next frame that is there: ERROR_AGAIN when none has arrived. Anything else: the connection is
// over (close it).
MUST_CHECK enum error_code amqp_link_next(struct amqp_link *link, amqp_frame_t *out, struct error *err);
// Until there is something to read, another thread wakes us, or the time is over.
void amqp_link_wait(struct amqp_link *link, uint64_t timeout_ms);
// How the last synchronous call ended; what: for the error's text.
MUST_CHECK enum error_code amqp_link_check(struct amqp_link *link, const char *what, struct error *err);
MUST_CHECK enum error_code amqp_link_status(int status, const char *what, struct error *err);

// Any thread.
void amqp_link_wake(struct amqp_link *link);
// Any thread: ends the connection while a thread is blocked in it.
void amqp_link_cut(struct amqp_link *link);

static inline amqp_bytes_t amqp_link_bytes(const char *text)
{
    return amqp_cstring_bytes(text);
}

#endif
