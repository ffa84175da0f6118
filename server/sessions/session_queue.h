// session_queue: sessions of one loop on their way into PostgreSQL: those that wait for an epoch
// and those that have ended. One transaction of each kind is under way at a time, and what comes
// meanwhile goes with the next: a single session waits for no other, and ten thousand that come
// back at once share a few dozen commits. Ends are kept until they are written; openings fail when
// the database does not answer. Everything on its loop.
#ifndef CULVERT_SERVER_SESSION_QUEUE_H
#define CULVERT_SERVER_SESSION_QUEUE_H

#include <stdatomic.h>

#include "base/loop/loop.h"
#include "storage/sessions/session_batch.h"
#include "tunnel/broker.h"

struct session_queue;

struct session_queue_options {
    struct pg *pg;
    const char *replica;
    atomic_bool *may_open; // until it is set, openings wait here
    size_t ends_max;       // that may wait; over that the oldest is dropped (its lease will end it)
    // The database; NULL: session_batch_open and session_batch_close.
    void (*open)(struct pg *pg, struct str replica, const struct session_new *sessions, size_t count,
                 session_batch_opened on_done, void *arg);
    void (*close)(struct pg *pg, const struct session_over *sessions, size_t count, store_count_done on_done,
                  void *arg);
    void *ctx;
    // Without err: epoch 0: the runtime was deleted; stands_by: another instance serves on with
    // that epoch. err: the database is away, or refuses.
    void (*on_opened)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct error *err, struct session_grant grant);
    // The end of a session is written. NULL: not called.
    void (*on_ended)(void *ctx, const char *account_id, const char *runtime);
};

struct session_queue *session_queue_create(struct loop *loop, const struct session_queue_options *options);
void session_queue_stop(struct session_queue *queue);    // on_opened is not called any more
void session_queue_destroy(struct session_queue *queue); // after pg was closed

void session_queue_open(struct session_queue *queue, struct tunnel_node *node,
                        const struct tunnel_session_info *session);
// The session ended before it had an epoch: on_opened is not called for it; should it get one, that
// is closed again.
void session_queue_forget(struct session_queue *queue, struct tunnel_session_ref ref);
void session_queue_close(struct session_queue *queue, const struct tunnel_session_info *session, uint64_t epoch,
                         const char *reason);

#endif
