#include "server/intake/flapping.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { BUCKETS = 4096, KEY_PARTS = 6 };

// An object that has changed lately.
struct object {
    struct object *next;          // in its bucket
    struct object *newer, *older; // by the last change
    uint64_t hash;
    uint64_t tokens, tokens_at_ms;
    uint64_t changes;            // since the last finding
    int64_t since_ms;            // noisy since, wall clock; 0: it is not
    struct str parts[KEY_PARTS]; // account, runtime, group, kind, namespace, name: behind this
};

struct flapping {
    struct flapping_options options;
    struct object *buckets[BUCKETS];
    struct object *newest, *oldest;
    size_t count, noisy;
    struct timer timer;
    struct metric *noisy_objects, *noisy_changes;
};

static void on_timer(void *arg)
{
    flapping_flush(arg, clock_mono_ms());
}

struct flapping *flapping_create(struct loop *loop, const struct flapping_options *options)
{
    struct flapping *flapping = mem_zalloc(sizeof *flapping);
    flapping->options = *options;
    flapping->noisy_objects = metric_with(metrics_gauge(
        "culvert_flapping_objects", "Objects that change more often than reports.noise_interval permits.", NULL));
    flapping->noisy_changes =
        metric_with(metrics_counter("culvert_flapping_changes_total", "Changes of flapping objects.", NULL));
    timer_init(&flapping->timer, loop_uv(loop), on_timer, flapping);
    timer_start(&flapping->timer, options->flush_ms, options->flush_ms);
    return flapping;
}

// ---- objects -------------------------------------------------------------------------------------------------------

static void unlink_by_age(struct flapping *flapping, struct object *object)
{
    *(object->newer ? &object->newer->older : &flapping->newest) = object->older;
    *(object->older ? &object->older->newer : &flapping->oldest) = object->newer;
}

static void link_as_newest(struct flapping *flapping, struct object *object)
{
    object->newer = NULL;
    object->older = flapping->newest;
    *(flapping->newest ? &flapping->newest->newer : &flapping->oldest) = object;
    flapping->newest = object;
}

static void set_noisy(struct flapping *flapping, struct object *object, int64_t since_ms)
{
    int by = (since_ms != 0) - (object->since_ms != 0);
    object->since_ms = since_ms;
    flapping->noisy = by < 0 ? flapping->noisy - 1 : flapping->noisy + (size_t)by;
    if (by) metric_move(flapping->noisy_objects, by);
}

static void drop(struct flapping *flapping, struct object *object)
{
    struct object **link = &flapping->buckets[object->hash % BUCKETS];
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    unlink_by_age(flapping, object);
    set_noisy(flapping, object, 0);
    flapping->count--;
    mem_free(object);
}

void flapping_stop(struct flapping *flapping)
{
    timer_stop(&flapping->timer);
}

void flapping_destroy(struct flapping *flapping)
{
    if (!flapping) return;
    while (flapping->oldest)
        drop(flapping, flapping->oldest);
    timer_finish(&flapping->timer);
    mem_free(flapping);
}

static uint64_t hash_of(const struct str parts[KEY_PARTS])
{
    uint64_t hash = HASH_BEGIN;
    for (size_t p = 0; p < KEY_PARTS; p++)
        hash = hash_part(hash, parts[p]);
    return hash_end(hash);
}

static struct object *find(struct flapping *flapping, const struct str parts[KEY_PARTS], uint64_t hash)
{
    struct object *object = flapping->buckets[hash % BUCKETS];
    for (; object; object = object->next) {
        if (object->hash != hash) continue;
        size_t same = 0;
        while (same < KEY_PARTS && str_eq(object->parts[same], parts[same]))
            same++;
        if (same == KEY_PARTS) break;
    }
    return object;
}

static struct object *create(struct flapping *flapping, const struct str parts[KEY_PARTS], uint64_t hash,
                             uint64_t now_ms)
{
    if (flapping->count >= flapping->options.objects_max) drop(flapping, flapping->oldest);
    size_t bytes = 0;
    for (size_t p = 0; p < KEY_PARTS; p++)
        bytes += parts[p].len;
    struct object *object = mem_zalloc(sizeof *object + bytes);
    char *to = (char *)(object + 1);
    for (size_t p = 0; p < KEY_PARTS; p++) {
        if (parts[p].len) memcpy(to, parts[p].at, parts[p].len);
        object->parts[p] = str_of(to, parts[p].len);
        to += parts[p].len;
    }
    object->hash = hash;
    object->tokens = flapping->options.burst;
    object->tokens_at_ms = now_ms;
    object->next = flapping->buckets[hash % BUCKETS];
    flapping->buckets[hash % BUCKETS] = object;
    link_as_newest(flapping, object);
    flapping->count++;
    return object;
}

