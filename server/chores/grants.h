// grants: what each API key has open. A request is checked when it comes, but a WebSocket, a TCP
// connection or a stream of events lives on: so the keys of what is open are looked at again twice
// a second, all of a loop in one query, and what a key opened that is not valid any more (revoked,
// expired, its user disabled) is ended. While the database cannot answer, what is open goes on, up
// to grace_ms.
//
// One a loop, everything on it. A grant is part of whatever it is for and stays where it is until
// grants_remove() or its on_void.
#ifndef CULVERT_SERVER_CHORES_GRANTS_H
#define CULVERT_SERVER_CHORES_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/access/identity_store.h"
#include "base/loop/loop.h"

struct grants;
struct grants_key;

struct grant {
    struct grants_key *key; // NULL: not in the list
    struct grant *next, **link;
    // Once, from the loop. is_unchecked: the database could not be asked for too long; else the key
    // is not valid. The grant is out of the list already.
    void (*on_void)(void *arg, bool is_unchecked);
    void *arg;
};

struct grants_options {
    struct pg *pg;
    uint64_t interval_ms; // 0: 500
    uint64_t grace_ms;
    // The store; a test puts its own here. NULL: identity_store_valid_tokens.
    void (*valid_tokens)(struct pg *pg, const char *const *token_ids, size_t count, valid_tokens_done on_done,
                         void *arg);
};

struct grants *grants_create(struct loop *loop, const struct grants_options *options);
void grants_stop(struct grants *grants);    // asks no more; NULL is fine
void grants_destroy(struct grants *grants); // empty, after pg was closed; NULL is fine

// The key with this id has just been found valid. grant is zeroed.
void grants_add(struct grants *grants, struct grant *grant, struct str token_id,
                void (*on_void)(void *arg, bool is_unchecked), void *arg);
void grants_remove(struct grant *grant); // one that is not in the list: nothing happens

#endif
