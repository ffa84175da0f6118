// login: saves a platform and a key as a context, after the platform has accepted them.
// logout: ends such a key.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/device_login.h"
#include "cli/row.h"

// clang-format off
const struct option_spec login_options[] = {
    {"api-key-file", 0, "FILE", "login: the API key; - reads it from stdin. Without it: sign in in a browser"},
    {"link", 0, NULL, "login: remember the file of the key, not the key"},
    {"ca-file", 0, "FILE", "login: the CA that signed the platform's certificate"},
    {"name", 0, "NAME", "login: of the context; the host by default"},
    {"ingress-url", 0, "URL", "login: of the ingress listener, https://<tunnel.domain>[:port]"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

#define DEVICE_KEY "isDeviceKey" // of a context: its key is that of a sign-in in a browser

// The key, without white space at its end; the caller frees it.
static enum error_code read_key(const char *path, char **out, struct error *err)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file) return error_set(err, ERROR_INVALID, "--api-key-file %s cannot be read", path);
    char *text = mem_zalloc(CONTEXT_TOKEN_BYTES_MAX + 2);
    size_t len = fread(text, 1, CONTEXT_TOKEN_BYTES_MAX + 1, file);
    if (file != stdin) fclose(file);
    while (len && strchr(" \r\n\t", text[len - 1]))
        text[--len] = '\0';
    if (len && len <= CONTEXT_TOKEN_BYTES_MAX && strlen(text) == len && !strpbrk(text, " \r\n\t")) {
        *out = text;
        return ERROR_NONE;
    }
    mem_free_secret(text, CONTEXT_TOKEN_BYTES_MAX + 2);
    return error_set(err, ERROR_INVALID, "--api-key-file %s: must contain one API key of at most %d bytes", path,
                     CONTEXT_TOKEN_BYTES_MAX);
}

static char *absolute(const char *path)
{
    char *full = path ? realpath(path, NULL) : NULL, *copy = full ? mem_strdup(full) : path ? mem_strdup(path) : NULL;
    free(full);
    return copy;
}

// Asks the platform who that is.
static enum error_code check(const struct context *context, json_t **out_me, struct error *err)
{
    struct client *client;
    json_t *data = NULL;
    enum error_code code = client_create(context, 30000, &client, err);
    if (code != ERROR_NONE) return code;
    code = client_query(client, "{ me { name activeAccount { name } } }", NULL, "me", &data, err);
    client_destroy(client);
    if (code == ERROR_NONE && !row_at(data, "me"))
        code = error_set(err, ERROR_UNAUTHENTICATED, "the platform does not know the owner of this key");
    if (code == ERROR_NONE) *out_me = json_incref(json_object_get(data, "me"));
    json_decref(data);
    return code;
}

// Revokes the key of the context. A key that is not valid any more counts as revoked.
static enum error_code end_key(const struct context *context, struct error *err)
{
    struct client *client;
    json_t *data = NULL;
    enum error_code code = client_create(context, 30000, &client, err);
    if (code != ERROR_NONE) return code;
    json_t *variables = json_pack("{s:o}", "id", json_stringn(context->token, strcspn(context->token, ".")));
    code = client_query(client, "mutation($id: String!) { revokeMyApiKey(id: $id) }", variables, "revokeMyApiKey",
                        &data, err);
    client_destroy(client);
    json_decref(data);
    return code == ERROR_UNAUTHENTICATED || code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

static enum error_code save(struct invocation *invocation, const char *name, const json_t *tree, struct error *err)
{
    struct context_file *file = &invocation->file;
    json_object_set(json_object_get(file->tree, "contexts"), name, (json_t *)tree);
    json_object_set_new(file->tree, "current", json_string(name));
    return context_file_write(file, err);
}

// "https://culvert.example.com:8443/x" -> "culvert.example.com"
static char *host_of(const char *url)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    return mem_strndup(at, strcspn(at, ":/"));
}

// In a browser; the key is put into the context's tree.
static enum error_code sign_in(const struct context *context, json_t *tree, struct error *err)
{
    char *key = NULL;
    enum error_code code = device_login(context, &key, err);
    if (code != ERROR_NONE) return code;
    json_object_set_new(tree, "token", json_string(key));
    json_object_set_new(tree, DEVICE_KEY, json_true());
    mem_free_secret(key, strlen(key));
    return ERROR_NONE;
}

