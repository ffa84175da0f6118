// The end of a worker: each step waits for the one before.
#include "api/api.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "server/chores/grants.h"
#include "server/chores/sweeper.h"
#include "server/chores/traffic.h"
#include "server/http/admin_door.h"
#include "server/http/api_door.h"
#include "server/ingress/ingress.h"
#include "server/intake/intake.h"
#include "server/operations/operation_sender.h"
#include "server/sessions/registry.h"
#include "server/sessions/sessions.h"
#include "server/worker.h"
#include "server/worker_peers.h"

enum { IDLE_POLL_MS = 20 };

struct worker_drain {
    struct worker *worker;
    uv_timer_t idle_poll;
    uint64_t deadline_ms, lame_duck_ms;
    bool node_drained, peers_retired, told_late;
    unsigned doors_open;
};

static void end_loop(void *arg)
{
    struct worker_drain *drain = arg;
    struct loop *loop = drain->worker->loop;
    mem_free(drain);
    loop_stop(loop);
}

static void on_redis_closed(void *arg)
{
    struct worker_drain *drain = arg;
    drain->worker->redis = NULL;
    end_loop(drain);
}

static void on_pg_closed(void *arg)
{
    struct worker_drain *drain = arg;
    struct worker *worker = drain->worker;
    worker->pg = NULL;
    // What still waits is told now; the API takes those answers, so it goes last.
    intake_destroy(worker->intake);
    api_auth_destroy(worker->auth);
    grants_destroy(worker->grants);
    sweeper_destroy(worker->sweeper);
    operation_sender_destroy(worker->operations);
    worker->operations = NULL;
    api_destroy(worker->api_core);
    sessions_destroy(worker->sessions);
    registry_destroy(worker->registry);
    traffic_destroy(worker->traffic);
    if (worker->redis)
        redis_close(worker->redis, on_redis_closed, drain);
    else
        end_loop(drain);
}

static void on_peers_closed(void *arg)
{
    struct worker_drain *drain = arg;
    struct worker *worker = drain->worker;
    worker->peers = NULL;
    if (loop_index(worker->loop) == 0) runtime_tokens_stop(worker->server->tokens);
    if (worker->pg)
        pg_close(worker->pg, on_pg_closed, drain);
    else
        on_pg_closed(drain);
}

static void close_storage(struct worker_drain *drain)
{
    struct worker *worker = drain->worker;
    if (worker->intake) intake_stop(worker->intake);
    sessions_stop(worker->sessions);
    operation_sender_stop(worker->operations);
    grants_stop(worker->grants);
    if (worker->peers) worker_peers_close_door(worker->peers); // its calls are the node's
    if (worker->node) {
        intake_set_node(worker->intake, NULL);
        tunnel_node_destroy(worker->node);
        worker->node = NULL;
    }
    registry_stop(worker->registry);
    if (worker->peers)
        worker_peers_close(worker->peers, on_peers_closed, drain);
    else
        on_peers_closed(drain);
}

static void on_door_closed(void *arg)
{
    struct worker_drain *drain = arg;
    if (--drain->doors_open == 0) close_storage(drain);
}

static void close_doors(struct worker_drain *drain)
{
    struct worker *worker = drain->worker;
    drain->doors_open = 1;
    if (worker->api) {
        drain->doors_open++;
        api_door_close(worker->api, on_door_closed, drain);
    }
    if (worker->ingress) {
        drain->doors_open++;
        ingress_close(worker->ingress, on_door_closed, drain);
    }
    if (worker->admin) {
        drain->doors_open++;
        admin_door_close(worker->admin, on_door_closed, drain);
    }
    on_door_closed(drain);
}

static void on_idle_poll_closed(uv_handle_t *handle)
{
    close_doors(handle->data);
}

static bool is_idle(const struct worker *worker)
{
    return (!worker->api || api_door_is_idle(worker->api)) && (!worker->ingress || ingress_is_idle(worker->ingress)) &&
           (!worker->intake || intake_is_idle(worker->intake)) &&
           (!worker->peers || worker_peers_is_idle(worker->peers));
}

// Other replicas hand calls over for as long as there is a session here; then they are told to go elsewhere.
static void on_idle_poll(uv_timer_t *timer)
{
    struct worker_drain *drain = timer->data;
    struct worker *worker = drain->worker;
    bool late = clock_mono_ms() >= drain->deadline_ms;
    if (drain->node_drained && !drain->peers_retired && worker->peers) {
        drain->peers_retired = true;
        worker_peers_retire(worker->peers);
        if (!late) return; // the word must leave
    }
    if (!late && !(drain->node_drained && is_idle(worker))) return;
    if (late && !drain->told_late && !is_idle(worker)) log_warn("worker", "drain_deadline_passed");
    drain->told_late |= late;
    if (!drain->node_drained) return; // the node keeps to the same deadline by itself
    uv_close((uv_handle_t *)timer, on_idle_poll_closed);
}

static void on_node_drained(void *arg)
{
    ((struct worker_drain *)arg)->node_drained = true;
}

static void on_lame_duck_over(uv_timer_t *timer)
{
    struct worker_drain *drain = timer->data;
    struct worker *worker = drain->worker;
    const struct server_config *config = worker->server->config;
    drain->deadline_ms = clock_mono_ms() + (uint64_t)config->drain_deadline_ms;
    if (worker->api) api_door_stop_accepting(worker->api);
    if (worker->ingress) ingress_stop_accepting(worker->ingress);
    uv_timer_start(&drain->idle_poll, on_idle_poll, 0, IDLE_POLL_MS);
    if (worker->node)
        tunnel_node_drain(worker->node, (uint64_t)config->drain_spread_ms, (uint64_t)config->drain_deadline_ms,
                          on_node_drained, drain);
    else
        drain->node_drained = true;
}

static void begin(void *arg)
{
    struct worker_drain *drain = arg;
    struct worker *worker = drain->worker;
    uv_timer_init(loop_uv(worker->loop), &drain->idle_poll);
    drain->idle_poll.data = drain;
    if (drain->lame_duck_ms && worker->api) api_door_wind_down(worker->api);
    if (drain->lame_duck_ms && worker->ingress) ingress_wind_down(worker->ingress);
    uv_timer_start(&drain->idle_poll, on_lame_duck_over, drain->lame_duck_ms, 0);
}

void worker_drain(struct worker *worker, uint64_t lame_duck_ms)
{
    struct worker_drain *drain = mem_zalloc(sizeof *drain);
    drain->worker = worker;
    drain->lame_duck_ms = lame_duck_ms;
    loop_post(worker->loop, begin, drain);
}
