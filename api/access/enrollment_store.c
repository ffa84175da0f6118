#include "api/access/enrollment_store.h"

#include <string.h>

#include "api/access/token_seal.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

enum { PATTERN_STARS_MAX = 4 };

static bool pattern_is_good(struct str pattern)
{
    unsigned stars = 0;
    if (pattern.len > ENROLLMENT_PATTERN_BYTES_MAX) return false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.at[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        if (!is_plain && c != '*') return false;
        stars += c == '*';
    }
    return stars <= PATTERN_STARS_MAX;
}

enum error_code enrollment_token_check(const struct enrollment_token_new *wanted, struct error *err)
{
    if (!str_trim(wanted->name).len || wanted->name.len > ENROLLMENT_NAME_BYTES_MAX || str_has_byte(wanted->name, '\0'))
        return error_set(err, ERROR_INVALID, "name: %zu bytes, must be 1 to %d, not only spaces", wanted->name.len,
                         ENROLLMENT_NAME_BYTES_MAX);
    if (wanted->life_s < ENROLLMENT_LIFE_S_MIN || wanted->life_s > ENROLLMENT_LIFE_S_MAX)
        return error_set(err, ERROR_INVALID, "expiresInSeconds: must be between %d and %d", ENROLLMENT_LIFE_S_MIN,
                         ENROLLMENT_LIFE_S_MAX);
    if (wanted->uses_max < 1 || wanted->uses_max > ENROLLMENT_USES_MAX)
        return error_set(err, ERROR_INVALID, "usesMax: must be between 1 and %d", ENROLLMENT_USES_MAX);
    if (!pattern_is_good(wanted->name_pattern))
        return error_set(err, ERROR_INVALID,
                         "namePattern: must be at most %d of a-z, 0-9, - and *, which stands for any characters, "
                         "at most %d times",
                         ENROLLMENT_PATTERN_BYTES_MAX, PATTERN_STARS_MAX);
    return ERROR_NONE;
}

// ---- administration -----------------------------------------------------------------------------

enum { CREATE_HOLD, CREATE_SWEEP, CREATE_ADD };

void enrollment_store_create(struct pg *pg, const char *account_id, const struct enrollment_token_new *wanted,
                             store_node_done on_done, void *arg)
{
    char life[STORE_NUMBER_BYTES], uses[STORE_NUMBER_BYTES], most[STORE_NUMBER_BYTES];
    const struct pg_param account = pg_text(str_c(account_id));
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, enrollment_account_hold, .account_id = account);
    pg_add(batch, enrollment_tokens_sweep, .account_id = account);
    pg_add(batch, enrollment_token_create, .account_id = account, .token_id = pg_text(str_c(wanted->token->id)),
           .name = pg_text(wanted->name), .secret_sha256 = pg_bytea(wanted->token->secret_sha256, ID_SHA256_BYTES),
           .name_pattern = pg_text(wanted->name_pattern.len ? wanted->name_pattern : STR("*")),
           .uses_max = store_number(wanted->uses_max, uses), .created_by = pg_text(wanted->created_by),
           .life_s = store_number(wanted->life_s, life), .tokens_max = store_number(ENROLLMENT_TOKENS_MAX, most));
    store_submit_node(batch, CREATE_ADD, ERROR_CONFLICT,
                      "the account has 1000 enrollment tokens, which is the limit; those that ended are deleted after "
                      "30 days",
                      on_done, arg);
}

void enrollment_store_list(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    char most[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, enrollment_token_list, .account_id = pg_text(str_c(account_id)),
           .limit = store_number(ENROLLMENT_TOKENS_MAX, most));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void enrollment_store_revoke(struct pg *pg, const char *account_id, struct str token_id, store_count_done on_done,
                             void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, enrollment_token_revoke, .account_id = pg_text(str_c(account_id)), .token_id = pg_text(token_id));
    store_submit_count(batch, 0, on_done, arg);
}

// ---- agents -------------------------------------------------------------------------------------

struct enroll_call {
    enrollment_done on_done;
    void *arg;
};

static const struct {
    const char *word, *text;
} refusals[] = {
    {"revoked", "the enrollment token is revoked"},
    {"expired", "the enrollment token has expired"},
    {"used_up", "the enrollment token has been used as often as it may"},
    {"pattern", "the enrollment token is for runtimes with other names"},
    {"taken", "a runtime of this name exists; choose another runtime.name, or delete the runtime"},
    {"other", "the runtime token was enrolled with another name or secret"},
    {"ended", "the runtime token that was enrolled is revoked or has expired; delete it, and the agent enrolls anew"},
};

