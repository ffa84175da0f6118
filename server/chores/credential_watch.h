// credential_watch: what each API key has open. A request is checked when it comes, but a
// WebSocket, a TCP connection or a stream of events lives on: so the keys of what is open are
// looked at again twice a second, all of a loop in one query, and what a key opened that is not
// valid any more (revoked, expired, its user disabled) is ended. While the database cannot answer,
// what is open goes on, up to grace_ms.
//
// One a loop, everything on it. A grant is part of whatever it is for and stays where it is until
// credential_watch_remove() or its on_void.
#ifndef CULVERT_SERVER_CHORES_CREDENTIAL_WATCH_H
#define CULVERT_SERVER_CHORES_CREDENTIAL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "api/access/identity_store.h"
#include "base/loop/loop.h"

#define CREDENTIAL_WATCHX_ANY_RIGHTS UINT64_MAX

struct credential_watch;
struct credential_watch_key;

struct watched_credential {
    struct credential_watch_key *key; // NULL: not in the list
    struct watched_credential *next, **link;
    uint64_t rights; // what the key permitted; CREDENTIAL_WATCHX_ANY_RIGHTS: that it is valid is enough
    // Once, from the loop. is_unchecked: the database could not be asked for too long; else the key
    // is not valid. The grant is out of the list already.
    void (*on_void)(void *arg, bool is_unchecked);
    void *arg;
};

struct credential_watch_options {
    struct pg *pg;
    uint64_t interval_ms; // 0: 500
    uint64_t grace_ms;
    // The store; a test puts its own here. NULL: identity_store_valid_tokens.
    void (*valid_tokens)(struct pg *pg, const char *const *token_ids, size_t count, valid_tokens_done on_done,
                         void *arg);
};

struct credential_watch *credential_watch_create(struct loop *loop, const struct credential_watch_options *options);
void credential_watch_stop(struct credential_watch *credential_watch);    // asks no more; NULL is fine
void credential_watch_destroy(struct credential_watch *credential_watch); // empty, after pg was closed; NULL is fine

// The key with this id has just been found valid. grant is zeroed.
void credential_watch_add(struct credential_watch *credential_watch, struct watched_credential *grant,
                          struct str token_id, void (*on_void)(void *arg, bool is_unchecked), void *arg);
// The same, and it ends when the key permits something else (api_principal_rights).
void credential_watch_add_rights(struct credential_watch *credential_watch, struct watched_credential *grant,
                                 struct str token_id, uint64_t rights, void (*on_void)(void *arg, bool is_unchecked),
                                 void *arg);
void credential_watch_remove(struct watched_credential *grant); // one that is not in the list: nothing happens

#endif
