// The threads of the bus: two loops that publish and apply, the publisher's thread and the
// consumer's, and a broker that is no more than a list in memory whose connections break now and
// then. As objects of the program its functions win over amqp_link.c and librabbitmq. What this is
// for is TSan's eye on whatever crosses threads; what it checks is that whatever was confirmed is
// delivered, and everything is given back at the end.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "server/bus/amqp_consumer.h"
#include "server/bus/amqp_link.h"
#include "server/bus/amqp_publisher.h"
#include "tests/support/tally.h"

enum { LOOPS = 2, SHARDS = 3, EACH = 400, IDS = LOOPS * EACH, BREAKS = 6, LEFT_OVER = 20 };

// ---- the broker ----------------------------------------------------------------------------------------------------

struct message {
    struct message *next;
    uint64_t tag; // 0: not delivered on this connection
    size_t len;
    char body[32];
};

static struct broker {
    pthread_mutex_t mutex; // guards the rest
    struct amqp_link *consumer;
    struct message *shards[SHARDS]; // the oldest first
    uint64_t last_tag[SHARDS];
    uint64_t published, confirmed; // on this connection
    bool breaks_publish, breaks_consume;
    struct message *being_read;
} broker = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&broker.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&broker.mutex);
}

static bool publishes(const struct amqp_link *link)
{
    return link->options.name[0] == 'p';
}

