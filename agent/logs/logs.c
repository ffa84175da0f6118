#include "agent/logs/logs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/calls/answer.h"
#include "agent/kube/kube_fetch.h"
#include "agent/logs/log_lines.h"
#include "agent/logs/log_pods.h"
#include "agent/reports/destinations.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { TARGETS_MAX = 64, PODS_MAX = 100, SELECTOR_BYTES_MAX = 8 * 1024, PATH_BYTES_MAX = 16 * 1024 };
enum { FLUSH_BYTES = 128 * 1024, HEARTBEAT_MS = 15000 };

struct logs {
    struct loop *loop;
    struct kube_client *client;
    struct logs_options options;
    size_t calls;
    struct metric_family *answered;
    struct metric *open, *bytes;
};

// What has pods: the request's own object, or a workload of its Application.
struct target {
    const struct log_kind *kind;
    char ns[LOG_NAME_BYTES], name[LOG_NAME_BYTES];
    char *selector; // of a workload, once it is known
    bool is_over;   // not looked at again
};

// One container's log.
//
//   WAITING --it has an instance--> OPEN --> ENDED --another instance, or cut off--> OPEN
enum source_state { SOURCE_WAITING, SOURCE_OPEN, SOURCE_ENDED };

struct source {
    struct log_call *call;
    struct source *next;
    enum source_state state;
    char *ns, *pod, *container, *instance;
    struct kube_request *request;
    struct log_lines lines;
    char last_time[LOG_TIME_BYTES], skip_until[LOG_TIME_BYTES];
    bool was_noticed; // that it has no log yet
};

enum call_state { CALL_LOOKING, CALL_STREAMING, CALL_ENDED };

struct log_call {
    struct logs *logs;
    struct agent_stream *stream;
    enum call_state state;
    struct log_query query;
    struct log_form form;
    struct target targets[TARGETS_MAX];
    size_t target_count, target_at;
    struct kube_fetch *fetch;
    struct source *sources, **last;
    size_t source_count, open_count;
    size_t live_pods, refused_pods, omitted; // of this look
    bool omission_noticed;
    bool is_full; // the stream takes no more for now
    uint64_t written_at_ms;
    struct strbuf out;
    struct timer timer;
};

static void enter(struct log_call *call, enum call_state state)
{
    assert(call->state < state);
    call->state = state;
}

// ---- writing ------------------------------------------------------------------------------------

static void flush(struct log_call *call)
{
    if (!call->out.len || call->state != CALL_STREAMING) return;
    metric_add(call->logs->bytes, call->out.len);
    call->is_full = !agent_stream_write(call->stream, call->out.at, call->out.len);
    call->written_at_ms = clock_mono_ms();
    strbuf_clear(&call->out);
}

static struct log_origin origin_of(const struct source *source)
{
    return (struct log_origin){str_c(source->ns), str_c(source->pod), str_c(source->container)};
}

static void add_event(struct log_call *call, const struct source *source, const char *event, const char *code,
                      const char *message)
{
    const struct log_origin origin = source ? origin_of(source) : (struct log_origin){.ns = STR_EMPTY};
    log_form_event(&call->form, &origin, event, code, message, &call->out);
}

static void notice(struct log_call *call, const struct source *source, const char *code, const char *message)
{
    add_event(call, source, "notice", code, message);
}

static void end_call(struct log_call *call)
{
    add_event(call, NULL, "end", NULL, NULL);
    flush(call);
    enter(call, CALL_ENDED);
    timer_stop(&call->timer);
    agent_stream_end(call->stream, NULL, 0);
}

// Before the head was sent.
static void refuse(struct log_call *call, int status, const char *cause, const char *message)
{
    enter(call, CALL_ENDED);
    metric_add(metric_with(call->logs->answered, "refused"), 1);
    agent_answer_problem(call->stream, status, cause, message);
}

// ---- one container's log ------------------------------------------------------------------------

static void end_source(struct source *source)
{
    assert(source->state == SOURCE_OPEN);
    source->state = SOURCE_ENDED;
    source->request = NULL;
    source->call->open_count--;
    metric_move(source->call->logs->open, -1);
}

// After a lost connection the API repeats the whole second of the last line.
static bool is_repeated(struct source *source, struct str time)
{
    int64_t line_ms, until_ms;
    if (!source->skip_until[0]) return false;
    if (str_eq(time, str_c(source->skip_until))) {
        source->skip_until[0] = '\0';
        return true;
    }
    bool is_known = clock_parse_rfc3339(time, &line_ms, NULL) == ERROR_NONE &&
                    clock_parse_rfc3339(str_c(source->skip_until), &until_ms, NULL) == ERROR_NONE;
    if (is_known && line_ms <= until_ms) return true;
    source->skip_until[0] = '\0';
    return false;
}

