// enrollment_store: enrollment tokens of accounts, and what agents do with them: an agent that has
// one creates its own runtime. It makes the runtime token by itself and gives the token's id and
// hash, so that no answer holds a secret, and the same request again changes nothing.
#ifndef CULVERT_API_ACCESS_ENROLLMENT_STORE_H
#define CULVERT_API_ACCESS_ENROLLMENT_STORE_H

#include "base/token.h"
#include "storage/sql/store.h"

enum {
    ENROLLMENT_NAME_BYTES_MAX = 200,
    ENROLLMENT_PATTERN_BYTES_MAX = 64,
    ENROLLMENT_USES_MAX = 10000,
    ENROLLMENT_TOKENS_MAX = 1000, // of an account, those that ended in the last 30 days included
    ENROLLMENT_LIFE_S_MIN = 60,
    ENROLLMENT_LIFE_S_MAX = 366 * 24 * 3600,
};

struct enrollment_token_new {
    struct str name;
    struct str name_pattern; // of runtimes, * stands for any characters; empty: any name
    uint64_t life_s;
    uint64_t uses_max;
    struct str created_by; // the user's name; may be empty
    const struct token *token;
};

// Is what is wanted within the limits? The text names the field.
MUST_CHECK enum error_code enrollment_token_check(const struct enrollment_token_new *wanted, struct error *err);

// node: EnrollmentToken of the schema. ERROR_CONFLICT: the account has ENROLLMENT_TOKENS_MAX.
void enrollment_store_create(struct pg *pg, const char *account_id, const struct enrollment_token_new *wanted,
                             store_node_done on_done, void *arg);
// node: an array, newest first.
void enrollment_store_list(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// count 0: no enrollment token has this id, or it is revoked.
void enrollment_store_revoke(struct pg *pg, const char *account_id, struct str token_id, store_count_done on_done,
                             void *arg);

// Whose token it is; stored_sha256 is to be compared with what was presented. Views live for the
// call. ERROR_UNAUTHENTICATED: no enrollment token has this id.
struct enrollment_token_found {
    struct str account_id, name;
    uint8_t stored_sha256[ID_SHA256_BYTES];
};
typedef void (*enrollment_found)(void *arg, const struct error *err, const struct enrollment_token_found *found);
void enrollment_store_find(struct pg *pg, struct str token_id, enrollment_found on_found, void *arg);

struct enrollment {
    struct str account_id;
    struct str token_id, token_name;   // of the enrollment token, which was verified
    struct str runtime;                // its name
    const struct token *runtime_token; // id and hash
    struct str remote;
};

// Creates the runtime and its token, counts the use and writes the audit log, in one transaction;
// err NULL: done, now or by the same request before. ERROR_FORBIDDEN: refused, and the text is for
// who runs the agent; others: not known.
typedef void (*enrollment_done)(void *arg, const struct error *err);
void enrollment_store_enroll(struct pg *pg, const struct enrollment *enrollment, enrollment_done on_done, void *arg);

#endif
