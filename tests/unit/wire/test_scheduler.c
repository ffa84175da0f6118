// The scheduler against a naive model by random operations, and what it promises by properties.
// CULVERT_TEST_SEED repeats a run; the seed is printed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tunnel/wire/scheduler.h"

enum { QUANTUM = WIRE_SCHEDULER_QUANTUM_BYTES, ITEMS = 12 };

static uint64_t random_state;

static uint64_t random_next(void) // splitmix64
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned random_below(unsigned limit)
{
    return (unsigned)(random_next() % limit);
}

static int seed(void **state)
{
    (void)state;
    const char *text = getenv("CULVERT_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 10) : clock_mono_us();
    printf("CULVERT_TEST_SEED=%llu\n", (unsigned long long)random_state);
    return 0;
}

// ---- the model: arrays, and every rule spelled out ---------------------------------------------------------------

struct model_item {
    unsigned urgency, class;
    bool waits, idle;
    size_t left; // of its quantum
    uint64_t sent, idle_at;
};

struct model {
    struct model_item items[ITEMS];
    int queue[WIRE_URGENCIES][ITEMS];
    size_t len[WIRE_URGENCIES];
    uint64_t owed[WIRE_URGENCIES];
};

static unsigned model_class(const struct model_item *item)
{
    if (item->urgency != 0 && item->urgency < 6 && item->sent > 1024 * 1024) return 6;
    return item->urgency;
}

static void model_take_out(struct model *m, int i)
{
    unsigned class = m->items[i].class;
    if (!m->items[i].waits) return;
    size_t at = 0;
    while (m->queue[class][at] != i)
        at++;
    for (; at + 1 < m->len[class]; at++)
        m->queue[class][at] = m->queue[class][at + 1];
    m->len[class]--;
    m->items[i].waits = false;
}

static void model_put_in(struct model *m, int i)
{
    unsigned class = m->items[i].class = model_class(&m->items[i]);
    m->queue[class][m->len[class]++] = i;
    m->items[i].waits = true;
}

static void model_forgive(struct model *m)
{
    for (unsigned c = 0; c < WIRE_URGENCIES; c++)
        if (m->len[c] == 0) m->owed[c] = 0;
}

static int model_next(const struct model *m)
{
    for (int c = WIRE_URGENCIES - 1; c >= 0; c--) {
        bool top = true;
        for (int higher = 0; higher < c; higher++)
            top = top && m->len[higher] == 0;
        if (m->len[c] && (top || m->owed[c] >= 9 * QUANTUM)) return m->queue[c][0];
    }
    return -1;
}

static void model_sent(struct model *m, int i, size_t len)
{
    struct model_item *item = &m->items[i];
    if (item->left == 0) item->left = QUANTUM;
    item->left -= len;
    item->sent += len;
    for (unsigned c = 0; c < WIRE_URGENCIES; c++) {
        if (c == item->class)
            m->owed[c] = m->owed[c] > 9 * len ? m->owed[c] - 9 * len : 0;
        else if (m->len[c])
            m->owed[c] += len;
    }
    if (item->left && item->class == model_class(item)) return;
    model_take_out(m, i);
    model_put_in(m, i);
    model_forgive(m);
}

static void model_step(struct model *m, struct wire_scheduler *s, struct wire_scheduler_item *items, uint64_t now)
{
    static const uint8_t urgencies[] = {0, 1, 3, 6, 7};
    int i = (int)random_below(ITEMS);
    struct model_item *item = &m->items[i];
    switch (random_below(16)) {
    case 0:
    case 1:
        wire_scheduler_ready(s, &items[i], now);
        if (item->waits) break;
        if (item->idle && now - item->idle_at >= 200 * 1000) item->sent = 0;
        item->idle = false;
        model_put_in(m, i);
        break;
    case 2:
        wire_scheduler_idle(s, &items[i], now);
        model_take_out(m, i);
        item->left = 0;
        if (!item->idle) item->idle_at = now;
        item->idle = true;
        break;
    case 3:
        wire_scheduler_block(s, &items[i]);
        model_take_out(m, i);
        item->left = 0;
        break;
    case 4: {
        unsigned urgency = urgencies[random_below(sizeof(urgencies))];
        bool waited = item->waits;
        wire_scheduler_set_urgency(s, &items[i], (enum wire_urgency)urgency);
        item->urgency = urgency;
        if (item->class == model_class(item)) break;
        model_take_out(m, i);
        item->class = model_class(item);
        if (waited) model_put_in(m, i);
        break;
    }
    default: {
        size_t allowance = 0;
        const struct wire_scheduler_item *next = wire_scheduler_next(s, &allowance);
        int expected = model_next(m);
        assert_ptr_equal(next, expected < 0 ? NULL : &items[expected]);
        if (expected < 0) break;
        assert_int_equal(allowance, m->items[expected].left ? m->items[expected].left : QUANTUM);
        size_t len = random_below(3) ? allowance : random_below((unsigned)allowance + 1);
        wire_scheduler_sent(s, &items[expected], len, now);
        model_sent(m, expected, len);
        break;
    }
    }
    model_forgive(m);
}

static void test_against_the_model(void **state)
{
    (void)state;
    for (unsigned run = 0; run < 50; run++) {
        struct wire_scheduler scheduler;
        struct wire_scheduler_item items[ITEMS];
        struct model model;
        memset(&model, 0, sizeof(model));
        wire_scheduler_init(&scheduler);
        for (int i = 0; i < ITEMS; i++) {
            wire_scheduler_item_init(&items[i], WIRE_URGENCY_DEFAULT, 0);
            model.items[i] = (struct model_item){.urgency = 3, .class = 3, .idle = true};
        }
        uint64_t now = 0;
        for (unsigned step = 0; step < 5000; step++) {
            now += random_below(20) ? random_below(2000) : random_below(400 * 1000);
            model_step(&model, &scheduler, items, now);
            unsigned waiting = 0;
            for (int i = 0; i < ITEMS; i++) {
                assert_int_equal(items[i].link != NULL, model.items[i].waits);
                assert_int_equal(items[i].class, model.items[i].class);
                waiting += model.items[i].waits;
            }
            assert_int_equal(scheduler.waiting, waiting);
        }
    }
}

// ---- properties --------------------------------------------------------------------------------------------------

// Streams that always want to send, of the same class: none gets ahead of another by more than a
// quantum and a chunk, however small the chunks.
static void test_fair_inside_a_class(void **state)
{
    (void)state;
    for (unsigned run = 0; run < 50; run++) {
        struct wire_scheduler scheduler;
        struct wire_scheduler_item items[ITEMS];
        uint64_t got[ITEMS] = {0};
        unsigned count = 2 + random_below(ITEMS - 1);
        wire_scheduler_init(&scheduler);
        for (unsigned i = 0; i < count; i++) {
            wire_scheduler_item_init(&items[i], WIRE_URGENCY_BULK, 0);
            wire_scheduler_ready(&scheduler, &items[i], 0);
        }
        for (unsigned step = 0; step < 3000; step++) {
            size_t allowance = 0;
            struct wire_scheduler_item *next = wire_scheduler_next(&scheduler, &allowance);
            assert_in_range(allowance, 1, QUANTUM);
            size_t len = 1 + random_below((unsigned)allowance);
            wire_scheduler_sent(&scheduler, next, len, step);
            got[next - items] += len;
            uint64_t least = UINT64_MAX, most = 0;
            for (unsigned i = 0; i < count; i++) {
                least = got[i] < least ? got[i] : least;
                most = got[i] > most ? got[i] : most;
            }
            assert_true(most - least <= 2 * QUANTUM);
        }
    }
}

// All classes always want to send: each gets its tenth at any time, the first one the rest, and
// bulk is among them.
static void test_every_class_gets_a_tenth(void **state)
{
    (void)state;
    struct wire_scheduler scheduler;
    struct wire_scheduler_item items[4];
    static const enum wire_urgency urgencies[4] = {WIRE_URGENCY_CONTROL, WIRE_URGENCY_DEFAULT, WIRE_URGENCY_BULK, 7};
    uint64_t got[4] = {0}, total = 0;
    wire_scheduler_init(&scheduler);
    for (unsigned i = 0; i < 4; i++) {
        wire_scheduler_item_init(&items[i], urgencies[i], 0);
        wire_scheduler_ready(&scheduler, &items[i], 0);
    }
    for (unsigned step = 0; step < 20000; step++) {
        size_t allowance = 0;
        struct wire_scheduler_item *next = wire_scheduler_next(&scheduler, &allowance);
        size_t len = 1 + random_below((unsigned)allowance);
        wire_scheduler_sent(&scheduler, next, len, step);
        items[1].sent_bytes = 0; // stays what it is
        got[next - items] += len;
        total += len;
        for (unsigned i = 0; i < 4; i++)
            assert_true(got[i] * 10 + 16 * QUANTUM >= total);
    }
    assert_true(got[0] * 10 >= total * 6);
}

static void test_small_goes_before_bulk(void **state)
{
    (void)state;
    struct wire_scheduler scheduler;
    struct wire_scheduler_item bulk, small;
    size_t allowance = 0;
    wire_scheduler_init(&scheduler);
    wire_scheduler_item_init(&bulk, WIRE_URGENCY_DEFAULT, 0);
    wire_scheduler_item_init(&small, WIRE_URGENCY_INTERACTIVE, 0);
    wire_scheduler_ready(&scheduler, &bulk, 0);
    while (bulk.class != WIRE_URGENCY_BULK) {
        assert_ptr_equal(wire_scheduler_next(&scheduler, &allowance), &bulk);
        wire_scheduler_sent(&scheduler, &bulk, allowance, 0);
    }
    assert_in_range(bulk.sent_bytes, WIRE_SCHEDULER_BULK_BYTES, WIRE_SCHEDULER_BULK_BYTES + QUANTUM);
    wire_scheduler_ready(&scheduler, &small, 0);
    for (unsigned i = 0; i < 9; i++) { // until the tenth is due
        assert_ptr_equal(wire_scheduler_next(&scheduler, &allowance), &small);
        wire_scheduler_sent(&scheduler, &small, allowance, 0);
    }
    assert_ptr_equal(wire_scheduler_next(&scheduler, &allowance), &bulk);
    wire_scheduler_sent(&scheduler, &bulk, allowance, 0);
    assert_ptr_equal(wire_scheduler_next(&scheduler, &allowance), &small);
    wire_scheduler_remove(&scheduler, &small);
    wire_scheduler_remove(&scheduler, &bulk);
    wire_scheduler_remove(&scheduler, &bulk);
    assert_null(wire_scheduler_next(&scheduler, &allowance));
}

static void test_a_pause_ends_bulk(void **state)
{
    (void)state;
    struct wire_scheduler scheduler;
    struct wire_scheduler_item item;
    wire_scheduler_init(&scheduler);
    wire_scheduler_item_init(&item, WIRE_URGENCY_INTERACTIVE, 0);
    item.sent_bytes = WIRE_SCHEDULER_BULK_BYTES + 1;
    item.idle = false;
    uint64_t now = 5000000;
    // No credit for ever so long is no pause.
    wire_scheduler_ready(&scheduler, &item, now);
    wire_scheduler_block(&scheduler, &item);
    wire_scheduler_ready(&scheduler, &item, now += 10 * WIRE_SCHEDULER_IDLE_US);
    assert_int_equal(item.class, WIRE_URGENCY_BULK);
    wire_scheduler_idle(&scheduler, &item, now);
    wire_scheduler_idle(&scheduler, &item, now + WIRE_SCHEDULER_IDLE_US / 2); // the pause began before
    wire_scheduler_ready(&scheduler, &item, now += WIRE_SCHEDULER_IDLE_US - 1);
    assert_int_equal(item.class, WIRE_URGENCY_BULK);
    wire_scheduler_idle(&scheduler, &item, now);
    wire_scheduler_ready(&scheduler, &item, now += WIRE_SCHEDULER_IDLE_US);
    assert_int_equal(item.class, WIRE_URGENCY_INTERACTIVE);
    assert_int_equal(item.sent_bytes, 0);
    // What keeps the tunnel going is never bulk.
    wire_scheduler_set_urgency(&scheduler, &item, WIRE_URGENCY_CONTROL);
    item.sent_bytes = 100 * WIRE_SCHEDULER_BULK_BYTES;
    wire_scheduler_sent(&scheduler, &item, 1, now);
    assert_int_equal(item.class, WIRE_URGENCY_CONTROL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_model),        cmocka_unit_test(test_fair_inside_a_class),
        cmocka_unit_test(test_every_class_gets_a_tenth), cmocka_unit_test(test_small_goes_before_bulk),
        cmocka_unit_test(test_a_pause_ends_bulk),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