static void on_line(void *arg, const struct log_line *line)
{
    struct source *source = arg;
    struct log_call *call = source->call;
    if (is_repeated(source, line->time)) return;
    const struct log_origin origin = origin_of(source);
    log_form_line(&call->form, &origin, line, &call->out);
    if (line->time.len) snprintf(source->last_time, sizeof source->last_time, "%.*s", STR_ARG(line->time));
    if (call->out.len >= FLUSH_BYTES) flush(call);
}

static enum kube_body_verdict on_body(void *arg, const char *at, size_t len)
{
    struct source *source = arg;
    if (source->call->state == CALL_ENDED) return KUBE_BODY_STOP;
    if (source->call->state == CALL_LOOKING || source->call->is_full) return KUBE_BODY_PAUSE;
    log_lines_feed(&source->lines, at, len, on_line, source);
    flush(source->call);
    return KUBE_BODY_TAKEN;
}

static void notice_failure(struct source *source, int status, const struct error *err)
{
    struct log_call *call = source->call;
    char text[ERROR_TEXT_BYTES + 100];
    if (err) {
        snprintf(text, sizeof text, "the log could not be read to its end: %s", err->text);
        notice(call, source, "READ_FAILED", text);
    } else if (status == 403) {
        notice(call, source, "FORBIDDEN",
               "the Kubernetes API refuses get of pods/log (403): apply the output of culvert-agent --print-rbac with "
               "these settings");
    } else if (status == 404 || status == 400) {
        notice(call, source, "NO_LOG", status == 404 ? "the pod is gone" : "the container has no log yet (400)");
    } else if (status != 200) {
        snprintf(text, sizeof text, "the Kubernetes API answered with status %d", status);
        notice(call, source, "READ_FAILED", text);
    }
}

static void end_if_over(struct log_call *call)
{
    if (call->state == CALL_STREAMING && !call->open_count && !call->query.follow) end_call(call);
}

static void on_done(void *arg, int status, const struct error *err)
{
    struct source *source = arg;
    struct log_call *call = source->call;
    end_source(source);
    if (call->state == CALL_ENDED) return;
    // Where the log goes on later, a line that was broken off comes whole then.
    if (err && call->query.follow)
        log_lines_break_off(&source->lines, on_line, source);
    else
        log_lines_end(&source->lines, on_line, source);
    notice_failure(source, status, err);
    flush(call);
    end_if_over(call);
}

// since: as of log_query_add_path().
static void open_source(struct source *source, const char *since)
{
    struct log_call *call = source->call;
    struct strbuf path;
    strbuf_init(&path, PATH_BYTES_MAX);
    log_query_add_path(&call->query, str_c(source->ns), str_c(source->pod), str_c(source->container), since, &path);
    source->request = kube_client_get(
        call->logs->client,
        &(struct kube_request_options){.path = path.at, .arg = source, .on_body = on_body, .on_done = on_done});
    strbuf_finish(&path);
    if (!source->request) {
        notice(call, source, "READ_FAILED", "too many logs are read at once; try again later");
        source->state = SOURCE_ENDED;
        return;
    }
    source->state = SOURCE_OPEN;
    call->open_count++;
    metric_move(call->logs->open, 1);
}

static struct source *find_source(const struct log_call *call, const struct log_container *container)
{
    for (struct source *source = call->sources; source; source = source->next)
        if (str_eq(str_c(source->container), container->name) && str_eq(str_c(source->pod), container->pod) &&
            str_eq(str_c(source->ns), container->ns))
            return source;
    return NULL;
}

static struct source *add_source(struct log_call *call, const struct log_container *container)
{
    struct source *source = mem_zalloc(sizeof *source);
    source->call = call;
    source->ns = mem_strndup(container->ns.at, container->ns.len);
    source->pod = mem_strndup(container->pod.at, container->pod.len);
    source->container = mem_strndup(container->name.at, container->name.len);
    log_lines_init(&source->lines);
    *call->last = source;
    call->last = &source->next;
    call->source_count++;
    return source;
}

static void notice_waiting(struct source *source, struct str reason)
{
    char text[200];
    if (source->was_noticed) return;
    source->was_noticed = true;
    snprintf(text, sizeof text, "the container has no log: %.*s", STR_ARG(str_first(reason, 120)));
    notice(source->call, source, "NO_LOG", text);
}

