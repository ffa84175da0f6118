#include "agent/reports/cluster_identity.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/kube/kube_fetch.h"
#include "agent/reports/findings.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"

enum { NAME_BYTES_MAX = 512, CONFIG_BYTES_MAX = 256 * 1024, TEXT_BYTES = 1024, REASON_BYTES = 64, RETRY_MS = 30000 };

static const char system_path[] = "/api/v1/namespaces/kube-system";

// Of one look: IDLE -> OWN (once) -> for each Secret: SECRET -> THERE -> ... -> IDLE
enum identity_state { IDENTITY_IDLE, IDENTITY_OWN, IDENTITY_SECRET, IDENTITY_THERE, IDENTITY_NEXT };

struct secret {
    char *ns, *name;
    char problem[TEXT_BYTES]; // why it cannot be used; "": it can
};

struct cluster_identity {
    struct cluster_identity_options options;
    struct secret secrets[CLUSTER_IDENTITY_SECRETS_MAX];
    size_t count, at;
    enum identity_state state;
    struct kube_fetch *fetch;
    struct kube_config config; // of the cluster that is asked
    struct kube_client *there;
    char *own_uid, *name, *server;
    char own_problem[TEXT_BYTES];
    uint64_t next_ms;
    bool failed;                         // something, in this look
    enum cluster_secret_verdict verdict; // of the Secret before `at`
    bool has_verdict;                    // it is to be handed on
};

// -------------------------------------------------------------------------------------------------

static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.')) return false;
    }
    return name.len > 0 && name.len <= 253;
}

static enum error_code take_secrets(struct cluster_identity *identity, struct str list, struct error *err)
{
    while (list.len) {
        struct str text, name, ns;
        if (!str_cut(&list, ',', &text)) list = STR_EMPTY;
        name = text = str_trim(text);
        if (!str_cut(&name, '/', &ns)) {
            ns = STR("argocd");
            name = text;
        }
        if (!is_name(ns) || !is_name(name))
            return error_set(err, ERROR_INVALID,
                             "invalid Secret \"%.*s\" in reporter.cluster_secrets, expected NAME or NAMESPACE/NAME",
                             STR_ARG(str_first(text, NAME_BYTES_MAX)));
        if (identity->count == CLUSTER_IDENTITY_SECRETS_MAX)
            return error_set(err, ERROR_TOO_LARGE, "reporter.cluster_secrets: more than %d",
                             CLUSTER_IDENTITY_SECRETS_MAX);
        identity->secrets[identity->count++] =
            (struct secret){.ns = mem_strndup(ns.at, ns.len), .name = mem_strndup(name.at, name.len)};
    }
    return ERROR_NONE;
}

enum error_code cluster_identity_create(const struct cluster_identity_options *options, struct cluster_identity **out,
                                        struct error *err)
{
    struct cluster_identity *identity = mem_zalloc(sizeof *identity);
    identity->options = *options;
    enum error_code code = take_secrets(identity, str_trim(str_c(options->secrets)), err);
    identity->options.secrets = NULL;
    if (code != ERROR_NONE || !identity->count) {
        cluster_identity_destroy(identity);
        identity = NULL;
    }
    *out = identity;
    return code;
}

// What was needed for one cluster; its credentials are overwritten.
static void leave(struct cluster_identity *identity)
{
    if (identity->there) kube_client_close(identity->there);
    identity->there = NULL;
    kube_config_finish(&identity->config);
    mem_free(identity->name);
    mem_free(identity->server);
    identity->name = identity->server = NULL;
}

void cluster_identity_destroy(struct cluster_identity *identity)
{
    if (!identity) return;
    kube_fetch_cancel(identity->fetch);
    leave(identity);
    for (size_t i = 0; i < identity->count; i++) {
        mem_free(identity->secrets[i].ns);
        mem_free(identity->secrets[i].name);
    }
    mem_free(identity->own_uid);
    mem_free(identity);
}

// -------------------------------------------------------------------------------------------------

static void set_state(struct cluster_identity *identity, enum identity_state state)
{
    assert(state != IDENTITY_THERE || identity->state == IDENTITY_SECRET);
    assert(state != IDENTITY_SECRET || identity->own_uid);
    identity->state = state;
}

