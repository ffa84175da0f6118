// cause: why a call failed, as clients read it and as agents may say it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "tunnel/broker.h"
#include "tunnel/call/cause.h"

static void test_causes(void **state)
{
    (void)state;
    assert_string_equal(tunnel_cause_name(TUNNEL_CAUSE_NO_TUNNEL), "no-tunnel");
    assert_int_equal(tunnel_cause_status(TUNNEL_CAUSE_HEAD_TIMEOUT), 504);
    assert_int_equal(tunnel_cause_parse(STR("dial-failed")), TUNNEL_CAUSE_DIAL_FAILED);
    assert_int_equal(tunnel_cause_parse(STR("not-allowed")), TUNNEL_CAUSE_NOT_ALLOWED);
    assert_int_equal(tunnel_cause_parse(STR("no-tunnel")), TUNNEL_CAUSE_NONE); // not an agent's to say
    assert_int_equal(tunnel_cause_parse(STR("")), TUNNEL_CAUSE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
