#include "agent/reports/cluster_report.h"

#include "agent/kube/kube_fetch.h"
#include "agent/reports/key_table.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

enum { INTERVAL_MS = 60000, FIRST_RETRY_MS = 5000, LOOK_MS = 1000, MANAGED_MAX = 90, NAME_BYTES_MAX = 512 };

static const char own_server[] = "https://kubernetes.default.svc";
static const char managed_path[] = "/api/v1/secrets?limit=90&labelSelector=argocd.argoproj.io%2Fsecret-type%3Dcluster";

struct cluster_report {
    struct cluster_report_options options;
    struct kube_fetch *managed;
    uint64_t next_ms, look_ms;
    uint64_t probe_changes; // the probe's, when the own cluster was reported last
    json_t *findings;       // as they were reported last
    bool managed_logged;
    struct key_table *last_texts; // the last text, by server
    json_t *names;                // of the managed ones, when they were read to the end last; NULL before
};

struct cluster_report *cluster_report_create(const struct cluster_report_options *options)
{
    struct cluster_report *report = mem_zalloc(sizeof *report);
    report->options = *options;
    report->last_texts = key_table_create();
    report->findings = json_array();
    return report;
}

void cluster_report_destroy(struct cluster_report *report)
{
    if (!report) return;
    kube_fetch_cancel(report->managed);
    json_decref(report->findings);
    json_decref(report->names);
    size_t cursor = 0;
    for (char *text; (text = key_table_next(report->last_texts, &cursor, NULL));)
        mem_free(text);
    key_table_destroy(report->last_texts);
    mem_free(report);
}

// Takes over manifest's reference.
static void tell(struct cluster_report *report, struct str server, json_t *manifest)
{
    size_t len;
    char *text = json_canonical(manifest, &len);
    json_decref(manifest);
    const char *old = key_table_get(report->last_texts, server);
    if (old && str_eq(str_c(old), str_of(text, len))) {
        mem_free(text);
        return;
    }
    report->options.on_cluster(report->options.arg, str_of(text, len));
    mem_free(key_table_put(report->last_texts, server, text));
}

// "1" and "29+" make "1.29", as Argo CD spells it.
static json_t *version_text(const json_t *value)
{
    struct str major = json_get_str(value, "major"), minor = json_get_str(value, "minor");
    size_t digits = 0;
    while (digits < minor.len && minor.at[digits] >= '0' && minor.at[digits] <= '9')
        digits++;
    char text[64];
    int len = snprintf(text, sizeof text, "%.*s.%.*s", (int)(major.len > 16 ? 16 : major.len), major.at ? major.at : "",
                       (int)(digits > 16 ? 16 : digits), minor.at ? minor.at : "");
    return json_new_str(major.len && digits ? str_of(text, (size_t)len) : json_get_str(value, "gitVersion"));
}

static void report_own(struct cluster_report *report)
{
    const struct kube_problem *problem = kube_probe_problem(report->options.probe);
    const json_t *version = kube_probe_version(report->options.probe);
    bool answers = problem->kind == KUBE_PROBLEM_NONE;
    size_t applications = 0, resources = 0, kinds = 0;
    report->options.counts(report->options.arg, &applications, &resources, &kinds);
    json_t *manifest = json_object();
    json_object_set_new(manifest, "name", json_string(report->options.cluster_name));
    json_object_set_new(manifest, "server", json_string(own_server));
    if (version) json_object_set_new(manifest, "serverVersion", version_text(version));
    json_t *state = json_object();
    json_object_set_new(state, "status", json_string(answers ? "Successful" : "Failed"));
    json_object_set_new(state, "message", json_new_str(str_c(problem->cause)));
    json_object_set_new(manifest, "connectionState", state);
    json_object_set_new(manifest, "applicationsCount", json_integer((json_int_t)applications));
    json_t *cache = json_object();
    json_object_set_new(cache, "resourcesCount", json_integer((json_int_t)resources));
    json_object_set_new(cache, "apisCount", json_integer((json_int_t)kinds));
    json_object_set_new(manifest, "cacheInfo", cache);
    json_object_set(manifest, "findings", report->findings);
    if (report->names) json_object_set(manifest, "clusters", report->names);
    tell(report, STR("in-cluster"), manifest);
}

