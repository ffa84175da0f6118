#include "tests/sim/schedule.h"

#include <openssl/rand.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { START_US = 1000 * 1000 * 1000 };

struct event {
    struct timer timer;
    timer_fn fn;
    void *arg;
    struct event *next, **link;
};

static uint64_t state;
static struct event *events;

// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
static uint64_t draw(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int on_random_bytes(unsigned char *out, int len)
{
    for (int i = 0; i < len; i += 8) {
        uint64_t value = draw();
        memcpy(out + i, &value, len - i < 8 ? (size_t)(len - i) : 8);
    }
    return 1;
}

static int on_random_status(void)
{
    return 1;
}

// The interface of OpenSSL 1 is the one that takes a function.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void take_over_randomness(void)
{
    static const RAND_METHOD method = {
        .bytes = on_random_bytes, .pseudorand = on_random_bytes, .status = on_random_status};
    RAND_set_rand_method(&method);
}

void schedule_begin(uint64_t seed)
{
    state = seed;
    take_over_randomness();
    clock_simulate(START_US, INT64_C(1767225600000));
}

uint64_t schedule_below(uint64_t bound)
{
    return draw() % bound;
}

uint64_t schedule_spread(uint64_t min, uint64_t max)
{
    uint64_t span = max - min + 1;
    return min + (schedule_percent(80) ? schedule_below(span / 8 + 1) : schedule_below(span));
}

static void event_free(struct event *event)
{
    *event->link = event->next;
    if (event->next) event->next->link = event->link;
    timer_finish(&event->timer);
    mem_free(event);
}

static void on_event(void *arg)
{
    struct event *event = arg;
    timer_fn fn = event->fn;
    void *fn_arg = event->arg;
    event_free(event);
    fn(fn_arg);
}

void schedule_after(uint64_t after_ms, timer_fn fn, void *arg)
{
    struct event *event = mem_zalloc(sizeof *event);
    event->fn = fn;
    event->arg = arg;
    event->next = events;
    event->link = &events;
    if (events) events->link = &event->next;
    events = event;
    timer_init(&event->timer, NULL, on_event, event);
    timer_start(&event->timer, after_ms, 0);
}

void schedule_forget(void *arg)
{
    for (struct event *event = events, *next; event; event = next) {
        next = event->next;
        if (event->arg == arg) event_free(event);
    }
}

void schedule_end(void)
{
    while (events)
        event_free(events);
}

void schedule_run_ms(uint64_t ms)
{
    uint64_t until_ms = clock_mono_ms() + ms;
    while (timer_simulate(until_ms))
        continue;
}
