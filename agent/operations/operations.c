#include "agent/operations/operations.h"

#include <stdio.h>
#include <string.h>

#include "agent/kube/kube_fetch.h"
#include "agent/operations/operation_judge.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { TICK_MS = 100, FOLLOW_MIN_MS = 500, FOLLOW_MAX_MS = 10000, RETRY_MS = 1000, CONFLICTS_MAX = 10 };
enum { CHANGE_TIMEOUT_MS = 30000, OWN_BEGIN_MS = 60000 };

// One operation, from its delivery until it is forgotten.
struct held {
    struct operations *owner;
    struct held *next; // in the order of delivery
    char id[WIRE_CONTROL_ID_BYTES_MAX + 1];
    struct operation operation; // without a document when it was refused
    struct operation_past past;
    char uid[64];     // past.uid
    uint64_t attempt; // the last delivery
    uint64_t begin_until_ms, follow_until_ms, look_at_ms, wait_ms;
    struct kube_fetch *fetch;
    struct kube_request *change;
    unsigned conflicts;
    enum wire_operation_state state;
    bool has_ended, is_unreported;
    const char *code;
    char message[256];
    bool is_own; // not the platform's
    operations_on_state on_state;
    void *arg;
};

struct operations {
    struct operations_options options;
    struct timer tick;
    struct held *first, **last;
    size_t count;
    unsigned busy; // requests to the API
    struct metric_family *ended;
    struct metric *left_out;
};

static void on_tick(void *arg);

struct operations *operations_create(struct loop *loop, const struct operations_options *options)
{
    struct operations *operations = mem_zalloc(sizeof *operations);
    operations->options = *options;
    operations->last = &operations->first;
    operations->ended =
        metrics_counter("culvert_agent_operations_total", "Operations that ended, by their end.", "state", NULL);
    operations->left_out =
        metric_with(metrics_counter("culvert_agent_operations_left_out_total",
                                    "Deliveries of operations that found no room; the platform repeats them.", NULL));
    timer_init(&operations->tick, loop_uv(loop), on_tick, operations);
    return operations;
}

static void held_free(struct held *held)
{
    kube_fetch_cancel(held->fetch);
    if (held->change) kube_request_cancel(held->change);
    operation_finish(&held->operation);
    mem_free(held);
}

void operations_destroy(struct operations *operations)
{
    if (!operations) return;
    while (operations->first) {
        struct held *held = operations->first;
        operations->first = held->next;
        held_free(held);
    }
    timer_finish(&operations->tick);
    mem_free(operations);
}

// ---- reports ------------------------------------------------------------------------------------

static void notify_owner(struct held *held)
{
    operations_on_state on_state = held->on_state;
    held->on_state = NULL;
    if (on_state) on_state(held->arg, held->state, held->code, held->message);
}

static void report(struct held *held)
{
    struct operations *operations = held->owner;
    if (!timer_is_active(&operations->tick)) timer_start(&operations->tick, 0, TICK_MS);
    if (held->is_own) {
        if (held->state != WIRE_OPERATION_ACCEPTED) notify_owner(held);
        return;
    }
    const struct wire_control state = {.type = WIRE_CONTROL_OPERATION_STATE,
                                       .operation = str_c(held->id),
                                       .attempt = held->attempt,
                                       .state = (uint64_t)held->state,
                                       .code = str_c(held->code),
                                       .reason = str_c(held->message)};
    held->is_unreported = !operations->options.report(operations->options.arg, &state);
}

static void set_state(struct held *held, enum wire_operation_state state)
{
    held->state = state;
    report(held);
}

static void end(struct held *held, enum wire_operation_state state, const char *code, const char *message)
{
    static const char *const names[] = {
        [WIRE_OPERATION_DONE] = "done", [WIRE_OPERATION_FAILED] = "failed", [WIRE_OPERATION_UNKNOWN] = "unknown"};
    held->has_ended = true;
    held->code = code;
    if (message != held->message) snprintf(held->message, sizeof held->message, "%s", message);
    metric_add(metric_with(held->owner->ended, names[state]), 1);
    log_info("operations", "operation_ended", log_c("operation", held->id), log_c("state", names[state]),
             log_c("code", code ? code : ""), log_str("by", held->operation.by),
             log_str("kind", held->operation.ref.kind), log_str("namespace", held->operation.ref.ns),
             log_str("name", held->operation.ref.name));
    set_state(held, state);
}

// ---- changes ------------------------------------------------------------------------------------

static void look_again(struct held *held, uint64_t after_ms)
{
    held->look_at_ms = clock_mono_ms() + after_ms;
}

static void end_forbidden(struct held *held, const char *verb)
{
    snprintf(held->message, sizeof held->message,
             "the Kubernetes API refuses %s of %s (403): apply the output of culvert-agent --print-rbac with these "
             "settings",
             verb, operation_plural(&held->operation));
    end(held, WIRE_OPERATION_FAILED, "FORBIDDEN", held->message);
}

