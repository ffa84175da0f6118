// runtime_tokens: the runtime tokens of the database, in memory, so that a dialing agent is told 401 before its upgrade
// is answered, a reporter's request needs no query, and both go on while PostgreSQL is away. Process-wide: the table is
// guarded by a mutex (it is read once a handshake or request); it is refreshed each second, and at once when an unknown
// id is asked for, on the loop that owns the refresh. A token whose time is over ends by itself, by the monotonic clock
// from when the database said how long it has, so also while the database is away.
#ifndef CULVERT_SERVER_CHORES_RUNTIME_TOKENS_H
#define CULVERT_SERVER_CHORES_RUNTIME_TOKENS_H

#include "api/access/runtime_token_store.h"
#include "base/loop/loop.h"
#include "base/runtime_key.h"
#include "base/token.h"
#include "tunnel/broker.h"

struct runtime_tokens;

struct runtime_tokens_options {
    uint64_t refresh_ms;          // 1,000
    uint64_t used_interval_ms;    // how often uses are written to the database; 0: never
    bool expects_sealed;          // log tokens whose hash is not encrypted in the database
    unsigned sessions_per_minute; // new sessions of one token, in this process; 0: no limit
    uint64_t (*now_ms)(void);     // monotonic; NULL: clock_mono_ms
    // On the refreshing loop: this token is valid no more. reason: a sentence for people.
    void (*on_ended)(void *ctx, const struct tunnel_identity *identity, const char *reason);
    // On the refreshing loop, before uses are written: runtime_tokens_note_use() for all that is in use without being
    // presented again (open sessions). May be NULL.
    void (*on_collect_uses)(void *ctx);
    void *ctx;
    // The store; a test puts its own here.
    void (*tokens_changed)(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done, void *arg);
    void (*note_use)(struct pg *pg, const char *const *token_ids, size_t count, store_count_done on_done, void *arg);
};

struct runtime_tokens *runtime_tokens_create(const struct runtime_tokens_options *options);
void runtime_tokens_destroy(struct runtime_tokens *tokens);

// On the loop that shall refresh it, with its pg; stop before pg is closed.
void runtime_tokens_start(struct runtime_tokens *tokens, struct loop *loop, struct pg *pg);
void runtime_tokens_stop(struct runtime_tokens *tokens);

// Thread-safe. As tunnel_options.authenticate: an id that is not in the table gives ERROR_UNAVAILABLE until a refresh
// that began after it was first asked for has ended, and ERROR_UNAUTHENTICATED from then on. ERROR_LIMITED: a good
// token that opened more sessions within the last minute than it may. Whoever does not have the secret learns nothing
// but ERROR_UNAUTHENTICATED.
MUST_CHECK enum error_code runtime_tokens_authenticate(struct runtime_tokens *tokens,
                                                       const struct tunnel_credential *credential,
                                                       struct tunnel_identity *out, struct error *err);
// Who sends a request with this token.
struct runtime_tokens_found {
    struct tunnel_identity identity;
    char account_name[128];
};
// Thread-safe. ERROR_NOT_FOUND: the table does not have the id (it is no runtime token, or not known here yet, or
// revoked), so only the database can say. ERROR_UNAUTHENTICATED: it has it, and the secret is wrong or the time is
// over. The caller wipes what it gets.
MUST_CHECK enum error_code runtime_tokens_find(struct runtime_tokens *tokens, const struct token *token,
                                               struct runtime_tokens_found *out, struct error *err);
// Thread-safe. The token with this id is in use now.
void runtime_tokens_note_use(struct runtime_tokens *tokens, const char *token_id);
// Thread-safe. As tunnel_options.is_valid. A token is out of the table, or expired there, before on_ended is called.
bool runtime_tokens_has(struct runtime_tokens *tokens, const struct tunnel_identity *identity);
// Thread-safe. Has the runtime a valid token, so that it may have a tunnel, here or elsewhere? Until all tokens were
// read once it may.
bool runtime_tokens_knows(struct runtime_tokens *tokens, const struct runtime_key *key);
// Thread-safe. Have all tokens been read once? Until then every agent would be told to come again.
bool runtime_tokens_are_known(const struct runtime_tokens *tokens);
// Thread-safe: refresh now (a token was made or revoked by this process).
void runtime_tokens_refresh(struct runtime_tokens *tokens);

#endif
