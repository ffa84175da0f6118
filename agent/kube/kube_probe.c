#include "agent/kube/kube_probe.h"

#include <assert.h>

#include "agent/kube/kube_client.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { INTERVAL_MS = 3000, TIMEOUT_MS = 4000, BODY_BYTES_MAX = 64 * 1024 };

// A name that no Application has is the cheapest to read.
static const char read_path[] = "/apis/argoproj.io/v1alpha1/namespaces/%s/applications/culvert-agent-probe";

enum kube_probe_state { KUBE_PROBE_IDLE, KUBE_PROBE_VERSION, KUBE_PROBE_READ };

struct kube_probe {
    struct kube_probe_options options;
    struct kube_client *client;
    enum kube_probe_state state;
    char *read_path;
    struct strbuf body;
    uint64_t sent_at_ms, blind_since_ms, changes;
    struct kube_problem problem;
    json_t *version;
    bool has_new_version; // since the last conclusion
};

struct kube_probe *kube_probe_create(const struct kube_probe_options *options, struct error *err)
{
    struct kube_client *client = kube_client_create(options->loop, options->config, err);
    if (!client) return NULL;
    struct kube_probe *probe = mem_zalloc(sizeof *probe);
    probe->options = *options;
    if (!probe->options.interval_ms) probe->options.interval_ms = INTERVAL_MS;
    if (!probe->options.timeout_ms) probe->options.timeout_ms = TIMEOUT_MS;
    probe->options.ns = NULL; // lives as long as the caller's options
    probe->client = client;
    probe->read_path = mem_printf(read_path, options->ns ? options->ns : "argocd");
    strbuf_init(&probe->body, BODY_BYTES_MAX);
    return probe;
}

void kube_probe_destroy(struct kube_probe *probe)
{
    if (!probe) return;
    kube_client_close(probe->client);
    json_decref(probe->version);
    strbuf_finish(&probe->body);
    mem_free(probe->read_path);
    mem_free(probe);
}

static enum kube_body_verdict on_body(void *arg, const char *at, size_t len)
{
    struct kube_probe *probe = arg;
    return strbuf_add(&probe->body, at, len) ? KUBE_BODY_TAKEN : KUBE_BODY_STOP;
}

// Replaces the version by one that was read and differs.
static bool take_version(struct kube_probe *probe, int status)
{
    json_t *version;
    if (status != 200 || json_decode(strbuf_str(&probe->body), NULL, &version, NULL) != ERROR_NONE) return false;
    if (probe->version && json_equal(probe->version, version)) {
        json_decref(version);
        return false;
    }
    json_decref(probe->version);
    probe->version = version;
    return true;
}

static void log_problem(const struct kube_probe *probe, const struct kube_problem *problem)
{
    if (problem->kind == KUBE_PROBLEM_NONE)
        log_info("kube", "api_recovered", log_c("api", probe->options.config->server));
    else
        log_error("kube", "api_not_readable", log_c("code", kube_problem_code(problem->kind)),
                  log_c("error", problem->cause), log_c("cure", problem->cure));
}

static void set_state(struct kube_probe *probe, enum kube_probe_state state)
{
    assert(state != KUBE_PROBE_VERSION || probe->state == KUBE_PROBE_IDLE);
    assert(state != KUBE_PROBE_READ || probe->state == KUBE_PROBE_VERSION);
    probe->state = state;
}

static void conclude(struct kube_probe *probe, const struct kube_problem *problem)
{
    set_state(probe, KUBE_PROBE_IDLE);
    bool is_news = !probe->changes || problem->kind != probe->problem.kind;
    if (is_news && (probe->changes || problem->kind != KUBE_PROBLEM_NONE)) log_problem(probe, problem);
    probe->problem = *problem;
    if (!kube_problem_blinds(problem->kind))
        probe->blind_since_ms = 0;
    else if (!probe->blind_since_ms)
        probe->blind_since_ms = probe->sent_at_ms;
    probe->changes += is_news || probe->has_new_version;
    probe->has_new_version = false;
}

static void on_read_done(void *arg, int status, const struct error *err)
{
    struct kube_probe *probe = arg;
    struct kube_problem problem;
    bool is_enough = err && err->code == ERROR_CANCELLED; // an object larger than BODY_BYTES_MAX
    kube_problem_of_read(err ? 0 : status, is_enough ? NULL : err, probe->options.config->server,
                         kube_client_clock_skew_s(probe->client), &problem);
    conclude(probe, &problem);
}

static void request(struct kube_probe *probe, enum kube_probe_state state, const char *path,
                    void (*on_done)(void *arg, int status, const struct error *err))
{
    strbuf_clear(&probe->body);
    const struct kube_request_options options = {
        .path = path, .timeout_ms = probe->options.timeout_ms, .arg = probe, .on_body = on_body, .on_done = on_done};
    set_state(probe, kube_client_get(probe->client, &options) ? state : KUBE_PROBE_IDLE);
}

static void on_version_done(void *arg, int status, const struct error *err)
{
    struct kube_probe *probe = arg;
    struct kube_problem problem;
    kube_problem_of(err ? 0 : status, err, probe->options.config->server, kube_client_clock_skew_s(probe->client),
                    &problem);
    probe->has_new_version = take_version(probe, err ? 0 : status);
    if (problem.kind != KUBE_PROBLEM_NONE)
        conclude(probe, &problem);
    else
        request(probe, KUBE_PROBE_READ, probe->read_path, on_read_done);
}

void kube_probe_tick(struct kube_probe *probe, uint64_t now_ms)
{
    if (probe->state != KUBE_PROBE_IDLE) return;
    if (probe->sent_at_ms && now_ms < probe->sent_at_ms + probe->options.interval_ms) return;
    probe->sent_at_ms = now_ms;
    request(probe, KUBE_PROBE_VERSION, "/version", on_version_done);
}

const struct kube_problem *kube_probe_problem(const struct kube_probe *probe)
{
    return &probe->problem;
}

uint64_t kube_probe_blind_since_ms(const struct kube_probe *probe)
{
    return probe->blind_since_ms;
}

const json_t *kube_probe_version(const struct kube_probe *probe)
{
    return probe->version;
}

uint64_t kube_probe_changes(const struct kube_probe *probe)
{
    return probe->changes;
}
