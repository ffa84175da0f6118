// runtime_tokens: the runtime tokens of the database, in memory, so that a dialing agent is told 401 before its upgrade
// is answered and no loop waits for a query. Process-wide: the table is guarded by a mutex (it is read once a
// handshake); it is refreshed each second, and at once when an unknown id is asked for, on the loop that owns the
// refresh.
#ifndef CULVERT_SERVER_RUNTIME_TOKENS_H
#define CULVERT_SERVER_RUNTIME_TOKENS_H

#include "base/loop.h"
#include "storage/runtime_store.h"
#include "tunnel/broker.h"

struct runtime_tokens;

struct runtime_tokens_options {
    uint64_t refresh_ms; // 1,000
    // On the refreshing loop: this token is valid no more.
    void (*on_revoked)(void *ctx, const struct tunnel_identity *identity);
    void *ctx;
    // The store; a test puts its own here.
    void (*tokens_since)(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done, void *arg);
};

struct runtime_tokens *runtime_tokens_create(const struct runtime_tokens_options *options);
void runtime_tokens_destroy(struct runtime_tokens *tokens);

// On the loop that shall refresh it, with its pg; stop before pg is closed.
void runtime_tokens_start(struct runtime_tokens *tokens, struct loop *loop, struct pg *pg);
void runtime_tokens_stop(struct runtime_tokens *tokens);

// Thread-safe. As tunnel_options.authenticate: an id that is not in the table gives ERROR_UNAVAILABLE until a refresh
// that began after it was first asked for has ended, and ERROR_UNAUTHENTICATED from then on.
MUST_CHECK enum error_code runtime_tokens_authenticate(struct runtime_tokens *tokens,
                                                       const struct tunnel_credential *credential,
                                                       struct tunnel_identity *out, struct error *err);
// Thread-safe. As tunnel_options.is_valid. A token is out of the table before on_revoked is called.
bool runtime_tokens_has(struct runtime_tokens *tokens, const struct tunnel_identity *identity);
// Thread-safe. Has the runtime a valid token, so that it may have a tunnel, here or elsewhere? Until all tokens were
// read once it may.
bool runtime_tokens_knows(struct runtime_tokens *tokens, struct str account_id, struct str runtime);
// Thread-safe. Have all tokens been read once? Until then every agent would be told to come again.
bool runtime_tokens_are_known(const struct runtime_tokens *tokens);
// Thread-safe: refresh now (a token was made or revoked by this process).
void runtime_tokens_refresh(struct runtime_tokens *tokens);

#endif
