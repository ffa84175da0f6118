#include "server/bus/amqp_publisher.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "server/bus/amqp_link.h"

// Confirms are read at least after so many messages: a broker whose answers are not taken stops
// reading, too.
enum { CHANNEL = 1, BURST = 32, IDLE_MS = 1000 };

struct list {
    struct bus_port_item *first, **last;
};

struct amqp_publisher {
    struct amqp_link link;
    struct amqp_publisher_options options;
    char exchange[AMQP_NAME_BYTES], dead[AMQP_NAME_BYTES];
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; // guards queue and stopping
    struct list queue;
    bool stopping;
    // Read by loops.
    atomic_bool open, blocked;
    atomic_uint count;
    atomic_size_t bytes;
    atomic_int late;
    atomic_uint_fast64_t sending_since_ms; // 0: not inside a call that may block
    // The thread's own.
    struct list in_flight; // by tag
    uint64_t last_tag;
    bool misses_queue;   // something was returned: a queue or binding is gone
    uint64_t give_up_ms; // stopping: when to go without the answers
    struct metric *published, *bytes_published, *verdicts[AMQP_LOST + 1], *is_blocked;
};

static void list_init(struct list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void list_add(struct list *list, struct bus_port_item *item)
{
    item->next = NULL;
    *list->last = item;
    list->last = &item->next;
}

static struct bus_port_item *list_take(struct list *list, struct bus_port_item **link)
{
    struct bus_port_item *item = *link;
    *link = item->next;
    if (!item->next) list->last = link;
    item->next = NULL;
    return item;
}

static struct amqp_publication *publication_of(struct bus_port_item *item)
{
    return (struct amqp_publication *)item; // its first member
}

static void make_metrics(struct amqp_publisher *publisher)
{
    struct metric_family *verdicts =
        metrics_counter("culvert_bus_verdicts_total", "Published messages by what RabbitMQ answered.", "verdict", NULL);
    publisher->verdicts[AMQP_CONFIRMED] = metric_with(verdicts, "confirmed");
    publisher->verdicts[AMQP_RETURNED] = metric_with(verdicts, "returned");
    publisher->verdicts[AMQP_NACKED] = metric_with(verdicts, "nacked");
    publisher->verdicts[AMQP_LOST] = metric_with(verdicts, "lost");
    publisher->published =
        metric_with(metrics_counter("culvert_bus_published_total", "Messages published to RabbitMQ.", NULL));
    publisher->bytes_published =
        metric_with(metrics_counter("culvert_bus_published_bytes_total", "Bytes of these messages.", NULL));
    publisher->is_blocked = metric_with(metrics_gauge(
        "culvert_bus_blocked", "1 while RabbitMQ blocks publishers because memory or disk is short.", NULL));
}

struct amqp_publisher *amqp_publisher_create(const struct amqp_publisher_options *options)
{
    struct amqp_publisher *publisher = mem_zalloc(sizeof *publisher);
    publisher->options = *options;
    amqp_link_init(&publisher->link, options->link);
    amqp_topology_exchange(options->topology, publisher->exchange);
    amqp_topology_dead(options->topology, publisher->dead);
    pthread_mutex_init(&publisher->mutex, NULL);
    list_init(&publisher->queue);
    list_init(&publisher->in_flight);
    make_metrics(publisher);
    return publisher;
}

void amqp_publisher_destroy(struct amqp_publisher *publisher)
{
    if (!publisher) return;
    amqp_link_finish(&publisher->link);
    pthread_mutex_destroy(&publisher->mutex);
    mem_free(publisher);
}

// ---- for loops -----------------------------------------------------------------------------------------------------

const char *amqp_publisher_refusal(const struct amqp_publisher *publisher)
{
    if (!atomic_load(&publisher->open)) return "away";
    if (atomic_load(&publisher->blocked)) return "blocked";
    if (atomic_load(&publisher->late) > 0) return "slow";
    if (atomic_load(&publisher->count) >= publisher->options.window ||
        atomic_load(&publisher->bytes) >= publisher->options.window_bytes)
        return "full";
    return NULL;
}

bool amqp_publisher_reserve(struct amqp_publisher *publisher)
{
    if (amqp_publisher_refusal(publisher)) return false;
    if (atomic_fetch_add(&publisher->count, 1) < publisher->options.window) return true;
    atomic_fetch_sub(&publisher->count, 1);
    return false;
}

void amqp_publisher_reserve_past(struct amqp_publisher *publisher)
{
    atomic_fetch_add(&publisher->count, 1);
}

void amqp_publisher_release(struct amqp_publisher *publisher, size_t bytes)
{
    atomic_fetch_sub(&publisher->count, 1);
    atomic_fetch_sub(&publisher->bytes, bytes);
}

void amqp_publisher_send(struct amqp_publisher *publisher, struct amqp_publication *publication)
{
    atomic_fetch_add(&publisher->bytes, publication->body.len);
    publication->is_returned = false;
    pthread_mutex_lock(&publisher->mutex);
    bool first = publisher->queue.first == NULL;
    list_add(&publisher->queue, &publication->item);
    pthread_mutex_unlock(&publisher->mutex);
    if (first) amqp_link_wake(&publisher->link);
}

void amqp_publisher_note_late(struct amqp_publisher *publisher, int by)
{
    atomic_fetch_add(&publisher->late, by);
}

void amqp_publisher_check_progress(struct amqp_publisher *publisher)
{
    uint64_t since = atomic_load(&publisher->sending_since_ms);
    if (since && clock_mono_ms() - since >= publisher->options.confirm_timeout_ms) amqp_link_cut(&publisher->link);
}

// ---- the thread ----------------------------------------------------------------------------------------------------

static void answer(struct amqp_publisher *publisher, struct amqp_publication *publication, enum amqp_verdict verdict)
{
    publication->verdict = verdict;
    metric_add(publisher->verdicts[verdict], 1);
    bus_port_send(publication->port, &publication->item);
}

static void answer_all(struct amqp_publisher *publisher, struct list *list, enum amqp_verdict verdict)
{
    while (list->first)
        answer(publisher, publication_of(list_take(list, &list->first)), verdict);
}

static struct list take_queue(struct amqp_publisher *publisher, bool *out_stopping)
{
    struct list taken;
    list_init(&taken);
    pthread_mutex_lock(&publisher->mutex);
    if (publisher->queue.first) {
        taken.first = publisher->queue.first;
        taken.last = publisher->queue.last;
        list_init(&publisher->queue);
    }
    *out_stopping = publisher->stopping;
    pthread_mutex_unlock(&publisher->mutex);
    return taken;
}

static amqp_table_entry_t text_header(const char *name, const char *text)
{
    return (amqp_table_entry_t){amqp_link_bytes(name),
                                {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_link_bytes(text)}};
}

static int publish(struct amqp_publisher *publisher, const struct amqp_publication *publication)
{
    char key[16], number[24];
    snprintf(key, sizeof key, "%u", publication->shard);
    snprintf(number, sizeof number, "%llu", (unsigned long long)publication->tag);
    amqp_table_entry_t headers[3];
    int count = 0;
    if (publication->signature[0]) headers[count++] = text_header(BUS_SIGNATURE_HEADER, publication->signature);
    if (publication->is_dead) {
        headers[count++] = text_header("x-culvert-reason", publication->reason);
        headers[count++] = text_header("x-culvert-shard", key);
    }
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = amqp_link_bytes(number), // a returned message is known again by it
        .content_type = amqp_link_bytes("application/vnd.culvert.reports"),
    };
    if (count) {
        properties._flags |= AMQP_BASIC_HEADERS_FLAG;
        properties.headers = (amqp_table_t){count, headers};
    }
    return amqp_basic_publish(publisher->link.connection, CHANNEL,
                              amqp_link_bytes(publication->is_dead ? publisher->dead : publisher->exchange),
                              amqp_link_bytes(key), 1, 0, &properties,
                              (amqp_bytes_t){publication->body.len, (void *)(uintptr_t)publication->body.at});
}