// A container as the last look found it.
static void on_container(void *arg, const struct log_container *container)
{
    struct log_call *call = arg;
    struct source *source = find_source(call, container);
    if (!source && call->source_count == call->logs->options.containers_max) {
        call->omitted++;
        return;
    }
    if (!source) source = add_source(call, container);
    if (source->state == SOURCE_OPEN) return;
    if (!container->instance.len) {
        notice_waiting(source, container->waits);
        return;
    }
    bool is_first = !source->instance, is_same = !is_first && str_eq(str_c(source->instance), container->instance);
    if (is_same && !container->is_running) return;
    mem_free(source->instance);
    source->instance = mem_strndup(container->instance.at, container->instance.len);
    if (is_same) snprintf(source->skip_until, sizeof source->skip_until, "%s", source->last_time);
    open_source(source, is_first ? NULL : is_same ? source->last_time : "");
}

// ---- looking at the pods ------------------------------------------------------------------------

static void look_on(struct log_call *call);

static void take_pod(struct log_call *call, const json_t *pod)
{
    struct str ns = json_str(json_path(pod, "metadata", "namespace", NULL));
    struct str name = json_str(json_path(pod, "metadata", "name", NULL));
    if (!operation_rights_allow_logs(call->logs->options.rights, ns, name))
        call->refused_pods++;
    else
        call->live_pods += log_pods_each_container(&call->query, pod, on_container, call);
}

static void on_workload(void *arg, const struct log_kind *kind, struct str ns, struct str name)
{
    struct log_call *call = arg;
    if (call->target_count == TARGETS_MAX) {
        call->omitted++;
        return;
    }
    struct target *target = &call->targets[call->target_count++];
    *target = (struct target){.kind = kind};
    snprintf(target->ns, sizeof target->ns, "%.*s", STR_ARG(ns));
    snprintf(target->name, sizeof target->name, "%.*s", STR_ARG(name));
}

static bool is_kind(const struct target *target, const char *name)
{
    return strcmp(target->kind->name, name) == 0;
}

static void take_pods(struct log_call *call, const json_t *list)
{
    size_t i;
    json_t *pod;
    json_array_foreach(json_get_array(list, "items"), i, pod) take_pod(call, pod);
    if (json_str(json_path(list, "metadata", "continue", NULL)).len) call->omitted++;
}

static void take_workload(struct log_call *call, struct target *target, const json_t *workload)
{
    struct strbuf selector;
    strbuf_init(&selector, SELECTOR_BYTES_MAX);
    target->is_over = !log_pods_add_selector(workload, &selector);
    if (target->is_over)
        notice(call, NULL, "NO_SELECTOR", "a workload has no selector for its pods that can be used");
    else
        target->selector = strbuf_detach(&selector);
    strbuf_finish(&selector);
}

// Why an object that is needed could not be read: as the answer, or as a notice where there are
// others.
static void miss_target(struct log_call *call, struct target *target, int status, const struct error *err)
{
    char text[ERROR_TEXT_BYTES + 2 * LOG_NAME_BYTES + 200];
    const char *plural = target->selector ? "pods" : target->kind->plural;
    target->is_over = status == 404;
    if (err)
        snprintf(text, sizeof text, "the Kubernetes API cannot be read: %s", err->text);
    else if (status == 403)
        snprintf(text, sizeof text,
                 "the Kubernetes API refuses %s of %s (403): apply the output of culvert-agent --print-rbac with these "
                 "settings",
                 target->selector ? "list" : "get", plural);
    else if (status == 404)
        snprintf(text, sizeof text, "the cluster has no %s %s/%s", target->kind->name, target->ns, target->name);
    else
        snprintf(text, sizeof text, "the Kubernetes API answered with status %d for %s", status, plural);
    if (call->state == CALL_LOOKING && call->target_count == 1) {
        bool is_refusal = status == 403 || status == 404;
        refuse(call, is_refusal ? status : 502,
               status == 403   ? "not-allowed"
               : status == 404 ? "not-found"
                               : "upstream-failed",
               text);
    } else if (call->state == CALL_LOOKING || target->is_over) {
        notice(call, NULL, status == 404 ? "NOT_FOUND" : status == 403 ? "FORBIDDEN" : "READ_FAILED", text);
    }
}

