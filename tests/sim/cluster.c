#include "tests/sim/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "tests/sim/schedule.h"

enum { ANSWER_BYTES_MAX = 1024 * 1024, LOG_MAX = 4096 };

const struct cluster_kind cluster_kinds[] = {
    {"Application", "applications"}, {"Rollout", "rollouts"}, {"Workflow", "workflows"}};

struct change {
    struct cluster_object object; // as it was then
    const char *type;
};

// One request.
struct flow {
    struct cluster *cluster;
    struct kube_request *request;
    struct flow *next;
    int status;
    bool is_watch, has_ended, fails; // fails: without an answer, after what is in the buffer
    unsigned kind;
    size_t seen; // changes of the log that were put into the buffer
    struct strbuf out;
    size_t given;
    bool is_due, is_paused;
};

struct cluster {
    struct kube_transport transport;
    struct cluster_object objects[CLUSTER_OBJECTS_MAX];
    unsigned names;
    uint64_t version, uids;
    struct change log[LOG_MAX];
    size_t changes, compacted; // the first that can still be watched
    struct flow *flows;
    unsigned denied; // kinds, a bit each
    bool faults;
};

// ---- what exists ------------------------------------------------------------------------------

static void log_change(struct cluster *cluster, const struct cluster_object *object, const char *type)
{
    if (cluster->changes == LOG_MAX) {
        fprintf(stderr, "sim: more changes of the cluster than its log holds\n");
        abort();
    }
    cluster->log[cluster->changes++] = (struct change){*object, type};
}

static void put_object(struct strbuf *out, const struct cluster_object *object)
{
    strbuf_addf(out,
                "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\","
                "\"namespace\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%llu\",\"generation\":%llu},\"spec\":{}}",
                cluster_kinds[object->kind].kind, object->name, object->ns, object->uid,
                (unsigned long long)object->version, (unsigned long long)object->version);
}

static void schedule_step(struct flow *flow);

static void wake_watches(struct cluster *cluster)
{
    for (struct flow *flow = cluster->flows; flow; flow = flow->next)
        if (flow->is_watch) schedule_step(flow);
}

void cluster_change(struct cluster *cluster)
{
    struct cluster_object *object = &cluster->objects[schedule_below(cluster->names)];
    object->version = ++cluster->version;
    if (!object->exists) {
        object->exists = true;
        snprintf(object->uid, sizeof object->uid, "uid-%llu", (unsigned long long)++cluster->uids);
        log_change(cluster, object, "ADDED");
    } else if (schedule_percent(30)) {
        object->exists = false;
        log_change(cluster, object, "DELETED");
    } else {
        log_change(cluster, object, "MODIFIED");
    }
    wake_watches(cluster);
}

const struct cluster_object *cluster_objects(const struct cluster *cluster, size_t *out_count)
{
    *out_count = cluster->names;
    return cluster->objects;
}

const struct cluster_object *cluster_find(const struct cluster *cluster, struct str kind, struct str ns,
                                          struct str name)
{
    for (size_t i = 0; i < cluster->names; i++) {
        const struct cluster_object *object = &cluster->objects[i];
        if (str_eq(kind, str_c(cluster_kinds[object->kind].kind)) && str_eq(ns, str_c(object->ns)) &&
            str_eq(name, str_c(object->name)))
            return object;
    }
    return NULL;
}

bool cluster_is_alive(const struct cluster *cluster, struct str uid)
{
    for (size_t i = 0; i < cluster->names; i++)
        if (cluster->objects[i].exists && str_eq(uid, str_c(cluster->objects[i].uid))) return true;
    return false;
}

// ---- answers ----------------------------------------------------------------------------------

static void flow_free(struct flow *flow)
{
    struct flow **link = &flow->cluster->flows;
    while (*link != flow)
        link = &(*link)->next;
    *link = flow->next;
    schedule_forget(flow);
    strbuf_finish(&flow->out);
    mem_free(flow);
}

