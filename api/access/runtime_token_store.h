// runtime_token_store: the tokens of runtimes, several each. A token is valid until it is revoked, until its time is
// over, or until the grace period after its rotation ends.
#ifndef CULVERT_API_ACCESS_RUNTIME_TOKEN_STORE_H
#define CULVERT_API_ACCESS_RUNTIME_TOKEN_STORE_H

#include "base/id.h"
#include "storage/sql/sweep.h"

enum { RUNTIME_TOKEN_NAME_BYTES_MAX = 200 };

struct runtime_token_new {
    struct str runtime, name; // name: for people; may be empty
    struct str token_id;
    uint8_t token_sha256[ID_SHA256_BYTES];
    uint64_t expires_in_ms; // 0: never
    unsigned valid_max;     // tokens of the runtime that may be valid at once, this one included
    bool replaces;          // rotation: the others end after grace_ms, or earlier if they would have
    uint64_t grace_ms;
};

// node: RuntimeToken of the schema. ERROR_NOT_FOUND: there is no such runtime; ERROR_CONFLICT: it has valid_max valid
// tokens already. Nothing is changed then.
void runtime_token_store_create(struct pg *pg, const char *account_id, const struct runtime_token_new *token,
                                store_node_done on_done, void *arg);
// node: an array of RuntimeToken, newest first, ended ones included while they are kept (30 days). Empty view: there is
// no such runtime.
void runtime_token_store_list(struct pg *pg, const char *account_id, struct str runtime, store_node_done on_done,
                              void *arg);
// count 0: no valid token of this runtime has this id.
void runtime_token_store_revoke(struct pg *pg, const char *account_id, struct str runtime, struct str token_id,
                                store_count_done on_done, void *arg);

// Changes of runtime tokens for the in-memory table, in order of `change` (a bigint from a sequence, taken so that a
// reader that asks for > the highest it saw misses none); revoked and expired ones included. All accounts.
struct runtime_token_row {
    uint64_t change;
    struct str token_id, account_id, account_name, runtime, runtime_id;
    uint8_t token_sha256[ID_SHA256_BYTES];
    bool revoked;
    bool unreadable; // token_sha256 could not be decrypted
    bool is_sealed;  // it is encrypted with the current key
    bool expires, warns;
    int64_t expires_in_ms, warns_in_ms; // from when the database was asked; negative: since so long
};
typedef void (*runtime_tokens_done)(void *arg, const struct error *err, const struct runtime_token_row *rows,
                                    size_t count);
void runtime_token_store_changed(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done,
                                 void *arg);
// Encrypts the hashes that are not encrypted with the pool's current column key yet, of all accounts; count: how many.
// A row that changes meanwhile is left to the next run. ERROR_INTERNAL: some cannot be decrypted (the text says how
// many).
void runtime_token_store_seal_all(struct pg *pg, store_count_done on_done, void *arg);
// They were in use a moment ago. on_done may be NULL.
void runtime_token_store_note_use(struct pg *pg, const char *const *token_ids, size_t count, store_count_done on_done,
                                  void *arg);
// Deletes tokens that ended 30 days ago, at most `limit`. All accounts.
void runtime_token_store_sweep(struct pg *pg, unsigned limit, store_count_done on_done, void *arg);
extern const struct sweep runtime_token_store_sweeps[1];

#endif
