#include "api/http/actor.h"

#include "base/mem.h"

static const char *const methods[] = {
    [PRINCIPAL_BY_KEY] = "api_key",   [PRINCIPAL_BY_SESSION] = "session",
    [PRINCIPAL_BY_LINK] = "link",     [PRINCIPAL_BY_RUNTIME_TOKEN] = "runtime_token",
    [PRINCIPAL_BY_PROVIDER] = "oidc", [PRINCIPAL_BY_DEVICE] = "device",
};

void actor_set(struct api_request *request, const struct api_principal *who)
{
    bool is_user = who->kind == PRINCIPAL_USER;
    json_t *actor = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "kind", is_user ? "user" : "runtime", "id",
                              is_user ? who->user_id : who->runtime_id, "name", is_user ? who->user_name : who->runtime,
                              "method", methods[who->method], "credential", who->token_id, "remote",
                              json_new_str(request->remote), "requestId", json_new_str(request->request_id));
    char *text = actor ? json_dumps(actor, JSON_COMPACT) : NULL;
    json_decref(actor);
    pg_set_actor(request->api->options.pg, str_c(text));
    mem_free(text);
}

void actor_clear(struct pg *pg)
{
    pg_set_actor(pg, STR_EMPTY);
}
