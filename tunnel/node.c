#include "tunnel/node.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/call/call.h"
#include "tunnel/call/relay.h"
#include "tunnel/session/reports.h"
#include "tunnel/session/session.h"
#include "tunnel/wire/handshake.h"

enum {
    TICK_MS_MAX = 250,
    TICK_MS_MIN = 10,
    TICKED_AT_ONCE = 16,
    CACHE_LINE_BYTES = 64,
    SAY_AFTER_MS = 28500, // agents ask after 29 s without a byte
    USER_TIMEOUT_SLACK_MS = 5000,
    RETRY_AFTER_S_MAX = 5,          // for handshakes over the rate: spread, so that they do not all come back at once
    LIMITED_RETRY_AFTER_S_MAX = 10, // and for those of one token that comes too often
    DRAIN_AGENT_SPREAD = 10,        // an agent's own wait is a tenth of the time over which DRAINs go out
    UNSENT_BYTES = 64 * 1024,       // what the kernel may hold unsent, so that a small answer never waits for more
};

// ---- messages -----------------------------------------------------------------------------------

struct node_message {
    struct tunnel_node *node;
    tunnel_node_fn fn;
    void *arg;
};

void tunnel_node_ref(struct tunnel_node *node)
{
    atomic_fetch_add(&node->refs, 1);
}

void tunnel_node_unref(void *arg)
{
    struct tunnel_node *node = arg;
    if (atomic_fetch_sub(&node->refs, 1) != 1) return;
    struct tunnel_broker *broker = node->broker;
    session_memory_pool_finish(&node->memory);
    mem_free(node);
    tunnel_broker_unref(broker);
}

static void node_on_message(void *arg)
{
    struct node_message *message = arg;
    message->fn(message->node, message->arg);
    tunnel_node_unref(message->node);
    mem_free(message);
}

bool tunnel_node_post(struct tunnel_broker *broker, unsigned index, tunnel_node_fn fn, void *arg)
{
    if (index >= TUNNEL_NODES_MAX) return false;
    // Held over the post: a node leaves the table before its loop may end.
    pthread_rwlock_rdlock(&broker->lock);
    struct tunnel_node *node = broker->nodes[index];
    if (node) {
        struct node_message *message = mem_alloc(sizeof(*message));
        *message = (struct node_message){.node = node, .fn = fn, .arg = arg};
        tunnel_node_ref(node);
        loop_post(node->loop, node_on_message, message);
    }
    pthread_rwlock_unlock(&broker->lock);
    return node != NULL;
}

// ---- the listener -------------------------------------------------------------------------------

static bool node_take_handshake_token(struct tunnel_node *node)
{
    double rate = node->broker->options.handshakes_per_second;
    uint64_t now_ms = clock_mono_ms();
    if (rate <= 0) return true;
    node->handshake_tokens += rate * (double)(now_ms - node->handshake_at_ms) / 1e3;
    if (node->handshake_tokens > rate) node->handshake_tokens = rate;
    node->handshake_at_ms = now_ms;
    if (node->handshake_tokens < 1) return false;
    node->handshake_tokens -= 1;
    return true;
}

static int node_refuse(enum error_code code, struct error *err, const char *text)
{
    switch (error_set(err, code, "%s", text)) {
    case ERROR_UNAUTHENTICATED: return 401;
    case ERROR_FORBIDDEN: return 403;
    case ERROR_LIMITED: return 429;
    default: return 503;
    }
}

static int node_authenticate(struct tunnel_node *node, const struct tunnel_upgrade *upgrade,
                             const struct tunnel_credential *credential, struct tunnel_session_info *info,
                             struct error *err)
{
    const struct tunnel_options *options = &node->broker->options;
    struct error why = {0};
    enum error_code code = options->authenticate(options->ctx, node, credential, &info->identity, &why);
    if (code == ERROR_UNAUTHENTICATED)
        return node_refuse(code, err, why.text[0] ? why.text : "the runtime token is not valid");
    if (code == ERROR_FORBIDDEN) return node_refuse(code, err, why.text[0] ? why.text : "not allowed");
    if (code == ERROR_LIMITED) return node_refuse(code, err, why.text);
    if (code == ERROR_AGAIN) return node_refuse(ERROR_UNAVAILABLE, err, why.text);
    if (code) return node_refuse(ERROR_UNAVAILABLE, err, "the token cannot be checked now");
    if (!str_eq(upgrade->runtime, str_c(info->identity.runtime)))
        return node_refuse(ERROR_FORBIDDEN, err, "the token belongs to another runtime");
    return 101;
}

