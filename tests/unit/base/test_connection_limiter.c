// Who has how many connections, on however many threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/connection_limiter.h"
#include "base/quota.h"

static void test_a_key_stops_at_its_cap(void **state)
{
    (void)state;
    struct connection_limiter *limiter = connection_limiter_create(2);
    assert_true(connection_limiter_enter(limiter, STR("a")));
    assert_true(connection_limiter_enter(limiter, STR("a")));
    assert_false(connection_limiter_enter(limiter, STR("a")));
    assert_true(connection_limiter_enter(limiter, STR("b")));
    assert_true(connection_limiter_enter(limiter, STR("")));
    assert_int_equal(connection_limiter_count(limiter, STR("a")), 2);
    connection_limiter_leave(limiter, STR("a"));
    assert_true(connection_limiter_enter(limiter, STR("a")));
    connection_limiter_leave(limiter, STR("b"));
    assert_int_equal(connection_limiter_count(limiter, STR("b")), 0);
    assert_int_equal(connection_limiter_keys(limiter), 2);
    connection_limiter_destroy(limiter);
}

static void test_many_keys(void **state)
{
    enum { KEYS = 5000 };
    char key[32];
    (void)state;
    struct connection_limiter *limiter = connection_limiter_create(3);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "10.0.%d.%d", i / 256, i % 256);
            assert_true(connection_limiter_enter(limiter, str_c(key)));
        }
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "10.0.%d.%d", i / 256, i % 256);
        assert_false(connection_limiter_enter(limiter, str_c(key)));
        for (int round = 0; round < 3; round++)
            connection_limiter_leave(limiter, str_c(key));
    }
    assert_int_equal(connection_limiter_keys(limiter), 0);
    connection_limiter_destroy(limiter);
}

static void test_no_cap_counts_nothing(void **state)
{
    (void)state;
    struct connection_limiter *limiter = connection_limiter_create(0);
    assert_null(limiter);
    for (int i = 0; i < 100; i++)
        assert_true(connection_limiter_enter(limiter, STR("a")));
    connection_limiter_leave(limiter, STR("a"));
    assert_int_equal(connection_limiter_count(limiter, STR("a")), 0);
    connection_limiter_destroy(limiter);
}

static void test_clients_by_their_addresses(void **state)
{
    static const char *const same[][2] = {{"192.0.2.1", "192.0.2.1"},
                                          {"2001:db8:0:1::5", "2001:db8:0:1::"},
                                          {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
                                          {"?", "?"}};
    char network[INET6_ADDRSTRLEN];
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        connection_limiter_network(same[i][0], network);
        assert_string_equal(network, same[i][1]);
    }
}

enum { THREADS = 4, ROUNDS = 20000, CAP = 3 };

struct shared {
    struct connection_limiter *limiter;
    struct quota quota;
};

// Never more than the cap, seen from inside.
static void *come_and_go(void *arg)
{
    struct shared *shared = arg;
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (connection_limiter_enter(shared->limiter, STR("a"))) {
            wrong += connection_limiter_count(shared->limiter, STR("a")) > CAP;
            connection_limiter_leave(shared->limiter, STR("a"));
        }
        if (quota_take(&shared->quota)) quota_give(&shared->quota);
    }
    return (void *)wrong;
}

static void test_threads_share_a_cap(void **state)
{
    (void)state;
    struct shared shared = {.limiter = connection_limiter_create(CAP), .quota = {.max = CAP}};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &shared), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(connection_limiter_keys(shared.limiter), 0);
    assert_int_equal(shared.quota.used, 0);
    for (int i = 0; i < CAP; i++)
        assert_true(quota_take(&shared.quota));
    assert_false(quota_take(&shared.quota) || quota_has_room(&shared.quota));
    quota_give(&shared.quota);
    assert_true(quota_has_room(&shared.quota) && quota_take(&shared.quota));
    connection_limiter_destroy(shared.limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_stops_at_its_cap), cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_no_cap_counts_nothing),  cmocka_unit_test(test_clients_by_their_addresses),
        cmocka_unit_test(test_threads_share_a_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