static void flow_end(struct flow *flow)
{
    struct kube_request *request = flow->request;
    bool fails = flow->fails;
    struct error err;
    flow_free(flow);
    if (fails) error_set(&err, ERROR_IO, "broken off");
    kube_request_end(request, fails ? &err : NULL);
}

static void put_events(struct flow *flow)
{
    for (; flow->seen < flow->cluster->changes; flow->seen++) {
        const struct change *change = &flow->cluster->log[flow->seen];
        if (change->object.kind != flow->kind) continue;
        strbuf_addf(&flow->out, "{\"type\":\"%s\",\"object\":", change->type);
        put_object(&flow->out, &change->object);
        strbuf_add_c(&flow->out, "}\n");
    }
}

// Gives the next piece.
static void on_step(void *arg)
{
    struct flow *flow = arg;
    flow->is_due = false;
    if (flow->is_watch && !flow->has_ended) put_events(flow);
    size_t left = flow->out.len - flow->given;
    if (flow->given == 0 || left > 0) {
        size_t len = left > 1 && schedule_percent(30) ? 1 + (size_t)schedule_below(left) : left;
        enum kube_body_verdict verdict =
            kube_request_answer(flow->request, flow->status, flow->out.at + flow->given, len);
        if (verdict == KUBE_BODY_STOP) {
            flow->fails = true;
            flow_end(flow);
            return;
        }
        flow->is_paused = verdict == KUBE_BODY_PAUSE;
        if (flow->is_paused) return;
        flow->given += len;
    }
    if (flow->given < flow->out.len)
        schedule_step(flow);
    else if (flow->has_ended)
        flow_end(flow);
}

static void schedule_step(struct flow *flow)
{
    if (flow->is_due || flow->is_paused) return;
    flow->is_due = true;
    schedule_after(schedule_spread(0, flow->cluster->faults ? 400 : 20), on_step, flow);
}

static void answer_list(struct flow *flow)
{
    const struct cluster *cluster = flow->cluster;
    bool any = false;
    strbuf_addf(&flow->out, "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"%llu\"},\"items\":[",
                (unsigned long long)cluster->version);
    for (size_t i = 0; i < cluster->names; i++) {
        const struct cluster_object *object = &cluster->objects[i];
        if (!object->exists || object->kind != flow->kind) continue;
        if (any) strbuf_add_c(&flow->out, ",");
        any = true;
        put_object(&flow->out, object);
    }
    strbuf_add_c(&flow->out, "]}");
    flow->status = 200;
    flow->has_ended = true;
    if (!cluster->faults) return;
    if (schedule_percent(10)) { // cut short
        flow->out.len = (size_t)schedule_below(flow->out.len);
        flow->fails = true;
    } else if (schedule_percent(5)) {
        flow->status = 500;
    }
}

