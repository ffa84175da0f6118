#include "agent/kube/kube_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/json/yaml_tree.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

static const uint64_t token_fresh_ms = 60 * 1000;
static const char service_account_folder[] = "/var/run/secrets/kubernetes.io/serviceaccount";

// The file's text; the caller owns it. An empty file is an error: none of ours may be empty.
static enum error_code read_file(const char *path, size_t bytes_max, char **out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    struct strbuf text;
    strbuf_init(&text, bytes_max);
    enum error_code code = ERROR_NONE;
    for (;;) {
        char chunk[4096];
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) code = error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        if (got > 0 && !strbuf_add(&text, chunk, (size_t)got))
            code = error_set(err, ERROR_TOO_LARGE, "%s: over the limit of %zu bytes", path, bytes_max);
        explicit_bzero(chunk, sizeof chunk);
        if (got <= 0 || code != ERROR_NONE) break;
    }
    close(fd);
    if (code == ERROR_NONE && text.len == 0) code = error_set(err, ERROR_INVALID, "%s: the file is empty", path);
    if (code == ERROR_NONE)
        *out = strbuf_detach(&text);
    else if (text.at)
        explicit_bzero(text.at, text.len);
    strbuf_finish(&text);
    return code;
}

static void free_secret(char *text)
{
    if (text) mem_free_secret(text, strlen(text));
}

void kube_config_finish(struct kube_config *config)
{
    mem_free(config->server);
    mem_free(config->ca_pem);
    mem_free(config->client_certificate_pem);
    free_secret(config->client_key_pem);
    free_secret(config->token);
    mem_free(config->token_file);
    mem_free(config->ns);
    if (config->exec_spec) kube_exec_spec_finish(config->exec_spec);
    mem_free(config->exec_spec);
    free_secret(config->token_read);
    *config = (struct kube_config){0};
}

static char *resolve(const char *folder, struct str path)
{
    if (str_starts(path, STR("/")) || !folder || !*folder) return mem_strndup(path.at, path.len);
    return mem_printf("%s/%.*s", folder, STR_ARG(path));
}

// `name`-data (base64 of PEM) or `name` (a path) of a cluster or user entry; neither leaves *out alone.
static enum error_code take_pem(const json_t *entry, const char *name, const char *folder, char **out,
                                struct error *err)
{
    AUTO_FREE char *data_name = mem_printf("%s-data", name);
    struct str data = json_get_str(entry, data_name), path = json_get_str(entry, name);
    if (data.len) {
        size_t len = 0;
        char *pem = mem_zalloc(data.len + 1);
        enum error_code code = parse_base64(data, (uint8_t *)pem, data.len, &len, err);
        if (code == ERROR_NONE && (len == 0 || memchr(pem, 0, len)))
            code = error_set(err, ERROR_INVALID, "must contain PEM text");
        if (code == ERROR_NONE)
            *out = pem;
        else
            mem_free_secret(pem, data.len);
        if (code != ERROR_NONE) error_prefix(err, data_name);
        return code;
    }
    if (!path.len) return ERROR_NONE;
    AUTO_FREE char *file = resolve(folder, path);
    return read_file(file, KUBE_CONFIG_BYTES_MAX, out, err);
}

// The member `inner` of the entry of config[list] that has that name.
static const json_t *find_named(const json_t *config, const char *list, const char *inner, struct str name)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(json_get_array(config, list), i,
                       entry) if (str_eq(json_get_str(entry, "name"), name)) return json_get_object(entry, inner);
    return NULL;
}