static void on_enrolled(void *arg, const struct error *err, struct str word)
{
    struct enroll_call *call = arg;
    struct error why;
    if (err && err->code == ERROR_CONFLICT) {
        error_set(&why, ERROR_FORBIDDEN, "the id of the runtime token is taken; delete it, and the agent enrolls anew");
        err = &why;
    }
    for (size_t i = 0; !err && i < sizeof refusals / sizeof *refusals; i++) {
        if (!str_eq(word, str_c(refusals[i].word))) continue;
        error_set(&why, ERROR_FORBIDDEN, "%s", refusals[i].text);
        err = &why;
    }
    if (!err && !str_eq(word, STR("done")) && !str_eq(word, STR("created"))) {
        error_set(&why, ERROR_UNAUTHENTICATED, "the enrollment token is unknown or wrong");
        err = &why;
    }
    call->on_done(call->arg, err);
    mem_free(call);
}

static char *actor_of(const struct enrollment *enrollment)
{
    json_t *actor =
        json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "kind", "enrollment", "id", json_new_str(enrollment->token_id),
                  "name", json_new_str(enrollment->token_name), "method", "enrollment_token", "credential",
                  json_new_str(enrollment->token_id), "remote", json_new_str(enrollment->remote));
    char *text = actor ? json_dumps(actor, JSON_COMPACT) : NULL;
    json_decref(actor);
    return text;
}

void enrollment_store_enroll(struct pg *pg, const struct enrollment *enrollment, enrollment_done on_done, void *arg)
{
    const struct token *token = enrollment->runtime_token;
    AUTO_FREE char *account_id = mem_strndup(enrollment->account_id.at, enrollment->account_id.len);
    AUTO_FREE char *actor = actor_of(enrollment);
    char runtime_id[ID_UUID_BYTES];
    uint8_t sealed[TOKEN_SEAL_BYTES], proof[ID_SHA256_BYTES];
    struct token_place place = {enrollment->account_id, enrollment->runtime, str_c(token->id)};
    struct str secret = token_seal(pg_column_key(pg), &place, token->secret_sha256, sealed);
    id_hmac_sha256(STR("enrolled runtime token"), token->secret_sha256, sizeof token->secret_sha256, proof);
    id_uuid7(runtime_id);
    pg_set_actor(pg, str_c(actor));
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_set_actor(pg, STR_EMPTY);
    pg_add(batch, enrollment_use, .account_id = pg_text(enrollment->account_id),
           .token_id = pg_text(enrollment->token_id), .runtime = pg_text(enrollment->runtime),
           .runtime_id = pg_text(str_c(runtime_id)), .runtime_token_id = pg_text(str_c(token->id)),
           .secret = pg_bytea(secret.at, secret.len), .proof = pg_bytea(proof, sizeof proof));
    struct enroll_call *call = mem_alloc(sizeof *call);
    *call = (struct enroll_call){on_done, arg};
    store_submit_node(batch, 0, ERROR_INTERNAL, "the enrollment gave no answer", on_enrolled, call);
}

struct find_call {
    enrollment_found on_found;
    void *arg;
};

enum { FOUND_ACCOUNT, FOUND_NAME, FOUND_SECRET };

static void on_found(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct find_call *call = arg;
    struct error unknown;
    struct enrollment_token_found found = {0};
    if (!err && (count == 0 || pg_rows_count(&results[0]) == 0)) {
        error_set(&unknown, ERROR_UNAUTHENTICATED, "the enrollment token is unknown or wrong");
        err = &unknown;
    }
    if (!err && parse_hex(pg_rows_get(&results[0], 0, FOUND_SECRET), found.stored_sha256, ID_SHA256_BYTES, NULL)) {
        error_set(&unknown, ERROR_INTERNAL, "the hash of an enrollment token cannot be read");
        err = &unknown;
    }
    if (!err) {
        found.account_id = pg_rows_get(&results[0], 0, FOUND_ACCOUNT);
        found.name = pg_rows_get(&results[0], 0, FOUND_NAME);
    }
    call->on_found(call->arg, err, err ? NULL : &found);
    explicit_bzero(&found, sizeof found);
    mem_free(call);
}

void enrollment_store_find(struct pg *pg, struct str token_id, enrollment_found on_found_fn, void *arg)
{
    struct find_call *call = mem_alloc(sizeof *call);
    *call = (struct find_call){on_found_fn, arg};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, enrollment_token_find, .token_id = pg_text(token_id));
    pg_batch_submit(batch, STORE_READ_MS, on_found, call);
}