// Is the address one with a cap of its own? A proxy in front of us speaks for many agents.
static bool node_counts(const struct tunnel_node *node, const char *remote, char network[INET6_ADDRSTRLEN])
{
    const struct tunnel_options *options = &node->broker->options;
    listener_network(remote, network);
    return !options->is_proxy || !options->is_proxy(options->ctx, str_c(network));
}

static void node_copy(char *to, size_t cap, struct str from)
{
    snprintf(to, cap, "%.*s", STR_ARG(from));
}

// A place among the sessions of the process, and of those of its address; tunnel_node_release()
// gives both back.
static bool node_admit(struct tunnel_node *node, const char *remote, struct error *err)
{
    struct tunnel_broker *broker = node->broker;
    char network[INET6_ADDRSTRLEN];
    if (!quota_take(&broker->sessions)) {
        metric_add(broker->meter.refused_process, 1);
        (void)node_refuse(ERROR_UNAVAILABLE, err, "this replica has reached tunnel.sessions_max");
        return false;
    }
    if (!node_counts(node, remote, network) || connection_limiter_enter(broker->session_addresses, str_c(network)))
        return true;
    quota_give(&broker->sessions);
    metric_add(broker->meter.refused_address, 1);
    (void)node_refuse(ERROR_UNAVAILABLE, err, "this address has as many sessions here as it may");
    return false;
}

void tunnel_node_release(struct tunnel_node *node, const char *remote)
{
    char network[INET6_ADDRSTRLEN];
    quota_give(&node->broker->sessions);
    if (node_counts(node, remote, network)) connection_limiter_leave(node->broker->session_addresses, str_c(network));
}

static int node_decide(struct tunnel_node *node, const struct tunnel_upgrade *upgrade, struct tunnel_session_info *info,
                       unsigned *retry_after_s, struct error *err)
{
    struct tunnel_credential credential;
    int status = tunnel_upgrade_check(upgrade, &credential, err);
    if (status != 101) return status;
    credential.remote = upgrade->remote;
    *retry_after_s = 1;
    if (node->draining) return node_refuse(ERROR_UNAVAILABLE, err, "this replica stops");
    if (!node_take_handshake_token(node)) {
        *retry_after_s = 1 + (unsigned)id_random_below(RETRY_AFTER_S_MAX);
        return node_refuse(ERROR_UNAVAILABLE, err, "too many agents connect at once");
    }
    status = node_authenticate(node, upgrade, &credential, info, err);
    if (status == 429) *retry_after_s = 1 + (unsigned)id_random_below(LIMITED_RETRY_AFTER_S_MAX);
    if (status != 101) return status;
    if (!node_admit(node, upgrade->remote, err)) {
        *retry_after_s = RETRY_AFTER_S_MAX;
        return 503;
    }
    node_copy(info->instance_id, sizeof(info->instance_id), upgrade->instance_id);
    node_copy(info->boot_id, sizeof(info->boot_id), upgrade->boot_id);
    node_copy(info->agent_version, sizeof(info->agent_version), upgrade->agent_version);
    info->binds_identities = tunnel_upgrade_has_feature(upgrade, STR(WIRE_FEATURE_BOUND_IDENTITY));
    info->takes_operations = tunnel_upgrade_has_feature(upgrade, STR(WIRE_FEATURE_OPERATIONS));
    node_copy(info->remote, sizeof(info->remote), str_c(upgrade->remote));
    return 101;
}

