#include "server/intake/snapshot_ends.h"

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "storage/reports/snapshot_verdict_store.h"

enum { VERDICTS_MS = 1000, VERDICTS_AT_ONCE = 64, END_AGAIN_MS = 60000 };

struct snapshot_ends {
    struct snapshot_ends_options options;
    struct list awaited; // head
    struct timer timer;
};

// One that may be answered when its session is gone.
struct question {
    struct snapshot_ends *ends;
    struct tunnel_session_ref ref;
    uint64_t sequence;
};

static void on_timer(void *arg);

struct snapshot_ends *snapshot_ends_create(struct loop *loop, const struct snapshot_ends_options *options)
{
    struct snapshot_ends *ends = mem_zalloc(sizeof *ends);
    ends->options = *options;
    list_init(&ends->awaited);
    timer_init(&ends->timer, loop_uv(loop), on_timer, ends);
    timer_start(&ends->timer, VERDICTS_MS, VERDICTS_MS);
    return ends;
}

void snapshot_ends_stop(struct snapshot_ends *ends)
{
    if (ends) timer_stop(&ends->timer);
}

void snapshot_ends_destroy(struct snapshot_ends *ends)
{
    if (!ends) return;
    list_remove(&ends->awaited);
    timer_finish(&ends->timer);
    mem_free(ends);
}

bool snapshot_ends_take(struct snapshot_ends *ends, struct source *source, const struct report *report)
{
    bool is_end = report->type == REPORT_SNAPSHOT_END;
    (void)ends;
    if (!is_end && report->type != REPORT_SNAPSHOT_BEGIN) return true;
    list_remove(&source->awaited); // an older one's verdict is of no interest any more
    mem_free(source->end.unread);
    source->end =
        (struct source_end){.state = SOURCE_END_NONE,
                            .sequence = report->sequence,
                            .count = report->count,
                            .observed_at_ms = report->observed_at_ms,
                            .unread = mem_strndup(report->unread.len ? report->unread.at : "", report->unread.len)};
    if (!is_end || !source->first) return true;
    source->end.state = SOURCE_END_HELD;
    return false;
}

void snapshot_ends_await(struct snapshot_ends *ends, struct source *source)
{
    source->end.state = SOURCE_END_AWAITED;
    source->end.since_ms = clock_mono_ms();
    list_add_last(&ends->awaited, &source->awaited);
}

void snapshot_ends_release(struct snapshot_ends *ends, struct source *source)
{
    struct report end = {
        .type = REPORT_SNAPSHOT_END,
        .source = REPORT_FROM_TUNNEL,
        .account_id = str_c(source->account_id),
        .runtime = str_c(source->runtime),
        .epoch = source->epoch,
        .sequence = source->end.sequence,
        .observed_at_ms = source->end.observed_at_ms,
        .count = source->end.count,
        .unread = str_c(source->end.unread),
    };
    source->end.state = SOURCE_END_NONE;
    ends->options.submit(ends->options.ctx, source, &end);
}

// ---- verdicts ------------------------------------------------------------------------------------------------------

static void on_verdict(void *arg, const struct error *err, enum snapshot_verdict verdict)
{
    struct question *question = arg;
    struct snapshot_ends *ends = question->ends;
    struct source *source = source_table_find(ends->options.sources, question->ref);
    bool is_ours = source && source->end.state == SOURCE_END_AWAITED && source->end.sequence == question->sequence;
    mem_free(question);
    if (!is_ours) return;
    source->end.is_asking = false;
    if (err) return;
    if (verdict == SNAPSHOT_UNDECIDED) {
        // It may have been lost with whoever applied it, or lie behind much else. Applying it twice changes nothing.
        if (clock_mono_ms() - source->end.since_ms < END_AGAIN_MS) return;
        list_remove(&source->awaited);
        snapshot_ends_release(ends, source);
        return;
    }
    list_remove(&source->awaited);
    source->end.state = SOURCE_END_NONE;
    if (verdict == SNAPSHOT_NEEDS_RESYNC) ends->options.on_resync(ends->options.ctx, source);
}

// Some of those that wait, in turns.
static void on_timer(void *arg)
{
    struct snapshot_ends *ends = arg;
    for (unsigned i = 0; i < VERDICTS_AT_ONCE && !list_is_empty(&ends->awaited); i++) {
        struct source *source = LIST_OWNER(ends->awaited.next, struct source, awaited);
        list_remove(&source->awaited);
        list_add_last(&ends->awaited, &source->awaited);
        if (source->end.is_asking) break; // all others are, too
        source->end.is_asking = true;
        struct question *question = mem_alloc(sizeof *question);
        *question = (struct question){ends, source->ref, source->end.sequence};
        ends->options.find(ends->options.pg, &(struct runtime_key){str_c(source->account_id), str_c(source->runtime)},
                           source->epoch, source->end.sequence, on_verdict, question);
    }
}
