// The rule of stream windows on simulated paths with a clock of their own: that it fills every
// path, that it makes no long queues in front of others, that it gives back what a stream does not
// need any more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/wire/window.h"

enum { STREAMS_MAX = 16, EVENTS_MAX = 16384, PACKET_BYTES = 16 * 1024, SECOND_US = 1000000 };

// A path: the sender puts what it has credit for into one queue, which drains at `rate`, and it
// takes rtt_us for bytes to arrive and credit to come back. The consumer takes a packet at once, or
// after consume_us where it is slow.
struct event {
    uint64_t at_us;
    unsigned stream;
    size_t bytes;
    enum { EVENT_CREDIT, EVENT_ARRIVAL, EVENT_CONSUMED } type;
};

struct path {
    double bytes_per_us;
    uint64_t rtt_us;
    uint64_t consume_us[STREAMS_MAX]; // a packet
    uint64_t starts_us[STREAMS_MAX], ends_us;
    unsigned streams;

    uint64_t now_us, queue_free_us;
    uint64_t consumer_free_us[STREAMS_MAX];
    struct wire_window windows[STREAMS_MAX];
    uint64_t unconsumed[STREAMS_MAX];
    double later_bytes_per_us; // from the middle of the run on, if not 0
    uint64_t bytes_max;        // 0: no budget
    struct event *heap;
    size_t events;
    // In the last half of the run:
    uint64_t delivered, queue_us_max;
    uint64_t delivered_by[STREAMS_MAX];
};

static void path_add(struct path *path, struct event event)
{
    assert_true(path->events < EVENTS_MAX);
    size_t at = path->events++;
    for (; at && path->heap[(at - 1) / 2].at_us > event.at_us; at = (at - 1) / 2)
        path->heap[at] = path->heap[(at - 1) / 2];
    path->heap[at] = event;
}

static struct event path_take(struct path *path)
{
    struct event first = path->heap[0], last = path->heap[--path->events];
    size_t at = 0;
    for (size_t child = 1; child < path->events; child = at * 2 + 1) {
        if (child + 1 < path->events && path->heap[child + 1].at_us < path->heap[child].at_us) child++;
        if (path->heap[child].at_us >= last.at_us) break;
        path->heap[at] = path->heap[child];
        at = child;
    }
    path->heap[at] = last;
    return first;
}

static void on_credit(struct path *path, const struct event *event)
{
    for (size_t left = event->bytes; left;) {
        size_t len = left < PACKET_BYTES ? left : PACKET_BYTES;
        if (path->queue_free_us < path->now_us) path->queue_free_us = path->now_us;
        path->queue_free_us += (uint64_t)((double)len / path->bytes_per_us) + 1;
        path_add(path, (struct event){path->queue_free_us + path->rtt_us / 2, event->stream, len, EVENT_ARRIVAL});
        left -= len;
    }
    uint64_t queue_us = path->queue_free_us - path->now_us;
    if (path->now_us > path->ends_us / 2 && queue_us > path->queue_us_max) path->queue_us_max = queue_us;
}

static void on_arrival(struct path *path, const struct event *event)
{
    unsigned i = event->stream;
    wire_window_received(&path->windows[i], path->unconsumed[i]);
    path->unconsumed[i] += event->bytes;
    if (path->now_us > path->ends_us / 2) path->delivered += event->bytes;
    if (path->now_us > path->ends_us / 2) path->delivered_by[i] += event->bytes;
    if (path->consumer_free_us[i] < path->now_us) path->consumer_free_us[i] = path->now_us;
    path->consumer_free_us[i] += path->consume_us[i];
    path_add(path, (struct event){path->consumer_free_us[i], i, event->bytes, EVENT_CONSUMED});
}

static void on_consumed(struct path *path, const struct event *event)
{
    unsigned i = event->stream;
    path->unconsumed[i] -= event->bytes;
    uint32_t credit = wire_window_consumed(&path->windows[i], event->bytes, path->now_us, path->rtt_us,
                                           path->bytes_max ? path->bytes_max : WIRE_WINDOW_BYTES_MAX);
    if (!credit) return;
    path_add(path, (struct event){path->now_us + path->rtt_us - path->rtt_us / 2, i, credit, EVENT_CREDIT});
}

