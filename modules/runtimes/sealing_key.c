// saveSealingKey, getSealingKey: a runtime keeps the private key of its Sealed Secrets here, so
// that
// it opens them after it was installed anew. The key is encrypted for its account, runtime and
// id,
// and is given to that runtime alone.
#include <string.h>

#include "api/access/permission.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "modules/runtimes/runtimes.h"
#include "storage/sql/store_call.h"

enum { KEY_BYTES_MAX = 64 * 1024, KEYS_MAX = 100, KEY_ID_DIGITS = 32, STORE_KEY_BYTES = 32, CONTEXT_BYTES_MAX = 1024 };

struct key_call {
    struct api_pending *pending;
    const char *runtime;
    char id[KEY_ID_DIGITS + 1];
};

// An id is of the account, the runtime and the key, so that a key that is saved again keeps its
// id.
static void id_of(const struct api_principal *who, struct str key, char out[KEY_ID_DIGITS + 1])
{
    char hex[ID_SHA256_HEX_BYTES];
    struct strbuf text;
    strbuf_init(&text, KEY_BYTES_MAX + CONTEXT_BYTES_MAX);
    strbuf_addf(&text, "%s/%s/", who->account_id, who->runtime_id);
    strbuf_add_str(&text, key);
    id_sha256_hex(text.at, text.len, hex);
    memcpy(out, hex, KEY_ID_DIGITS);
    out[KEY_ID_DIGITS] = '\0';
    explicit_bzero(text.at, text.len);
    strbuf_finish(&text);
}

static struct str context_of(const struct key_call *call)
{
    struct api_request *request = call->pending->request;
    return str_c(
        arena_printf(request->arena, "sealing key %s/%s/%s", request->principal.account_id, call->runtime, call->id));
}

static enum error_code check_caller(const struct api_request *request, const char *field, struct error *err)
{
    if (request->principal.kind == PRINCIPAL_RUNTIME) return ERROR_NONE;
    return error_set(err, ERROR_FORBIDDEN, "%s requires a runtime token", field);
}

static struct pg_param seal(const struct key_call *call, struct str key)
{
    struct api_request *request = call->pending->request;
    size_t len = key.len + PURPOSE_KEY_SEAL_BYTES;
    uint8_t *sealed = arena_alloc(request->arena, len);
    purpose_key_seal(pg_column_key(request->api->options.pg), context_of(call), key, sealed);
    return pg_bytea(sealed, len);
}

// ---- saveSealingKey
// -----------------------------------------------------------------------------

static void on_saved(void *arg, const struct error *err, struct str node)
{
    struct key_call *call = arg;
    (void)node;
    call->pending->on_resolved(call->pending->arg, err, err ? NULL : json_string(call->id));
}

static enum error_code check_key(const struct api_request *request, struct str key, struct error *err)
{
    if (key.len == 0 || key.len > KEY_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "privateKey: %zu bytes, must be 1 to %d", key.len, KEY_BYTES_MAX);
    if (!pg_column_key(request->api->options.pg))
        return error_set(err, ERROR_UNAVAILABLE, "saveSealingKey requires a deployment key");
    return ERROR_NONE;
}

void runtimes_resolve_save_sealing_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str key = json_get_str(arguments, "privateKey");
    struct error err;
    enum error_code code = check_caller(request, "saveSealingKey", &err);
    if (code == ERROR_NONE) code = check_key(request, key, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    const struct api_principal *who = &request->principal;
    struct key_call *call = arena_alloc(request->arena, sizeof *call);
    *call = (struct key_call){.pending = api_pending_create(request, on_resolved, arg), .runtime = who->runtime};
    id_of(who, key, call->id);
    char number[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, who->account_id);
    pg_add(batch, sealing_key_put, .account_id = pg_text(str_c(who->account_id)),
           .runtime = pg_text(str_c(who->runtime)), .key_id = pg_text(str_c(call->id)), .sealed = seal(call, key),
           .count_max = store_number(KEYS_MAX, number));
    store_submit_node(batch, 0, ERROR_CONFLICT, "the runtime has 100 sealing keys, which is the limit", on_saved, call);
}

// ---- getSealingKey
// ------------------------------------------------------------------------------

// The deployment key was changed: what was read is stored under the current one. Should that
// fail,
// the next read tries again.
static void on_sealed_again(void *arg, const struct error *err, uint64_t count)
{
    (void)arg;
    (void)err;
    (void)count;
}