static int node_on_upgrade(void *ctx, const struct tunnel_upgrade *upgrade, struct tunnel_ws_admission *out,
                           struct error *err)
{
    struct tunnel_node *node = ctx;
    struct tunnel_session_info *info = mem_zalloc(sizeof(*info));
    int status = node_decide(node, upgrade, info, &out->retry_after_s, err);
    char label[16];
    snprintf(label, sizeof(label), "%d", status);
    metric_add(metric_with(node->broker->meter.handshakes, label), 1);
    if (status == 101 && upgrade->binding) wire_proof_make(info->identity.token_sha256, upgrade->binding, out->proof);
    if (status == 101)
        out->user = info;
    else
        mem_free_secret(info, sizeof(*info));
    return status;
}

static void node_on_handshake_failed(void *ctx, const char *why)
{
    const struct tunnel_node *node = ctx;
    metric_add(metric_with(node->broker->meter.handshakes, why), 1);
}

static void node_on_open(void *ctx, void *user, struct tunnel_ws *ws)
{
    struct tunnel_session_info *info = user;
    tunnel_session_start(ctx, info, ws);
    mem_free_secret(info, sizeof(*info));
}

static void node_on_room(void *ctx)
{
    struct tunnel_node *node = ctx;
    if (node->listener && tunnel_ws_server_has_room(node->ws_server)) listener_resume(node->listener);
}

static bool node_has_room(void *ctx)
{
    const struct tunnel_node *node = ctx;
    const struct tunnel_options *options = &node->broker->options;
    return tunnel_ws_server_has_room(node->ws_server) && (!options->may_come || options->may_come(options->ctx));
}

static void node_on_accept(void *ctx, int fd, const char *remote)
{
    struct tunnel_node *node = ctx;
    tunnel_ws_server_adopt(node->ws_server, fd, remote);
}

static enum error_code node_open_listener(struct tunnel_node *node, struct error *err)
{
    const struct tunnel_options *options = &node->broker->options;
    const struct tunnel_ws_options ws_options = {
        .tls_certificate_file = options->tls_certificate_file,
        .tls_key_file = options->tls_key_file,
        .connections_max = options->sessions_max,
        .handshakes_max = TUNNEL_HANDSHAKES_MAX,
        .handshake_addresses = node->broker->handshake_addresses,
        .ctx = node,
        .on_upgrade = node_on_upgrade,
        .on_handshake_failed = node_on_handshake_failed,
        .on_open = node_on_open,
        .on_bytes = tunnel_session_on_bytes,
        .on_writable = tunnel_session_on_writable,
        .on_closed = tunnel_session_on_closed,
        .on_room = node_on_room,
    };
    const struct listener_options listener_options = {
        .address = str_c(options->listen),
        .user_timeout_ms = (unsigned)(options->ping_after_ms + options->dead_after_ms + USER_TIMEOUT_SLACK_MS),
        .unsent_bytes = UNSENT_BYTES,
        .ctx = node,
        .has_room = node_has_room,
        .on_accept = node_on_accept,
    };
    enum error_code code = tunnel_ws_server_create(loop_uv(node->loop), &ws_options, &node->ws_server, err);
    if (code) return code;
    return listener_create(node->loop, &listener_options, &node->listener, err);
}

enum error_code tunnel_node_reload_tls(struct tunnel_node *node, struct error *err)
{
    return tunnel_ws_server_reload_tls(node->ws_server, err);
}

// ---- time ----------------------------------------------------------------------------------------------------

static void node_tick_drain(struct tunnel_node *node, uint64_t now_ms)
{
    if (!node->draining || !node->on_drained) return;
    if (now_ms >= node->drain_deadline_ms)
        while (node->session_list)
            tunnel_session_end(node->session_list, TUNNEL_ENDING_DRAINED, "drain deadline");
    if (node->session_list) return;
    loop_fn on_drained = node->on_drained;
    node->on_drained = NULL;
    log_info("tunnel", "drained", log_uint("node", node->index), log_uint("took_ms", now_ms - node->drain_at_ms));
    on_drained(node->on_drained_arg);
}

