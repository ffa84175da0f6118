#include "tunnel/broker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/session/session.h"

static enum error_code broker_check_options(const struct tunnel_options *options, struct error *err)
{
    if (!options->listen || !options->authenticate || !options->on_session_opening || !options->on_session_open ||
        !options->on_session_closed || !options->on_report)
        return error_set(err, ERROR_INVALID, "tunnel: an address or a callback is missing");
    if (!options->tls_certificate_file || !options->tls_key_file)
        return error_set(err, ERROR_INVALID, "tunnel: TLS certificate and key are required");
    if (!options->sessions_max || !options->streams_max || !options->ping_after_ms || !options->dead_after_ms ||
        !options->head_timeout_ms || !options->buffered_bytes_max || !options->node_buffered_bytes_max)
        return error_set(err, ERROR_INVALID, "tunnel: limits and times must not be zero");
    return ERROR_NONE;
}

struct tunnel_broker *tunnel_broker_create(const struct tunnel_options *options, struct error *err)
{
    if (broker_check_options(options, err)) return NULL;
    struct tunnel_broker *broker = mem_zalloc(sizeof(*broker));
    broker->options = *options;
    broker->options.listen = mem_strdup(options->listen);
    broker->options.tls_certificate_file = mem_strdup(options->tls_certificate_file);
    broker->options.tls_key_file = mem_strdup(options->tls_key_file);
    broker->directory = tunnel_directory_create(clock_mono_ms);
    tunnel_meter_init(&broker->meter);
    broker->sessions.max = options->sessions_max;
    broker->session_addresses = connection_limiter_create(options->sessions_per_address);
    broker->handshake_addresses = connection_limiter_create(options->handshakes_per_address);
    pthread_rwlock_init(&broker->lock, NULL);
    atomic_init(&broker->refs, 1);
    return broker;
}

void tunnel_broker_unref(struct tunnel_broker *broker)
{
    if (atomic_fetch_sub(&broker->refs, 1) != 1) return;
    tunnel_directory_destroy(broker->directory);
    connection_limiter_destroy(broker->session_addresses);
    connection_limiter_destroy(broker->handshake_addresses);
    pthread_rwlock_destroy(&broker->lock);
    mem_free(broker->options.listen);
    mem_free((char *)(uintptr_t)broker->options.tls_certificate_file);
    mem_free((char *)(uintptr_t)broker->options.tls_key_file);
    mem_free(broker);
}

void tunnel_broker_destroy(struct tunnel_broker *broker)
{
    if (!broker) return;
    for (unsigned i = 0; i < TUNNEL_NODES_MAX; i++)
        assert(!broker->nodes[i]);
    tunnel_broker_unref(broker);
}

// ---- orders to sessions anywhere in the process --------------------------------------------------------------

struct broker_order {
    struct tunnel_broker *broker;
    uint64_t id;
    uint64_t newer_epoch; // 0: revoked
    char reason[128];
};

static void broker_on_order(struct tunnel_node *node, void *arg)
{
    struct broker_order *order = arg;
    struct tunnel_session *session = node->closed ? NULL : id_map_get(&node->sessions, order->id);
    if (session && order->newer_epoch)
        tunnel_session_supersede(session, order->newer_epoch);
    else if (session)
        tunnel_session_end(session, TUNNEL_ENDING_REVOKED, order->reason);
    mem_free(order);
}

static void broker_on_match(void *arg, struct tunnel_session_ref ref)
{
    const struct broker_order *pattern = arg;
    struct broker_order *order = mem_dup(pattern, sizeof(*pattern));
    order->id = ref.id;
    if (!tunnel_node_post(pattern->broker, ref.node, broker_on_order, order)) mem_free(order);
}

void tunnel_broker_revoke(struct tunnel_broker *broker, const char *account_id, const char *runtime,
                          const char *token_id, const char *reason)
{
    struct broker_order pattern = {.broker = broker};
    snprintf(pattern.reason, sizeof(pattern.reason), "%s", reason);
    tunnel_directory_match(broker->directory, account_id, runtime, token_id, broker_on_match, &pattern);
}

