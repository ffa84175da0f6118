#include <string.h>

#include "base/mem.h"
#include "base/runtime_key.h"
#include "base/token.h"
#include "modules/runtimes/runtime_store.h"
#include "modules/runtimes/runtimes.h"

void runtimes_resolve_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    if (!api_sees_runtime(request, json_get_str(arguments, "name"))) {
        on_resolved(arg, NULL, NULL);
        return;
    }
    runtime_store_get(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "name"),
                      api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void runtimes_resolve_runtimes(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct store_page page;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    runtime_store_list(request->api->options.pg, request->principal.account_id, &page, api_resolved_slice,
                       api_pending_create(request, on_resolved, arg));
}

// ---- createRuntime -------------------------------------------------------------------------------------------------

struct creation {
    struct api_pending *pending;
    char text[TOKEN_TEXT_BYTES];
};

static enum error_code check_name(struct str name, struct error *err)
{
    if (runtime_name_is_valid(name)) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "runtimeName \"%.*s\" must be 1 to %d lower-case letters, digits and inner dashes, to fit a "
                     "DNS label",
                     STR_ARG(str_first(name, 80)), RUNTIME_NAME_BYTES_MAX);
}

static void on_created(void *arg, const struct error *err, struct str node)
{
    (void)node;
    struct creation *creation = arg;
    struct api_pending *pending = creation->pending;
    const struct api_options *options = &pending->request->api->options;
    json_t *value = err ? NULL : json_pack("{s:s, s:s}", "name", pending->name, "newAccessToken", creation->text);
    explicit_bzero(creation->text, sizeof creation->text);
    if (!err) options->on_tokens_changed(options->ctx);
    pending->on_resolved(pending->arg, err, value); // may end the request and all that is in its arena
}

static void fill(const json_t *args, struct runtime_new *out, const char *component_names)
{
    *out = (struct runtime_new){
        .name = json_get_str(args, "runtimeName"),
        .ns = json_get_str(args, "runtimeNamespace"),
        .cluster = json_get_str(args, "cluster"),
        .installation_type = json_get_str(args, "installationType"),
        .git_provider = json_get_str(args, "gitProvider"),
        .runtime_version = json_get_str(args, "runtimeVersion"),
        .chart_version = json_get_str(args, "chartVersion"),
        .component_names = str_c(component_names),
        .ingress_host = json_get_str(args, "ingressHost"),
        .internal_ingress_host = json_get_str(args, "internalIngressHost"),
        .ingress_class = json_get_str(args, "ingressClass"),
        .ingress_controller = json_get_str(args, "ingressController"),
        .gateway_name = json_get_str(args, "gatewayName"),
        .gateway_namespace = json_get_str(args, "gatewayNamespace"),
        .repo = json_get_str(args, "repo"),
        .access_mode = json_get_str(args, "accessMode"),
        .managed = json_get_bool(args, "managed", false),
        .is_external_argo_cd = json_get_bool(args, "isExternalArgoCd", false),
        .recover = json_get_bool(args, "recover", false),
    };
}

void runtimes_resolve_create_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct error err;
    const json_t *args = json_get_object(arguments, "installationArgs");
    char *component_names = json_dumps(json_get_array(args, "componentNames"), JSON_COMPACT);
    struct runtime_new runtime;
    fill(args, &runtime, component_names);
    enum error_code code = runtimes_token_life(args, "tokenExpiresInSeconds", &runtime.token_expires_in_ms, &err);
    if (code == ERROR_NONE) code = check_name(runtime.name, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        mem_free(component_names);
        return;
    }
    struct creation *creation = arena_alloc(request->arena, sizeof *creation);
    creation->pending = api_pending_create(request, on_resolved, arg);
    memcpy(creation->pending->name, runtime.name.at, runtime.name.len);
    struct token token;
    token_generate(&token, creation->text);
    runtime.token_id = str_c(token.id);
    memcpy(runtime.token_sha256, token.secret_sha256, sizeof runtime.token_sha256);
    runtime_store_create(request->api->options.pg, request->principal.account_id, &runtime, on_created, creation);
    mem_free(component_names);
}

// ---- deleteRuntime -------------------------------------------------------------------------------------------------

static void on_deleted(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    const struct api_options *options = &pending->request->api->options;
    struct error missing;
    if (!err && count == 0) {
        error_set(&missing, ERROR_NOT_FOUND, "runtime \"%s\" does not exist", pending->name);
        err = &missing;
    }
    if (!err) options->on_tokens_changed(options->ctx);
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

void runtimes_resolve_delete_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str name = json_get_str(arguments, "name");
    struct api_pending *pending = api_pending_create(request, on_resolved, arg);
    struct str shown = str_first(name, sizeof pending->name - 1);
    if (shown.len) memcpy(pending->name, shown.at, shown.len);
    runtime_store_delete(request->api->options.pg, request->principal.account_id, name, on_deleted, pending);
}