// key NULL: it is that of a sign-in in a browser, which logout ends.
static enum error_code login(struct invocation *invocation, const char *url, const char *key, struct error *err)
{
    const struct arguments *arguments = invocation->arguments;
    bool is_link = arguments_has(arguments, "link");
    char *ca_file = absolute(arguments_get(arguments, "ca-file")),
         *key_file = absolute(arguments_get(arguments, "api-key-file"));
    char *host = host_of(url);
    const char *name = arguments_get(arguments, "name") ? arguments_get(arguments, "name") : host;
    json_t *tree = json_pack("{s:s, s:s*, s:s*, s:s*}", "url", url, "caFile", ca_file, "token",
                             is_link || !key ? NULL : key, "tokenFile", is_link ? key_file : NULL);
    const char *ingress = arguments_get(arguments, "ingress-url");
    if (tree && ingress) json_object_set_new(tree, "ingressUrl", json_string(ingress));
    json_t *me = NULL, *trial = json_pack("{s:{s:O}}", "contexts", name, tree);
    struct context_file file = {.path = invocation->file.path, .tree = trial};
    struct context context;
    enum error_code code = tree && trial ? context_file_choose(&file, name, &context, err)
                                         : error_set(err, ERROR_INVALID, "no valid UTF-8");
    if (code == ERROR_NONE && !key) {
        code = sign_in(&context, tree, err);
        if (code == ERROR_NONE) code = context_file_choose(&file, name, &context, err);
    }
    if (code == ERROR_NONE) code = check(&context, &me, err);
    if (code == ERROR_NONE) code = save(invocation, name, tree, err);
    // A key that cannot be kept must not stay valid.
    struct error ignored;
    if (code != ERROR_NONE && json_object_get(tree, DEVICE_KEY) && context.token &&
        end_key(&context, &ignored) != ERROR_NONE)
        error_prefix(err, "the new key stays valid, revoke it in the web UI");
    if (code == ERROR_NONE)
        printf("Logged in to %s as %s of account %s; context \"%s\" is the current one.\n", url, row_text(me, "name"),
               row_text(me, "activeAccount.name") ? row_text(me, "activeAccount.name") : "?", name);
    if (file.token) mem_free_secret(file.token, strlen(file.token));
    json_decref(me);
    json_decref(trial);
    json_decref(tree);
    mem_free(host);
    mem_free(ca_file);
    mem_free(key_file);
    return code;
}

int verb_login(struct invocation *invocation)
{
    struct error err;
    char *key = NULL;
    const char *path = arguments_get(invocation->arguments, "api-key-file");
    enum error_code code = ERROR_NONE;
    if (invocation->word_count != 1)
        code = error_set(&err, ERROR_INVALID, "usage: culvert login https://HOST[:PORT] [--api-key-file FILE]");
    if (code == ERROR_NONE && arguments_has(invocation->arguments, "link") && (!path || strcmp(path, "-") == 0))
        code = error_set(&err, ERROR_INVALID, "--link needs --api-key-file with a file, not stdin");
    if (code == ERROR_NONE && path) code = read_key(path, &key, &err);
    if (code == ERROR_NONE) code = login(invocation, invocation->words[0], key, &err);
    if (key) mem_free_secret(key, strlen(key));
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}

// ---- logout -------------------------------------------------------------------------------------

// clang-format off
const struct option_spec logout_options[] = {
    {"keep-key", 0, NULL, "logout: forget the key here without ending it"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

int verb_logout(struct invocation *invocation)
{
    struct error err;
    struct context context;
    struct context_file *file = &invocation->file;
    const char *name = invocation->word_count ? invocation->words[0] : NULL;
    if (!name) name = arguments_get(invocation->arguments, "context");
    if (!name) name = json_string_value(json_object_get(file->tree, "current"));
    json_t *saved = name ? json_object_get(json_object_get(file->tree, "contexts"), name) : NULL;
    enum error_code code = ERROR_NONE;
    if (invocation->word_count > 1)
        code = error_set(&err, ERROR_INVALID, "usage: culvert logout [CONTEXT]");
    else if (!saved)
        code = error_set(&err, ERROR_NOT_FOUND, "there is no context \"%.100s\"; see: culvert context list",
                         name ? name : "");
    bool is_device_key = saved && json_is_true(json_object_get(saved, DEVICE_KEY));
    bool ends = is_device_key && !arguments_has(invocation->arguments, "keep-key");
    if (code == ERROR_NONE && ends) code = context_file_choose(file, name, &context, &err);
    if (code == ERROR_NONE && ends && context.token) {
        code = end_key(&context, &err);
        if (code != ERROR_NONE) error_prefix(&err, "the key is not ended (--keep-key forgets it here)");
    }
    if (code == ERROR_NONE) {
        json_object_del(saved, "token");
        json_object_del(saved, "tokenFile");
        json_object_del(saved, DEVICE_KEY);
        code = context_file_write(file, &err);
    }
    if (code != ERROR_NONE) return command_fail(&err);
    printf(ends ? "Logged out of context \"%s\"; its key has ended.\n"
                : "Logged out of context \"%s\"; its key is forgotten here and stays valid.\n",
           name);
    return EXIT_DONE;
}