// Without an answer it may have been taken; where there was no connection it was not.
static void on_change_failed(struct held *held, const struct error *err)
{
    bool was_sent = err->code != ERROR_UNAVAILABLE && err->code != ERROR_NOT_FOUND &&
                    err->code != ERROR_UNAUTHENTICATED && err->code != ERROR_FORBIDDEN;
    held->past.is_maybe |= was_sent;
    log_info("operations", "change_without_answer", log_c("operation", held->id), log_bool("maybe", was_sent),
             log_err(err));
    look_again(held, RETRY_MS);
}

static void on_conflict(struct held *held)
{
    if (held->conflicts++ == CONFLICTS_MAX)
        end(held, WIRE_OPERATION_FAILED, "CONFLICT", "the object changes so often that no change was taken (409)");
    else
        look_again(held, 50u + (uint64_t)held->conflicts * 50u);
}

static void on_changed(void *arg, int status, const struct error *err)
{
    struct held *held = arg;
    held->change = NULL;
    held->owner->busy--;
    if (err) {
        on_change_failed(held, err);
    } else if (status >= 200 && status < 300) {
        held->past.is_sent = true;
        held->follow_until_ms = clock_mono_ms() + held->owner->options.follow_ms;
        held->wait_ms = FOLLOW_MIN_MS;
        set_state(held, WIRE_OPERATION_RUNNING);
        look_again(held, 0);
    } else if (status == 409) {
        on_conflict(held);
    } else if (status == 403) {
        end_forbidden(held, "patch");
    } else if (status == 404) {
        look_again(held, RETRY_MS); // the object is gone, which the next look finds
    } else if (status >= 500 || status == 429 || status == 401) {
        held->past.is_maybe |= status >= 500;
        look_again(held, RETRY_MS);
    } else {
        snprintf(held->message, sizeof held->message, "the Kubernetes API refuses the change with status %d", status);
        end(held, WIRE_OPERATION_FAILED, "REFUSED", held->message);
    }
}

static void send_change(struct held *held, struct operation_decision *decision)
{
    struct operations *operations = held->owner;
    if (clock_mono_ms() >= held->begin_until_ms) {
        bool is_maybe = held->past.is_maybe;
        end(held, is_maybe ? WIRE_OPERATION_UNKNOWN : WIRE_OPERATION_FAILED, is_maybe ? "MAYBE_RUN" : "EXPIRED",
            is_maybe ? "the agent was interrupted, and the operation expired; it is not repeated"
                     : "the operation expired before it could begin");
        return;
    }
    size_t len;
    held->past.uid = str_c(held->uid);
    AUTO_FREE char *path = operation_path(&held->operation, decision->subresource);
    AUTO_FREE char *body = json_canonical(decision->body, &len);
    held->change = kube_client_get(operations->options.client,
                                   &(struct kube_request_options){.path = path,
                                                                  .timeout_ms = CHANGE_TIMEOUT_MS,
                                                                  .method = decision->method,
                                                                  .content_type = decision->content_type,
                                                                  .body = str_of(body, len),
                                                                  .arg = held,
                                                                  .on_done = on_changed});
    if (held->change)
        operations->busy++;
    else
        look_again(held, RETRY_MS);
}

// ---- looking at the object ----------------------------------------------------------------------

static void judge(struct held *held, const json_t *object)
{
    struct operation_decision decision;
    operation_judge(&held->operation, held->id, object, &held->past, &decision);
    switch (decision.verdict) {
    case OPERATION_CHANGE:
        snprintf(held->uid, sizeof held->uid, "%.*s",
                 STR_ARG(json_get_str(json_get_object(object, "metadata"), "uid")));
        send_change(held, &decision);
        break;
    case OPERATION_WAIT:
        if (held->state != WIRE_OPERATION_RUNNING) set_state(held, WIRE_OPERATION_RUNNING);
        look_again(held, held->wait_ms);
        held->wait_ms = held->wait_ms * 3 / 2 < FOLLOW_MAX_MS ? held->wait_ms * 3 / 2 : FOLLOW_MAX_MS;
        break;
    case OPERATION_DONE: end(held, WIRE_OPERATION_DONE, decision.code, decision.message); break;
    case OPERATION_FAILED: end(held, WIRE_OPERATION_FAILED, decision.code, decision.message); break;
    case OPERATION_UNKNOWN: end(held, WIRE_OPERATION_UNKNOWN, decision.code, decision.message); break;
    }
    json_decref(decision.body);
}

static bool is_late(const struct held *held, uint64_t now_ms)
{
    return now_ms >= (held->past.is_sent ? held->follow_until_ms : held->begin_until_ms);
}

static void end_late(struct held *held)
{
    if (held->past.is_sent)
        end(held, WIRE_OPERATION_UNKNOWN, "NOT_ENDED", "the cluster took the change and has not ended it");
    else if (held->past.is_maybe)
        end(held, WIRE_OPERATION_UNKNOWN, "MAYBE_RUN", "the agent was interrupted, and the Kubernetes API is away");
    else
        end(held, WIRE_OPERATION_FAILED, "EXPIRED", "the operation expired while the Kubernetes API was away");
}