static enum error_code send_one(struct amqp_publisher *publisher, struct amqp_publication *publication,
                                struct error *err)
{
    publication->tag = ++publisher->last_tag;
    list_add(&publisher->in_flight, &publication->item);
    atomic_store(&publisher->sending_since_ms, clock_mono_ms());
    int status = publish(publisher, publication);
    atomic_store(&publisher->sending_since_ms, 0);
    metric_add(publisher->published, 1);
    metric_add(publisher->bytes_published, publication->body.len);
    return amqp_link_status(status, "publish", err);
}

// multiple: all up to the tag.
static void settle(struct amqp_publisher *publisher, uint64_t tag, bool multiple, enum amqp_verdict verdict)
{
    struct list *list = &publisher->in_flight;
    for (struct bus_port_item **link = &list->first; *link;) {
        struct amqp_publication *publication = publication_of(*link);
        if (publication->tag > tag) break;
        if (publication->tag != tag && !multiple) {
            link = &(*link)->next;
            continue;
        }
        list_take(list, link);
        bool returned = verdict == AMQP_CONFIRMED && publication->is_returned;
        publisher->misses_queue |= returned;
        answer(publisher, publication, returned ? AMQP_RETURNED : verdict);
    }
}

// The message comes back whole; its confirm follows.
static enum error_code note_returned(struct amqp_publisher *publisher, struct error *err)
{
    amqp_message_t message;
    amqp_rpc_reply_t reply = amqp_read_message(publisher->link.connection, CHANNEL, &message, 0);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        return error_set(err, ERROR_UNAVAILABLE, "returned message is truncated");
    uint64_t tag = 0;
    amqp_bytes_t id = message.properties.message_id;
    bool known = (message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) &&
                 parse_u64(str_of(id.bytes, id.len), 1, UINT64_MAX, &tag, NULL) == ERROR_NONE;
    for (struct bus_port_item *item = publisher->in_flight.first; item && known; item = item->next)
        if (publication_of(item)->tag == tag) publication_of(item)->is_returned = true;
    amqp_destroy_message(&message);
    return ERROR_NONE;
}

