#include "agent/argo/argo_api.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/kube/kube_client.h"
#include "agent/reports/findings.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/strbuf.h"

enum { DEPTH_MAX = 64, TOKENS_MAX = 4000000, PAUSE_BASE_MS = 1000, PAUSE_CAP_MS = 60000, TEXT_BYTES = 1024 };

enum argo_problem {
    ARGO_PROBLEM_NONE,
    ARGO_PROBLEM_UNREACHABLE,
    ARGO_PROBLEM_HUNG,
    ARGO_PROBLEM_UNTRUSTED,
    ARGO_PROBLEM_UNAUTHORIZED,
    ARGO_PROBLEM_FAILING,
    ARGO_PROBLEM_TOO_LARGE,
};

static const struct {
    const char *code, *cause, *cure;
} texts[] = {
    [ARGO_PROBLEM_NONE] = {"NONE", "", ""},
    [ARGO_PROBLEM_UNREACHABLE] = {"ARGOCD_API_UNREACHABLE", "no connection to Argo CD's API",
                                  "check argocd.url, DNS, network policies, and that argocd-server runs"},
    [ARGO_PROBLEM_HUNG] = {"ARGOCD_API_HUNG", "Argo CD's API does not answer in time",
                           "check the load of argocd-server and its Redis; argocd.timeout is the limit"},
    [ARGO_PROBLEM_UNTRUSTED] = {"ARGOCD_API_UNTRUSTED", "the certificate of Argo CD's API cannot be verified",
                                "set argocd.ca_file to the CA of argocd-server's certificate (tls.crt of the Secret "
                                "argocd-server-tls, or of argocd-secret), and use a name in argocd.url that the "
                                "certificate is for"},
    [ARGO_PROBLEM_UNAUTHORIZED] = {"ARGOCD_API_UNAUTHORIZED", "Argo CD's API refuses the token",
                                   "write a token of an account with the right applications, get, */* to "
                                   "argocd.token_file (argocd account generate-token --account NAME)"},
    [ARGO_PROBLEM_FAILING] = {"ARGOCD_API_FAILING", "Argo CD's API answers with an error",
                              "check the log of argocd-server, and that argocd.url is its address"},
    [ARGO_PROBLEM_TOO_LARGE] = {"ARGOCD_API_ANSWER_TOO_LARGE", "an answer of Argo CD's API is over argocd.bytes_max",
                                "raise argocd.bytes_max"},
};

struct argo_request {
    struct argo_api *api;
    struct kube_request *request;
    struct strbuf body;
    void (*on_done)(void *arg, int status, json_t *value);
    void *arg;
};

struct argo_api {
    struct argo_api_options options;
    struct kube_config config;
    struct kube_client *client;
    struct argo_request *open[ARGO_API_REQUESTS_MAX];
    enum argo_problem problem;
    char cause[TEXT_BYTES];
    struct backoff pause;
    uint64_t paused_until_ms;
    struct metric *succeeded, *failed;
};

struct argo_api *argo_api_create(const struct argo_api_options *options, struct error *err)
{
    struct argo_api *api = mem_zalloc(sizeof *api);
    api->options = *options;
    assert(options->requests_max && options->requests_max <= ARGO_API_REQUESTS_MAX);
    backoff_init(&api->pause, PAUSE_BASE_MS, PAUSE_CAP_MS);
    struct metric_family *requests =
        metrics_counter("culvert_agent_argocd_requests_total", "Requests to Argo CD's API, by result.", "result", NULL);
    api->succeeded = metric_with(requests, "succeeded");
    api->failed = metric_with(requests, "failed");
    enum error_code code =
        kube_config_of_server(str_c(options->url), options->ca_file, options->token_file, &api->config, err);
    api->config.transport = options->transport;
    if (code != ERROR_NONE) error_prefix(err, "argocd");
    if (code == ERROR_NONE) api->client = kube_client_create(options->loop, &api->config, err);
    if (api->client) {
        api->options.url = api->options.token_file = api->options.ca_file = NULL;
        return api;
    }
    argo_api_destroy(api);
    return NULL;
}

static void request_free(struct argo_request *request)
{
    for (size_t i = 0; i < ARGO_API_REQUESTS_MAX; i++)
        if (request->api->open[i] == request) request->api->open[i] = NULL;
    strbuf_finish(&request->body);
    mem_free(request);
}

void argo_request_cancel(struct argo_request *request)
{
    if (!request) return;
    kube_request_cancel(request->request);
    request_free(request);
}

void argo_api_destroy(struct argo_api *api)
{
    if (!api) return;
    for (size_t i = 0; i < ARGO_API_REQUESTS_MAX; i++)
        argo_request_cancel(api->open[i]);
    if (api->client) kube_client_close(api->client);
    kube_config_finish(&api->config);
    mem_free(api);
}

// -------------------------------------------------------------------------------------------------