static void path_run(struct path *path, uint64_t us)
{
    path->heap = mem_array(EVENTS_MAX, sizeof(*path->heap));
    path->ends_us = us;
    for (unsigned i = 0; i < path->streams; i++) {
        wire_window_init(&path->windows[i], path->starts_us[i]);
        path_add(path, (struct event){path->starts_us[i], i, WIRE_WINDOW_BYTES, EVENT_CREDIT});
    }
    while (path->events && path->heap[0].at_us < us) {
        struct event event = path_take(path);
        path->now_us = event.at_us;
        if (path->later_bytes_per_us != 0 && path->now_us > us / 2) path->bytes_per_us = path->later_bytes_per_us;
        switch (event.type) {
        case EVENT_CREDIT: on_credit(path, &event); break;
        case EVENT_ARRIVAL: on_arrival(path, &event); break;
        case EVENT_CONSUMED: on_consumed(path, &event); break;
        }
    }
    mem_free(path->heap);
}

static uint64_t fast_us(const struct path *path)
{
    return 2 * path->rtt_us > WIRE_WINDOW_ROUND_US ? 2 * path->rtt_us : WIRE_WINDOW_ROUND_US;
}

static void test_every_path_is_filled_and_no_queue_is_long(void **state)
{
    (void)state;
    static const double rates[] = {1, 12.5, 125, 600, 1250}; // MB/s = bytes a microsecond
    static const uint64_t rtts_us[] = {40, 200, 1000, 10000, 50000, 200000};
    static const unsigned streams[] = {1, 2, 7, 16};
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++)
        for (size_t t = 0; t < sizeof(rtts_us) / sizeof(rtts_us[0]); t++)
            for (size_t n = 0; n < sizeof(streams) / sizeof(streams[0]); n++) {
                struct path path = {.bytes_per_us = rates[r], .rtt_us = rtts_us[t], .streams = streams[n]};
                uint64_t us = 200 * path.rtt_us + SECOND_US;
                path_run(&path, us);
                double possible = (double)WIRE_WINDOW_BYTES_MAX * path.streams / (double)path.rtt_us;
                if (possible > rates[r]) possible = rates[r];
                double reached = (double)path.delivered / ((double)us / 2);
                // What the streams' first windows make cannot be avoided; above it, a few round
                // trips.
                uint64_t first_us = (uint64_t)((double)(path.streams * WIRE_WINDOW_BYTES) / rates[r]);
                uint64_t bound_us = first_us + 2 * fast_us(&path);
                if (reached < 0.8 * possible || path.queue_us_max > bound_us)
                    fail_msg("%.1f MB/s, %llu us, %u streams: reached %.1f of %.1f MB/s, a queue of %llu us (%llu)",
                             rates[r], (unsigned long long)path.rtt_us, path.streams, reached, possible,
                             (unsigned long long)path.queue_us_max, (unsigned long long)bound_us);
            }
}

static void test_a_long_path_is_filled_soon(void **state)
{
    (void)state;
    struct path path = {.bytes_per_us = 60, .rtt_us = 50000, .streams = 1};
    path_run(&path, 2 * SECOND_US); // the second of them counts
    assert_true((double)path.delivered / SECOND_US > 0.8 * 60);
    assert_true(path.windows[0].bytes >= 2 * 1024 * 1024);
}

static void test_a_slow_consumer_gets_no_more(void **state)
{
    (void)state;
    // 10 MB/s of consumer behind 600 MB/s of path; the other stream's consumer is fast.
    struct path path = {.bytes_per_us = 600, .rtt_us = 10000, .streams = 2, .consume_us = {PACKET_BYTES / 2, 0}};
    path_run(&path, 2 * SECOND_US);
    assert_true(path.windows[0].bytes <= 4 * WIRE_WINDOW_BYTES);
    assert_true(path.windows[1].bytes >= 1024 * 1024);
    assert_true((double)path.delivered_by[0] / SECOND_US > 0.8 * 2);
}

static void test_what_is_not_needed_any_more_goes_back(void **state)
{
    (void)state;
    // A fast path that becomes a slow one: 4 MiB would be 800 ms of it.
    struct path path = {.bytes_per_us = 300, .later_bytes_per_us = 5, .rtt_us = 10000, .streams = 1};
    path_run(&path, 20 * SECOND_US);
    assert_true(path.windows[0].bytes <= 8 * WIRE_WINDOW_BYTES);
    assert_true((double)path.delivered / (10 * SECOND_US) > 0.8 * 5);
    struct path fast = {.bytes_per_us = 300, .rtt_us = 10000, .streams = 1};
    path_run(&fast, SECOND_US);
    assert_true(fast.windows[0].bytes >= 2 * 1024 * 1024);
}