static void set_blocked(struct amqp_publisher *publisher, bool blocked)
{
    if (blocked != atomic_load(&publisher->blocked))
        log_warn("bus", blocked ? "rabbitmq_blocked" : "rabbitmq_unblocked",
                 log_c("link", publisher->link.options.name));
    atomic_store(&publisher->blocked, blocked);
    metric_set(publisher->is_blocked, blocked);
}

static enum error_code take_frame(struct amqp_publisher *publisher, const amqp_frame_t *frame, struct error *err)
{
    if (frame->frame_type != AMQP_FRAME_METHOD) return ERROR_NONE;
    const amqp_method_t *method = &frame->payload.method;
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = method->decoded;
        settle(publisher, ack->delivery_tag, ack->multiple, AMQP_CONFIRMED);
        return ERROR_NONE;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = method->decoded;
        settle(publisher, nack->delivery_tag, nack->multiple, AMQP_NACKED);
        return ERROR_NONE;
    }
    case AMQP_BASIC_RETURN_METHOD: return note_returned(publisher, err);
    case AMQP_CONNECTION_BLOCKED_METHOD: set_blocked(publisher, true); return ERROR_NONE;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: set_blocked(publisher, false); return ERROR_NONE;
    default: return ERROR_NONE;
    }
}

static enum error_code read_answers(struct amqp_publisher *publisher, struct error *err)
{
    for (;;) {
        amqp_frame_t frame;
        enum error_code code = amqp_link_next(&publisher->link, &frame, err);
        if (code == ERROR_AGAIN) return ERROR_NONE;
        if (code == ERROR_NONE) code = take_frame(publisher, &frame, err);
        if (code != ERROR_NONE) return code;
    }
}

static enum error_code send_all(struct amqp_publisher *publisher, struct list *queue, struct error *err)
{
    enum error_code code = ERROR_NONE;
    for (unsigned sent = 0; queue->first && code == ERROR_NONE && !atomic_load(&publisher->blocked); sent++) {
        code = send_one(publisher, publication_of(list_take(queue, &queue->first)), err);
        if (code == ERROR_NONE && sent % BURST == BURST - 1) code = read_answers(publisher, err);
    }
    // Blocked or broken: they go another way at once.
    answer_all(publisher, queue, AMQP_LOST);
    return code;
}