static enum error_code check_server(struct str server, struct error *err)
{
    bool plain = str_starts(server, STR("http://"));
    if (!plain && !str_starts(server, STR("https://")))
        return error_set(err, ERROR_INVALID, "server: must be an https:// address");
    for (size_t i = 0; i < server.len; i++)
        if (server.at[i] <= ' ' || server.at[i] == '@' || server.at[i] == '?' || server.at[i] == '#')
            return error_set(err, ERROR_INVALID, "server: must be a plain address");
    if (!plain) return ERROR_NONE;
    struct str rest = str_from(server, 7), authority, host;
    uint16_t port;
    str_cut(&rest, '/', &authority);
    if (parse_address(authority, &host, &port, NULL) != ERROR_NONE) host = authority;
    if (!parse_is_loopback(host))
        return error_set(err, ERROR_INVALID, "server: http:// is accepted for the loopback only");
    return ERROR_NONE;
}

static enum error_code take_cluster(const json_t *cluster, const char *folder, struct kube_config *out,
                                    struct error *err)
{
    struct str server = json_get_str(cluster, "server");
    enum error_code code = check_server(server, err);
    if (code != ERROR_NONE) return code;
    if (str_eq_nocase(json_get_str(cluster, "insecure-skip-tls-verify"), STR("true")))
        return error_set(err, ERROR_INVALID,
                         "insecure-skip-tls-verify: verification cannot be switched off; set certificate-authority");
    if (json_get_str(cluster, "tls-server-name").len || json_get_str(cluster, "proxy-url").len)
        return error_set(err, ERROR_INVALID, "tls-server-name and proxy-url are not supported");
    while (str_ends(server, STR("/")))
        server.len--;
    out->server = mem_strndup(server.at, server.len);
    return take_pem(cluster, "certificate-authority", folder, &out->ca_pem, err);
}

static enum error_code take_user(const json_t *user, const char *folder, struct kube_config *out, struct error *err)
{
    if (json_object_get(user, "auth-provider"))
        return error_set(
            err, ERROR_INVALID,
            "auth-provider plugins were removed in Kubernetes 1.26: use exec, or create a service account's "
            "kubeconfig (docs/operations.md, \"A kubeconfig for the agent\")");
    if (json_object_get(user, "username") || json_object_get(user, "password"))
        return error_set(err, ERROR_INVALID, "username and password: not supported by API servers");
    if (json_object_get(user, "as")) return error_set(err, ERROR_INVALID, "as: impersonation is not supported");
    struct str token = json_get_str(user, "token"), file = json_get_str(user, "tokenFile");
    if (token.len > KUBE_CONFIG_TOKEN_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "token: too long");
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] > '~') return error_set(err, ERROR_INVALID, "token: must be plain text");
    const json_t *exec = json_get_object(user, "exec");
    if (exec) {
        out->exec_spec = mem_zalloc(sizeof *out->exec_spec);
        return kube_exec_spec_read(exec, folder, out->exec_spec, err);
    }
    if (token.len) out->token = mem_strndup(token.at, token.len);
    if (file.len) out->token_file = resolve(folder, file);
    enum error_code code = take_pem(user, "client-certificate", folder, &out->client_certificate_pem, err);
    if (code == ERROR_NONE) code = take_pem(user, "client-key", folder, &out->client_key_pem, err);
    if (code == ERROR_NONE && !out->client_certificate_pem != !out->client_key_pem)
        return error_set(err, ERROR_INVALID, "client-certificate and client-key must be set together");
    return code;
}

static enum error_code take_context(const json_t *config, const char *folder, struct kube_config *out,
                                    struct error *err)
{
    struct str name = json_get_str(config, "current-context");
    if (!name.len) return error_set(err, ERROR_INVALID, "current-context is not set");
    const json_t *context = find_named(config, "contexts", "context", name);
    if (!context) return error_set(err, ERROR_INVALID, "current-context names a context that is not in the file");
    const json_t *cluster = find_named(config, "clusters", "cluster", json_get_str(context, "cluster"));
    if (!cluster) return error_set(err, ERROR_INVALID, "the context's cluster is not in the file");
    struct str user_name = json_get_str(context, "user"), ns = json_get_str(context, "namespace");
    const json_t *user = find_named(config, "users", "user", user_name);
    if (user_name.len && !user) return error_set(err, ERROR_INVALID, "the context's user is not in the file");
    if (ns.len) out->ns = mem_strndup(ns.at, ns.len);
    enum error_code code = take_cluster(cluster, folder, out, err);
    return code == ERROR_NONE && user ? take_user(user, folder, out, err) : code;
}

