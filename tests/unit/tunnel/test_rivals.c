// tunnel/rivals against a naive model, with a clock of its own. CULVERT_TEST_SEED repeats a run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tunnel/rivals.h"

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

static void test_against_the_model(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    for (unsigned run = 0; run < 200; run++) {
        struct tunnel_rivals rivals = {0};
        uint64_t now = 1000000, seen[STEPS], until = 0;
        unsigned count = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            now += random_below(5) ? random_below(40000) : random_below(1000000);
            if (random_below(2)) {
                seen[count++] = now;
                unsigned within = 0;
                for (unsigned i = 0; i < count; i++)
                    within += now - seen[i] <= 60000;
                bool were = now < until, are = were || within >= 3;
                if (are) until = now + 600000;
                assert_int_equal(tunnel_rivals_took_over(&rivals, now), are && !were);
            } else {
                const char *ids[] = {"pod-1", "pod-10", "pod-2"};
                const char *comes = ids[random_below(3)], *serves = ids[random_below(3)];
                bool waits = now < until && strcmp(comes, serves) > 0;
                if (waits) until = now + 600000;
                assert_int_equal(tunnel_rivals_stands_by(&rivals, comes, serves, now), waits);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_model)};
    return cmocka_run_group_tests(tests, seed, NULL);
}