static void on_looked(void *arg, int status, json_t *object, const struct error *err)
{
    struct held *held = arg;
    held->fetch = NULL;
    held->owner->busy--;
    if (object || (!err && status == 404))
        judge(held, object);
    else if (!err && status == 403 && !held->past.is_sent && !held->past.is_maybe)
        end_forbidden(held, "get");
    else if (is_late(held, clock_mono_ms()))
        end_late(held);
    else
        look_again(held, RETRY_MS);
}

static void look(struct held *held)
{
    AUTO_FREE char *path = operation_path(&held->operation, NULL);
    held->fetch = kube_fetch_start(held->owner->options.client, path, on_looked, held);
    if (held->fetch)
        held->owner->busy++;
    else
        look_again(held, RETRY_MS);
}

static void on_tick(void *arg)
{
    struct operations *operations = arg;
    uint64_t now_ms = clock_mono_ms();
    bool any = false;
    for (struct held *held = operations->first; held; held = held->next) {
        if (held->is_unreported) report(held);
        any |= held->is_unreported || !held->has_ended;
        bool is_due = !held->has_ended && !held->fetch && !held->change && now_ms >= held->look_at_ms;
        if (!is_due) continue;
        if (held->past.is_sent && is_late(held, now_ms))
            end_late(held);
        else if (operations->busy < operations->options.at_once_max)
            look(held);
    }
    if (!any) timer_stop(&operations->tick);
}

// ---- deliveries ---------------------------------------------------------------------------------

static struct held *find(const struct operations *operations, struct str id)
{
    for (struct held *held = operations->first; held; held = held->next)
        if (str_eq(str_c(held->id), id)) return held;
    return NULL;
}

// The one that ended first makes room.
static bool make_room(struct operations *operations)
{
    if (operations->count < operations->options.held_max) return true;
    for (struct held **at = &operations->first; *at; at = &(*at)->next) {
        struct held *held = *at;
        if (!held->has_ended) continue;
        *at = held->next;
        if (operations->last == &held->next) operations->last = at;
        operations->count--;
        held_free(held);
        return true;
    }
    return false;
}

static void begin(struct held *held, const struct wire_control *delivery)
{
    struct operations *operations = held->owner;
    struct error err;
    enum error_code code = operation_parse(delivery->document, &held->operation, &err);
    if (code == ERROR_NONE) code = operation_rights_check(operations->options.rights, &held->operation, &err);
    if (code == ERROR_NONE && !operations->options.client) {
        error_set(&err, ERROR_FORBIDDEN, "the agent's setting reporter.enabled is off, so that it has no cluster");
        code = ERROR_FORBIDDEN;
    }
    if (code != ERROR_NONE) {
        log_warn("operations", "operation_refused", log_c("operation", held->id), log_err(&err));
        end(held, WIRE_OPERATION_FAILED, code == ERROR_FORBIDDEN ? "NOT_ALLOWED" : "INVALID", err.text);
        return;
    }
    log_info("operations", "operation_accepted", log_c("operation", held->id), log_str("by", held->operation.by),
             log_str("kind", held->operation.ref.kind), log_str("namespace", held->operation.ref.ns),
             log_str("name", held->operation.ref.name));
    set_state(held, WIRE_OPERATION_ACCEPTED);
}

static void add(struct operations *operations, const struct wire_control *delivery, operations_on_state on_state,
                void *arg)
{
    struct held *held = mem_zalloc(sizeof *held);
    held->owner = operations;
    held->is_own = on_state;
    held->on_state = on_state;
    held->arg = arg;
    snprintf(held->id, sizeof held->id, "%.*s", STR_ARG(delivery->operation));
    held->attempt = delivery->attempt;
    held->past.is_maybe = delivery->attempt > 1;
    held->begin_until_ms = clock_mono_ms() + delivery->ttl_ms;
    held->wait_ms = FOLLOW_MIN_MS;
    *operations->last = held;
    operations->last = &held->next;
    operations->count++;
    begin(held, delivery);
}

void operations_take(struct operations *operations, const struct wire_control *delivery)
{
    struct held *held = find(operations, delivery->operation);
    if (held) {
        held->attempt = delivery->attempt;
        report(held);
        return;
    }
    if (!delivery->operation.len || !make_room(operations)) {
        metric_add(operations->left_out, 1);
        return;
    }
    add(operations, delivery, NULL, NULL);
}

bool operations_run(struct operations *operations, struct str document, operations_on_state on_state, void *arg)
{
    char id[ID_UUID_BYTES];
    id_uuid7(id);
    if (!make_room(operations)) {
        metric_add(operations->left_out, 1);
        return false;
    }
    const struct wire_control delivery = {
        .operation = str_c(id), .attempt = 1, .ttl_ms = OWN_BEGIN_MS, .document = document};
    add(operations, &delivery, on_state, arg);
    return true;
}