void amqp_link_init(struct amqp_link *link, const struct amqp_link_options *options)
{
    *link = (struct amqp_link){.options = *options, .fd = -1, .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    backoff_init(&link->backoff, 1, 4);
}

void amqp_link_finish(struct amqp_link *link)
{
    close(link->wake_fd);
}

void amqp_link_wake(struct amqp_link *link)
{
    uint64_t one = 1;
    assert_int_equal(write(link->wake_fd, &one, sizeof one), sizeof one);
}

static void wait_for(struct amqp_link *link, uint64_t timeout_ms)
{
    struct pollfd wait = {.fd = link->wake_fd, .events = POLLIN};
    uint64_t ignored;
    if (poll(&wait, 1, (int)timeout_ms) == 1) assert_int_equal(read(link->wake_fd, &ignored, sizeof ignored), 8);
}

void amqp_link_back_off(struct amqp_link *link)
{
    wait_for(link, backoff_next_ms(&link->backoff) + 1);
}

void amqp_link_pause(struct amqp_link *link, uint64_t timeout_ms)
{
    wait_for(link, timeout_ms);
}

void amqp_link_wait(struct amqp_link *link, uint64_t timeout_ms)
{
    wait_for(link, timeout_ms < 10 ? timeout_ms : 10);
}

void amqp_link_cut(struct amqp_link *link)
{
    (void)link;
}

enum error_code amqp_link_open(struct amqp_link *link, struct error *err)
{
    (void)err;
    lock();
    link->connection = (amqp_connection_state_t)link;
    if (publishes(link)) {
        broker.published = broker.confirmed = 0;
    } else {
        broker.consumer = link;
        for (unsigned i = 0; i < SHARDS; i++) {
            broker.last_tag[i] = 0;
            for (struct message *message = broker.shards[i]; message; message = message->next)
                message->tag = 0;
        }
    }
    unlock();
    return ERROR_NONE;
}

void amqp_link_close(struct amqp_link *link, bool in_order)
{
    (void)in_order;
    lock();
    if (broker.consumer == link) broker.consumer = NULL;
    link->connection = NULL;
    unlock();
}

enum error_code amqp_link_check(struct amqp_link *link, const char *what, struct error *err)
{
    (void)link;
    (void)what;
    (void)err;
    return ERROR_NONE;
}

enum error_code amqp_link_status(int status, const char *what, struct error *err)
{
    return status == AMQP_STATUS_OK ? ERROR_NONE : error_set(err, ERROR_UNAVAILABLE, "%s", what);
}

static bool next_of_publisher(amqp_frame_t *out)
{
    static amqp_basic_ack_t ack; // the publisher's thread alone comes here
    if (broker.confirmed == broker.published) return false;
    broker.confirmed = broker.published;
    ack = (amqp_basic_ack_t){.delivery_tag = broker.confirmed, .multiple = 1};
    out->payload.method = (amqp_method_t){.id = AMQP_BASIC_ACK_METHOD, .decoded = &ack};
    return true;
}

static bool next_of_consumer(amqp_frame_t *out)
{
    static amqp_basic_deliver_t deliver; // the consumer's thread alone
    for (unsigned i = 0; i < SHARDS; i++) {
        struct message *message = broker.shards[i];
        while (message && message->tag)
            message = message->next;
        if (!message) continue;
        message->tag = ++broker.last_tag[i];
        broker.being_read = message;
        deliver = (amqp_basic_deliver_t){.delivery_tag = message->tag};
        out->channel = (amqp_channel_t)(i + 1);
        out->payload.method = (amqp_method_t){.id = AMQP_BASIC_DELIVER_METHOD, .decoded = &deliver};
        return true;
    }
    return false;
}

enum error_code amqp_link_next(struct amqp_link *link, amqp_frame_t *out, struct error *err)
{
    lock();
    *out = (amqp_frame_t){.frame_type = AMQP_FRAME_METHOD};
    bool *breaks = publishes(link) ? &broker.breaks_publish : &broker.breaks_consume;
    bool is_broken = *breaks, any = false;
    *breaks = false;
    if (!is_broken) any = publishes(link) ? next_of_publisher(out) : next_of_consumer(out);
    unlock();
    if (is_broken) return error_set(err, ERROR_UNAVAILABLE, "as the test says");
    return any ? ERROR_NONE : ERROR_AGAIN;
}

amqp_rpc_reply_t amqp_read_message(amqp_connection_state_t state, amqp_channel_t channel, amqp_message_t *out,
                                   int flags)
{
    (void)state;
    (void)channel;
    (void)flags;
    lock();
    *out = (amqp_message_t){.body = {broker.being_read->len, mem_dup(broker.being_read->body, broker.being_read->len)}};
    unlock();
    return (amqp_rpc_reply_t){.reply_type = AMQP_RESPONSE_NORMAL};
}

void amqp_destroy_message(amqp_message_t *message)
{
    mem_free(message->body.bytes);
}

int amqp_basic_publish(amqp_connection_state_t state, amqp_channel_t channel, amqp_bytes_t exchange, amqp_bytes_t key,
                       amqp_boolean_t mandatory, amqp_boolean_t immediate, const amqp_basic_properties_t *properties,
                       amqp_bytes_t body)
{
    (void)state;
    (void)channel;
    (void)exchange;
    (void)immediate;
    assert_true(mandatory && properties->delivery_mode == AMQP_DELIVERY_PERSISTENT);
    struct message *message = mem_zalloc(sizeof *message);
    unsigned shard = (unsigned)(((const char *)key.bytes)[0] - '0');
    assert_true(shard < SHARDS && body.len < sizeof message->body);
    message->len = body.len;
    memcpy(message->body, body.bytes, body.len);
    lock();
    struct message **link = &broker.shards[shard];
    while (*link)
        link = &(*link)->next;
    *link = message;
    broker.published++;
    if (broker.consumer) amqp_link_wake(broker.consumer);
    unlock();
    return AMQP_STATUS_OK;
}

int amqp_basic_ack(amqp_connection_state_t state, amqp_channel_t channel, uint64_t tag, amqp_boolean_t multiple)
{
    (void)state;
    (void)multiple;
    lock();
    struct message **first = &broker.shards[channel - 1];
    while (*first && (*first)->tag && (*first)->tag <= tag) {
        struct message *message = *first;
        *first = message->next;
        mem_free(message);
    }
    unlock();
    return AMQP_STATUS_OK;
}

int amqp_basic_reject(amqp_connection_state_t state, amqp_channel_t channel, uint64_t tag, amqp_boolean_t requeue)
{
    (void)requeue;
    return amqp_basic_ack(state, channel, tag, 0);
}

// What the topology says to the broker, and the threads when they begin.
enum error_code amqp_topology_declare(const struct amqp_topology *topology, struct amqp_link *link,
                                      amqp_channel_t channel, struct error *err)
{
    (void)topology;
    (void)link;
    (void)channel;
    (void)err;
    return ERROR_NONE;
}

void amqp_topology_exchange(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.reports", topology->prefix);
}

void amqp_topology_dead(const struct amqp_topology *topology, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.dead", topology->prefix);
}

void amqp_topology_queue(const struct amqp_topology *topology, unsigned shard, char out[AMQP_NAME_BYTES])
{
    snprintf(out, AMQP_NAME_BYTES, "%s.%u", topology->prefix, shard);
}

unsigned amqp_topology_shard(const struct amqp_topology *topology, const struct runtime_key *key)
{
    (void)key;
    return topology->shards - 1;
}

amqp_channel_open_ok_t *amqp_channel_open(amqp_connection_state_t state, amqp_channel_t channel)
{
    (void)state;
    (void)channel;
    return NULL;
}

amqp_confirm_select_ok_t *amqp_confirm_select(amqp_connection_state_t state, amqp_channel_t channel)
{
    (void)state;
    (void)channel;
    return NULL;
}

amqp_basic_qos_ok_t *amqp_basic_qos(amqp_connection_state_t state, amqp_channel_t channel, uint32_t size,
                                    uint16_t count, amqp_boolean_t global)
{
    (void)state;
    (void)channel;
    (void)size;
    (void)count;
    (void)global;
    return NULL;
}

amqp_basic_consume_ok_t *amqp_basic_consume(amqp_connection_state_t state, amqp_channel_t channel, amqp_bytes_t queue,
                                            amqp_bytes_t consumer, amqp_boolean_t no_local, amqp_boolean_t no_ack,
                                            amqp_boolean_t exclusive, amqp_table_t arguments)
{
    (void)state;
    (void)channel;
    (void)queue;
    (void)consumer;
    (void)no_local;
    (void)exclusive;
    (void)arguments;
    assert_false(no_ack);
    return NULL;
}

// ---- the loops -----------------------------------------------------------------------------------------------------

struct side {
    struct loop *loop;
    struct bus_port *port;
    unsigned index;
    uv_timer_t timer;
    unsigned sent;
    bool closed;
};

struct batch {
    struct amqp_publication publication; // first
    struct side *side;
    unsigned id;
    char body[32];
};

static struct bench {
    struct amqp_publisher *publisher;
    struct amqp_consumer *consumer;
    struct side sides[LOOPS];
    struct tally tally; // its mutex guards the rest
    unsigned delivered[IDS + LOOPS * LEFT_OVER], confirmed, lost, done, closed, dropped;
} bench = {.tally = TALLY_INITIALIZER};

static void note(unsigned *count)
{
    tally_note(&bench.tally, count);
}

static unsigned wait_until(const unsigned *count, unsigned wanted)
{
    return tally_wait(&bench.tally, count, wanted);
}

static void publish(struct side *side, unsigned id);

static void on_verdict(struct bus_port_item *item, void *ctx)
{
    struct batch *batch = (struct batch *)item;
    struct side *side = ctx;
    bool is_confirmed = batch->publication.verdict == AMQP_CONFIRMED;
    assert_ptr_equal(batch->side, side);
    amqp_publisher_release(bench.publisher, strlen(batch->body));
    note(is_confirmed ? &bench.confirmed : &bench.lost);
    if (!is_confirmed && !side->closed) publish(side, batch->id); // not known: once more
    mem_free(batch);
}

static void on_dropped(struct bus_port_item *item)
{
    mem_free(item);
    note(&bench.dropped);
}

static void publish(struct side *side, unsigned id)
{
    struct batch *batch = mem_zalloc(sizeof *batch);
    batch->side = side;
    batch->id = id;
    snprintf(batch->body, sizeof batch->body, "%u", id);
    batch->publication = (struct amqp_publication){.item = {.open = on_verdict, .drop = on_dropped},
                                                   .port = side->port,
                                                   .body = str_c(batch->body),
                                                   .shard = id % SHARDS};
    amqp_publisher_reserve_past(bench.publisher);
    amqp_publisher_send(bench.publisher, &batch->publication);
}

static void on_timer(uv_timer_t *timer)
{
    struct side *side = timer->data;
    (void)amqp_publisher_refusal(bench.publisher); // as loops ask
    for (unsigned i = 0; i < 7 && side->sent < EACH; i++)
        publish(side, side->index * EACH + side->sent++);
    amqp_publisher_check_progress(bench.publisher);
    if (side->sent == EACH) uv_timer_stop(timer);
}

static void on_delivery(void *ctx, struct amqp_delivery *delivery)
{
    struct side *side = ctx;
    struct str body = amqp_delivery_body(delivery);
    char text[32];
    snprintf(text, sizeof text, "%.*s", STR_ARG(body));
    unsigned id = (unsigned)strtoul(text, NULL, 10);
    assert_true(id < sizeof bench.delivered / sizeof *bench.delivered);
    assert_int_equal(amqp_delivery_shard(delivery) % LOOPS, side->index);
    pthread_mutex_lock(&bench.tally.mutex);
    if (bench.delivered[id]++ == 0) bench.done++;
    pthread_cond_signal(&bench.tally.changed);
    pthread_mutex_unlock(&bench.tally.mutex);
    amqp_delivery_settle(delivery, side->closed ? AMQP_KEPT : AMQP_APPLIED);
}

static void begin(void *arg)
{
    struct side *side = arg;
    uv_timer_init(loop_uv(side->loop), &side->timer);
    side->timer.data = side;
    uv_timer_start(&side->timer, on_timer, 0, 1);
}

// The last ones are on their way when the port closes.
static void end(void *arg)
{
    struct side *side = arg;
    side->closed = true;
    uv_close((uv_handle_t *)&side->timer, NULL);
    for (unsigned i = 0; i < LEFT_OVER; i++)
        publish(side, IDS + side->index * LEFT_OVER + i);
    bus_port_close(side->port);
    note(&bench.closed);
    loop_stop(side->loop);
}

static bool may_consume(void *arg)
{
    (void)arg;
    return true;
}

static void start(const struct amqp_link_options links[2], const struct amqp_topology *topology)
{
    struct error err;
    struct bus_port *ports[LOOPS];
    bench.publisher = amqp_publisher_create(&(struct amqp_publisher_options){.link = &links[0],
                                                                             .topology = topology,
                                                                             .window = 1 << 20,
                                                                             .window_bytes = 1 << 30,
                                                                             .confirm_timeout_ms = 5000});
    bench.consumer = amqp_consumer_create(&(struct amqp_consumer_options){.link = &links[1],
                                                                          .topology = topology,
                                                                          .prefetch = 8,
                                                                          .on_delivery = on_delivery,
                                                                          .may_consume = may_consume});
    for (unsigned i = 0; i < LOOPS; i++) {
        struct side *side = &bench.sides[i];
        *side = (struct side){.loop = loop_create("side", i), .index = i};
        ports[i] = side->port = bus_port_create(side->loop, side);
    }
    assert_int_equal(amqp_publisher_start(bench.publisher, &err), ERROR_NONE);
    assert_int_equal(amqp_consumer_start(bench.consumer, ports, LOOPS, &err), ERROR_NONE);
    for (unsigned i = 0; i < LOOPS; i++) {
        assert_int_equal(loop_start(bench.sides[i].loop, &err), ERROR_NONE);
        loop_post(bench.sides[i].loop, begin, &bench.sides[i]);
    }
}

// In the server's order.
static void stop(void)
{
    amqp_consumer_retire(bench.consumer);
    for (unsigned i = 0; i < LOOPS; i++)
        loop_post(bench.sides[i].loop, end, &bench.sides[i]);
    assert_int_equal(wait_until(&bench.closed, LOOPS), LOOPS);
    for (unsigned i = 0; i < LOOPS; i++)
        loop_join(bench.sides[i].loop);
    amqp_publisher_stop(bench.publisher);
    amqp_consumer_stop(bench.consumer);
    for (unsigned i = 0; i < LOOPS; i++) {
        loop_destroy(bench.sides[i].loop);
        bus_port_unref(bench.sides[i].port);
    }
    amqp_publisher_destroy(bench.publisher);
    amqp_consumer_destroy(bench.consumer);
}

static void what_is_confirmed_is_delivered(void **state)
{
    static const struct amqp_link_options links[] = {{.name = "publish", .heartbeat_ms = 1000},
                                                     {.name = "consume", .heartbeat_ms = 1000}};
    static const struct amqp_topology topology = {.prefix = "test", .shards = SHARDS, .delivery_limit = 5};
    (void)state;
    log_set_level(LOG_ERROR);
    start(links, &topology);
    for (unsigned i = 1; i <= BREAKS; i++) {
        (void)wait_until(&bench.done, i * IDS / (BREAKS + 1));
        lock();
        broker.breaks_publish = i % 2 == 0;
        broker.breaks_consume = i % 2 == 1;
        unlock();
    }
    assert_int_equal(wait_until(&bench.done, IDS), IDS);
    assert_int_equal(wait_until(&bench.confirmed, IDS), IDS);
    stop();
    assert_int_equal(bench.dropped, LOOPS * LEFT_OVER);
    for (unsigned i = 0; i < IDS; i++)
        assert_true(bench.delivered[i] > 0);
    for (unsigned i = 0; i < SHARDS; i++) // those that came when nobody consumed any more
        amqp_basic_ack(NULL, (amqp_channel_t)(i + 1), UINT64_MAX, 1);
    for (unsigned i = 0; i < SHARDS; i++)
        for (struct message *message = broker.shards[i], *next; message; message = next) {
            next = message->next;
            mem_free(message);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_confirmed_is_delivered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