// Another cluster's workloads may have the names of some here.
static void take_application(struct log_call *call, struct target *target, const json_t *application)
{
    const json_t *destination = json_path(application, "spec", "destination", NULL);
    struct str server = json_get_str(destination, "server"), name = json_get_str(destination, "name");
    target->is_over = true;
    if (destinations_is_own(call->logs->options.destinations, server, name))
        log_pods_each_workload(application, on_workload, call);
    else
        refuse(call, 404, "not-found",
               "the Application deploys to another cluster; an agent there can show the logs of its pods");
}

static void on_fetched(void *arg, int status, json_t *value, const struct error *err)
{
    struct log_call *call = arg;
    struct target *target = &call->targets[call->target_at];
    call->fetch = NULL;
    bool needs_pods = false;
    if (!value) {
        miss_target(call, target, status, err);
    } else if (is_kind(target, "Pod")) {
        take_pod(call, value);
    } else if (is_kind(target, "Application")) {
        take_application(call, target, value);
    } else if (target->selector) {
        take_pods(call, value);
    } else {
        take_workload(call, target, value);
        needs_pods = target->selector;
    }
    if (!needs_pods) call->target_at++;
    if (call->state != CALL_ENDED) look_on(call);
}

static bool fetch_target(struct log_call *call, const struct target *target)
{
    AUTO_FREE char *path =
        target->selector
            ? mem_printf("/api/v1/namespaces/%s/pods?limit=%d&labelSelector=%s", target->ns, PODS_MAX, target->selector)
            : mem_printf("%s/namespaces/%s/%s/%s", target->kind->path, target->ns, target->kind->plural, target->name);
    call->fetch = kube_fetch_start(call->logs->client, path, on_fetched, call);
    return call->fetch;
}

static void send_head(struct log_call *call)
{
    char disposition[2 * LOG_NAME_BYTES + 60];
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s-%s.log\"", call->query.ns, call->query.name);
    const struct http_header headers[] = {
        {STR("content-type"), call->form.is_json ? STR("application/x-ndjson") : STR("text/plain; charset=utf-8")},
        {STR("cache-control"), STR("no-store")},
        {STR("x-content-type-options"), STR("nosniff")},
        {STR("content-disposition"), str_c(disposition)},
    };
    enter(call, CALL_STREAMING);
    metric_add(metric_with(call->logs->answered, "streamed"), 1);
    agent_stream_respond(call->stream, 200, headers, call->form.is_json || call->query.follow ? 3 : 4, false);
}

static void resume_sources(struct log_call *call)
{
    for (struct source *source = call->sources; source && !call->is_full; source = source->next)
        if (source->request) kube_request_resume(source->request);
}

static void notice_omitted(struct log_call *call)
{
    char text[200];
    if (!call->omitted || call->omission_noticed) return;
    call->omission_noticed = true;
    snprintf(text, sizeof text, "showing %zu containers; there are more (setting logs.containers_max): name a pod",
             call->source_count);
    notice(call, NULL, "LIMIT", text);
}

static void end_look(struct log_call *call)
{
    bool is_short = strcmp(call->query.kind->name, "Pod") == 0 || strcmp(call->query.kind->name, "Job") == 0;
    if (call->state == CALL_LOOKING && call->refused_pods && !call->source_count) {
        refuse(call, 403, "not-allowed",
               "the agent's setting operations.allowed does not permit \"logs\" for its pods");
        return;
    }
    if (call->state == CALL_LOOKING) {
        call->form.has_origin = call->source_count != 1 || call->query.follow;
        send_head(call);
        if (!call->source_count) notice(call, NULL, "NO_PODS", "there is no pod with such a container");
        if (call->refused_pods)
            notice(call, NULL, "NOT_ALLOWED",
                   "the agent's setting operations.allowed does not permit \"logs\" for some of the pods");
    }
    notice_omitted(call);
    if (call->written_at_ms + HEARTBEAT_MS <= clock_mono_ms()) add_event(call, NULL, "heartbeat", NULL, NULL);
    if (!call->is_full) flush(call);
    resume_sources(call);
    if (call->query.follow && is_short && !call->open_count && !call->live_pods)
        end_call(call);
    else if (call->query.follow)
        timer_start(&call->timer, call->logs->options.look_ms, 0);
    else
        end_if_over(call);
}

