// The life of a worker: its thread, the start of its parts, new certificates; its end is in
// server/worker_drain.c.
#include <stdio.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "server/http/api_listener.h"
#include "server/ingress/ingress.h"
#include "server/worker.h"
#include "server/worker_part.h"
#include "server/worker_peers.h"

// While a worker starts: the main thread waits for its loop.
struct worker_start {
    struct worker *worker;
    uv_sem_t opened;
    struct error err;
};

static void open_all(void *arg)
{
    struct worker_start *start = arg;
    struct worker *worker = start->worker;
    enum error_code code = ERROR_NONE;
    for (const struct worker_part *const *part = worker_parts; *part && code == ERROR_NONE; part++)
        if ((*part)->start && (!(*part)->first_loop_alone || loop_index(worker->loop) == 0))
            code = (*part)->start(worker, &start->err);
    start->err.code = code;
    uv_sem_post(&start->opened);
}

struct worker *worker_create(struct server *server, unsigned index, struct error *err)
{
    struct worker *worker = mem_zalloc(sizeof *worker);
    worker->server = server;
    char name[16];
    snprintf(name, sizeof name, "loop-%u", index);
    worker->loop = loop_create(name, index);
    if (loop_start(worker->loop, err) != ERROR_NONE) {
        loop_destroy(worker->loop);
        mem_free(worker);
        return NULL;
    }
    server->workers[index] = worker; // its node's callbacks look it up there
    struct worker_start start = {.worker = worker};
    uv_sem_init(&start.opened, 0);
    loop_post(worker->loop, open_all, &start);
    uv_sem_wait(&start.opened);
    uv_sem_destroy(&start.opened);
    if (start.err.code == ERROR_NONE) return worker;
    *err = start.err;
    worker_drain(worker, 0);
    worker_join(worker);
    worker_destroy(worker);
    server->workers[index] = NULL;
    return NULL;
}

// ---- end -----------------------------------------------------------------------------------------------------------

void worker_join(struct worker *worker)
{
    loop_join(worker->loop);
}

void worker_destroy(struct worker *worker)
{
    if (!worker) return;
    for (const struct worker_part *const *part = worker_parts; *part; part++)
        if ((*part)->release) (*part)->release(worker);
    loop_destroy(worker->loop);
    mem_free(worker);
}

// ---- reload --------------------------------------------------------------------------------------------------------

struct new_tls {
    struct worker *worker;
    SSL_CTX *api, *ingress; // references of ours
    struct peer_tls peer;   // NULL: there is no peer listener
};

static void take_tls(void *arg)
{
    struct new_tls *new_tls = arg;
    struct worker *worker = new_tls->worker;
    struct error err;
    api_listener_set_tls(worker->api, new_tls->api);
    ingress_set_tls(worker->ingress, new_tls->ingress);
    if (new_tls->peer.listener) worker_peers_set_tls(worker->peers, new_tls->peer.listener, new_tls->peer.link);
    if (tunnel_node_reload_tls(worker->node, &err) != ERROR_NONE) log_error("worker", "reload_refused", log_err(&err));
    SSL_CTX_free(new_tls->api);
    SSL_CTX_free(new_tls->ingress);
    peer_tls_finish(&new_tls->peer);
    mem_free(new_tls);
}

void worker_reload_tls(struct worker *worker)
{
    struct new_tls *new_tls = mem_alloc(sizeof *new_tls);
    *new_tls = (struct new_tls){.worker = worker,
                                .api = tls_context_ssl(worker->server->api_tls),
                                .ingress = tls_context_ssl(worker->server->ingress_tls),
                                .peer = worker->server->peer_tls};
    if (new_tls->peer.listener) SSL_CTX_up_ref(new_tls->peer.listener);
    if (new_tls->peer.link) SSL_CTX_up_ref(new_tls->peer.link);
    SSL_CTX_up_ref(new_tls->api);
    SSL_CTX_up_ref(new_tls->ingress);
    loop_post(worker->loop, take_tls, new_tls);
}