static void conclude(struct cluster_identity *identity, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The end of one Secret, or of the look at the own cluster; an empty message: it went well. Logged
// when it becomes another. A client must not be closed in its own callback: on from the next tick.
static void conclude(struct cluster_identity *identity, const char *format, ...)
{
    struct secret *secret = identity->own_uid ? &identity->secrets[identity->at] : NULL;
    char text[TEXT_BYTES] = "", *problem = secret ? secret->problem : identity->own_problem;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (*text && strcmp(text, problem) != 0)
        log_warn("reporter", "cluster_identity_unknown", log_c("secret", secret ? secret->name : ""),
                 log_c("error", text));
    memcpy(problem, text, sizeof text);
    identity->failed = identity->failed || *text;
    set_state(identity, IDENTITY_NEXT);
    if (secret)
        identity->at++;
    else
        identity->at = identity->count; // without the own identity there is nothing to compare with
}

static void decide(struct cluster_identity *identity, enum cluster_secret_verdict verdict)
{
    identity->verdict = verdict;
    identity->has_verdict = true;
}

static const char *reason_of(int status, const struct error *err, char out[REASON_BYTES])
{
    snprintf(out, REASON_BYTES, "status %d", status);
    return err ? err->text : out;
}

static void on_there(void *arg, int status, json_t *value, const struct error *err)
{
    struct cluster_identity *identity = arg;
    const struct cluster_identity_options *o = &identity->options;
    struct str uid = json_str(json_path(value, "metadata", "uid", NULL));
    char text[REASON_BYTES];
    identity->fetch = NULL;
    if (!uid.len) {
        decide(identity, CLUSTER_SECRET_UNIDENTIFIED);
        conclude(identity, "%s: the namespace kube-system cannot be read: %s", identity->server,
                 reason_of(status, err, text));
        return;
    }
    bool is_own = str_eq(uid, str_c(identity->own_uid));
    decide(identity, is_own ? CLUSTER_SECRET_OWN : CLUSTER_SECRET_OTHER);
    o->on_cluster(o->arg, str_c(identity->name), str_c(identity->server), is_own);
    conclude(identity, "%s", "");
}

// A value of a Secret's data; mem_free_secret with its length + 1. NULL: none, or not text.
static char *decode_value(const json_t *secret, const char *key, size_t bytes_max, size_t *out_len)
{
    struct str text = json_str(json_path(secret, "data", key, NULL));
    if (!text.len || text.len > bytes_max) return NULL;
    char *plain = mem_zalloc(text.len + 1);
    size_t len = 0;
    bool good = parse_base64(text, (uint8_t *)plain, text.len, &len, NULL) == ERROR_NONE &&
                str_is_utf8(str_of(plain, len)) && !memchr(plain, 0, len);
    *out_len = text.len;
    if (good && len) return plain;
    mem_free_secret(plain, text.len);
    return NULL;
}

static enum error_code take_secret(struct cluster_identity *identity, const json_t *secret, struct error *err)
{
    size_t name_bytes = 0, server_bytes = 0, config_bytes = 0;
    identity->name = decode_value(secret, "name", NAME_BYTES_MAX, &name_bytes);
    identity->server = decode_value(secret, "server", NAME_BYTES_MAX, &server_bytes);
    char *config = decode_value(secret, "config", CONFIG_BYTES_MAX, &config_bytes);
    enum error_code code = ERROR_NONE;
    if (!identity->name || !identity->server || !config)
        code =
            error_set(err, ERROR_INVALID, "it has no name, server and config as Argo CD's cluster Secrets have them");
    if (code == ERROR_NONE)
        code = kube_config_of_secret(str_c(identity->server), str_c(config), &identity->config, err);
    if (config) mem_free_secret(config, config_bytes);
    return code;
}

static void on_secret(void *arg, int status, json_t *value, const struct error *err)
{
    struct cluster_identity *identity = arg;
    struct error unusable;
    char text[REASON_BYTES];
    identity->fetch = NULL;
    decide(identity, status == 404 ? CLUSTER_SECRET_GONE : CLUSTER_SECRET_UNREADABLE);
    if (!value) {
        conclude(identity, "it cannot be read: %s", reason_of(status, err, text));
        return;
    }
    decide(identity, CLUSTER_SECRET_UNUSABLE);
    if (take_secret(identity, value, &unusable) != ERROR_NONE) {
        conclude(identity, "%s", unusable.text);
        return;
    }
    identity->there = kube_client_create(identity->options.loop, &identity->config, &unusable);
    if (!identity->there) {
        conclude(identity, "%s", unusable.text);
        return;
    }
    set_state(identity, IDENTITY_THERE);
    identity->fetch = kube_fetch_start(identity->there, system_path, on_there, identity);
    identity->has_verdict = identity->fetch == NULL;
    if (!identity->fetch) conclude(identity, "too many requests");
}

static void on_own(void *arg, int status, json_t *value, const struct error *err)
{
    struct cluster_identity *identity = arg;
    struct str uid = json_str(json_path(value, "metadata", "uid", NULL));
    char text[REASON_BYTES];
    identity->fetch = NULL;
    if (!uid.len) {
        conclude(identity, "the namespace kube-system of the agent's own cluster cannot be read: %s",
                 reason_of(status, err, text));
        return;
    }
    identity->own_uid = mem_strndup(uid.at, uid.len);
    identity->own_problem[0] = '\0';
    set_state(identity, IDENTITY_NEXT);
}

static void begin_secret(struct cluster_identity *identity)
{
    const struct secret *secret = &identity->secrets[identity->at];
    AUTO_FREE char *path = mem_printf("/api/v1/namespaces/%s/secrets/%s", secret->ns, secret->name);
    identity->fetch = kube_fetch_start(identity->options.client, path, on_secret, identity);
    if (identity->fetch) set_state(identity, IDENTITY_SECRET);
}

static void begin(struct cluster_identity *identity)
{
    identity->at = 0;
    identity->failed = false;
    if (identity->own_uid) {
        set_state(identity, IDENTITY_NEXT);
        return;
    }
    identity->fetch = kube_fetch_start(identity->options.client, system_path, on_own, identity);
    if (identity->fetch) set_state(identity, IDENTITY_OWN);
}

// The client that borrowed the configuration is closed first.
static void hand_on(struct cluster_identity *identity)
{
    const struct cluster_identity_options *o = &identity->options;
    bool has_config = identity->verdict == CLUSTER_SECRET_UNIDENTIFIED || identity->verdict == CLUSTER_SECRET_OTHER;
    if (!identity->has_verdict || !o->on_secret) return;
    assert(identity->at);
    identity->has_verdict = false;
    if (identity->there) kube_client_close(identity->there);
    identity->there = NULL;
    o->on_secret(o->arg, &(struct cluster_secret){.index = identity->at - 1,
                                                  .verdict = identity->verdict,
                                                  .name = str_c(identity->name),
                                                  .server = str_c(identity->server),
                                                  .config = has_config ? &identity->config : NULL,
                                                  .problem = identity->secrets[identity->at - 1].problem});
}

size_t cluster_identity_count(const struct cluster_identity *identity)
{
    return identity ? identity->count : 0;
}

void cluster_identity_tick(struct cluster_identity *identity, uint64_t now_ms)
{
    if (!identity) return;
    uint64_t interval_ms = identity->options.interval_ms;
    switch (identity->state) {
    case IDENTITY_IDLE:
        if (now_ms >= identity->next_ms) begin(identity);
        break;
    case IDENTITY_OWN:
    case IDENTITY_SECRET:
    case IDENTITY_THERE: break;
    case IDENTITY_NEXT:
        hand_on(identity);
        leave(identity);
        if (identity->at < identity->count) {
            begin_secret(identity);
            break;
        }
        set_state(identity, IDENTITY_IDLE);
        identity->next_ms = now_ms + (identity->failed && interval_ms > RETRY_MS ? RETRY_MS : interval_ms);
        break;
    }
}

static void add_finding(json_t *findings, const char *which, const char *problem)
{
    char message[TEXT_BYTES * 2];
    snprintf(message, sizeof message, "%s: %s", which, problem);
    findings_add(findings, "CLUSTER_IDENTITY_UNKNOWN", FINDING_WARNING, message,
                 "check reporter.cluster_secrets, that the agent may get these Secrets and its own namespace "
                 "kube-system, and that the cluster in the Secret is reached from here");
}

void cluster_identity_findings(const struct cluster_identity *identity, json_t *findings)
{
    if (!identity) return;
    if (*identity->own_problem) add_finding(findings, "clusters cannot be compared", identity->own_problem);
    for (size_t i = 0; i < identity->count; i++) {
        const struct secret *secret = &identity->secrets[i];
        char which[NAME_BYTES_MAX + 64];
        snprintf(which, sizeof which, "Argo CD's cluster Secret %s/%s", secret->ns, secret->name);
        if (*secret->problem) add_finding(findings, which, secret->problem);
    }
}