// ---- counting ------------------------------------------------------------------------------------------------------

static void refill(struct flapping *flapping, struct object *object, uint64_t now_ms)
{
    const struct flapping_options *options = &flapping->options;
    uint64_t back = (now_ms - object->tokens_at_ms) / options->interval_ms;
    if (!back) return;
    object->tokens_at_ms += back * options->interval_ms;
    object->tokens = back >= options->burst - object->tokens ? options->burst : object->tokens + back;
    // Quiet again only when the bucket is half full, so that it is not one finding after the other.
    if (object->since_ms && object->tokens * 2 >= options->burst) set_noisy(flapping, object, 0);
}

static void count_change(struct flapping *flapping, const struct report *report, uint64_t now_ms)
{
    const struct str parts[KEY_PARTS] = {report->account_id, report->runtime, report->ref.group,
                                         report->ref.kind,   report->ref.ns,  report->ref.name};
    uint64_t hash = hash_of(parts);
    struct object *object = find(flapping, parts, hash);
    if (object) {
        unlink_by_age(flapping, object);
        link_as_newest(flapping, object);
    } else {
        object = create(flapping, parts, hash, now_ms);
    }
    refill(flapping, object, now_ms);
    if (object->tokens)
        object->tokens--;
    else if (!object->since_ms)
        set_noisy(flapping, object, clock_wall_ms());
    if (!object->since_ms) return;
    object->changes++;
    metric_add(flapping->noisy_changes, 1);
}

void flapping_take(struct flapping *flapping, const struct report *reports, const struct report_outcome *outcomes,
                   size_t count, uint64_t now_ms)
{
    for (size_t i = 0; i < count; i++) {
        bool is_object = reports[i].type == REPORT_OBJECT || reports[i].type == REPORT_DELETED;
        if (is_object && outcomes[i].result == REPORT_APPLIED) count_change(flapping, &reports[i], now_ms);
    }
}

size_t flapping_count(const struct flapping *flapping)
{
    return flapping->count;
}

// ---- findings ------------------------------------------------------------------------------------------------------

static void on_put(void *arg, const struct error *err, uint64_t count)
{
    (void)arg;
    (void)count;
    // Nobody is hurt by a finding that is not there: the next one counts on.
    if (err && err->code != ERROR_CANCELLED) log_warn("flapping", "findings_not_written", log_err(err));
}

static int compare_accounts(const void *a, const void *b)
{
    const struct object *const *left = a, *const *right = b;
    return str_compare((*left)->parts[0], (*right)->parts[0]);
}

static void put(struct flapping *flapping, struct object **objects, size_t count)
{
    struct flapping_finding findings[FLAPPING_FINDINGS_MAX];
    for (size_t i = 0; i < count; i++) {
        struct object *object = objects[i];
        findings[i] = (struct flapping_finding){.runtime = object->parts[1],
                                                .group = object->parts[2],
                                                .kind = object->parts[3],
                                                .ns = object->parts[4],
                                                .name = object->parts[5],
                                                .changes = object->changes,
                                                .since_ms = object->since_ms};
        object->changes = 0;
    }
    AUTO_FREE char *account = mem_strndup(objects[0]->parts[0].at, objects[0]->parts[0].len);
    flapping->options.put(flapping->options.pg, account, findings, count, on_put, NULL);
}

void flapping_flush(struct flapping *flapping, uint64_t now_ms)
{
    if (!flapping->noisy) return;
    struct object **objects = mem_array(flapping->noisy, sizeof(struct object *));
    size_t count = 0;
    for (struct object *object = flapping->newest, *older; object; object = older) {
        older = object->older;
        if (!object->since_ms) continue;
        if (object->changes)
            objects[count++] = object;
        else
            refill(flapping, object, now_ms); // may be over
    }
    qsort(objects, count, sizeof(struct object *), compare_accounts);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && to - from < FLAPPING_FINDINGS_MAX; to++)
            if (compare_accounts(&objects[from], &objects[to])) break;
        put(flapping, objects + from, to - from);
    }
    mem_free(objects);
}
