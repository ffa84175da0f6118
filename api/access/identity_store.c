#include "api/access/identity_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/access/scope.h"
#include "api/access/token_seal.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/token.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct authenticate_call {
    struct pg *pg;
    uint8_t sha256[ID_SHA256_BYTES];
    principal_done on_done;
    void *arg;
};

enum lookup_column {
    LOOKUP_KIND,
    LOOKUP_ACCOUNT_ID,
    LOOKUP_ACCOUNT_NAME,
    LOOKUP_USER_ID,
    LOOKUP_USER_NAME,
    LOOKUP_EMAIL,
    LOOKUP_ROLE,
    LOOKUP_RUNTIME,
    LOOKUP_RUNTIME_ID,
    LOOKUP_SECRET,
    LOOKUP_IS_VALID,
    LOOKUP_NOTE_USE,
    LOOKUP_TOKEN_ID,
    LOOKUP_METHOD,
    LOOKUP_SCOPES,
    LOOKUP_RULE_SET,
};

static bool is_true(struct str text)
{
    return str_eq(text, STR("t"));
}

// Nobody waits for it and nothing depends on it.
static void note_use(struct pg *pg, struct str account_id, struct str token_id)
{
    AUTO_FREE char *account = mem_strndup(account_id.at, account_id.len);
    struct pg_batch *batch = pg_batch_create(pg, account);
    pg_add(batch, token_used, .account_id = pg_text(account_id), .token_id = pg_text(token_id));
    pg_batch_submit(batch, STORE_CHANGE_MS, NULL, NULL);
}

static enum principal_method method_of(struct str name)
{
    if (str_eq(name, STR("session"))) return PRINCIPAL_BY_SESSION;
    if (str_eq(name, STR("link"))) return PRINCIPAL_BY_LINK;
    return str_eq(name, STR("runtime_token")) ? PRINCIPAL_BY_RUNTIME_TOKEN : PRINCIPAL_BY_KEY;
}

// One that this version does not know may do the least.
static enum principal_role role_of(struct str name)
{
    if (str_eq(name, STR("admin"))) return PRINCIPAL_ADMIN;
    return str_eq(name, STR("member")) ? PRINCIPAL_MEMBER : PRINCIPAL_READ_ONLY;
}

static void fill_principal(struct principal *out, const struct pg_rows *rows)
{
    *out = (struct principal){
        .kind = str_eq(pg_rows_get(rows, 0, LOOKUP_KIND), STR("runtime")) ? PRINCIPAL_RUNTIME : PRINCIPAL_USER,
        .method = method_of(pg_rows_get(rows, 0, LOOKUP_METHOD)),
        .account_id = pg_rows_get(rows, 0, LOOKUP_ACCOUNT_ID),
        .account_name = pg_rows_get(rows, 0, LOOKUP_ACCOUNT_NAME),
        .user_id = pg_rows_get(rows, 0, LOOKUP_USER_ID),
        .user_name = pg_rows_get(rows, 0, LOOKUP_USER_NAME),
        .email = pg_rows_get(rows, 0, LOOKUP_EMAIL),
        .role = role_of(pg_rows_get(rows, 0, LOOKUP_ROLE)),
        .scopes = pg_rows_get(rows, 0, LOOKUP_SCOPES),
        .rule_set = pg_rows_get(rows, 0, LOOKUP_RULE_SET),
        .runtime = pg_rows_get(rows, 0, LOOKUP_RUNTIME),
        .runtime_id = pg_rows_get(rows, 0, LOOKUP_RUNTIME_ID),
        .token_id = pg_rows_get(rows, 0, LOOKUP_TOKEN_ID),
    };
}

// Of a runtime token encrypted, of an API key as it is.
static bool read_secret(struct pg *pg, const struct pg_rows *rows, uint8_t out[ID_SHA256_BYTES])
{
    struct str hex = pg_rows_get(rows, 0, LOOKUP_SECRET);
    struct token_place place = {pg_rows_get(rows, 0, LOOKUP_ACCOUNT_ID), pg_rows_get(rows, 0, LOOKUP_RUNTIME),
                                pg_rows_get(rows, 0, LOOKUP_TOKEN_ID)};
    if (!str_eq(pg_rows_get(rows, 0, LOOKUP_KIND), STR("runtime")))
        return parse_hex(hex, out, ID_SHA256_BYTES, NULL) == ERROR_NONE;
    return token_unseal(pg_column_key(pg), &place, hex, out, NULL);
}

static void on_lookup(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct authenticate_call *call = arg;
    if (err) {
        call->on_done(call->arg, err, NULL);
    } else {
        // An unknown id is compared, too: with nothing that any secret hashes to.
        uint8_t stored[ID_SHA256_BYTES] = {0};
        bool is_known = pg_rows_count(results) == 1 && read_secret(call->pg, results, stored);
        bool is_same = str_eq_secret(str_of((const char *)stored, sizeof stored),
                                     str_of((const char *)call->sha256, sizeof call->sha256));
        struct error refusal;
        if (is_known && is_same && is_true(pg_rows_get(results, 0, LOOKUP_IS_VALID))) {
            struct principal principal;
            fill_principal(&principal, results);
            if (is_true(pg_rows_get(results, 0, LOOKUP_NOTE_USE)))
                note_use(call->pg, principal.account_id, principal.token_id);
            call->on_done(call->arg, NULL, &principal);
        } else {
            error_set(&refusal, ERROR_UNAUTHENTICATED, "the credential is not valid");
            call->on_done(call->arg, &refusal, NULL);
        }
    }
    mem_free_secret(call, sizeof *call);
}

