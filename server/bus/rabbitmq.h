// rabbitmq: the process's part of the bus's form `rabbitmq`: one connection that publishes, one
// that consumes, each with its thread, and what all loops need to know of them. Made and ended on
// the main thread.
#ifndef CULVERT_SERVER_BUS_RABBITMQ_H
#define CULVERT_SERVER_BUS_RABBITMQ_H

#include "base/runtime_key.h"
#include "server/bus/amqp_consumer.h"
#include "server/bus/amqp_publisher.h"
#include "server/bus/bus.h"
#include "server/bus/bus_signature.h"

struct rabbitmq;

struct rabbitmq_options {
    const char *replica;
    const char *url, *password_file; // see amqp_address_init(); not kept
    bool allow_plaintext;
    struct purpose_key key; // signs messages; copied
    bool accept_unsigned;   // apply what has no signature (never what has a wrong one)
    uint64_t message_age_max_ms;
    const char *ca_file, *certificate_file, *key_file;
    const char *prefix;
    uint64_t shards, window, window_bytes, prefetch, message_count, message_bytes;
    uint64_t confirm_timeout_ms, connect_timeout_ms, heartbeat_ms;
    uint64_t delivery_limit, queue_bytes_max, dead_letters_max;
};

// Reads files, connects to nothing yet. The texts (but url and password_file) are kept by
// reference.
struct rabbitmq *rabbitmq_create(const struct rabbitmq_options *options, struct error *err);
// Publishes from now on; and consumes, once every loop's bus is made. A broker that is away is
// waited for.
MUST_CHECK enum error_code rabbitmq_start(struct rabbitmq *rabbitmq, struct error *err);
void rabbitmq_retire(struct rabbitmq *rabbitmq);  // consumes no more; NULL is fine
void rabbitmq_stop(struct rabbitmq *rabbitmq);    // after the loops have ended; NULL is fine
void rabbitmq_destroy(struct rabbitmq *rabbitmq); // after the loops were destroyed; NULL is fine

// ---- for the loops -------------------------------------------------------------------------------------------------

struct bus_rabbitmq_options {
    struct rabbitmq *rabbitmq;
    struct pg *pg;                // for verdicts about snapshots, and to know whether the database is there
    struct manifest_known *known; // what the handler was given
    // After callbacks of bus_submit() that the handler did not make: like its on_progress.
    void (*on_progress)(void *ctx);
    void *ctx;
};
// The bus of one loop; before rabbitmq_start(). Reports that the broker does not take at once, or
// whose confirm does not come in time, go to the handler.
struct bus *bus_rabbitmq_create(struct loop *loop, struct event_handler *handler,
                                const struct bus_rabbitmq_options *options);

const struct rabbitmq_options *rabbitmq_options(const struct rabbitmq *rabbitmq);
struct amqp_publisher *rabbitmq_publisher(const struct rabbitmq *rabbitmq);
unsigned rabbitmq_shard(const struct rabbitmq *rabbitmq, const struct runtime_key *key);
// Any thread. The signature of a message for the shard; whether one came with it that is good (or
// none, where that is accepted).
void rabbitmq_sign(const struct rabbitmq *rabbitmq, unsigned shard, struct str body,
                   char out[BUS_SIGNATURE_TEXT_BYTES]);
bool rabbitmq_is_signed(const struct rabbitmq *rabbitmq, unsigned shard, struct str body, struct str signature);
// Any thread: deliveries may come to this port.
void rabbitmq_attach(struct rabbitmq *rabbitmq, struct bus_port *port);
// Any thread: a loop sees the database, or does not see it any more; while none does, nothing is
// consumed.
void rabbitmq_note_database(struct rabbitmq *rabbitmq, bool is_there);

// bus_rabbitmq.c: a port's on_delivery.
void bus_rabbitmq_on_delivery(void *ctx, struct amqp_delivery *delivery);

#endif
