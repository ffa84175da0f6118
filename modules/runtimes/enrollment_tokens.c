// createEnrollmentToken, revokeEnrollmentToken, enrollmentTokens: tokens with which agents create
// their own runtimes.
#include <string.h>

#include "api/access/enrollment_store.h"
#include "api/resolvers.h"
#include "base/log/log.h"
#include "base/token.h"
#include "modules/runtimes/runtimes.h"

enum { LIFE_S = 24 * 3600 };

struct creation {
    struct api_pending *pending;
    char text[TOKEN_TEXT_BYTES];
};

static void on_created(void *arg, const struct error *err, struct str node)
{
    struct creation *creation = arg;
    struct api_pending *pending = creation->pending;
    struct error bad;
    json_t *made = NULL;
    err = api_decode_node(err, node, &made, &bad);
    json_t *value = err ? NULL : json_pack("{s:s, s:o}", "token", creation->text, "enrollmentToken", made);
    explicit_bzero(creation->text, sizeof creation->text);
    pending->on_resolved(pending->arg, err, value);
}

// 0, which is refused, for what is negative.
static uint64_t amount_of(const json_t *arguments, const char *name, int64_t def)
{
    int64_t value = json_get_int(arguments, name, def);
    return value > 0 ? (uint64_t)value : 0;
}

void runtimes_resolve_create_enrollment_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const struct api_principal *who = &request->principal;
    struct error err;
    struct enrollment_token_new wanted = {.name = json_get_str(arguments, "name"),
                                          .name_pattern = json_get_str(arguments, "namePattern"),
                                          .life_s = amount_of(arguments, "expiresInSeconds", LIFE_S),
                                          .uses_max = amount_of(arguments, "usesMax", 1),
                                          .created_by = str_c(who->user_name)};
    if (enrollment_token_check(&wanted, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct creation *creation = arena_alloc(request->arena, sizeof *creation);
    creation->pending = api_pending_create(request, on_resolved, arg);
    struct token token;
    token_generate(&token, creation->text);
    wanted.token = &token;
    log_info("api", "enrollment_token_created", log_c("token_id", token.id), log_c("account", who->account_id),
             log_c("user", who->user_id));
    enrollment_store_create(request->api->options.pg, who->account_id, &wanted, on_created, creation);
}

static void on_revoked(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error none;
    if (!err && count == 0) {
        error_set(&none, ERROR_NOT_FOUND, "there is no enrollment token with this id, or it is revoked");
        err = &none;
    }
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

void runtimes_resolve_revoke_enrollment_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    enrollment_store_revoke(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "id"),
                            on_revoked, api_pending_create(request, on_resolved, arg));
}

void runtimes_resolve_enrollment_tokens(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    (void)arguments;
    enrollment_store_list(request->api->options.pg, request->principal.account_id, api_resolved_node,
                          api_pending_create(request, on_resolved, arg));
}