// Whether the API or what is found became another.
static bool has_news(struct cluster_report *report)
{
    uint64_t changes = kube_probe_changes(report->options.probe);
    json_t *findings = json_array();
    if (report->options.findings) report->options.findings(report->options.arg, findings);
    bool is_news = changes != report->probe_changes || !json_equal(findings, report->findings);
    report->probe_changes = changes;
    json_decref(report->findings);
    report->findings = findings;
    return is_news;
}

// A value of a Secret's data that is no secret: the name or the address of a cluster.
static struct str decode_value(const json_t *data, const char *key, char out[NAME_BYTES_MAX])
{
    struct str text = json_get_str(data, key);
    size_t len = 0;
    if (text.len == 0 || text.len > NAME_BYTES_MAX ||
        parse_base64(text, (uint8_t *)out, NAME_BYTES_MAX, &len, NULL) != ERROR_NONE)
        return STR_EMPTY;
    return str_is_utf8(str_of(out, len)) ? str_of(out, len) : STR_EMPTY;
}

// Its name goes into names.
static void tell_managed(struct cluster_report *report, const json_t *secret, json_t *names)
{
    const json_t *data = json_get_object(secret, "data");
    char name_bytes[NAME_BYTES_MAX], server_bytes[NAME_BYTES_MAX];
    struct str name = decode_value(data, "name", name_bytes), server = decode_value(data, "server", server_bytes);
    if (name.len && server.len && report->options.on_named) report->options.on_named(report->options.arg, name, server);
    // An address may carry a user and a password.
    if (!name.len || !server.len || str_has_byte(server, '@') || str_eq(server, str_c(own_server))) return;
    json_array_append_new(names, json_new_str(name));
    json_t *manifest = json_object();
    json_object_set_new(manifest, "name", json_new_str(name));
    json_object_set_new(manifest, "server", json_new_str(server));
    json_t *state = json_object();
    json_object_set_new(state, "status", json_string("Unknown"));
    json_object_set_new(state, "message", json_string("declared in Argo CD"));
    json_object_set_new(manifest, "connectionState", state);
    tell(report, server, manifest);
}

static void on_managed(void *arg, int status, json_t *value, const struct error *err)
{
    struct cluster_report *report = arg;
    report->managed = NULL;
    if (!value && !report->managed_logged) {
        report->managed_logged = true;
        log_warn("reporter", "clusters_not_read", log_int("status", status), log_c("error", err ? err->text : ""));
    }
    size_t i;
    json_t *secret;
    json_t *names = json_array();
    json_array_foreach(json_get_array(value, "items"), i, secret)
    {
        if (i < MANAGED_MAX) tell_managed(report, secret, names);
    }
    // Of a part of them nobody could say what is missing.
    bool is_whole = json_get_array(value, "items") && !json_str(json_path(value, "metadata", "continue", NULL)).len;
    if (is_whole && !(report->names && json_equal(report->names, names))) {
        json_decref(report->names);
        report->names = json_incref(names);
        report->next_ms = 0; // the own cluster brings them, at once
    }
    json_decref(names);
}

void cluster_report_tick(struct cluster_report *report, uint64_t now_ms)
{
    // Nothing is known before the first probe has ended.
    if (!kube_probe_changes(report->options.probe)) return;
    bool is_due = now_ms >= report->next_ms;
    if (!is_due && now_ms < report->look_ms) return;
    report->look_ms = now_ms + LOOK_MS;
    bool is_news = has_news(report);
    if (is_news || is_due) report_own(report);
    if (!is_due) return;
    report->next_ms = now_ms + (report->next_ms ? INTERVAL_MS : FIRST_RETRY_MS);
    if (report->options.managed && !report->managed)
        report->managed = kube_fetch_start(report->options.client, managed_path, on_managed, report);
}
