#include <string.h>

#include "api/access/runtime_token_settings.h"
#include "api/access/runtime_token_store.h"
#include "api/resolvers.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "modules/runtimes/runtimes.h"

// Ten years; the shortest life leaves time to hand the token over.
enum { LIFE_S_MIN = 60, LIFE_S_MAX = 3650 * 24 * 3600, GRACE_S_MAX = 90 * 24 * 3600 };

enum error_code runtimes_token_life(const json_t *input, const char *name, uint64_t *out, struct error *err)
{
    const json_t *value = json_object_get(input, name);
    *out = 0;
    if (!json_is_integer(value)) return ERROR_NONE;
    json_int_t seconds = json_integer_value(value);
    if (seconds < LIFE_S_MIN || seconds > LIFE_S_MAX)
        return error_set(err, ERROR_INVALID,
                         "%s: %lld, it must be between %d and %d; without it the token never expires", name,
                         (long long)seconds, LIFE_S_MIN, LIFE_S_MAX);
    *out = (uint64_t)seconds * 1000;
    return ERROR_NONE;
}

static enum error_code take_grace(const json_t *arguments, uint64_t *out, struct error *err)
{
    const json_t *value = json_object_get(arguments, "graceSeconds");
    if (!json_is_integer(value)) return ERROR_NONE;
    json_int_t seconds = json_integer_value(value);
    if (seconds < 0 || seconds > GRACE_S_MAX)
        return error_set(err, ERROR_INVALID, "graceSeconds: %lld, it must be between 0 and %d", (long long)seconds,
                         GRACE_S_MAX);
    *out = (uint64_t)seconds * 1000;
    return ERROR_NONE;
}

static enum error_code check_name(struct str name, struct error *err)
{
    if (name.len > RUNTIME_TOKEN_NAME_BYTES_MAX || str_has_byte(name, '\0'))
        return error_set(err, ERROR_INVALID, "name: at most %d bytes without a NUL", RUNTIME_TOKEN_NAME_BYTES_MAX);
    return ERROR_NONE;
}

// ---- createRuntimeToken, rotateRuntimeToken ------------------------------------------------------------------------

struct creation {
    struct api_pending *pending;
    char text[TOKEN_TEXT_BYTES];
};

static void on_created(void *arg, const struct error *err, struct str node)
{
    struct creation *creation = arg;
    struct api_pending *pending = creation->pending;
    const struct api_options *options = &pending->request->api->options;
    struct error bad;
    json_t *token = NULL;
    err = api_decode_node(err, node, &token, &bad);
    json_t *value = err ? NULL : json_pack("{s:s, s:o}", "token", creation->text, "runtimeToken", token);
    explicit_bzero(creation->text, sizeof creation->text);
    if (!err) options->on_tokens_changed(options->ctx);
    pending->on_resolved(pending->arg, err, value); // may end the request and all that is in its arena
}

static void create(struct api_request *request, const json_t *arguments, bool replaces, gql_resolved on_resolved,
                   void *arg)
{
    struct error err;
    const struct runtime_token_settings *settings = runtime_token_settings_of(request->api->options.config);
    struct runtime_token_new new_token = {.runtime = json_get_str(arguments, "runtime"),
                                          .name = json_get_str(arguments, "name"),
                                          .valid_max = (unsigned)settings->valid_max,
                                          .replaces = replaces,
                                          .grace_ms = (uint64_t)settings->rotation_grace_ms};
    enum error_code code = check_name(new_token.name, &err);
    if (code == ERROR_NONE) code = runtimes_token_life(arguments, "expiresInSeconds", &new_token.expires_in_ms, &err);
    if (code == ERROR_NONE) code = take_grace(arguments, &new_token.grace_ms, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct creation *creation = arena_alloc(request->arena, sizeof *creation);
    creation->pending = api_pending_create(request, on_resolved, arg);
    struct token token;
    token_generate(&token, creation->text);
    new_token.token_id = str_c(token.id);
    memcpy(new_token.token_sha256, token.secret_sha256, sizeof new_token.token_sha256);
    log_info("api", "runtime_token_created", log_c("token_id", token.id), log_str("runtime", new_token.runtime),
             log_c("account", request->principal.account_id), log_c("user", request->principal.user_id),
             log_bool("rotation", replaces));
    runtime_token_store_create(request->api->options.pg, request->principal.account_id, &new_token, on_created,
                               creation);
}

void runtimes_resolve_create_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    create(ctx, arguments, false, on_resolved, arg);
}

void runtimes_resolve_rotate_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    create(ctx, arguments, true, on_resolved, arg);
}

// ---- revokeRuntimeToken --------------------------------------------------------------------------------------------

static void on_revoked(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    const struct api_options *options = &pending->request->api->options;
    struct error none;
    if (!err && count == 0) {
        error_set(&none, ERROR_NOT_FOUND, "the runtime has no valid token with this id");
        err = &none;
    }
    if (!err) options->on_tokens_changed(options->ctx);
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

void runtimes_resolve_revoke_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    runtime_token_store_revoke(request->api->options.pg, request->principal.account_id,
                               json_get_str(arguments, "runtime"), json_get_str(arguments, "id"), on_revoked,
                               api_pending_create(request, on_resolved, arg));
}

// ---- runtimeTokens -------------------------------------------------------------------------------------------------

void runtimes_resolve_runtime_tokens(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    runtime_token_store_list(request->api->options.pg, request->principal.account_id,
                             json_get_str(arguments, "runtime"), api_resolved_node,
                             api_pending_create(request, on_resolved, arg));
}
