// port-forward: local ports that lead to TCP services of a runtime, through the tunnel
// (docs/ingress.md: connect-tcp).
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/forward/forward_listener.h"
#include "cli/row.h"

enum { ACCEPT_TIMEOUT_MS = 30000, HOST_LABEL_BYTES_MAX = 63, ACCOUNT_DIGITS = 24 };

#define USAGE "usage: culvert port-forward [RUNTIME/]SERVICE [LOCAL_PORT]"

// clang-format off
const struct option_spec port_forward_options[] = {
    {"address", 0, "ADDRESS", "port-forward: to listen on; 127.0.0.1 by default"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

struct destination {
    char runtime[128];
    const char *service;
    char *url, *request, *name; // owned
};

static bool is_name(const char *name, const char *others)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.");
    return len > 0 && len <= HOST_LABEL_BYTES_MAX && name[len] == '\0' && !strpbrk(name, others);
}

static enum error_code name_destination(const struct invocation *invocation, struct destination *out, struct error *err)
{
    const char *word = invocation->word_count ? invocation->words[0] : "", *slash = strchr(word, '/');
    const char *runtime = arguments_get(invocation->arguments, "runtime");
    if (invocation->word_count < 1 || invocation->word_count > 2) return error_set(err, ERROR_INVALID, USAGE);
    if (!runtime) runtime = invocation->context.runtime;
    if (slash) {
        snprintf(out->runtime, sizeof out->runtime, "%.*s", (int)(slash - word), word);
    } else {
        snprintf(out->runtime, sizeof out->runtime, "%s", runtime ? runtime : "");
    }
    out->service = slash ? slash + 1 : word;
    if (!is_name(out->runtime, ".")) return error_set(err, ERROR_INVALID, "the name of a runtime is needed; " USAGE);
    if (is_name(out->service, "")) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "invalid service \"%.60s\": must be a name of the agent's tcp.allow",
                     out->service);
}

// Asks for the account, whose id is part of host names, and whether there is such a runtime.
static enum error_code find_runtime(const struct invocation *invocation, const char *runtime, json_t **out,
                                    struct error *err)
{
    static const char document[] =
        "query($name: String!) { me { activeAccount { id } } runtime(name: $name) { online disconnectCause } }";
    json_t *data = NULL;
    enum error_code code =
        client_query(invocation->client, document, json_pack("{s:s}", "name", runtime), "runtime", &data, err);
    if (code == ERROR_NONE && !json_is_object(json_object_get(data, "runtime")))
        code = error_set(err, ERROR_NOT_FOUND, "runtime \"%.100s\" does not exist, or you may not see it", runtime);
    if (code == ERROR_NONE && !row_text(data, "me.activeAccount.id"))
        code = error_set(err, ERROR_UNAUTHENTICATED, "the platform does not know the caller");
    if (code != ERROR_NONE) {
        json_decref(data);
        return code;
    }
    if (!json_is_true(row_at(data, "runtime.online")))
        fprintf(stderr, "warning: runtime %s is not connected now; connections fail until it is\n", runtime);
    *out = data;
    return ERROR_NONE;
}

// "https://host:port/" -> "host" and ":port"; scheme gets "https://".
static void split_url(const char *url, struct str *scheme, struct str *host, struct str *port)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    size_t len = strcspn(at, "/"), name_len = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/");
    *scheme = str_of(url, (size_t)(at - url));
    *host = str_of(at, name_len < len ? name_len : len);
    *port = str_of(at + host->len, len - host->len);
}

static bool begins_with_account(struct str host)
{
    if (host.len <= ACCOUNT_DIGITS || host.at[ACCOUNT_DIGITS] != '-') return false;
    for (size_t i = 0; i < ACCOUNT_DIGITS; i++) {
        if (!memchr("0123456789abcdefABCDEF", host.at[i], 22)) return false;
    }
    return true;
}

// The ingress listener answers under the platform's own host by path, and below tunnel.domain by
// host name: <account>-<runtime>.<tunnel.domain>.
static void address_destination(const struct context *context, const char *account, struct destination *out)
{
    struct str scheme, host, port, platform, rest, label, own_host = {0};
    split_url(context->url, &scheme, &platform, &port);
    split_url(context->ingress_url, &scheme, &host, &port);
    char *named = NULL, *path = NULL;
    if (str_eq_nocase(host, platform)) {
        path = mem_printf("/runtimes/%s/proxy", out->runtime);
        own_host = host;
    } else {
        rest = host;
        if (begins_with_account(host)) str_cut(&rest, '.', &label);
        named = mem_printf("%s-%s.%.*s", account, out->runtime, (int)rest.len, rest.at);
        own_host = str_c(named);
    }
    out->url = mem_printf("%.*s%.*s%.*s", (int)scheme.len, scheme.at, (int)own_host.len, own_host.at, (int)port.len,
                          port.len ? port.at : "");
    out->request =
        mem_printf("GET %s/tcp/%s HTTP/1.1\r\nHost: %.*s%.*s\r\nAuthorization: %s\r\nUser-Agent: culvert/%s\r\n"
                   "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n",
                   path ? path : "", out->service, (int)own_host.len, own_host.at, (int)port.len,
                   port.len ? port.at : "", context->token ? context->token : "", CULVERT_VERSION);
    out->name = mem_printf("%s/%s", out->runtime, out->service);
    mem_free(named);
    mem_free(path);
}

static enum error_code forward(const struct invocation *invocation, const struct destination *destination,
                               struct error *err)
{
    const char *host = arguments_get(invocation->arguments, "address");
    uint64_t port = 0, timeout_ms;
    struct forward_listener *listener;
    if (!host) host = "127.0.0.1";
    enum error_code code = command_duration(invocation, "request-timeout", ACCEPT_TIMEOUT_MS, &timeout_ms, err);
    if (code == ERROR_NONE && invocation->word_count == 2 &&
        parse_u64(str_c(invocation->words[1]), 0, 65535, &port, err) != ERROR_NONE)
        code = error_prefix(err, "LOCAL_PORT");
    struct forward_target target = {.url = destination->url,
                                    .ca_file = invocation->context.ca_file,
                                    .request = destination->request,
                                    .name = destination->name,
                                    .timeout_ms = (unsigned)timeout_ms};
    if (code == ERROR_NONE) code = forward_listener_create(host, (uint16_t)port, &target, &listener, err);
    if (code != ERROR_NONE) return code;
    if (!parse_is_loopback(str_c(host)))
        fprintf(stderr, "warning: every client of %s reaches the service with your rights\n", host);
    printf("Forwarding from %s to %s\n", forward_listener_address(listener), destination->name);
    fflush(stdout);
    code = forward_listener_run(listener, err);
    forward_listener_destroy(listener);
    return code;
}

int verb_port_forward(struct invocation *invocation)
{
    struct error err;
    struct destination destination = {.runtime = ""};
    json_t *found = NULL;
    enum error_code code = name_destination(invocation, &destination, &err);
    if (code == ERROR_NONE && !invocation->context.ingress_url)
        code = error_set(&err, ERROR_INVALID,
                         "the address of the ingress listener is not known: culvert context set ingress-url=URL, or "
                         "CULVERT_INGRESS_URL");
    if (code == ERROR_NONE) code = find_runtime(invocation, destination.runtime, &found, &err);
    if (code == ERROR_NONE) {
        address_destination(&invocation->context, row_text(found, "me.activeAccount.id"), &destination);
        code = forward(invocation, &destination, &err);
    }
    json_decref(found);
    if (destination.request) mem_free_secret(destination.request, strlen(destination.request));
    mem_free(destination.url);
    mem_free(destination.name);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