enum error_code kube_config_parse(struct str text, const char *folder, struct kube_config *out, struct error *err)
{
    json_t *tree;
    enum error_code code = yaml_tree_decode(text, KUBE_CONFIG_BYTES_MAX, &tree, err);
    if (code != ERROR_NONE) return code;
    struct kube_config config = {0};
    code = take_context(tree, folder, &config, err);
    json_decref(tree);
    if (code == ERROR_NONE)
        *out = config;
    else
        kube_config_finish(&config);
    return code;
}

enum error_code kube_config_in_cluster(const char *folder, const char *host, const char *port, struct kube_config *out,
                                       struct error *err)
{
    if (!host || !*host || !port || !*port)
        return error_set(err, ERROR_INVALID, "kubeconfig is not set and this is not a pod (KUBERNETES_SERVICE_HOST)");
    struct kube_config config = {0};
    bool v6 = strchr(host, ':') != NULL;
    config.server = mem_printf(v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    config.token_file = mem_printf("%s/token", folder);
    AUTO_FREE char *ca = mem_printf("%s/ca.crt", folder);
    AUTO_FREE char *ns = mem_printf("%s/namespace", folder);
    enum error_code code = check_server(str_c(config.server), err);
    if (code == ERROR_NONE) code = read_file(ca, KUBE_CONFIG_BYTES_MAX, &config.ca_pem, err);
    if (code == ERROR_NONE) code = read_file(config.token_file, KUBE_CONFIG_TOKEN_BYTES_MAX, &config.token_read, err);
    free_secret(config.token_read); // read again with its time when it is used
    config.token_read = NULL;
    if (code == ERROR_NONE && read_file(ns, 1024, &config.ns, NULL) != ERROR_NONE) config.ns = NULL;
    if (code == ERROR_NONE)
        *out = config;
    else
        kube_config_finish(&config);
    return code;
}

enum error_code kube_config_of_server(struct str url, const char *ca_file, const char *token_file,
                                      struct kube_config *out, struct error *err)
{
    struct kube_config config = {0};
    while (str_ends(url, STR("/")))
        url.len--;
    enum error_code code = check_server(url, err);
    if (code == ERROR_NONE && ca_file && *ca_file)
        code = read_file(ca_file, KUBE_CONFIG_BYTES_MAX, &config.ca_pem, err);
    if (code != ERROR_NONE) return code;
    config.server = mem_strndup(url.at, url.len);
    config.token_file = mem_strdup(token_file);
    *out = config;
    return ERROR_NONE;
}

static enum error_code take_data(const json_t *tls, const char *name, char **out, struct error *err)
{
    struct str data = json_get_str(tls, name);
    if (!data.len) return ERROR_NONE;
    size_t len = 0;
    char *pem = mem_zalloc(data.len + 1);
    enum error_code code = parse_base64(data, (uint8_t *)pem, data.len, &len, err);
    if (code == ERROR_NONE && (len == 0 || memchr(pem, 0, len)))
        code = error_set(err, ERROR_INVALID, "must contain PEM text");
    if (code == ERROR_NONE) {
        *out = pem;
        return code;
    }
    mem_free_secret(pem, data.len);
    error_prefix(err, name);
    return code;
}

static enum error_code take_secret_config(const json_t *from, struct kube_config *out, struct error *err)
{
    const json_t *tls = json_get_object(from, "tlsClientConfig");
    static const char *const refused[] = {"awsAuthConfig", "execProviderConfig", "username", "password"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *value = json_object_get(from, refused[i]);
        if (json_is_object(value) || json_str(value).len)
            return error_set(err, ERROR_INVALID,
                             "config.%s is not supported, expected bearerToken, or certData and keyData", refused[i]);
    }
    if (json_get_bool(tls, "insecure", false) || json_get_str(tls, "serverName").len)
        return error_set(err, ERROR_INVALID, "config.tlsClientConfig: insecure and serverName are not supported");
    struct str token = json_get_str(from, "bearerToken");
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] > '~')
            return error_set(err, ERROR_INVALID, "config.bearerToken: must be plain text");
    if (token.len > KUBE_CONFIG_TOKEN_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "config.bearerToken: too long");
    if (token.len) out->token = mem_strndup(token.at, token.len);
    enum error_code code = take_data(tls, "caData", &out->ca_pem, err);
    if (code == ERROR_NONE) code = take_data(tls, "certData", &out->client_certificate_pem, err);
    if (code == ERROR_NONE) code = take_data(tls, "keyData", &out->client_key_pem, err);
    if (code == ERROR_NONE && !out->client_certificate_pem != !out->client_key_pem)
        return error_set(err, ERROR_INVALID, "config.tlsClientConfig: certData and keyData must be set together");
    return code;
}