// Most of what an idle session costs is that it comes from memory: while one is ticked, the next
// ones are fetched. None of them is freed before the turn after its end.
static void node_tick_sessions(struct tunnel_node *node, uint64_t now_ms)
{
    struct tunnel_session *due[TICKED_AT_ONCE];
    size_t at = 0, count;
    do {
        for (count = 0; count < TICKED_AT_ONCE; count++) {
            due[count] = deadline_table_next_due(&node->deadlines, &at, now_ms);
            if (!due[count]) break;
            __builtin_prefetch(due[count]);
            __builtin_prefetch((const char *)due[count] + CACHE_LINE_BYTES);
        }
        for (size_t i = 0; i < count; i++)
            tunnel_session_fetch(due[i]);
        for (size_t i = 0; i < count; i++) // the ones before may have taken their time, or ended this one
            if (due[i]->state != TUNNEL_SESSION_ENDED) tunnel_session_tick(due[i], clock_mono_ms());
    } while (count == TICKED_AT_ONCE);
}

static void node_on_tick(void *arg)
{
    struct tunnel_node *node = arg;
    uint64_t now_ms = clock_mono_ms();
    node_tick_sessions(node, now_ms);
    for (struct tunnel_call *call = node->call_list, *next; call; call = next) {
        next = tunnel_call_next(call); // a tick opens streams without notifying their owners
        tunnel_call_tick(call);
    }
    node_tick_drain(node, now_ms); // last: its owner may destroy the node
}

static uint64_t node_tick_ms(const struct tunnel_options *options)
{
    uint64_t shortest =
        options->ping_after_ms < options->dead_after_ms ? options->ping_after_ms : options->dead_after_ms;
    if (options->head_timeout_ms < shortest) shortest = options->head_timeout_ms;
    uint64_t tick_ms = shortest / 4;
    if (tick_ms > TICK_MS_MAX) return TICK_MS_MAX;
    return tick_ms < TICK_MS_MIN ? TICK_MS_MIN : tick_ms;
}

// ---- life ----------------------------------------------------------------------------------------------------

static void node_shut(struct tunnel_node *node)
{
    struct tunnel_broker *broker = node->broker;
    pthread_rwlock_wrlock(&broker->lock);
    if (broker->nodes[node->index] == node) broker->nodes[node->index] = NULL;
    pthread_rwlock_unlock(&broker->lock);
    listener_destroy(node->listener);
    node->listener = NULL;
    while (node->session_list)
        tunnel_session_end(node->session_list, TUNNEL_ENDING_DRAINED, "this replica stops");
    while (node->call_list)
        tunnel_call_lose(node->call_list);
    while (node->relay_list)
        tunnel_relay_destroy(node->relay_list);
    node->closed = true;
    if (node->ws_server)
        tunnel_ws_server_destroy(node->ws_server, tunnel_node_unref, node);
    else
        tunnel_node_unref(node);
    timer_finish(&node->tick);
    turn_close(&node->turn, tunnel_node_unref, node);
    id_map_finish(&node->sessions);
    deadline_table_finish(&node->deadlines);
    id_map_finish(&node->calls);
    id_map_finish(&node->relays);
}

static void node_init(struct tunnel_node *node, struct tunnel_broker *broker, struct loop *loop)
{
    atomic_init(&node->refs, 2); // the listener, the turn: each lets go when its handles are closed
    atomic_fetch_add(&broker->refs, 1);
    node->broker = broker;
    node->loop = loop;
    node->index = loop_index(loop);
    node->handshake_tokens = broker->options.handshakes_per_second;
    node->handshake_at_ms = clock_mono_ms();
    id_map_init(&node->sessions);
    deadline_table_init(&node->deadlines);
    node->life = (struct tunnel_life_rules){
        .ping_after_ms = broker->options.ping_after_ms,
        .dead_after_ms = broker->options.dead_after_ms,
        .say_after_ms = broker->options.say_after_ms ? broker->options.say_after_ms : SAY_AFTER_MS,
        .tick_ms = node_tick_ms(&broker->options),
    };
    id_map_init(&node->calls);
    id_map_init(&node->relays);
    session_memory_pool_init(&node->memory);
    turn_init(&node->turn, loop_uv(loop));
    timer_init(&node->tick, loop_uv(loop), node_on_tick, node);
}

