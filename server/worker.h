// worker: one loop of the server and everything that lives on it: connections to PostgreSQL and Redis, a node of the
// tunnel broker, the listeners, the intake. Workers share nothing but `struct server`.
#ifndef CULVERT_SERVER_WORKER_H
#define CULVERT_SERVER_WORKER_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "server/server.h"
#include "storage/pg/pg.h"
#include "storage/redis/redis.h"

struct api;
struct api_auth;
struct api_listener;
struct admin_listener;
struct credential_watch;
struct ingress;
struct intake;
struct operation_sender;
struct sessions;
struct registry;
struct sweeper;
struct traffic;
struct worker_peers;

struct worker {
    struct server *server;
    struct loop *loop;
    struct pg *pg;
    struct redis *redis;
    struct registry *registry;
    struct sessions *sessions;
    struct worker_peers *peers;
    struct intake *intake;
    struct operation_sender *operations;
    struct traffic *traffic;
    struct sweeper *sweeper; // worker 0 only
    struct tunnel_node *node;
    struct api_auth *auth;
    struct credential_watch *credential_watch;
    struct api *api_core;
    struct api_listener *api;
    struct ingress *ingress;
    atomic_size_t ingress_open;   // connections of its ingress listener; any thread reads it
    struct admin_listener *admin; // worker 0 only
};

// Main thread: starts the loop's thread and builds everything there; returns when that is done. It is then in
// server->workers[index].
struct worker *worker_create(struct server *server, unsigned index, struct error *err);
// Main thread: begins the drain; worker_join waits for its end. For lame_duck_ms everything is served as before, but
// clients that keep their connection are asked to make another one.
void worker_drain(struct worker *worker, uint64_t lame_duck_ms);
void worker_join(struct worker *worker);
void worker_destroy(struct worker *worker); // main thread, after worker_join
// Any thread: hands over the server's present TLS contexts.
void worker_reload_tls(struct worker *worker);

#endif