enum error_code kube_config_of_secret(struct str server, struct str config_json, struct kube_config *out,
                                      struct error *err)
{
    struct kube_config config = {0};
    json_t *from = NULL;
    while (str_ends(server, STR("/")))
        server.len--;
    enum error_code code = check_server(server, err);
    // The decoder's message may quote the document: it is replaced.
    if (code == ERROR_NONE && json_decode(config_json, NULL, &from, NULL) != ERROR_NONE)
        code = error_set(err, ERROR_INVALID, "config: must be a JSON object");
    if (code == ERROR_NONE) code = take_secret_config(from, &config, err);
    json_decref(from);
    if (code != ERROR_NONE) {
        kube_config_finish(&config);
        return code;
    }
    config.server = mem_strndup(server.at, server.len);
    *out = config;
    return ERROR_NONE;
}

enum error_code kube_config_load(const char *path, struct kube_config *out, struct error *err)
{
    if (!path || !*path)
        return kube_config_in_cluster(service_account_folder, getenv("KUBERNETES_SERVICE_HOST"),
                                      getenv("KUBERNETES_SERVICE_PORT"), out, err);
    char *text = NULL;
    enum error_code code = read_file(path, KUBE_CONFIG_BYTES_MAX, &text, err);
    if (code != ERROR_NONE) return code;
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *folder = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
    code = kube_config_parse(str_c(text), folder, out, err);
    free_secret(text);
    return code == ERROR_NONE ? code : error_prefix(err, path);
}

static struct str trim_lines(struct str s)
{
    while (s.len && (s.at[s.len - 1] == '\n' || s.at[s.len - 1] == '\r' || s.at[s.len - 1] == ' '))
        s.len--;
    return s;
}

struct str kube_config_token(struct kube_config *config, uint64_t now_ms)
{
    if (config->exec) return str_c(kube_exec_credential(config->exec)->token);
    if (config->token) return str_c(config->token);
    if (!config->token_file) return STR_EMPTY;
    if (config->token_read && now_ms - config->token_read_at_ms < token_fresh_ms)
        return trim_lines(str_c(config->token_read));
    char *text;
    struct error err;
    if (read_file(config->token_file, KUBE_CONFIG_TOKEN_BYTES_MAX, &text, &err) == ERROR_NONE) {
        free_secret(config->token_read);
        config->token_read = text;
    } else {
        log_warn("kube", "token_unreadable", log_err(&err));
    }
    config->token_read_at_ms = now_ms;
    return config->token_read ? trim_lines(str_c(config->token_read)) : STR_EMPTY;
}

void kube_config_token_refused(struct kube_config *config, uint64_t generation)
{
    if (config->exec) kube_exec_refused(config->exec, generation);
    config->token_read_at_ms = 0;
}