struct tunnel_node *tunnel_node_create(struct tunnel_broker *broker, struct loop *loop, struct error *err)
{
    unsigned index = loop_index(loop);
    if (index >= TUNNEL_NODES_MAX) {
        (void)error_set(err, ERROR_INVALID, "at most %d loops", TUNNEL_NODES_MAX);
        return NULL;
    }
    struct tunnel_node *node = mem_zalloc(sizeof(*node));
    node_init(node, broker, loop);
    if (node_open_listener(node, err)) {
        node_shut(node);
        return NULL;
    }
    pthread_rwlock_wrlock(&broker->lock);
    assert(!broker->nodes[index]);
    broker->nodes[index] = node;
    pthread_rwlock_unlock(&broker->lock);
    timer_start(&node->tick, node->life.tick_ms, node->life.tick_ms);
    log_info("tunnel", "listening", log_c("address", broker->options.listen), log_uint("node", index));
    return node;
}

void tunnel_node_destroy(struct tunnel_node *node)
{
    if (node) node_shut(node);
}

unsigned tunnel_node_index(const struct tunnel_node *node)
{
    return node->index;
}

struct loop *tunnel_node_loop(const struct tunnel_node *node)
{
    return node->loop;
}

void tunnel_node_move_sessions(struct tunnel_node *node, uint64_t spread_ms)
{
    uint64_t at = 0;
    uint64_t count = node->session_count ? node->session_count : 1;
    for (struct tunnel_session *session = node->session_list; session; session = session->next)
        tunnel_session_begin_drain(session, spread_ms * at++ / count, spread_ms / DRAIN_AGENT_SPREAD);
}

void tunnel_node_drain(struct tunnel_node *node, uint64_t spread_ms, uint64_t deadline_ms, loop_fn on_done, void *arg)
{
    if (node->draining) return;
    node->draining = true;
    node->drain_at_ms = clock_mono_ms();
    node->drain_deadline_ms = node->drain_at_ms + deadline_ms;
    node->on_drained = on_done;
    node->on_drained_arg = arg;
    listener_destroy(node->listener);
    node->listener = NULL;
    tunnel_node_move_sessions(node, spread_ms);
    log_info("tunnel", "draining", log_uint("node", node->index), log_uint("sessions", node->session_count),
             log_uint("spread_ms", spread_ms), log_uint("deadline_ms", deadline_ms));
}

// ---- sessions by name ----------------------------------------------------------------------------------------

static struct tunnel_session *node_session(struct tunnel_node *node, struct tunnel_session_ref ref)
{
    return ref.node == node->index ? id_map_get(&node->sessions, ref.id) : NULL;
}

void tunnel_session_opened(struct tunnel_node *node, struct tunnel_session_ref ref, uint64_t epoch)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session) tunnel_session_accept(session, epoch);
}

void tunnel_session_stands_by(struct tunnel_node *node, struct tunnel_session_ref ref)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session) tunnel_session_stand_by(session);
}

void tunnel_session_refused(struct tunnel_node *node, struct tunnel_session_ref ref, const char *reason)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session) tunnel_session_end(session, TUNNEL_ENDING_REVOKED, reason);
}

void tunnel_reports_ack(struct tunnel_node *node, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session && session->reports) tunnel_reports_send_ack(session->reports, ack);
}

void tunnel_reports_resume(struct tunnel_node *node, struct tunnel_session_ref ref)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session && session->reports) tunnel_reports_go_on(session->reports);
}

void tunnel_reports_abuse(struct tunnel_node *node, struct tunnel_session_ref ref, const char *reason)
{
    struct tunnel_session *session = node_session(node, ref);
    if (session) tunnel_session_break(session, "reports: %s", reason);
}

bool tunnel_node_has_runtime(struct tunnel_node *node, const struct runtime_key *key)
{
    struct tunnel_session_ref ref;
    return tunnel_directory_find(node->broker->directory, key, 0, &ref);
}
