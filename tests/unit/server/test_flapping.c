// flapping: who is noisy and for how long, what is told of it, and that memory is bounded. Time is the
// test's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/intake/flapping.h"

enum { BURST = 10, INTERVAL_MS = 2000, OBJECTS_MAX = 50 };

static struct {
    struct loop *loop;
    struct flapping *flapping;
    uint64_t now_ms;
    char told[4096]; // "account: runtime/kind/ns/name changes, ...;"
} bench;

static void fake_put(struct pg *pg, const char *account_id, const struct flapping_finding *findings, size_t count,
                     store_count_done on_done, void *arg)
{
    (void)pg;
    size_t len = strlen(bench.told);
    len += (size_t)snprintf(bench.told + len, sizeof bench.told - len, "%s:", account_id);
    assert_true(count > 0 && count <= FLAPPING_FINDINGS_MAX);
    for (size_t i = 0; i < count && len < sizeof bench.told; i++) {
        const struct flapping_finding *f = &findings[i];
        assert_true(f->since_ms > 0);
        len += (size_t)snprintf(bench.told + len, sizeof bench.told - len, " %.*s/%.*s/%.*s/%.*s %llu",
                                STR_ARG(f->runtime), STR_ARG(f->kind), STR_ARG(f->ns), STR_ARG(f->name),
                                (unsigned long long)f->changes);
    }
    assert_true(len < sizeof bench.told - 1);
    memcpy(bench.told + len, ";", 2);
    on_done(arg, NULL, count);
}

static int set_up(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    bench.loop = loop_create("test", 0);
    bench.flapping = flapping_create(bench.loop, &(struct flapping_options){.burst = BURST,
                                                                            .interval_ms = INTERVAL_MS,
                                                                            .objects_max = OBJECTS_MAX,
                                                                            .flush_ms = 3600 * 1000,
                                                                            .put = fake_put});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    flapping_stop(bench.flapping);
    flapping_destroy(bench.flapping);
    loop_stop(bench.loop);
    loop_run(bench.loop);
    loop_destroy(bench.loop);
    return 0;
}

static void change(const char *account, const char *name, enum report_result result, uint64_t now_ms)
{
    struct report report = {.type = REPORT_OBJECT,
                            .account_id = str_c(account),
                            .runtime = STR("r"),
                            .ref.group = STR("apps"),
                            .ref.kind = STR("K"),
                            .ref.ns = STR("n"),
                            .ref.name = str_c(name)};
    struct report_outcome outcome = {.result = result};
    bench.now_ms = now_ms;
    flapping_take(bench.flapping, &report, &outcome, 1, now_ms);
}

static void expect(const char *told)
{
    flapping_flush(bench.flapping, bench.now_ms);
    assert_string_equal(bench.told, told);
    bench.told[0] = '\0';
}

static void bursts_are_no_flapping(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 5; round++)
        for (int i = 0; i < BURST; i++)
            change("a", "x", REPORT_APPLIED, 1000 + round * BURST * INTERVAL_MS);
    for (int i = 0; i < 100; i++) // what changed nothing is no change
        change("a", "y", REPORT_UNCHANGED, 1000);
    for (uint64_t i = 0; i < 100; i++) // once an interval, for ever
        change("a", "z", REPORT_APPLIED, 1000 + i * INTERVAL_MS);
    expect("");
}

static void flapping_is_told_until_it_is_over(void **state)
{
    (void)state;
    uint64_t now = 1000;
    for (int i = 0; i < BURST + 5; i++)
        change("a", "x", REPORT_APPLIED, now);
    for (int i = 0; i < BURST; i++)
        change("a", "quiet", REPORT_APPLIED, now);
    for (int i = 0; i < BURST + 2; i++)
        change("b", "x", REPORT_APPLIED, now);
    expect("a: r/K/n/x 5;b: r/K/n/x 2;");
    expect("");                  // nothing new
    for (int i = 0; i < 20; i++) // twice an interval: it goes on
        change("a", "x", REPORT_APPLIED, now += INTERVAL_MS / 2);
    expect("a: r/K/n/x 20;");
    now += INTERVAL_MS * BURST; // quiet for long enough: a new burst is free again
    for (int i = 0; i < BURST; i++)
        change("a", "x", REPORT_APPLIED, now);
    expect("");
    change("a", "x", REPORT_APPLIED, now);
    expect("a: r/K/n/x 1;");
}

static void memory_is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < BURST + 1; i++)
        change("a", "x", REPORT_APPLIED, 1000);
    char name[32];
    for (int i = 0; i < 10 * OBJECTS_MAX; i++) {
        snprintf(name, sizeof name, "other-%d", i);
        change("a", name, REPORT_APPLIED, 1000);
        if (i % 10 == 0) change("a", "x", REPORT_APPLIED, 1000); // stays, because it goes on
        assert_true(flapping_count(bench.flapping) <= OBJECTS_MAX);
    }
    expect("a: r/K/n/x 51;");
}

static void many_are_told_in_parts(void **state)
{
    (void)state;
    flapping_destroy(bench.flapping);
    bench.flapping = flapping_create(
        bench.loop,
        &(struct flapping_options){
            .burst = 1, .interval_ms = INTERVAL_MS, .objects_max = 1000, .flush_ms = 3600 * 1000, .put = fake_put});
    char name[32];
    for (int i = 0; i < FLAPPING_FINDINGS_MAX + 1; i++) {
        snprintf(name, sizeof name, "%d", i);
        change("a", name, REPORT_APPLIED, 1000);
        change("a", name, REPORT_APPLIED, 1000);
    }
    flapping_flush(bench.flapping, 1000);
    size_t calls = 0;
    for (const char *at = bench.told; (at = strchr(at, ';')); at++)
        calls++;
    assert_int_equal(calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bursts_are_no_flapping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flapping_is_told_until_it_is_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_are_told_in_parts, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
