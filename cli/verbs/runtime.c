// runtime: registers runtimes, and gives out and takes back their tokens.
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"
#include "cli/secret_output.h"
#include "cli/target.h"

// clang-format off
const struct option_spec runtime_options[] = {
    {"token-file", 0, "FILE", "runtime create, token: where the token is written (mode 0600); the default is stdout"},
    {"cluster-url", 0, "URL", "runtime create: the cluster's own address; https://kubernetes.default.svc by default"},
    {"expires-in", 0, "DURATION", "runtime create, token: the token is valid for so long"},
    {"grace", 0, "DURATION", "runtime token rotate: the old token stays valid for so long"},
    {"yes", 'y', NULL, "runtime delete: do not ask"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

static enum error_code set_seconds(const struct invocation *invocation, const char *option, const char *member,
                                   json_t *variables, struct error *err)
{
    uint64_t ms;
    enum error_code code = command_duration(invocation, option, 0, &ms, err);
    if (code == ERROR_NONE && ms) json_object_set_new(variables, member, json_integer((json_int_t)(ms / 1000)));
    return code;
}

static enum error_code create(const struct invocation *invocation, const char *name, struct error *err)
{
    const char *cluster = arguments_get(invocation->arguments, "cluster-url");
    json_t *args = json_pack("{s:s, s:s, s:s, s:[], s:b, s:s}", "runtimeName", name, "cluster",
                             cluster ? cluster : "https://kubernetes.default.svc", "runtimeVersion", CULVERT_VERSION,
                             "componentNames", "managed", 0, "accessMode", "TUNNEL");
    if (!args) return error_set(err, ERROR_INVALID, "the name is no valid UTF-8");
    json_t *data = NULL;
    enum error_code code = set_seconds(invocation, "expires-in", "tokenExpiresInSeconds", args, err);
    if (code != ERROR_NONE) {
        json_decref(args);
        return code;
    }
    code = client_query(
        invocation->client,
        "mutation($args: RuntimeInstallationArgs!) { createRuntime(installationArgs: $args) { name newAccessToken } }",
        json_pack("{s:o}", "args", args), "createRuntime", &data, err);
    if (code == ERROR_NONE)
        code = secret_output_give(arguments_get(invocation->arguments, "token-file"),
                                  row_text(data, "createRuntime.newAccessToken"), err);
    if (code == ERROR_NONE)
        fprintf(stderr, "runtime \"%s\" is registered; its agent connects with this token: culvert help runtime\n",
                name);
    json_decref(data);
    return code;
}

static bool confirms(const char *name)
{
    char line[300];
    fprintf(stderr,
            "Deleting runtime \"%s\" deletes all that it reported, and its tokens. Type its name to go on: ", name);
    if (!fgets(line, sizeof line, stdin)) return false;
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, name) == 0;
}

static enum error_code delete_runtime(const struct invocation *invocation, const char *name, struct error *err)
{
    json_t *data = NULL;
    if (!arguments_has(invocation->arguments, "yes") && !confirms(name))
        return error_set(err, ERROR_INVALID, "not deleted");
    enum error_code code = client_query(invocation->client, "mutation($name: String!) { deleteRuntime(name: $name) }",
                                        json_pack("{s:s}", "name", name), "deleteRuntime", &data, err);
    if (code == ERROR_NONE) printf("runtime \"%s\" deleted\n", name);
    json_decref(data);
    return code;
}

static enum error_code list_tokens(const struct invocation *invocation, const char *runtime, struct error *err)
{
    static const struct noun_column columns[] = {{"ID", "id", COLUMN_TEXT, false},
                                                 {"NAME", "name", COLUMN_TEXT, false},
                                                 {"STATUS", "status", COLUMN_TEXT, false},
                                                 {"AGE", "createdAt", COLUMN_AGE, false},
                                                 {"EXPIRES", "expiresAt", COLUMN_TIME, false},
                                                 {"LASTUSED", "lastUsedAt", COLUMN_AGE, false},
                                                 {0}};
    static const struct noun token = {.name = "token",
                                      .name_path = "id",
                                      .columns = columns,
                                      .fields = "id name status createdAt expiresAt lastUsedAt replacedAt revokedAt"};
    struct printer printer;
    json_t *data = NULL;
    enum error_code code = printer_init(&printer, &token, arguments_get(invocation->arguments, "output"), true, err);
    if (code == ERROR_NONE)
        code = client_query(invocation->client,
                            "query($runtime: String!) { runtimeTokens(runtime: $runtime) { id name status createdAt "
                            "expiresAt lastUsedAt replacedAt revokedAt } }",
                            json_pack("{s:s}", "runtime", runtime), "runtimeTokens", &data, err);
    const json_t *tokens = json_object_get(data, "runtimeTokens");
    if (code == ERROR_NONE && !json_is_array(tokens))
        code = error_set(err, ERROR_NOT_FOUND, "runtime \"%.100s\" does not exist, or you may not see it", runtime);
    if (code == ERROR_NONE) code = printer_add(&printer, tokens, err);
    if (code == ERROR_NONE) code = printer_end(&printer, err);
    printer_finish(&printer);
    json_decref(data);
    return code;
}

static enum error_code make_token(const struct invocation *invocation, const char *runtime, bool is_rotation,
                                  struct error *err)
{
    json_t *variables = json_pack("{s:s}", "runtime", runtime), *data = NULL;
    enum error_code code = set_seconds(invocation, "expires-in", "expiresInSeconds", variables, err);
    if (code == ERROR_NONE && is_rotation) code = set_seconds(invocation, "grace", "graceSeconds", variables, err);
    if (code != ERROR_NONE) {
        json_decref(variables);
        return code;
    }
    const char *field = is_rotation ? "rotateRuntimeToken" : "createRuntimeToken";
    char *document = mem_printf("mutation($runtime: String!, $expiresInSeconds: Int%s) { %s(runtime: $runtime, "
                                "expiresInSeconds: $expiresInSeconds%s)"
                                " { token runtimeToken { id } } }",
                                is_rotation ? ", $graceSeconds: Int" : "", field,
                                is_rotation ? ", graceSeconds: $graceSeconds" : "");
    code = client_query(invocation->client, document, variables, field, &data, err);
    mem_free(document);
    if (code == ERROR_NONE)
        code = secret_output_give(arguments_get(invocation->arguments, "token-file"),
                                  row_text(json_object_get(data, field), "token"), err);
    json_decref(data);
    return code;
}

static enum error_code revoke_token(const struct invocation *invocation, const char *runtime, const char *id,
                                    struct error *err)
{
    json_t *data = NULL;
    enum error_code code =
        client_query(invocation->client,
                     "mutation($runtime: String!, $id: String!) { revokeRuntimeToken(runtime: $runtime, id: $id) }",
                     json_pack("{s:s, s:s}", "runtime", runtime, "id", id), "revokeRuntimeToken", &data, err);
    if (code == ERROR_NONE) printf("token %s revoked\n", id);
    json_decref(data);
    return code;
}

static enum error_code tokens(const struct invocation *invocation, struct error *err)
{
    const char *const *words = invocation->words;
    size_t count = invocation->word_count;
    const char *verb = count > 1 ? words[1] : "", *runtime = count > 2 ? words[2] : NULL;
    if (runtime && count == 3 && strcmp(verb, "list") == 0) return list_tokens(invocation, runtime, err);
    if (runtime && count == 3 && strcmp(verb, "create") == 0) return make_token(invocation, runtime, false, err);
    if (runtime && count == 3 && strcmp(verb, "rotate") == 0) return make_token(invocation, runtime, true, err);
    if (runtime && count == 4 && strcmp(verb, "revoke") == 0) return revoke_token(invocation, runtime, words[3], err);
    return error_set(err, ERROR_INVALID,
                     "usage: culvert runtime token list|create|rotate RUNTIME, or: token revoke RUNTIME ID");
}

int verb_runtime(struct invocation *invocation)
{
    struct error err;
    const char *verb = invocation->word_count ? invocation->words[0] : "";
    const char *name = invocation->word_count == 2 ? invocation->words[1] : NULL;
    enum error_code code = secret_output_check(arguments_get(invocation->arguments, "token-file"), &err);
    if (code != ERROR_NONE) {
        // Nothing was asked of the platform.
    } else if (strcmp(verb, "token") == 0) {
        code = tokens(invocation, &err);
    } else if (name && strcmp(verb, "create") == 0) {
        code = create(invocation, name, &err);
    } else if (name && strcmp(verb, "delete") == 0) {
        code = delete_runtime(invocation, name, &err);
    } else {
        code = error_set(
            &err, ERROR_INVALID,
            "usage: culvert runtime create|delete NAME, or: runtime token list|create|rotate|revoke RUNTIME [ID]");
    }
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
