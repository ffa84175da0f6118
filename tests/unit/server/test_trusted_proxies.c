// Which proxies are believed, and how requests are named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "server/proxy/request_id.h"
#include "server/proxy/trusted_proxies.h"

static void test_networks(void **state)
{
    struct trusted_proxies proxies;
    struct error err;
    (void)state;
    assert_int_equal(
        trusted_proxies_parse(STR(" 10.0.0.0/8, 192.168.1.7,::1 , 2001:db8::/33,172.16.0.0/12"), &proxies, &err),
        ERROR_NONE);
    static const char *const inside[] = {"10.1.2.3",   "192.168.1.7",    "::1", "2001:db8:7fff::1", "172.31.0.1",
                                         "172.16.0.0", "::ffff:10.9.9.9"};
    static const char *const outside[] = {"11.0.0.1", "192.168.1.8", "::2",     "2001:db8:8000::1", "172.32.0.1",
                                          "",         "10.0.0",      "unknown", "::ffff:11.0.0.1",  "10.0.0.1:80"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        assert_true(trusted_proxies_have(&proxies, str_c(inside[i])));
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_false(trusted_proxies_have(&proxies, str_c(outside[i])));
    assert_int_equal(trusted_proxies_parse(STR("0.0.0.0/0"), &proxies, &err), ERROR_NONE);
    assert_true(trusted_proxies_have(&proxies, STR("8.8.8.8")));
    assert_false(trusted_proxies_have(&proxies, STR("::1")));
    assert_int_equal(trusted_proxies_parse(STR("  "), &proxies, &err), ERROR_NONE);
    assert_int_equal(proxies.count, 0);
}

static void test_networks_that_are_none(void **state)
{
    static const char *const bad[] = {"10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/-1",
                                      "10.0.0.0/8x", "::/129",     "localhost", ",",
                                      "10.0.0.0/8,", "1.2.3",      "::1/0",     "/8"};
    struct trusted_proxies proxies;
    struct error err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_not_equal(trusted_proxies_parse(str_c(bad[i]), &proxies, &err), ERROR_NONE);
}

static void test_request_ids_are_uuids(void **state)
{
    uint64_t seed[2] = {1, 2};
    char id[REQUEST_ID_BYTES], last[REQUEST_ID_BYTES] = "";
    (void)state;
    for (int i = 0; i < 1000; i++) {
        request_id_make(seed, id);
        assert_int_equal(strlen(id), 36);
        assert_int_equal(strspn(id, "0123456789abcdef-"), 36);
        assert_true(id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-');
        assert_int_equal(id[14], '7');
        assert_non_null(strchr("89ab", id[19]));
        assert_string_not_equal(id, last);
        memcpy(last, id, sizeof last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_networks_that_are_none),
        cmocka_unit_test(test_request_ids_are_uuids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
