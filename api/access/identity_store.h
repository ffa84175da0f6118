// identity_store: accounts, users and API keys.
#ifndef CULVERT_API_ACCESS_IDENTITY_STORE_H
#define CULVERT_API_ACCESS_IDENTITY_STORE_H

#include "base/hash.h"
#include "base/id.h"
#include "storage/sql/store.h"

enum principal_kind { PRINCIPAL_USER, PRINCIPAL_RUNTIME };
enum principal_role { PRINCIPAL_ADMIN, PRINCIPAL_MEMBER, PRINCIPAL_READ_ONLY }; // of a user

// What the credential is. BY_PROVIDER: none of ours, an identity provider vouches for the user.
// BY_DEVICE: a device code that the user has allowed.
enum principal_method {
    PRINCIPAL_BY_KEY,
    PRINCIPAL_BY_SESSION,
    PRINCIPAL_BY_LINK,
    PRINCIPAL_BY_RUNTIME_TOKEN,
    PRINCIPAL_BY_PROVIDER,
    PRINCIPAL_BY_DEVICE
};

// Who a credential turned out to be; views valid during the callback.
struct principal {
    enum principal_kind kind;
    enum principal_method method;
    struct str account_id, account_name;
    struct str user_id, user_name, email; // users
    enum principal_role role;
    struct str scopes;              // of the key, separated by spaces; empty: it has none
    struct str runtime, runtime_id; // runtimes
    struct str rule_set;            // users but admins: names the rules that limit it; empty: none
    struct str token_id;            // of the key, session, link or runtime token
};
// Finds the credential by its id and compares the hash in constant time; an unknown id costs the
// same. ERROR_UNAUTHENTICATED: unknown, wrong, expired or revoked (one answer for all four). Also
// notes last use (at most once a minute).
typedef void (*principal_done)(void *arg, const struct error *err, const struct principal *principal);
void identity_store_authenticate(struct pg *pg, const char *token_id, const uint8_t sha256[ID_SHA256_BYTES],
                                 principal_done on_done, void *arg);

// What a credential permits, as a number: of two that are equal each permits what the other does.
static inline uint64_t principal_rights(enum principal_role role, bool is_scoped, unsigned scopes, struct str rule_set)
{
    uint64_t bits = (uint64_t)role | (uint64_t)is_scoped << 8 | (uint64_t)scopes << 16;
    return hash_end(hash_part(HASH_BEGIN, rule_set)) ^ bits;
}

// One that is valid now, and what it permits.
struct valid_token {
    struct str id;
    uint64_t rights;
};
// Which of these are valid, in any order; views valid during the callback. No use is noted.
typedef void (*valid_tokens_done)(void *arg, const struct error *err, const struct valid_token *tokens, size_t count);
void identity_store_valid_tokens(struct pg *pg, const char *const *token_ids, size_t count, valid_tokens_done on_done,
                                 void *arg);

// node: {"id","name"}; ERROR_CONFLICT when the name is taken. account_id: 24 hex digits made by the caller.
void identity_store_create_account(struct pg *pg, const char *account_id, struct str name, store_node_done on_done,
                                   void *arg);
// node: {"id","name","email"}
void identity_store_create_user(struct pg *pg, const char *account_id, struct str name, struct str email, bool is_admin,
                                store_node_done on_done, void *arg);
// node: {"id","name"}; scopes: JSON array text; expires_at_ms 0: never.
void identity_store_create_key(struct pg *pg, const char *account_id, struct str user_name, struct str key_name,
                               const char *token_id, const uint8_t sha256[ID_SHA256_BYTES], struct str scopes,
                               int64_t expires_at_ms, store_node_done on_done, void *arg);
void identity_store_revoke_key(struct pg *pg, const char *account_id, struct str token_id, store_count_done on_done,
                               void *arg);
// node: {"id","name"} of the account with this name (for the command line, which knows names).
void identity_store_find_account(struct pg *pg, struct str name, store_node_done on_done, void *arg);
// node: an array of {"id","name"}: the accounts behind the id `after` (may be empty), in order of
// id. Empty: none.
void identity_store_account_page(struct pg *pg, const char *after, unsigned limit, store_node_done on_done, void *arg);
// node: {users, runtimes, applications, releases, newestReport}: how many, and when it came.
void identity_store_account_summary(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// node: type User of the contract with activeAccount and accounts (for `me` and GET /api/user). For a runtime principal
// use user_id empty and the runtime's name.
void identity_store_me(struct pg *pg, const char *account_id, struct str user_id, struct str runtime,
                       store_node_done on_done, void *arg);

// How long the account keeps its history. keep_days: 0 for the platform's default; at least 7.
// node: id, name, historyKeepDays.
void identity_store_set_history_keep(struct pg *pg, const char *account_id, unsigned keep_days, store_node_done on_done,
                                     void *arg);

#endif
