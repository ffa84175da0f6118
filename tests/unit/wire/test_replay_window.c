// replay_window against a model that remembers everything.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/wire/replay_window.h"

enum { NUMBERS = 200000, ALWAYS_KNOWN = REPLAY_WINDOW_NUMBERS - 64 };

static void test_in_order(void **state)
{
    (void)state;
    struct replay_window window = {0};
    assert_false(replay_window_take(&window, 0));
    for (uint64_t i = 1; i < 3 * REPLAY_WINDOW_NUMBERS; i++) {
        assert_true(replay_window_take(&window, i));
        assert_false(replay_window_take(&window, i));
        if (i > 10) assert_false(replay_window_take(&window, i - 10));
    }
    assert_false(replay_window_take(&window, 1));
    assert_true(replay_window_take(&window, UINT64_MAX));
    assert_false(replay_window_take(&window, UINT64_MAX));
    assert_true(replay_window_take(&window, UINT64_MAX - 1));
    assert_false(replay_window_take(&window, 3 * REPLAY_WINDOW_NUMBERS));
}

// Out of order, with leaps and repetitions: nothing is ever taken twice, and what is near the
// highest is taken once.
static void test_against_a_model(void **state)
{
    (void)state;
    unsigned seed = 1;
    struct replay_window window = {0};
    bool *seen = mem_array(NUMBERS + 10000, sizeof *seen);
    uint64_t highest = 0;
    while (highest < NUMBERS) {
        uint64_t number = highest + 1 + (uint64_t)(rand_r(&seed) % 8);
        if (rand_r(&seed) % 3 == 0) number = highest > 6000 ? highest - (uint64_t)(rand_r(&seed) % 6000) : 1;
        if (rand_r(&seed) % 1000 == 0) number = highest + (uint64_t)(rand_r(&seed) % 9000) + 1;
        bool taken = replay_window_take(&window, number);
        if (seen[number]) assert_false(taken);
        if (!seen[number] && (number > highest || highest - number < ALWAYS_KNOWN)) assert_true(taken);
        seen[number] = seen[number] || taken;
        if (number > highest) highest = number;
    }
    mem_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_order), cmocka_unit_test(test_against_a_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
