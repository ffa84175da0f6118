#include "server/worker_peers.h"

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "server/chores/runtime_tokens.h"
#include "server/peer/peer_calls.h"
#include "server/peer/peer_door.h"
#include "server/peer/peer_links.h"

enum { TICK_MS = 1000 };

struct worker_peers {
    struct worker *worker;
    struct peer_pool pool;
    struct peer_links *links; // NULL: this is the only replica
    struct peer_door *door;
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
    if (!runtime_tokens_knows(server->tokens, request->account_id, request->runtime)) return NULL;
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
    if (peers->door) peer_door_tick(peers->door, now_ms);
}

struct worker_peers *worker_peers_create(struct worker *worker)
{
    struct worker_peers *peers = mem_zalloc(sizeof *peers);
    const struct server_config *config = worker->server->config;
    peers->worker = worker;
    tls_stream_pool_init(&peers->pool.tls, loop_uv(worker->loop));
    if (config->peer_listen[0])
        peers->links = peer_links_create(worker->loop, &(struct peer_links_options){
                                                           .pool = &peers->pool,
                                                           .tls = worker->server->peer_tls.link,
                                                           .streams_max = (unsigned)config->peer_streams_max,
                                                           .idle_ms = (uint64_t)config->peer_idle_timeout_ms,
                                                       });
    peers->calls = peer_calls_create(worker->loop, &(struct peer_calls_options){
                                                       .registry = worker->registry,
                                                       .links = peers->links,
                                                       .replica = config->node_name,
                                                   });
    timer_init(&peers->timer, loop_uv(worker->loop), on_tick, peers);
    timer_start(&peers->timer, TICK_MS, TICK_MS);
    return peers;
}

enum error_code worker_peers_open_door(struct worker_peers *peers, struct error *err)
{
    struct worker *worker = peers->worker;
    const struct server_config *config = worker->server->config;
    if (!config->peer_listen[0]) return ERROR_NONE;
    peers->door = peer_door_create(worker->loop,
                                   &(struct peer_door_options){
                                       .listen = config->peer_listen,
                                       .pool = &peers->pool,
                                       .tls = worker->server->peer_tls.door,
                                       .node = worker->node,
                                       .connections_max = (unsigned)config->peer_connections_max,
                                       .streams_max = (unsigned)config->peer_streams_max,
                                   },
                                   err);
    return peers->door ? ERROR_NONE : err->code;
}

void worker_peers_set_tls(struct worker_peers *peers, SSL_CTX *door, SSL_CTX *link)
{
    if (peers->door) peer_door_set_tls(peers->door, door);
    if (peers->links) peer_links_set_tls(peers->links, link);
}

void worker_peers_retire(struct worker_peers *peers)
{
    if (peers->door) peer_door_retire(peers->door);
}

bool worker_peers_is_idle(const struct worker_peers *peers)
{
    return !peers->door || peer_door_is_idle(peers->door);
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

void worker_peers_close_door(struct worker_peers *peers)
{
    peer_door_destroy(peers->door);
    peers->door = NULL;
}

void worker_peers_close(struct worker_peers *peers, loop_fn on_closed, void *arg)
{
    peers->on_closed = on_closed;
    peers->closed_arg = arg;
    worker_peers_close_door(peers);
    if (peers->links)
        peer_links_close(peers->links, on_links_closed, peers);
    else
        on_links_closed(peers);
}