// 403, 404 and 500 are answers about what was requested: an Application that is gone, a tree that
// is not in Argo CD's cache yet.
static enum argo_problem problem_of(int status, const struct error *err)
{
    if (status == 401) return ARGO_PROBLEM_UNAUTHORIZED;
    if (status > 500 || (status >= 300 && status < 400)) return ARGO_PROBLEM_FAILING;
    if (!err) return ARGO_PROBLEM_NONE;
    switch (err->code) {
    case ERROR_NOT_FOUND:
    case ERROR_UNAVAILABLE: return ARGO_PROBLEM_UNREACHABLE;
    case ERROR_TIMEOUT: return ARGO_PROBLEM_HUNG;
    case ERROR_UNAUTHENTICATED: return ARGO_PROBLEM_UNTRUSTED;
    case ERROR_CANCELLED: return ARGO_PROBLEM_TOO_LARGE;
    default: return ARGO_PROBLEM_FAILING;
    }
}

static void conclude(struct argo_api *api, enum argo_problem problem, int status, const struct error *err)
{
    metric_add(problem == ARGO_PROBLEM_NONE ? api->succeeded : api->failed, 1);
    bool is_news = problem != api->problem;
    api->problem = problem;
    if (problem == ARGO_PROBLEM_NONE) {
        backoff_reset(&api->pause);
        api->paused_until_ms = 0;
        if (is_news) log_info("argocd", "api_recovered", log_c("api", api->config.server));
        return;
    }
    // One answer that is too large is no reason to ask for no others.
    if (problem != ARGO_PROBLEM_TOO_LARGE) api->paused_until_ms = clock_mono_ms() + backoff_next_ms(&api->pause);
    char detail[ERROR_TEXT_BYTES + 32];
    if (status)
        snprintf(detail, sizeof detail, "status %d", status);
    else
        snprintf(detail, sizeof detail, "%s", err ? err->text : "no answer");
    snprintf(api->cause, sizeof api->cause,
             "%s: %s: %s; health is the agent's own assessment, releases have no commits", api->config.server,
             texts[problem].cause, detail);
    if (is_news)
        log_error("argocd", "api_not_readable", log_c("code", texts[problem].code), log_c("error", api->cause),
                  log_c("cure", texts[problem].cure));
}

void argo_api_findings(const struct argo_api *api, json_t *findings)
{
    if (api->problem != ARGO_PROBLEM_NONE)
        findings_add(findings, texts[api->problem].code, FINDING_WARNING, api->cause, texts[api->problem].cure);
}

// -------------------------------------------------------------------------------------------------

static enum kube_body_verdict on_body(void *arg, const char *at, size_t len)
{
    struct argo_request *request = arg;
    return strbuf_add(&request->body, at, len) ? KUBE_BODY_TAKEN : KUBE_BODY_STOP;
}

static void on_answered(void *arg, int status, const struct error *err)
{
    struct argo_request *request = arg;
    struct argo_api *api = request->api;
    const struct json_limits limits = {
        .bytes_max = api->options.bytes_max, .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX};
    json_t *value = NULL;
    struct error unreadable;
    // The decoder's message may quote the document: it is replaced.
    if (!err && status == 200 && json_decode(strbuf_str(&request->body), &limits, &value, NULL) != ERROR_NONE) {
        error_set(&unreadable, ERROR_PROTOCOL, "the answer is not JSON, or over the limits");
        err = &unreadable;
    }
    if (err) status = status == 200 ? 0 : status;
    conclude(api, problem_of(status, err), status, err);
    void (*on_done)(void *, int, json_t *) = request->on_done;
    arg = request->arg;
    request_free(request);
    on_done(arg, status, value);
    json_decref(value);
}

static struct argo_request **free_place(const struct argo_api *api)
{
    size_t open = 0;
    struct argo_request *const *place = NULL;
    for (size_t i = 0; i < ARGO_API_REQUESTS_MAX; i++) {
        open += api->open[i] != NULL;
        if (!api->open[i]) place = &api->open[i];
    }
    return open < api->options.requests_max ? (struct argo_request **)(uintptr_t)place : NULL;
}

bool argo_api_is_free(const struct argo_api *api, uint64_t now_ms)
{
    return now_ms >= api->paused_until_ms && free_place(api);
}

struct argo_request *argo_api_get(struct argo_api *api, const char *path,
                                  void (*on_done)(void *arg, int status, json_t *value), void *arg)
{
    struct argo_request **place = free_place(api);
    if (!place) return NULL;
    struct argo_request *request = mem_zalloc(sizeof *request);
    request->api = api;
    request->on_done = on_done;
    request->arg = arg;
    strbuf_init(&request->body, api->options.bytes_max);
    request->request =
        kube_client_get(api->client, &(struct kube_request_options){.path = path,
                                                                    .timeout_ms = api->options.timeout_ms,
                                                                    .arg = request,
                                                                    .on_body = on_body,
                                                                    .on_done = on_answered});
    if (request->request) return *place = request;
    request_free(request);
    return NULL;
}

char *argo_api_escape(struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = mem_alloc(text.len * 3 + 1), *to = out;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '_' || c == '.' || c == '~';
        if (plain) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = '\0';
    return out;
}