// The next object that has to be read; the look ends behind the last one.
static void look_on(struct log_call *call)
{
    while (call->target_at < call->target_count && call->targets[call->target_at].is_over)
        call->target_at++;
    if (call->target_at == call->target_count)
        end_look(call);
    else if (!fetch_target(call, &call->targets[call->target_at]) && call->state == CALL_LOOKING)
        refuse(call, 503, "overloaded", "too many requests to the Kubernetes API");
    else if (!call->fetch)
        timer_start(&call->timer, call->logs->options.look_ms, 0);
}

static void on_timer(void *arg)
{
    struct log_call *call = arg;
    call->target_at = 0;
    call->live_pods = call->refused_pods = call->omitted = 0;
    look_on(call);
}

// ---- the stream ---------------------------------------------------------------------------------

static void on_stream_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    (void)arg;
    (void)at;
    agent_stream_consumed(stream, len);
}

static void on_stream_end(void *arg, struct agent_stream *stream)
{
    (void)arg;
    (void)stream;
}

static void on_stream_room(void *arg, struct agent_stream *stream)
{
    struct log_call *call = arg;
    (void)stream;
    call->is_full = false;
    flush(call);
    resume_sources(call);
}

static void free_source(struct source *source)
{
    if (source->request) {
        kube_request_cancel(source->request);
        end_source(source);
    }
    log_lines_finish(&source->lines);
    mem_free(source->ns);
    mem_free(source->pod);
    mem_free(source->container);
    mem_free(source->instance);
    mem_free(source);
}

static void on_stream_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    struct log_call *call = arg;
    (void)stream;
    (void)code;
    kube_fetch_cancel(call->fetch);
    for (struct source *source = call->sources, *next; source; source = next) {
        next = source->next;
        free_source(source);
    }
    for (size_t i = 0; i < call->target_count; i++)
        mem_free(call->targets[i].selector);
    timer_finish(&call->timer);
    strbuf_finish(&call->out);
    call->logs->calls--;
    mem_free(call);
}

static struct log_call *create_call(struct logs *logs, struct agent_stream *stream)
{
    static const struct agent_stream_events events = {
        .on_data = on_stream_data, .on_end = on_stream_end, .on_room = on_stream_room, .on_close = on_stream_close};
    struct log_call *call = mem_zalloc(sizeof *call);
    call->logs = logs;
    call->stream = stream;
    call->last = &call->sources;
    strbuf_init(&call->out, LOG_TEXT_BYTES_MAX);
    timer_init(&call->timer, loop_uv(logs->loop), on_timer, call);
    logs->calls++;
    agent_stream_attach(stream, &events, call);
    return call;
}

void logs_start(struct logs *logs, struct agent_stream *stream, const struct logs_request *request)
{
    struct log_call *call = create_call(logs, stream);
    struct error err;
    if (!logs->client)
        refuse(call, 503, "unavailable", "the agent has no cluster: its setting reporter.enabled is off");
    else if (!operation_rights_has_logs(logs->options.rights))
        refuse(call, 403, "not-allowed", "the agent's setting operations.allowed does not permit \"logs\"");
    else if (logs->calls > logs->options.calls_max)
        refuse(call, 503, "overloaded", "too many logs are read at once (setting logs.calls_max)");
    else if (log_query_parse(request->query, &call->query, &err) != ERROR_NONE)
        refuse(call, 400, "bad-request", err.text);
    if (call->state == CALL_ENDED) return;
    call->form.is_json = str_eq(request->accept, STR("application/x-ndjson"));
    call->form.has_time = call->query.timestamps;
    log_info("logs", "log_requested", log_str("by", request->user), log_c("kind", call->query.kind->name),
             log_c("namespace", call->query.ns), log_c("name", call->query.name),
             log_bool("follow", call->query.follow));
    on_workload(call, call->query.kind, str_c(call->query.ns), str_c(call->query.name));
    look_on(call);
}

struct logs *logs_create(struct loop *loop, struct kube_client *client, const struct logs_options *options)
{
    struct logs *logs = mem_zalloc(sizeof *logs);
    logs->loop = loop;
    logs->client = client;
    logs->options = *options;
    logs->answered = metrics_counter("culvert_agent_log_calls_total", "Requests for pod logs.", "result", NULL);
    logs->open = metric_with(metrics_gauge("culvert_agent_log_streams", "Container logs that are open.", NULL));
    logs->bytes = metric_with(metrics_counter("culvert_agent_log_bytes_total", "Bytes of logs that were sent.", NULL));
    return logs;
}

void logs_destroy(struct logs *logs)
{
    if (!logs) return;
    assert(!logs->calls);
    if (logs->client) kube_client_close(logs->client);
    mem_free(logs);
}
