#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>

#include "agent/calls/identity_cache.h"

static const uint8_t key[ID_SHA256_BYTES] = {1, 2, 3};

static void test_bound_to_text_key_and_time(void **state)
{
    (void)state;
    struct identity_cache *cache = identity_cache_create();
    uint8_t other_key[ID_SHA256_BYTES] = {1, 2, 4};
    struct str text = STR("eyJhIjoxfQ.c2lnbmF0dXJl");
    assert_false(identity_cache_find(cache, text, key, 1000));
    assert_false(identity_cache_find(cache, STR_EMPTY, key, 0));
    identity_cache_put(cache, text, key, 2000);
    assert_true(identity_cache_find(cache, text, key, 1000));
    assert_true(identity_cache_find(cache, text, key, 2000));
    assert_false(identity_cache_find(cache, text, key, 2001));
    assert_false(identity_cache_find(cache, text, other_key, 1000));
    // The same end, which is what the slot hangs on, and another body.
    assert_false(identity_cache_find(cache, STR("eyJhIjoyfQ.c2lnbmF0dXJl"), key, 1000));
    assert_false(identity_cache_find(cache, STR("yJhIjoxfQ.c2lnbmF0dXJl"), key, 1000));
    identity_cache_destroy(cache);
}

static void test_bounded(void **state)
{
    (void)state;
    struct identity_cache *cache = identity_cache_create();
    char text[IDENTITY_CACHE_TEXT_BYTES_MAX + 1];
    memset(text, 'a', sizeof(text));
    identity_cache_put(cache, str_of(text, sizeof(text)), key, 2000); // too long: forgotten
    assert_false(identity_cache_find(cache, str_of(text, sizeof(text)), key, 1000));
    identity_cache_put(cache, str_of(text, sizeof(text) - 1), key, 2000);
    assert_true(identity_cache_find(cache, str_of(text, sizeof(text) - 1), key, 1000));
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(text, sizeof(text), "%d.%d", i, i * 7919);
        identity_cache_put(cache, str_of(text, (size_t)n), key, 2000);
        assert_true(identity_cache_find(cache, str_of(text, (size_t)n), key, 1000));
    }
    identity_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_to_text_key_and_time),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
