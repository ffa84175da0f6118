#include "server/bus/rabbitmq.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "server/bus/amqp_address.h"
#include "server/bus/amqp_link.h"

enum { PORTS_MAX = 64 };

struct rabbitmq {
    struct rabbitmq_options options;
    struct amqp_address address;
    struct amqp_topology topology;
    char exchange[AMQP_NAME_BYTES];
    struct amqp_link_options publish_link, consume_link;
    struct amqp_publisher *publisher;
    struct amqp_consumer *consumer;
    pthread_mutex_t mutex; // guards the ports, while loops start
    struct bus_port *ports[PORTS_MAX];
    unsigned port_count;
    atomic_int databases; // loops that see theirs
};

static bool may_consume(void *arg)
{
    return atomic_load(&((struct rabbitmq *)arg)->databases) > 0;
}

static void make_links(struct rabbitmq *rabbitmq)
{
    const struct rabbitmq_options *options = &rabbitmq->options;
    rabbitmq->publish_link = (struct amqp_link_options){
        .name = "publish",
        .replica = options->replica,
        .address = &rabbitmq->address,
        .ca_file = options->ca_file,
        .certificate_file = options->certificate_file,
        .key_file = options->key_file,
        .connect_timeout_ms = options->connect_timeout_ms,
        .heartbeat_ms = options->heartbeat_ms,
    };
    rabbitmq->consume_link = rabbitmq->publish_link;
    rabbitmq->consume_link.name = "consume";
    rabbitmq->publisher = amqp_publisher_create(&(struct amqp_publisher_options){
        .link = &rabbitmq->publish_link,
        .topology = &rabbitmq->topology,
        .window = options->window,
        .window_bytes = options->window_bytes,
        .confirm_timeout_ms = options->confirm_timeout_ms,
    });
    rabbitmq->consumer = amqp_consumer_create(&(struct amqp_consumer_options){
        .link = &rabbitmq->consume_link,
        .topology = &rabbitmq->topology,
        .prefetch = (unsigned)options->prefetch,
        .on_delivery = bus_rabbitmq_on_delivery,
        .may_consume = may_consume,
        .arg = rabbitmq,
    });
}

struct rabbitmq *rabbitmq_create(const struct rabbitmq_options *options, struct error *err)
{
    struct rabbitmq *rabbitmq = mem_zalloc(sizeof *rabbitmq);
    if (amqp_address_init(&rabbitmq->address, options->url, options->password_file, options->allow_plaintext, err) !=
        ERROR_NONE) {
        mem_free(rabbitmq);
        return NULL;
    }
    rabbitmq->options = *options;
    rabbitmq->options.url = rabbitmq->options.password_file = NULL;
    rabbitmq->topology = (struct amqp_topology){.prefix = options->prefix,
                                                .shards = (unsigned)options->shards,
                                                .delivery_limit = options->delivery_limit,
                                                .queue_bytes_max = options->queue_bytes_max,
                                                .dead_letters_max = options->dead_letters_max};
    amqp_topology_exchange(&rabbitmq->topology, rabbitmq->exchange);
    pthread_mutex_init(&rabbitmq->mutex, NULL);
    make_links(rabbitmq);
    return rabbitmq;
}

enum error_code rabbitmq_start(struct rabbitmq *rabbitmq, struct error *err)
{
    enum error_code code = amqp_publisher_start(rabbitmq->publisher, err);
    if (code != ERROR_NONE) return code;
    return amqp_consumer_start(rabbitmq->consumer, rabbitmq->ports, rabbitmq->port_count, err);
}

void rabbitmq_retire(struct rabbitmq *rabbitmq)
{
    if (rabbitmq) amqp_consumer_retire(rabbitmq->consumer);
}

void rabbitmq_stop(struct rabbitmq *rabbitmq)
{
    if (!rabbitmq) return;
    amqp_publisher_stop(rabbitmq->publisher);
    amqp_consumer_stop(rabbitmq->consumer);
}

void rabbitmq_destroy(struct rabbitmq *rabbitmq)
{
    if (!rabbitmq) return;
    amqp_publisher_destroy(rabbitmq->publisher);
    amqp_consumer_destroy(rabbitmq->consumer);
    for (unsigned i = 0; i < rabbitmq->port_count; i++)
        bus_port_unref(rabbitmq->ports[i]);
    pthread_mutex_destroy(&rabbitmq->mutex);
    amqp_address_finish(&rabbitmq->address);
    purpose_key_finish(&rabbitmq->options.key);
    mem_free(rabbitmq);
}

const struct rabbitmq_options *rabbitmq_options(const struct rabbitmq *rabbitmq)
{
    return &rabbitmq->options;
}

struct amqp_publisher *rabbitmq_publisher(const struct rabbitmq *rabbitmq)
{
    return rabbitmq->publisher;
}

unsigned rabbitmq_shard(const struct rabbitmq *rabbitmq, const struct runtime_key *key)
{
    return amqp_topology_shard(&rabbitmq->topology, key);
}

void rabbitmq_sign(const struct rabbitmq *rabbitmq, unsigned shard, struct str body, char out[BUS_SIGNATURE_TEXT_BYTES])
{
    bus_signature_make(&rabbitmq->options.key, str_c(rabbitmq->exchange), shard, body, out);
}

bool rabbitmq_is_signed(const struct rabbitmq *rabbitmq, unsigned shard, struct str body, struct str signature)
{
    if (!signature.len && rabbitmq->options.accept_unsigned) return true;
    return bus_signature_is_good(&rabbitmq->options.key, str_c(rabbitmq->exchange), shard, body, signature);
}

void rabbitmq_attach(struct rabbitmq *rabbitmq, struct bus_port *port)
{
    pthread_mutex_lock(&rabbitmq->mutex);
    if (rabbitmq->port_count < PORTS_MAX) rabbitmq->ports[rabbitmq->port_count++] = bus_port_ref(port);
    pthread_mutex_unlock(&rabbitmq->mutex);
}

void rabbitmq_note_database(struct rabbitmq *rabbitmq, bool is_there)
{
    atomic_fetch_add(&rabbitmq->databases, is_there ? 1 : -1);
}