static void seal_again(const struct key_call *call, struct str key)
{
    struct api_request *request = call->pending->request;
    const char *account_id = request->principal.account_id;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, sealing_key_seal_again, .account_id = pg_text(str_c(account_id)),
           .runtime = pg_text(str_c(call->runtime)), .key_id = pg_text(str_c(call->id)), .sealed = seal(call, key));
    store_submit_count(batch, 0, on_sealed_again, NULL);
}

static enum error_code open_key(struct key_call *call, struct str hex, json_t **out, struct error *err)
{
    struct api_request *request = call->pending->request;
    size_t len = hex.len / 2;
    uint8_t *sealed = arena_alloc(request->arena, len + 1), *plain = arena_alloc(request->arena, len + 1);
    bool is_current = true;
    const struct purpose_key *column_key = pg_column_key(request->api->options.pg);
    bool is_open =
        column_key && len >= PURPOSE_KEY_SEAL_BYTES && parse_hex(hex, sealed, len, NULL) == ERROR_NONE &&
        purpose_key_open(column_key, context_of(call), str_of((const char *)sealed, len), plain, &is_current);
    if (!is_open)
        return error_set(err, ERROR_CONFLICT,
                         "the sealing key was encrypted with another deployment key; save it again");
    struct str key = str_of((const char *)plain, len - PURPOSE_KEY_SEAL_BYTES);
    *out = json_new_str(key);
    if (!is_current) seal_again(call, key);
    explicit_bzero(plain, len);
    return ERROR_NONE;
}

static void on_found(void *arg, const struct error *err, struct str node)
{
    struct key_call *call = arg;
    struct error bad;
    json_t *row = NULL, *key = NULL;
    err = api_decode_node(err, node, &row, &bad);
    if (!err && row && open_key(call, json_get_str(row, "sealed"), &key, &bad) != ERROR_NONE) err = &bad;
    json_decref(row);
    call->pending->request->is_secret = true;
    call->pending->on_resolved(call->pending->arg, err, key);
}

void runtimes_resolve_get_sealing_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str id = json_get_str(arguments, "id");
    struct error err;
    if (check_caller(request, "getSealingKey", &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    const struct api_principal *who = &request->principal;
    struct key_call *call = arena_alloc(request->arena, sizeof *call);
    *call = (struct key_call){.pending = api_pending_create(request, on_resolved, arg), .runtime = who->runtime};
    if (id.len != KEY_ID_DIGITS) {
        on_resolved(arg, NULL, NULL);
        return;
    }
    memcpy(call->id, id.at, KEY_ID_DIGITS);
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, who->account_id);
    pg_add(batch, sealing_key_get, .account_id = pg_text(str_c(who->account_id)),
           .runtime = pg_text(str_c(who->runtime)), .key_id = pg_text(id));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_found, call);
}

// ---- runtimeStoreKey ----------------------------------------------------------------------------

static enum error_code check_store_key(const struct api_request *request, struct str runtime, struct error *err)
{
    const struct api_principal *who = &request->principal;
    if (who->kind == PRINCIPAL_RUNTIME && !str_eq(runtime, str_c(who->runtime)))
        return error_set(err, ERROR_FORBIDDEN, "runtimeStoreKey requires an admin or the token of the runtime");
    if (who->kind == PRINCIPAL_USER &&
        permission_check(who, PERMISSION_ADMINISTER, "runtimeStoreKey", err) != ERROR_NONE)
        return err->code;
    if (!pg_column_key(request->api->options.pg))
        return error_set(err, ERROR_UNAVAILABLE, "runtimeStoreKey requires a deployment key");
    return ERROR_NONE;
}

// The key's id is of zeros, which no saved key has.
void runtimes_resolve_store_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str runtime = json_get_str(arguments, "runtime");
    struct error err;
    if (check_store_key(request, runtime, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    const char *account_id = request->principal.account_id;
    struct key_call *call = arena_alloc(request->arena, sizeof *call);
    *call = (struct key_call){.pending = api_pending_create(request, on_resolved, arg),
                              .runtime = arena_cstr(request->arena, runtime)};
    memset(call->id, '0', KEY_ID_DIGITS);
    uint8_t random[STORE_KEY_BYTES];
    char text[2 * STORE_KEY_BYTES + 1];
    id_random(random, sizeof random);
    format_hex(random, sizeof random, text);
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, store_key_make, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .key_id = pg_text(str_c(call->id)), .sealed = seal(call, str_of(text, 2 * STORE_KEY_BYTES)));
    pg_add(batch, sealing_key_get, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .key_id = pg_text(str_c(call->id)));
    explicit_bzero(text, sizeof text);
    store_submit_node(batch, 1, ERROR_NOT_FOUND, "the runtime does not exist", on_found, call);
}