static bool may_end(struct amqp_publisher *publisher, bool stopping)
{
    if (!stopping) return false;
    if (!publisher->give_up_ms) publisher->give_up_ms = clock_mono_ms() + publisher->options.confirm_timeout_ms;
    return !publisher->in_flight.first || clock_mono_ms() >= publisher->give_up_ms;
}

// Until the connection breaks (the error) or the publisher is stopped (ERROR_NONE).
static enum error_code serve(struct amqp_publisher *publisher, struct error *err)
{
    for (;;) {
        bool stopping;
        struct list queue = take_queue(publisher, &stopping);
        bool had_work = queue.first != NULL;
        enum error_code code = send_all(publisher, &queue, err);
        if (code == ERROR_NONE) code = read_answers(publisher, err);
        if (code != ERROR_NONE) return code;
        // Connecting declares everything anew.
        if (publisher->misses_queue) return error_set(err, ERROR_UNAVAILABLE, "a queue or its binding was deleted");
        if (may_end(publisher, stopping)) return ERROR_NONE;
        if (!had_work) amqp_link_wait(&publisher->link, stopping ? 100 : IDLE_MS);
    }
}

static enum error_code open_channel(struct amqp_publisher *publisher, struct error *err)
{
    struct amqp_link *link = &publisher->link;
    enum error_code code = amqp_link_open(link, err);
    if (code != ERROR_NONE) return code;
    amqp_channel_open(link->connection, CHANNEL);
    code = amqp_link_check(link, "channel", err);
    if (code == ERROR_NONE) code = amqp_topology_declare(publisher->options.topology, link, CHANNEL, err);
    if (code != ERROR_NONE) return code;
    amqp_confirm_select(link->connection, CHANNEL);
    return amqp_link_check(link, "confirms", err);
}

static void run_connection(struct amqp_publisher *publisher)
{
    struct error err = {0};
    publisher->last_tag = 0;
    publisher->misses_queue = false;
    enum error_code code = open_channel(publisher, &err);
    if (code == ERROR_NONE) {
        backoff_reset(&publisher->link.backoff);
        log_info("bus", "rabbitmq_connected", log_c("link", publisher->link.options.name));
        atomic_store(&publisher->open, true);
        code = serve(publisher, &err);
    }
    atomic_store(&publisher->open, false);
    set_blocked(publisher, false);
    amqp_link_close(&publisher->link, code == ERROR_NONE);
    if (code != ERROR_NONE)
        log_warn("bus", "rabbitmq_lost", log_c("link", publisher->link.options.name), log_err(&err));
    answer_all(publisher, &publisher->in_flight, AMQP_LOST);
}

static void *thread_main(void *arg)
{
    struct amqp_publisher *publisher = arg;
    for (;;) {
        bool stopping;
        run_connection(publisher);
        struct list queue = take_queue(publisher, &stopping);
        answer_all(publisher, &queue, AMQP_LOST);
        if (stopping) return NULL;
        amqp_link_back_off(&publisher->link);
    }
}

enum error_code amqp_publisher_start(struct amqp_publisher *publisher, struct error *err)
{
    if (pthread_create(&publisher->thread, NULL, thread_main, publisher) != 0)
        return error_set(err, ERROR_IO, "cannot create a thread for RabbitMQ");
    pthread_setname_np(publisher->thread, "bus-publish");
    publisher->has_thread = true;
    return ERROR_NONE;
}

void amqp_publisher_stop(struct amqp_publisher *publisher)
{
    if (!publisher || !publisher->has_thread) return;
    pthread_mutex_lock(&publisher->mutex);
    publisher->stopping = true;
    pthread_mutex_unlock(&publisher->mutex);
    amqp_link_wake(&publisher->link);
    pthread_join(publisher->thread, NULL);
    publisher->has_thread = false;
}
