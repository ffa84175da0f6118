#include "base/metrics/metrics.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { VALUE_BYTES_MAX = 128 };

static const double bucket_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                       0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
enum { BUCKETS = sizeof bucket_bounds / sizeof *bucket_bounds };

enum { AGE_BUCKETS = 1024 };
enum kind { COUNTER, GAUGE, HISTOGRAM, AGES };

struct metric {
    struct metric *next;
    char *labels[METRICS_LABELS_MAX];
    _Atomic int64_t value;             // counters and gauges; a histogram's count
    _Atomic uint64_t buckets[BUCKETS]; // not cumulative
    _Atomic uint64_t sum_us;
    enum kind kind;
};

// Something that has an age.
struct age {
    struct age *next; // in its bucket
    uint64_t key, since_ms;
    char *labels[METRICS_LABELS_MAX];
};

struct metric_family {
    struct metric_family *next;
    enum kind kind;
    char *name, *help;
    char *labels[METRICS_LABELS_MAX];
    size_t label_count, series_count;
    struct metric *series; // newest first
    struct age **ages;     // AGE_BUCKETS, of this kind only
    size_t age_count;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards the lists, not the values
static struct metric_family *families;

static struct metric_family *family_find(const char *name)
{
    for (struct metric_family *family = families; family; family = family->next)
        if (strcmp(family->name, name) == 0) return family;
    return NULL;
}

static struct metric_family *family_make(enum kind kind, const char *name, const char *help, va_list labels)
{
    pthread_mutex_lock(&mutex);
    struct metric_family *family = family_find(name);
    if (!family) {
        family = mem_zalloc(sizeof *family);
        family->kind = kind;
        family->name = mem_strdup(name);
        family->help = mem_strdup(help);
        if (kind == AGES) family->ages = mem_array(AGE_BUCKETS, sizeof *family->ages);
        for (const char *label = va_arg(labels, const char *); label; label = va_arg(labels, const char *)) {
            if (family->label_count == METRICS_LABELS_MAX) abort();
            family->labels[family->label_count++] = mem_strdup(label);
        }
        struct metric_family **end = &families;
        while (*end)
            end = &(*end)->next;
        *end = family;
    }
    pthread_mutex_unlock(&mutex);
    return family;
}

#define DEFINE_FAMILY(function, kind)                                                                                  \
    struct metric_family *function(const char *name, const char *help, ...)                                            \
    {                                                                                                                  \
        va_list labels;                                                                                                \
        va_start(labels, help);                                                                                        \
        struct metric_family *family = family_make(kind, name, help, labels);                                          \
        va_end(labels);                                                                                                \
        return family;                                                                                                 \
    }

DEFINE_FAMILY(metrics_counter, COUNTER)
DEFINE_FAMILY(metrics_gauge, GAUGE)
DEFINE_FAMILY(metrics_histogram, HISTOGRAM)
DEFINE_FAMILY(metrics_ages, AGES)

static struct metric *series_find(const struct metric_family *family, const char *const *values)
{
    for (struct metric *metric = family->series; metric; metric = metric->next) {
        size_t same = 0;
        while (same < family->label_count && strcmp(metric->labels[same], values[same]) == 0)
            same++;
        if (same == family->label_count) return metric;
    }
    return NULL;
}

static struct metric *series_get(struct metric_family *family, const char *const *values)
{
    static const char *const other[METRICS_LABELS_MAX] = {"other", "other", "other", "other"};
    struct metric *metric = series_find(family, values);
    if (metric) return metric;
    if (family->series_count >= METRICS_SERIES_MAX - 1) {
        values = other;
        metric = series_find(family, values);
        if (metric) return metric;
    }
    metric = mem_zalloc(sizeof *metric);
    metric->kind = family->kind;
    for (size_t i = 0; i < family->label_count; i++)
        metric->labels[i] = mem_strndup(values[i], strnlen(values[i], VALUE_BYTES_MAX));
    metric->next = family->series;
    family->series = metric;
    family->series_count++;
    return metric;
}

struct metric *metric_with(struct metric_family *family, ...)
{
    const char *values[METRICS_LABELS_MAX] = {0};
    va_list args;
    va_start(args, family);
    for (size_t i = 0; i < family->label_count; i++)
        values[i] = va_arg(args, const char *);
    va_end(args);
    pthread_mutex_lock(&mutex);
    struct metric *metric = series_get(family, values);
    pthread_mutex_unlock(&mutex);
    return metric;
}

void metric_add(struct metric *metric, uint64_t n)
{
    atomic_fetch_add_explicit(&metric->value, (int64_t)n, memory_order_relaxed);
}

void metric_set(struct metric *metric, int64_t value)
{
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

void metric_move(struct metric *metric, int64_t by)
{
    atomic_fetch_add_explicit(&metric->value, by, memory_order_relaxed);
}

void metric_observe(struct metric *metric, double seconds)
{
    if (!(seconds >= 0)) seconds = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        if (seconds > bucket_bounds[i]) continue;
        atomic_fetch_add_explicit(&metric->buckets[i], 1, memory_order_relaxed);
        break;
    }
    atomic_fetch_add_explicit(&metric->sum_us, (uint64_t)(seconds * 1e6), memory_order_relaxed);
    atomic_fetch_add_explicit(&metric->value, 1, memory_order_relaxed);
}

int64_t metric_value(const struct metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

static void add_labels(struct strbuf *out, const struct metric_family *family, char *const *labels, const char *le)
{
    if (family->label_count == 0 && !le) return;
    strbuf_add_byte(out, '{');
    for (size_t i = 0; i < family->label_count; i++) {
        strbuf_addf(out, "%s%s=\"", i ? "," : "", family->labels[i]);
        for (const char *c = labels[i]; *c; c++) {
            if (*c == '"' || *c == '\\')
                strbuf_addf(out, "\\%c", *c);
            else if (*c == '\n')
                strbuf_add_c(out, "\\n");
            else
                strbuf_add_byte(out, *c);
        }
        strbuf_add_byte(out, '"');
    }
    if (le) strbuf_addf(out, "%sle=\"%s\"", family->label_count ? "," : "", le);
    strbuf_add_byte(out, '}');
}

static void add_histogram(struct strbuf *out, const struct metric_family *family, const struct metric *metric)
{
    uint64_t below = 0;
    for (size_t i = 0; i <= BUCKETS; i++) {
        char le[32] = "+Inf";
        if (i < BUCKETS) {
            snprintf(le, sizeof le, "%g", bucket_bounds[i]);
            below += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        } else {
            below = (uint64_t)metric_value(metric);
        }
        strbuf_addf(out, "%s_bucket", family->name);
        add_labels(out, family, metric->labels, le);
        strbuf_addf(out, " %llu\n", (unsigned long long)below);
    }
    strbuf_addf(out, "%s_sum", family->name);
    add_labels(out, family, metric->labels, NULL);
    strbuf_addf(out, " %.6f\n", (double)atomic_load_explicit(&metric->sum_us, memory_order_relaxed) / 1e6);
    strbuf_addf(out, "%s_count", family->name);
    add_labels(out, family, metric->labels, NULL);
    strbuf_addf(out, " %lld\n", (long long)metric_value(metric));
}

// ---- ages ----------------------------------------------------------------------------------------------------

static void age_free(struct age *age)
{
    for (size_t i = 0; i < METRICS_LABELS_MAX; i++)
        mem_free(age->labels[i]);
    mem_free(age);
}

void metric_age_set(struct metric_family *family, uint64_t key, uint64_t since_ms, ...)
{
    va_list args;
    va_start(args, since_ms);
    pthread_mutex_lock(&mutex);
    struct age **link = &family->ages[key % AGE_BUCKETS], *age;
    while (*link && (*link)->key != key)
        link = &(*link)->next;
    age = *link;
    if (!age && since_ms) {
        age = *link = mem_zalloc(sizeof *age);
        age->key = key;
        for (size_t i = 0; i < family->label_count; i++) {
            const char *value = va_arg(args, const char *);
            age->labels[i] = mem_strndup(value, strnlen(value, VALUE_BYTES_MAX));
        }
        family->age_count++;
    }
    if (age) age->since_ms = since_ms;
    if (age && !since_ms) {
        *link = age->next;
        family->age_count--;
        age_free(age);
    }
    pthread_mutex_unlock(&mutex);
    va_end(args);
}

static void add_ages(struct strbuf *out, const struct metric_family *family)
{
    const struct age *oldest[METRICS_AGES_SHOWN];
    size_t count = 0;
    for (size_t i = 0; i < AGE_BUCKETS; i++) {
        for (const struct age *age = family->ages[i]; age; age = age->next) {
            size_t at = count;
            while (at > 0 && oldest[at - 1]->since_ms > age->since_ms)
                at--;
            if (at == METRICS_AGES_SHOWN) continue;
            if (count < METRICS_AGES_SHOWN) count++;
            memmove(&oldest[at + 1], &oldest[at], (count - at - 1) * sizeof(const struct age *));
            oldest[at] = age;
        }
    }
    uint64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < count; i++) {
        uint64_t age_ms = now_ms > oldest[i]->since_ms ? now_ms - oldest[i]->since_ms : 0;
        strbuf_add_c(out, family->name);
        add_labels(out, family, oldest[i]->labels, NULL);
        strbuf_addf(out, " %.3f\n", (double)age_ms / 1e3);
    }
    strbuf_addf(out, "# HELP %s_count How many there are.\n# TYPE %s_count gauge\n%s_count %zu\n", family->name,
                family->name, family->name, family->age_count);
}

// ---- text ----------------------------------------------------------------------------------------------------

void metrics_render(struct strbuf *out, bool open_metrics)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram", "gauge"};
    pthread_mutex_lock(&mutex);
    for (struct metric_family *family = families; family; family = family->next) {
        // OpenMetrics names a counter's family without the _total of its sample.
        size_t name_len = strlen(family->name);
        if (open_metrics && family->kind == COUNTER && str_ends(str_c(family->name), STR("_total"))) name_len -= 6;
        strbuf_addf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)name_len, family->name, family->help, (int)name_len,
                    family->name, kinds[family->kind]);
        if (family->kind == AGES) add_ages(out, family);
        for (struct metric *metric = family->series; metric; metric = metric->next) {
            if (family->kind == HISTOGRAM) {
                add_histogram(out, family, metric);
                continue;
            }
            strbuf_add_c(out, family->name);
            add_labels(out, family, metric->labels, NULL);
            strbuf_addf(out, " %lld\n", (long long)metric_value(metric));
        }
    }
    pthread_mutex_unlock(&mutex);
    if (open_metrics) strbuf_add_c(out, "# EOF\n");
}
