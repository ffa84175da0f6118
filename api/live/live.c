#include "api/live/live.h"

#include <assert.h>

#include "api/http/request.h"
#include "api/live/live_stream.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { TICK_MS = 100 };

static void on_tick(void *arg)
{
    struct live *live = arg;
    uint64_t now_ms = clock_mono_ms();
    for (struct list *at = live->streams.next, *next; at != &live->streams; at = next) {
        next = at->next;
        live_stream_tick(LIST_OWNER(at, struct live_stream, entry), now_ms);
    }
    live_run_due(live); // here, where streams may go
}

struct live *live_create(const struct live_options *options)
{
    struct live *live = mem_zalloc(sizeof *live);
    live->options = *options;
    list_init(&live->streams);
    list_init(&live->due);
    list_init(&live->refreshes);
    timer_init(&live->tick, loop_uv(options->loop), on_tick, live);
    timer_start(&live->tick, TICK_MS, TICK_MS);
    live->open = metric_with(metrics_gauge("culvert_live_streams", "Open subscriptions.", NULL));
    live->frames = metric_with(metrics_counter("culvert_live_events_total", "Events sent to subscribers.", NULL));
    live->deltas = metric_with(metrics_counter("culvert_live_deltas_total", "Objects sent to subscribers.", NULL));
    live->bytes = metric_with(metrics_counter("culvert_live_bytes_total", "Bytes sent to subscribers.", NULL));
    live->failed_reads = metric_with(metrics_counter("culvert_live_failed_reads_total",
                                                     "Reads for subscribers that failed and are repeated.", NULL));
    live->ended = metrics_counter("culvert_live_ended_total", "Subscriptions that ended.", "reason", NULL);
    live->refused = metrics_counter("culvert_live_refused_total", "Subscriptions refused by a limit.", "limit", NULL);
    return live;
}

void live_stop(struct live *live)
{
    if (!live || live->is_stopped) return;
    live->is_stopped = true;
    timer_finish(&live->tick);
    for (struct list *at = live->streams.next, *next; at != &live->streams; at = next) {
        next = at->next;
        live_stream_end(LIST_OWNER(at, struct live_stream, entry), "stopped", NULL, NULL);
    }
}

void live_destroy(struct live *live)
{
    if (!live) return;
    live_stop(live);
    assert(list_is_empty(&live->streams) && live->count == 0);
    mem_free(live);
}

size_t live_count(const struct live *live)
{
    return live->count;
}

void live_take_changes(struct live *live, const struct changes *changes)
{
    size_t count;
    const struct change *items = changes_items(changes, &count);
    for (struct list *at = live->streams.next; at != &live->streams; at = at->next) {
        struct live_stream *stream = LIST_OWNER(at, struct live_stream, entry);
        if (!stream->window.type || !str_eq(changes_account(changes), str_c(stream->principal.account_id))) continue;
        bool any = false;
        for (size_t i = 0; i < count; i++)
            any |= live_window_mark(&stream->window, &items[i]);
        if (any) live_stream_touch(stream);
    }
    live_run_due(live);
}

void live_subscribe(struct live *live, struct api_request *request, json_t *body)
{
    live->api = request->api;
    if (!live->is_stopped) {
        live_stream_open(live, request, body);
        return;
    }
    json_decref(body);
    api_respond_problem(request, 503, "unavailable", "the platform is stopping");
}
