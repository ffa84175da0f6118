#include "server/worker_peers.h"

#include "server/worker_part.h"

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "server/chores/runtime_tokens.h"
#include "server/listener_settings.h"
#include "server/peer/peer_calls.h"
#include "server/peer/peer_links.h"
#include "server/peer/peer_listener.h"
#include "server/peer/peer_settings.h"
#include "server/process_settings.h"

enum { TICK_MS = 1000 };

struct worker_peers {
    struct worker *worker;
    struct peer_pool pool;
    struct peer_links *links; // NULL: this is the only replica
    struct peer_listener *listener;
    struct peer_calls *calls;
    struct timer timer;
    loop_fn on_closed;
    void *closed_arg;
};

// ---- the broker's carrier ------------------------------------------------------------------------------------------

static struct tunnel_carried *carry(void *ctx, struct tunnel_node *node, const struct tunnel_request *request,
                                    const struct tunnel_carrier_events *events, void *arg)
{
    struct server *server = ctx;
    struct worker_peers *peers = server->workers[tunnel_node_index(node)]->peers;
    // Hosts are made up for nothing, and webhooks need no credential: no name that nobody has reaches the registry.
    if (!runtime_tokens_knows(server->tokens, &(struct runtime_key){request->account_id, request->runtime}))
        return NULL;
    return peers ? peer_calls_open(peers->calls, node, request, events, arg) : NULL;
}

const struct tunnel_carrier worker_peers_carrier = {.open = carry,
                                                    .write = peer_calls_write,
                                                    .end = peer_calls_end,
                                                    .consumed = peer_calls_consumed,
                                                    .cancel = peer_calls_cancel};

// ---- life ----------------------------------------------------------------------------------------------------------

static void on_tick(void *arg)
{
    struct worker_peers *peers = arg;
    uint64_t now_ms = clock_mono_ms();
    if (peers->links) peer_links_tick(peers->links, now_ms);
    if (peers->listener) peer_listener_tick(peers->listener, now_ms);
}

static struct worker_peers *create(struct worker *worker)
{
    struct worker_peers *peers = mem_zalloc(sizeof *peers);
    const struct config *config = worker->server->config;
    const struct process_settings *process = process_settings_of(config);
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct peer_settings *peer = peer_settings_of(config);
    peers->worker = worker;
    tls_stream_pool_init(&peers->pool.tls, loop_uv(worker->loop));
    if (listeners->peer[0])
        peers->links = peer_links_create(worker->loop, &(struct peer_links_options){
                                                           .pool = &peers->pool,
                                                           .tls = worker->server->peer_tls.link,
                                                           .streams_max = (unsigned)peer->streams_max,
                                                           .idle_ms = (uint64_t)peer->idle_timeout_ms,
                                                       });
    peers->calls = peer_calls_create(worker->loop, &(struct peer_calls_options){
                                                       .registry = worker->registry,
                                                       .links = peers->links,
                                                       .replica = process->node_name,
                                                   });
    timer_init(&peers->timer, loop_uv(worker->loop), on_tick, peers);
    timer_start(&peers->timer, TICK_MS, TICK_MS);
    return peers;
}

static enum error_code open_listener(struct worker_peers *peers, struct error *err)
{
    struct worker *worker = peers->worker;
    const struct config *config = worker->server->config;
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct peer_settings *peer = peer_settings_of(config);
    if (!listeners->peer[0]) return ERROR_NONE;
    peers->listener = peer_listener_create(worker->loop,
                                           &(struct peer_listener_options){
                                               .listen = listeners->peer,
                                               .pool = &peers->pool,
                                               .tls = worker->server->peer_tls.listener,
                                               .node = worker->node,
                                               .connections_max = (unsigned)peer->connections_max,
                                               .streams_max = (unsigned)peer->streams_max,
                                           },
                                           err);
    return peers->listener ? ERROR_NONE : err->code;
}

void worker_peers_set_tls(struct worker_peers *peers, SSL_CTX *listener, SSL_CTX *link)
{
    if (peers->listener) peer_listener_set_tls(peers->listener, listener);
    if (peers->links) peer_links_set_tls(peers->links, link);
}

// ---- the end: each step waits for the one before -------------------------------------------------------------------

static void on_pool_closed(void *arg)
{
    struct worker_peers *peers = arg;
    loop_fn on_closed = peers->on_closed;
    void *closed_arg = peers->closed_arg;
    timer_finish(&peers->timer);
    mem_free(peers);
    on_closed(closed_arg);
}

static void close_pool(void *arg)
{
    struct worker_peers *peers = arg;
    peers->pool.on_empty = NULL;
    tls_stream_pool_close(&peers->pool.tls, on_pool_closed, peers);
}

static void on_calls_closed(void *arg)
{
    struct worker_peers *peers = arg;
    peers->pool.on_empty = close_pool;
    peers->pool.empty_arg = peers;
    if (peers->pool.pipes == 0) close_pool(peers);
}

static void on_links_closed(void *arg)
{
    struct worker_peers *peers = arg;
    peers->links = NULL;
    peer_calls_close(peers->calls, on_calls_closed, peers);
}

static void close_listener(struct worker_peers *peers)
{
    peer_listener_destroy(peers->listener);
    peers->listener = NULL;
}

static void close_all(struct worker_peers *peers, loop_fn on_closed, void *arg)
{
    peers->on_closed = on_closed;
    peers->closed_arg = arg;
    close_listener(peers);
    if (peers->links)
        peer_links_close(peers->links, on_links_closed, peers);
    else
        on_links_closed(peers);
}

// ---- parts of a worker --------------------------------------------------------------------------

static enum error_code start_peers(struct worker *worker, struct error *err)
{
    (void)err;
    worker->peers = create(worker);
    return ERROR_NONE;
}

static enum error_code start_peer_listener(struct worker *worker, struct error *err)
{
    return open_listener(worker->peers, err);
}

// Other replicas hand calls over for as long as there is a session here; then they are sent elsewhere.
static void retire_peers(struct worker *worker)
{
    if (worker->peers && worker->peers->listener) peer_listener_retire(worker->peers->listener);
}

static bool peers_idle(const struct worker *worker)
{
    return !worker->peers || !worker->peers->listener || peer_listener_is_idle(worker->peers->listener);
}

static void stop_peers(struct worker *worker)
{
    if (worker->peers) close_listener(worker->peers);
}

static void close_peers(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->peers)
        close_all(worker->peers, done, arg);
    else
        done(arg);
    worker->peers = NULL;
}

const struct worker_part worker_part_peers = {
    .start = start_peers, .retire = retire_peers, .is_idle = peers_idle, .stop = stop_peers, .close = close_peers};

const struct worker_part worker_part_peer_listener = {.start = start_peer_listener};
