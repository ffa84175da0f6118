// redis_link: one connection to Redis kept alive: it connects, greets (AUTH, SELECT, PING) and
// comes back with full jitter. For redis.c, which has one for commands and one for subscriptions.
// One loop. on_ready and on_lost run inside hiredis' callbacks; redis_link_drop and
// redis_link_close must be called outside of them.
#ifndef CULVERT_STORAGE_REDIS_REDIS_LINK_H
#define CULVERT_STORAGE_REDIS_REDIS_LINK_H

#include <hiredis/async.h>
#include <uv.h>

#include "base/error.h"
#include "storage/redis/redis_address.h"
#include "storage/redis/redis_tls.h"

struct redis_link;

struct redis_link_options {
    uv_loop_t *uv;
    const struct redis_address *address; // outlives it
    SSL_CTX *tls;                        // outlives it; of an address with tls
    uint64_t timeout_ms;                 // of connecting and greeting
    void *ctx;
    void (*on_ready)(void *ctx, struct redis_link *link);
    // After every callback of a command in flight has been called with a NULL reply.
    void (*on_lost)(void *ctx, struct redis_link *link, bool was_ready, const struct error *err);
    void (*on_closed)(void *ctx); // freed already
};

struct redis_link *redis_link_create(const struct redis_link_options *options);
redisAsyncContext *redis_link_context(struct redis_link *link);         // NULL unless ready
void redis_link_drop(struct redis_link *link, const struct error *why); // and connect again
void redis_link_close(struct redis_link *link);

#endif