static void test_budgets_stop_growth_and_leave_something(void **state)
{
    (void)state;
    struct path path = {.bytes_per_us = 300, .rtt_us = 10000, .streams = 1, .bytes_max = 300 * 1024};
    path_run(&path, SECOND_US);
    assert_int_equal(path.windows[0].bytes, 256 * 1024);
    struct path pressed = {.bytes_per_us = 300, .rtt_us = 10000, .streams = 2, .bytes_max = 1};
    path_run(&pressed, SECOND_US);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pressed.windows[i].bytes, WIRE_WINDOW_BYTES_MIN);
        uint32_t bytes = 0; // and when there is room again it has its first window back
        for (unsigned turn = 0; turn < 8; turn++)
            bytes += wire_window_consumed(&pressed.windows[i], WIRE_WINDOW_BYTES_MIN, (1 + turn) * 60 * SECOND_US,
                                          10000, WIRE_WINDOW_BYTES_MAX);
        assert_int_equal(pressed.windows[i].bytes, WIRE_WINDOW_BYTES);
        assert_true(bytes > WIRE_WINDOW_BYTES);
        assert_true(pressed.delivered_by[i] > 40 * WIRE_WINDOW_BYTES_MIN); // a window a round trip, in half a second
    }
}

static uint64_t random_state;

static unsigned random_below(unsigned limit) // splitmix64
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % limit);
}

static int seed(void **state)
{
    (void)state;
    const char *text = getenv("CULVERT_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 10) : clock_mono_us();
    printf("CULVERT_TEST_SEED=%llu\n", (unsigned long long)random_state);
    return 0;
}

// Whatever happens: the peer never has more out than the largest window there was since it could
// send last, none of its credit is lost, and it is never left without any for good.
static void test_credit_is_neither_lost_nor_made_up(void **state)
{
    (void)state;
    for (unsigned run = 0; run < 200; run++) {
        struct wire_window window;
        uint64_t now_us = 1000, peer = WIRE_WINDOW_BYTES, unconsumed = 0;
        wire_window_init(&window, now_us);
        for (unsigned step = 0; step < 2000; step++) {
            now_us += random_below(3) ? random_below(300) : random_below(100000);
            uint64_t arrives = random_below(2) ? peer : peer / (1 + random_below(4));
            wire_window_received(&window, unconsumed);
            peer -= arrives;
            unconsumed += arrives;
            uint64_t taken = random_below(2) ? unconsumed : unconsumed / (1 + random_below(4));
            uint64_t bytes_max = random_below(4) ? WIRE_WINDOW_BYTES_MAX : random_below(WIRE_WINDOW_BYTES_MAX);
            uint32_t before = window.bytes;
            uint32_t credit = wire_window_consumed(&window, taken, now_us, random_below(2000), bytes_max);
            unconsumed -= taken;
            peer += credit;
            assert_in_range(window.bytes, WIRE_WINDOW_BYTES_MIN, WIRE_WINDOW_BYTES_MAX);
            if (window.bytes > before) assert_true(window.bytes <= bytes_max && window.bytes == 2 * before);
            assert_true((int64_t)(peer + unconsumed) + window.owed_bytes == (int64_t)window.bytes);
            if (unconsumed == 0) assert_true(peer > 0);
        }
    }
}

static void test_the_shortest_round_trip(void **state)
{
    (void)state;
    struct wire_rtt rtt = {0};
    wire_rtt_measured(&rtt, 20000, false); // behind the agent's first snapshot
    assert_int_equal(rtt.shortest_us, 20000);
    wire_rtt_measured(&rtt, 800, true);
    assert_int_equal(rtt.shortest_us, 800);
    for (unsigned i = 0; i < 100; i++)
        wire_rtt_measured(&rtt, 50000, false); // its own queue
    assert_int_equal(rtt.shortest_us, 800);
    assert_true(rtt.smooth_us > 49000);
    for (unsigned i = 0; i < 100; i++)
        wire_rtt_measured(&rtt, 3000, true); // the path has become longer
    assert_true(rtt.shortest_us > 2900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_path_is_filled_and_no_queue_is_long),
        cmocka_unit_test(test_a_long_path_is_filled_soon),
        cmocka_unit_test(test_a_slow_consumer_gets_no_more),
        cmocka_unit_test(test_what_is_not_needed_any_more_goes_back),
        cmocka_unit_test(test_budgets_stop_growth_and_leave_something),
        cmocka_unit_test(test_credit_is_neither_lost_nor_made_up),
        cmocka_unit_test(test_the_shortest_round_trip),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
