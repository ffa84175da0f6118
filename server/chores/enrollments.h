// enrollments: agents that create their runtimes with an enrollment token. What an agent presents
// with its upgrade is verified and written by a transaction; meanwhile the agent is asked to come
// again. A refusal is kept for some seconds, so that the agent gets it then. What was created is in
// runtime_tokens, which the upgrade asks first. Process-wide, guarded by a mutex; what is written
// goes over the pool of the loop that was asked.
#ifndef CULVERT_SERVER_CHORES_ENROLLMENTS_H
#define CULVERT_SERVER_CHORES_ENROLLMENTS_H

#include "server/chores/failed_sign_ins.h"
#include "storage/pg/pg.h"
#include "tunnel/broker.h"

struct enrollments;

enum { ENROLLMENTS_AT_ONCE_MAX = 512, ENROLLMENTS_KEPT_MS = 10000 };

struct enrollments_options {
    struct failed_sign_ins *failed;
    unsigned per_second; // attempts, of one enrollment token and of one address
    // Does this address speak for many, so that per_second is not for it? NULL: none does.
    bool (*is_proxy)(void *ctx, struct str address);
    void (*on_enrolled)(void *ctx); // any loop: there is a new runtime token
    void *ctx;
    uint64_t (*now_ms)(void); // monotonic; NULL: clock_mono_ms
};

struct enrollments *enrollments_create(const struct enrollments_options *options);
void enrollments_destroy(struct enrollments *enrollments); // NULL is fine; after the pools

// Of a credential whose runtime token is not known, on the loop of pg. ERROR_AGAIN: it is being
// enrolled, or has been; ask again. ERROR_UNAUTHENTICATED, ERROR_FORBIDDEN, ERROR_LIMITED: refused,
// the text says why.
MUST_CHECK enum error_code enrollments_ask(struct enrollments *enrollments, struct pg *pg,
                                           const struct tunnel_credential *credential, struct error *err);

#endif