void tunnel_broker_supersede(struct tunnel_broker *broker, const char *account_id, const char *runtime,
                             uint64_t newer_epoch)
{
    struct broker_order pattern = {.broker = broker, .newer_epoch = newer_epoch};
    tunnel_directory_match_older(broker->directory, &(struct runtime_key){str_c(account_id), str_c(runtime)},
                                 newer_epoch, broker_on_match, &pattern);
}

static void broker_on_wake(struct tunnel_node *node, void *arg)
{
    struct broker_order *order = arg;
    struct tunnel_session *session = node->closed ? NULL : id_map_get(&node->sessions, order->id);
    if (session) tunnel_session_wake_standby(session);
    mem_free(order);
}

static void broker_on_standby(void *arg, struct tunnel_session_ref ref)
{
    struct tunnel_broker *broker = arg;
    struct broker_order *order = mem_zalloc(sizeof(*order));
    order->id = ref.id;
    if (!tunnel_node_post(broker, ref.node, broker_on_wake, order)) mem_free(order);
}

void tunnel_broker_wake_standbys(struct tunnel_broker *broker, const struct runtime_key *key)
{
    tunnel_directory_match_standbys(broker->directory, key, broker_on_standby, broker);
}

static void broker_on_older(void *arg, struct tunnel_session_ref ref)
{
    (void)ref;
    *(bool *)arg = true;
}

bool tunnel_broker_has_older(struct tunnel_broker *broker, const struct runtime_key *key, uint64_t newer_epoch)
{
    bool found = false;
    tunnel_directory_match_older(broker->directory, key, newer_epoch, broker_on_older, &found);
    return found;
}

struct broker_operation {
    uint64_t id;
    struct wire_control control; // its texts lie behind it
    char text[];
};

static void broker_on_operation(struct tunnel_node *node, void *arg)
{
    struct broker_operation *operation = arg;
    struct tunnel_session *session = node->closed ? NULL : id_map_get(&node->sessions, operation->id);
    if (session) tunnel_session_operate(session, &operation->control);
    mem_free(operation);
}

bool tunnel_broker_operate(struct tunnel_broker *broker, const struct tunnel_operation *operation)
{
    struct tunnel_session_ref ref;
    if (!tunnel_directory_find(broker->directory, &(struct runtime_key){operation->account_id, operation->runtime},
                               operation->epoch, &ref))
        return false;
    struct str id = operation->operation_id, document = operation->document;
    struct broker_operation *message = mem_zalloc(sizeof(*message) + id.len + document.len);
    memcpy(message->text, id.at, id.len);
    memcpy(message->text + id.len, document.at, document.len);
    message->id = ref.id;
    message->control = (struct wire_control){.type = WIRE_CONTROL_OPERATION,
                                             .operation = str_of(message->text, id.len),
                                             .attempt = operation->attempt,
                                             .ttl_ms = operation->ttl_ms,
                                             .document = str_of(message->text + id.len, document.len)};
    if (tunnel_node_post(broker, ref.node, broker_on_operation, message)) return true;
    mem_free(message);
    return false;
}

struct broker_move {
    uint64_t spread_ms;
};

static void broker_on_move(struct tunnel_node *node, void *arg)
{
    struct broker_move *move = arg;
    if (!node->closed) tunnel_node_move_sessions(node, move->spread_ms);
    mem_free(move);
}

void tunnel_broker_move_sessions(struct tunnel_broker *broker, uint64_t spread_ms)
{
    for (unsigned i = 0; i < TUNNEL_NODES_MAX; i++) {
        struct broker_move *move = mem_alloc(sizeof(*move));
        move->spread_ms = spread_ms;
        if (!tunnel_node_post(broker, i, broker_on_move, move)) mem_free(move);
    }
}

void tunnel_broker_route_until(struct tunnel_broker *broker, uint64_t mono_ms)
{
    tunnel_directory_route_until(broker->directory, mono_ms);
}

void tunnel_broker_each_session(struct tunnel_broker *broker,
                                void (*on_each)(void *arg, const struct tunnel_session_info *session), void *arg)
{
    tunnel_directory_each(broker->directory, on_each, arg);
}

size_t tunnel_broker_some_sessions(struct tunnel_broker *broker, size_t from, struct tunnel_session_info *out,
                                   size_t max, size_t *out_count)
{
    return tunnel_directory_part(broker->directory, from, out, max, out_count);
}