static void answer_watch(struct flow *flow, uint64_t version)
{
    flow->status = 200;
    flow->is_watch = true;
    const struct cluster *cluster = flow->cluster;
    for (flow->seen = cluster->changes; flow->seen > 0; flow->seen--)
        if (cluster->log[flow->seen - 1].object.version <= version) break;
    if (flow->seen >= cluster->compacted) return;
    strbuf_add_c(&flow->out, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    flow->has_ended = true;
}

// "<plural>?<query>"
static void answer_collection(struct flow *flow, const char *plural)
{
    size_t len = strcspn(plural, "?");
    for (unsigned i = 0; i < CLUSTER_KINDS; i++) {
        if (strlen(cluster_kinds[i].plural) != len || strncmp(plural, cluster_kinds[i].plural, len) != 0) continue;
        const char *version = strstr(plural, "resourceVersion=");
        flow->kind = i;
        if (flow->cluster->denied >> i & 1) {
            flow->status = 403;
            return;
        }
        flow->has_ended = false;
        if (strstr(plural, "watch=true"))
            answer_watch(flow, version ? strtoull(version + strlen("resourceVersion="), NULL, 10) : 0);
        else
            answer_list(flow);
    }
}

// "namespaces/<ns>/<plural>/<name>"
static void answer_object(struct flow *flow, const char *path)
{
    char wanted[128];
    for (size_t i = 0; i < flow->cluster->names; i++) {
        const struct cluster_object *object = &flow->cluster->objects[i];
        snprintf(wanted, sizeof wanted, "namespaces/%s/%s/%s", object->ns, cluster_kinds[object->kind].plural,
                 object->name);
        if (!object->exists || strcmp(path, wanted) != 0) continue;
        flow->status = flow->cluster->denied >> object->kind & 1 ? 403 : 200;
        put_object(&flow->out, object);
    }
}

static void answer(struct flow *flow, const char *path)
{
    static const char root[] = "/apis/argoproj.io/v1alpha1/";
    flow->has_ended = true;
    flow->status = 404;
    if (strcmp(path, "/version") == 0) {
        flow->status = 200;
        strbuf_add_c(&flow->out, "{\"gitVersion\":\"v1.31.0\"}");
    } else if (strncmp(path, "/api/v1/secrets", 15) == 0) {
        flow->status = 200;
        strbuf_add_c(&flow->out, "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}");
    } else if (strncmp(path, root, sizeof root - 1) == 0) {
        path += sizeof root - 1;
        if (strchr(path, '?'))
            answer_collection(flow, path);
        else
            answer_object(flow, path);
    }
}

static void on_begin(void *ctx, struct kube_request *request, const char *path)
{
    struct cluster *cluster = ctx;
    struct flow *flow = mem_zalloc(sizeof *flow);
    flow->cluster = cluster;
    flow->request = request;
    strbuf_init(&flow->out, ANSWER_BYTES_MAX);
    flow->next = cluster->flows;
    cluster->flows = flow;
    answer(flow, path);
    if (flow->has_ended && cluster->faults && schedule_percent(3)) {
        strbuf_clear(&flow->out);
        flow->status = 0;
        flow->fails = true;
    }
    schedule_step(flow);
}

static struct flow *find_flow(struct cluster *cluster, const struct kube_request *request)
{
    struct flow *flow = cluster->flows;
    while (flow && flow->request != request)
        flow = flow->next;
    return flow;
}

static void on_resume(void *ctx, struct kube_request *request)
{
    struct flow *flow = find_flow(ctx, request);
    if (!flow || !flow->is_paused) return;
    flow->is_paused = false;
    schedule_step(flow);
}

static void on_cancel(void *ctx, struct kube_request *request)
{
    struct flow *flow = find_flow(ctx, request);
    if (flow) flow_free(flow);
}

// ---- life -------------------------------------------------------------------------------------

void cluster_set_faults(struct cluster *cluster, bool faults)
{
    cluster->faults = faults;
}

void cluster_break_watches(struct cluster *cluster)
{
    for (struct flow *flow = cluster->flows; flow; flow = flow->next) {
        if (!flow->is_watch) continue;
        flow->has_ended = flow->fails = true;
        schedule_step(flow);
    }
}

void cluster_deny(struct cluster *cluster, unsigned kinds)
{
    cluster->denied = kinds;
}

void cluster_compact(struct cluster *cluster)
{
    cluster->compacted = cluster->changes;
}

struct cluster *cluster_create(unsigned names)
{
    struct cluster *cluster = mem_zalloc(sizeof *cluster);
    cluster->transport = (struct kube_transport){on_begin, on_resume, on_cancel, cluster};
    cluster->names = names < CLUSTER_OBJECTS_MAX ? names : CLUSTER_OBJECTS_MAX;
    cluster->version = 100;
    for (unsigned i = 0; i < cluster->names; i++) {
        struct cluster_object *object = &cluster->objects[i];
        object->kind = i % CLUSTER_KINDS;
        snprintf(object->ns, sizeof object->ns, "ns-%u", i % 2);
        snprintf(object->name, sizeof object->name, "object-%u", i);
        if (schedule_percent(60)) cluster_change(cluster);
    }
    return cluster;
}

void cluster_destroy(struct cluster *cluster)
{
    while (cluster->flows)
        flow_free(cluster->flows);
    mem_free(cluster);
}

const struct kube_transport *cluster_transport(struct cluster *cluster)
{
    return &cluster->transport;
}
