// share: what an account and a runtime may hold of a queue, and that nothing is left of those who
// hold nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/intake/share.h"

static void a_runtime_reaches_its_limit_alone(void **state)
{
    (void)state;
    struct share *share = share_create(&(struct share_options){.account_bytes_max = 100, .runtime_bytes_max = 40});
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r1")}), SHARE_FREE);
    share_take(share, &(struct runtime_key){STR("a"), STR("r1")}, 39);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r1")}), SHARE_FREE);
    share_take(share, &(struct runtime_key){STR("a"), STR("r1")}, 1);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r1")}), SHARE_RUNTIME);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r2")}), SHARE_FREE);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("b"), STR("r1")}), SHARE_FREE);
    share_give_back(share, &(struct runtime_key){STR("a"), STR("r1")}, 1);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r1")}), SHARE_FREE);
    share_give_back(share, &(struct runtime_key){STR("a"), STR("r1")}, 39);
    share_destroy(share);
}

static void an_account_reaches_its_limit_with_all_its_runtimes(void **state)
{
    (void)state;
    struct share *share = share_create(&(struct share_options){.account_bytes_max = 100, .runtime_bytes_max = 40});
    share_take(share, &(struct runtime_key){STR("a"), STR("r1")}, 39);
    share_take(share, &(struct runtime_key){STR("a"), STR("r2")}, 39);
    share_take(share, &(struct runtime_key){STR("a"), STR("r3")}, 30); // whoever is below takes one more, however large
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r1")}), SHARE_ACCOUNT);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r4")}), SHARE_ACCOUNT);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("b"), STR("r4")}), SHARE_FREE);
    // Names do not run into each other.
    assert_int_equal(share_over(share, &(struct runtime_key){STR("ar"), STR("1")}), SHARE_FREE);
    share_give_back(share, &(struct runtime_key){STR("a"), STR("r2")}, 39);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r4")}), SHARE_FREE);
    share_destroy(share); // with what is left
}

static void without_limits_nobody_is_over(void **state)
{
    (void)state;
    struct share *share = share_create(&(struct share_options){0});
    share_take(share, &(struct runtime_key){STR("a"), STR("r")}, SIZE_MAX / 4);
    assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r")}), SHARE_FREE);
    share_destroy(share);
}

static void many_come_and_go(void **state)
{
    (void)state;
    enum { RUNTIMES = 5000 };
    struct share *share = share_create(&(struct share_options){.account_bytes_max = RUNTIMES, .runtime_bytes_max = 2});
    char name[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < RUNTIMES; i++) {
            snprintf(name, sizeof name, "r%d", i);
            assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), str_c(name)}), SHARE_FREE);
            share_take(share, &(struct runtime_key){STR("a"), str_c(name)}, 1);
        }
        assert_int_equal(share_over(share, &(struct runtime_key){STR("a"), STR("r")}), SHARE_ACCOUNT);
        for (int i = RUNTIMES; i-- > 0;) {
            snprintf(name, sizeof name, "r%d", i);
            share_give_back(share, &(struct runtime_key){STR("a"), str_c(name)}, 1);
        }
    }
    share_destroy(share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_reaches_its_limit_alone),
        cmocka_unit_test(an_account_reaches_its_limit_with_all_its_runtimes),
        cmocka_unit_test(without_limits_nobody_is_over),
        cmocka_unit_test(many_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
