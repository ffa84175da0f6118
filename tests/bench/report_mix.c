#include "report_mix.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

enum {
    AGAIN_MAX = 256,
    AGAIN_SHARE = 10,
    TEXT_MAX = 4 * 1024 * 1024,
    APPLICATION_OBJECTS = 20,
    PROGRESS = 97,
    METADATA = 600
};

struct report_mix {
    char runtime[64];
    uint64_t state;      // of the changes
    uint32_t *revisions; // how often each object has changed
    size_t objects;
    size_t again[AGAIN_MAX]; // changed a moment ago, to change once more; a place is empty when it holds no object
    size_t shown;            // last
    struct strbuf manifest, desired, names;
};

// splitmix64: every value follows from the one before, and from nothing else.
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t bound)
{
    return (size_t)(next(state) % bound);
}

static uint64_t seed_of(const struct report_mix *mix, size_t object)
{
    uint64_t seed = 0xcbf29ce484222325u;
    for (const char *at = mix->runtime; *at; at++)
        seed = (seed ^ (unsigned char)*at) * 0x100000001b3u;
    return seed ^ (object * 0x9e3779b97f4a7c15u);
}

// Half of all manifests are smaller than 2 KiB, one in a hundred is larger than 13 KiB.
static size_t size_of(uint64_t *state)
{
    double u = ((double)(next(state) >> 11) + 1) / 9007199254740993.0,
           v = (double)(next(state) >> 11) / 9007199254740992.0;
    double bytes = 2048 * exp(0.8 * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
    return bytes < 500 ? 500 : bytes > 200000 ? 200000 : (size_t)bytes;
}

// ---- manifests -----------------------------------------------------------------------------------------------------

static const struct kind {
    const char *group, *version, *kind, *prefix;
    unsigned share; // of a hundred
} kinds[] = {
    {"", "v1", "Pod", "pod", 30},
    {"apps", "v1", "ReplicaSet", "rs", 15},
    {"apps", "v1", "Deployment", "deploy", 13},
    {"", "v1", "ConfigMap", "config", 13},
    {"", "v1", "Service", "service", 11},
    {"networking.k8s.io", "v1", "Ingress", "ingress", 5},
    {"argoproj.io", "v1alpha1", "Application", "app", 5},
    {"batch", "v1", "Job", "job", 4},
    {"argoproj.io", "v1alpha1", "Rollout", "rollout", 4},
};

static const struct kind *kind_of(uint64_t *state)
{
    size_t at = below(state, 100);
    const struct kind *kind = kinds;
    for (; at >= kind->share; kind++)
        at -= kind->share;
    return kind;
}

static const char *const words[] = {
    "service", "cluster", "internal", "timeout", "https",   "storage", "gateway",  "primary", "replica", "metrics",
    "enabled", "default", "payment",  "orders",  "catalog", "session", "upstream", "backend", "limit",   "retry",
    "secure",  "cache",   "region",   "eu-west", "billing", "search",  "index",    "worker",  "queue",   "topic",
};

static void add_words(struct strbuf *out, uint64_t *state, size_t count)
{
    for (size_t i = 0; i < count; i++)
        strbuf_addf(out, "%s%s", i ? "." : "", words[below(state, sizeof words / sizeof *words)]);
}

// Until the text is about this long: variables as charts write them, now and then a digest that no compression helps.
static void add_variables(struct strbuf *out, uint64_t *state, size_t bytes)
{
    for (unsigned i = 0; out->len < bytes; i++) {
        strbuf_addf(out, "%s{\"name\":\"SETTING_%u\",\"value\":\"", i ? "," : "", i);
        if (below(state, 6) == 0)
            strbuf_addf(out, "%016llx%016llx", (unsigned long long)next(state), (unsigned long long)next(state));
        else
            add_words(out, state, 2 + below(state, 4));
        strbuf_add_c(out, "\"}");
    }
}

static void add_metadata(struct strbuf *out, const struct report_mix *mix, const struct report_mix_object *o,
                         uint32_t revision)
{
    strbuf_addf(out,
                "\"metadata\":{\"annotations\":{\"argocd.argoproj.io/tracking-id\":\"%.*s:%.*s/%.*s:%.*s/%.*s\"},"
                "\"creationTimestamp\":\"2026-03-01T08:00:00Z\",\"generation\":%u,\"labels\":{"
                "\"app.kubernetes.io/instance\":\"%.*s\",\"app.kubernetes.io/managed-by\":\"argocd\","
                "\"app.kubernetes.io/name\":\"%.*s\"},\"name\":\"%.*s\",\"namespace\":\"%.*s\",",
                STR_ARG(o->application_name), STR_ARG(o->ref.group), STR_ARG(o->ref.kind), STR_ARG(o->ref.ns),
                STR_ARG(o->ref.name), revision + 1, STR_ARG(o->application_name), STR_ARG(o->ref.name),
                STR_ARG(o->ref.name), STR_ARG(o->ref.ns));
    if (str_eq(o->ref.kind, STR("Pod")) || str_eq(o->ref.kind, STR("ReplicaSet")))
        strbuf_addf(out,
                    "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"controller\":true,\"kind\":\"Deployment\","
                    "\"name\":\"%.*s-owner\",\"uid\":\"0%.*s\"}],",
                    STR_ARG(o->ref.name), STR_ARG(str_first(o->ref.uid, 35)));
    strbuf_addf(out, "\"resourceVersion\":\"%zu\",\"uid\":\"%.*s\"},", 1000 + (size_t)revision * 31 + mix->objects,
                STR_ARG(o->ref.uid));
}

static void add_workload(struct strbuf *out, uint64_t *state, size_t bytes, uint32_t revision, bool is_template)
{
    strbuf_addf(out, "\"spec\":{%s\"containers\":[{\"env\":[", is_template ? "\"template\":{\"spec\":{" : "");
    add_variables(out, state, bytes > 420 ? bytes - 420 : 0);
    strbuf_addf(out,
                "],\"image\":\"registry.example.com/shop/%s:%u.%u\",\"name\":\"main\",\"resources\":{\"limits\":{"
                "\"cpu\":\"500m\",\"memory\":\"256Mi\"}}}],\"serviceAccountName\":\"default\"%s},",
                words[below(state, sizeof words / sizeof *words)], 1 + revision / PROGRESS, revision % PROGRESS,
                is_template ? "}}" : "");
    strbuf_addf(out,
                "\"status\":{\"conditions\":[{\"lastTransitionTime\":\"2026-11-%02uT10:%02u:00Z\",\"status\":\"%s\","
                "\"type\":\"Ready\"}],\"observedGeneration\":%u,\"readyReplicas\":%u}}",
                1 + revision % 28, revision % 60, revision % 7 ? "True" : "False", revision + 1, revision % 5);
}

static void add_data(struct strbuf *out, uint64_t *state, size_t bytes, uint32_t revision)
{
    strbuf_addf(out, "\"data\":{\"revision\":\"%u\",\"settings\":[", revision);
    add_variables(out, state, bytes);
    strbuf_add_c(out, "]},");
}

static void add_application(struct strbuf *out, uint64_t *state, size_t bytes, uint32_t revision)
{
    static const char source[] = "{\"path\":\"apps/shop\",\"repoURL\":\"https://git.example.com/shop/deploy.git\","
                                 "\"targetRevision\":\"main\"}";
    strbuf_addf(out,
                "\"spec\":{\"destination\":{\"namespace\":\"shop\",\"server\":\"https://kubernetes.default.svc\"},"
                "\"project\":\"default\",\"source\":%s,\"syncPolicy\":{\"automated\":{\"prune\":true}}},"
                "\"status\":{\"health\":{\"status\":\"%s\"},\"history\":[",
                source, revision % 7 ? "Healthy" : "Progressing");
    unsigned last = 3 + revision / 10; // one change in ten is a deployment
    for (unsigned id = last - 3; id < last; id++)
        strbuf_addf(out,
                    "%s{\"deployedAt\":\"2026-11-%02uT09:%02u:00Z\",\"id\":%u,\"initiatedBy\":{\"automated\":true},"
                    "\"revision\":\"%08x0123456789abcdef0123456789abcdef\",\"source\":%s}",
                    id + 3 == last ? "" : ",", 1 + id % 28, id % 60, id, id * 2654435761u, source);
    strbuf_addf(
        out,
        "],\"operationState\":{\"finishedAt\":\"2026-11-%02uT09:%02u:30Z\",\"operation\":{\"sync\":{}},\"phase\":"
        "\"Succeeded\",\"startedAt\":\"2026-11-%02uT09:%02u:00Z\"},\"reconciledAt\":\"2026-11-20T%02u:%02u:00Z\","
        "\"resources\":[",
        1 + last % 28, last % 60, 1 + last % 28, last % 60, revision % 24, revision % 60);
    for (unsigned i = 0; i == 0 || out->len + 150 < bytes; i++)
        strbuf_addf(
            out,
            "%s{\"group\":\"apps\",\"health\":{\"status\":\"Healthy\"},\"kind\":\"Deployment\",\"name\":\"%s-%u\","
            "\"namespace\":\"shop\",\"status\":\"Synced\",\"version\":\"v1\"}",
            i ? "," : "", words[below(state, sizeof words / sizeof *words)], i);
    strbuf_addf(out, "],\"sync\":{\"revision\":\"%08x0123456789abcdef0123456789abcdef\",\"status\":\"%s\"}}}",
                last * 2654435761u, revision % 11 ? "Synced" : "OutOfSync");
}

// ---- objects -------------------------------------------------------------------------------------------------------

static struct str add_name(struct report_mix *mix, const char *text, size_t number)
{
    size_t begin = mix->names.len;
    strbuf_addf(&mix->names, "%s-%zu", text, number);
    return str_of(mix->names.at + begin, mix->names.len - begin);
}

// The i-th object as it is after so many changes, its manifest in `m`.
static void show(struct report_mix *mix, size_t i, uint32_t revision, struct strbuf *m, struct report_mix_object *out)
{
    static const char *const health[] = {"Healthy", "Healthy", "Healthy", "Progressing", "Degraded"};
    uint64_t state = seed_of(mix, i);
    const struct kind *kind = kind_of(&state);
    bool is_application = strcmp(kind->kind, "Application") == 0;
    strbuf_clear(&mix->names);
    strbuf_clear(m);
    strbuf_reserve(&mix->names, 1024); // views into it stay where they are
    *out = (struct report_mix_object){
        .ref.group = str_c(kind->group), .ref.version = str_c(kind->version), .ref.kind = str_c(kind->kind)};
    out->ref.ns = is_application ? STR("argocd") : add_name(mix, "shop", i / 200);
    out->ref.name = add_name(mix, kind->prefix, i);
    size_t begin = mix->names.len;
    strbuf_addf(&mix->names, "%08x-0000-4000-8000-%012zx", (unsigned)next(&state), i);
    out->ref.uid = str_of(mix->names.at + begin, mix->names.len - begin);
    if (!is_application) {
        out->application_ns = STR("argocd");
        out->application_name = add_name(mix, "app", i / APPLICATION_OBJECTS);
        out->sync_status = revision % 11 ? STR("Synced") : STR("OutOfSync");
        out->health_status = str_c(health[(revision + i) % 5]);
    }
    size_t bytes = size_of(&state);
    strbuf_addf(m, "{\"apiVersion\":\"%s%s%s\",", kind->group, *kind->group ? "/" : "", kind->version);
    bool is_data = strcmp(kind->kind, "ConfigMap") == 0 || strcmp(kind->kind, "Service") == 0 ||
                   strcmp(kind->kind, "Ingress") == 0;
    if (is_data) add_data(m, &state, bytes > METADATA ? bytes - METADATA : 0, revision);
    strbuf_addf(m, "\"kind\":\"%s\",", kind->kind);
    add_metadata(m, mix, out, revision);
    if (is_application)
        add_application(m, &state, bytes, revision);
    else if (is_data)
        m->at[m->len - 1] = '}'; // nothing comes behind the metadata
    else
        add_workload(m, &state, bytes, revision, strcmp(kind->kind, "Pod") != 0);
    out->manifest = strbuf_str(m);
}

void report_mix_show(struct report_mix *mix, size_t i, struct report_mix_object *out)
{
    mix->shown = i;
    show(mix, i, mix->revisions[i], &mix->manifest, out);
}

struct str report_mix_desired(struct report_mix *mix)
{
    struct report_mix_object ignored;
    show(mix, mix->shown, 0, &mix->desired, &ignored);
    return ignored.manifest;
}

void report_mix_change(struct report_mix *mix, struct report_mix_object *out)
{
    size_t place = below(&mix->state, AGAIN_MAX * 2), i;
    if (place < AGAIN_MAX && mix->again[place] < mix->objects) {
        i = mix->again[place];
        mix->again[place] = SIZE_MAX;
    } else {
        i = below(&mix->state, mix->objects);
        if (below(&mix->state, AGAIN_SHARE) == 0) mix->again[below(&mix->state, AGAIN_MAX)] = i;
    }
    mix->revisions[i]++;
    report_mix_show(mix, i, out);
}

size_t report_mix_objects(const struct report_mix *mix)
{
    return mix->objects;
}

void report_mix_grow(struct report_mix *mix, size_t objects)
{
    mix->revisions = mem_realloc(mix->revisions, objects * sizeof *mix->revisions);
    for (; mix->objects < objects; mix->objects++)
        mix->revisions[mix->objects] = 0;
}

struct report_mix *report_mix_create(struct str runtime, size_t objects)
{
    struct report_mix *mix = mem_zalloc(sizeof *mix);
    memcpy(mix->runtime, runtime.at, runtime.len < sizeof mix->runtime ? runtime.len : sizeof mix->runtime - 1);
    mix->state = seed_of(mix, SIZE_MAX);
    for (size_t i = 0; i < AGAIN_MAX; i++)
        mix->again[i] = SIZE_MAX;
    strbuf_init(&mix->manifest, TEXT_MAX);
    strbuf_init(&mix->desired, TEXT_MAX);
    strbuf_init(&mix->names, TEXT_MAX);
    report_mix_grow(mix, objects);
    return mix;
}

void report_mix_destroy(struct report_mix *mix)
{
    strbuf_finish(&mix->manifest);
    strbuf_finish(&mix->desired);
    strbuf_finish(&mix->names);
    mem_free(mix->revisions);
    mem_free(mix);
}
