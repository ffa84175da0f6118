// failed_sign_ins: whose credentials are looked at, and whose not any more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/chores/failed_sign_ins.h"

enum { PER_ADDRESS = 50, PER_KEY = 10 };

static bool is_proxy(void *ctx, struct str address)
{
    (void)ctx;
    return str_eq(address, STR("198.51.100.1"));
}

static struct failed_sign_ins *create(void)
{
    return failed_sign_ins_create(
        &(struct failed_sign_ins_options){.per_address = PER_ADDRESS, .per_key = PER_KEY, .is_proxy = is_proxy});
}

static struct token new_token(void)
{
    char text[TOKEN_TEXT_BYTES];
    struct token token;
    token_generate(&token, text);
    return token;
}

static enum error_code check(struct failed_sign_ins *failed, const char *remote, const struct token *token)
{
    struct error err;
    return failed_sign_ins_check(failed, str_c(remote), token, &err);
}

static void by_address(void **state)
{
    (void)state;
    struct failed_sign_ins *failed = create();
    struct token token = new_token(), good = new_token();
    failed_sign_ins_note_good(failed, &good);
    for (unsigned i = 0; i < 2 * PER_ADDRESS; i++) {
        char id[32], address[64];
        snprintf(id, sizeof id, "id-%u", i);
        snprintf(address, sizeof address, "2001:db8::%x", i); // one network
        failed_sign_ins_note(failed, STR("192.0.2.1"), str_c(id));
        failed_sign_ins_note(failed, str_c(address), str_c(id));
        failed_sign_ins_note(failed, STR("198.51.100.1"), str_c(id));
    }
    assert_int_equal(check(failed, "192.0.2.1", &token), ERROR_LIMITED);
    assert_int_equal(check(failed, "192.0.2.1", NULL), ERROR_LIMITED);
    assert_int_equal(check(failed, "192.0.2.1", &good), ERROR_NONE);
    assert_int_equal(check(failed, "2001:db8::ffff", &token), ERROR_LIMITED);
    assert_int_equal(check(failed, "2001:db9::1", &token), ERROR_NONE);
    assert_int_equal(check(failed, "192.0.2.2", &token), ERROR_NONE);
    assert_int_equal(check(failed, "198.51.100.1", &token), ERROR_NONE); // a proxy
    assert_int_equal(check(failed, "", &token), ERROR_NONE);
    failed_sign_ins_destroy(failed);
}

// One client is one, with a port or without, and wherever in its /64 it is.
static void forms_of_an_address(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"192.0.2.1:40000", "192.0.2.1"},
        {"192.0.2.1", "192.0.2.1:1"},
        {"2001:db8:0:1:2:3:4:5", "2001:db8:0:1:6:7:8:9"},
        {"[2001:db8:0:1:2:3:4:5]:40000", "2001:db8:0:1::1"},
        {"2001:db8:0:1::", "[2001:db8:0:1::2]:1"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct failed_sign_ins *failed = create();
        struct token token = new_token();
        for (unsigned k = 0; k < 2 * PER_ADDRESS; k++)
            failed_sign_ins_note(failed, str_c(forms[i][0]), STR_EMPTY);
        assert_int_equal(check(failed, forms[i][1], &token), ERROR_LIMITED);
        assert_int_equal(check(failed, "2001:db8:0:2::1", &token), ERROR_NONE);
        assert_int_equal(check(failed, "192.0.2.2:40000", &token), ERROR_NONE);
        failed_sign_ins_destroy(failed);
    }
    struct failed_sign_ins *failed = create();
    struct token token = new_token();
    for (unsigned k = 0; k < 2 * PER_ADDRESS; k++)
        failed_sign_ins_note(failed, STR("198.51.100.1:40000"), STR_EMPTY);
    assert_int_equal(check(failed, "198.51.100.1:40000", &token), ERROR_NONE); // a proxy
    failed_sign_ins_destroy(failed);
}

static void by_key(void **state)
{
    (void)state;
    struct failed_sign_ins *failed = create();
    struct token good = new_token(), wrong = new_token(), other = new_token();
    snprintf(wrong.id, sizeof wrong.id, "%s", good.id);
    for (unsigned i = 0; i < 2 * PER_KEY; i++) {
        char address[64];
        snprintf(address, sizeof address, "203.0.113.%u", i);
        failed_sign_ins_note(failed, str_c(address), str_c(good.id));
    }
    assert_int_equal(check(failed, "192.0.2.1", &wrong), ERROR_LIMITED);
    assert_int_equal(check(failed, "192.0.2.1", &good), ERROR_LIMITED); // not known yet to be good
    failed_sign_ins_note_good(failed, &good);
    assert_int_equal(check(failed, "192.0.2.1", &good), ERROR_NONE);
    assert_int_equal(check(failed, "192.0.2.1", &wrong), ERROR_LIMITED);
    assert_int_equal(check(failed, "192.0.2.1", &other), ERROR_NONE);
    failed_sign_ins_destroy(failed);
}

static void no_limits(void **state)
{
    (void)state;
    struct failed_sign_ins *failed = failed_sign_ins_create(&(struct failed_sign_ins_options){0});
    struct token token = new_token();
    for (unsigned i = 0; i < 1000; i++)
        failed_sign_ins_note(failed, STR("192.0.2.1"), str_c(token.id));
    assert_int_equal(check(failed, "192.0.2.1", &token), ERROR_NONE);
    failed_sign_ins_destroy(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_address), cmocka_unit_test(forms_of_an_address),
                                       cmocka_unit_test(by_key), cmocka_unit_test(no_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