void identity_store_authenticate(struct pg *pg, const char *token_id, const uint8_t sha256[ID_SHA256_BYTES],
                                 principal_done on_done, void *arg)
{
    struct authenticate_call *call = mem_alloc(sizeof *call);
    *call = (struct authenticate_call){.pg = pg, .on_done = on_done, .arg = arg};
    memcpy(call->sha256, sha256, sizeof call->sha256);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, token_lookup, .token_id = pg_text(str_c(token_id)));
    pg_batch_submit(batch, STORE_READ_MS, on_lookup, call);
}

struct valid_call {
    valid_tokens_done on_done;
    void *arg;
};

static void on_valid(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct valid_call *call = arg;
    size_t rows = err || count == 0 ? 0 : (size_t)pg_rows_count(results);
    struct valid_token *tokens = mem_array(rows ? rows : 1, sizeof *tokens);
    for (size_t i = 0; i < rows; i++) {
        struct str rest = pg_rows_get(results, (int)i, 2), scope;
        bool is_scoped = rest.len > 0;
        unsigned scopes = 0;
        while (rest.len) {
            str_cut(&rest, ' ', &scope);
            scopes |= scope_bit(scope);
        }
        tokens[i].id = pg_rows_get(results, (int)i, 0);
        tokens[i].rights = principal_rights(role_of(pg_rows_get(results, (int)i, 1)), is_scoped, scopes,
                                            pg_rows_get(results, (int)i, 3));
    }
    call->on_done(call->arg, err, tokens, rows);
    mem_free(tokens);
    mem_free(call);
}

void identity_store_valid_tokens(struct pg *pg, const char *const *token_ids, size_t count, valid_tokens_done on_done,
                                 void *arg)
{
    struct strbuf list;
    strbuf_init(&list, count * TOKEN_ID_BYTES + 1);
    for (size_t i = 0; i < count; i++)
        strbuf_addf(&list, "%s%s", i ? " " : "", token_ids[i]);
    struct valid_call *call = mem_alloc(sizeof *call);
    *call = (struct valid_call){.on_done = on_done, .arg = arg};
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, tokens_valid, .token_ids = pg_text(strbuf_str(&list)));
    pg_batch_submit(batch, STORE_READ_MS, on_valid, call);
    strbuf_finish(&list);
}

void identity_store_create_account(struct pg *pg, const char *account_id, struct str name, store_node_done on_done,
                                   void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, account_create, .account_id = pg_text(str_c(account_id)), .name = pg_text(name));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_create_user(struct pg *pg, const char *account_id, struct str name, struct str email, bool is_admin,
                                store_node_done on_done, void *arg)
{
    char user_id[ID_ACCOUNT_BYTES];
    id_account(user_id);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, user_create, .account_id = pg_text(str_c(account_id)), .user_id = pg_text(str_c(user_id)),
           .name = pg_text(name), .email = pg_text(email), .is_admin = pg_bool(is_admin));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_create_key(struct pg *pg, const char *account_id, struct str user_name, struct str key_name,
                               const char *token_id, const uint8_t sha256[ID_SHA256_BYTES], struct str scopes,
                               int64_t expires_at_ms, store_node_done on_done, void *arg)
{
    char expires[24];
    snprintf(expires, sizeof expires, "%" PRId64, expires_at_ms);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, key_create, .account_id = pg_text(str_c(account_id)), .user_name = pg_text(user_name),
           .name = pg_text(key_name), .token_id = pg_text(str_c(token_id)),
           .secret_sha256 = pg_bytea(sha256, ID_SHA256_BYTES), .scopes = pg_text(scopes.len ? scopes : STR("[]")),
           .expires_at_ms = expires_at_ms ? pg_text(str_c(expires)) : pg_null());
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "no such user", on_done, arg);
}

void identity_store_revoke_key(struct pg *pg, const char *account_id, struct str token_id, store_count_done on_done,
                               void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, key_revoke, .account_id = pg_text(str_c(account_id)), .token_id = pg_text(token_id));
    store_submit_count(batch, 0, on_done, arg);
}

void identity_store_find_account(struct pg *pg, struct str name, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_find, .name = pg_text(name));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_account_page(struct pg *pg, const char *after, unsigned limit, store_node_done on_done, void *arg)
{
    char most[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, account_page, .after = pg_text(str_c(after)), .limit = store_number(limit, most));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_account_summary(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, account_summary, .account_id = pg_text(str_c(account_id)));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_me(struct pg *pg, const char *account_id, struct str user_id, struct str runtime,
                       store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    if (user_id.len)
        pg_add(batch, me_user, .account_id = pg_text(str_c(account_id)), .user_id = pg_text(user_id));
    else
        pg_add(batch, me_runtime, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void identity_store_set_history_keep(struct pg *pg, const char *account_id, unsigned keep_days, store_node_done on_done,
                                     void *arg)
{
    char days[16];
    snprintf(days, sizeof days, "%u", keep_days);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, account_keep, .account_id = pg_text(str_c(account_id)), .keep_days = pg_text(str_c(days)));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the account does not exist", on_done, arg);
}
