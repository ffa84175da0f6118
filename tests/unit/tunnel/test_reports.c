// The reports stream: in order, acknowledged, held back while the consumer is full, and refused
// when broken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics/metrics.h"
#include "tests/unit/tunnel/broker_fixture.h"

enum { REPORTS = 300, WINDOW_BYTES = 64 * 1024 };

static struct fixture fixture;

static void test_in_order_and_acknowledged(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){.reports = REPORTS});
    WAIT_UNTIL(atomic_load(&fixture.reports) == REPORTS + 1);
    assert_int_equal(fixture.report_errors, 0);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->acked) == REPORTS + 1);
    fixture_acknowledge(&fixture, 99999);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->acked) == 99999);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_back_pressure(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    atomic_store(&fixture.reports_pause_every, 1); // one at a time
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){.reports = REPORTS});
    for (unsigned i = 1; i <= REPORTS + 1; i++) {
        WAIT_UNTIL(atomic_load(&fixture.reports) == i);
        if (i % 50 == 0) { // a call goes by a stopped reports stream
            struct fixture_call call = {.fixture = &fixture, .node = i / 50 % 2, .path = "/bytes/100000"};
            fixture_call_start(&call);
            WAIT_UNTIL(atomic_load(&call.done));
            assert_int_equal(call.received, 100000);
        }
        assert_int_equal(fixture.reports, i);
        fixture_resume_reports(&fixture);
    }
    assert_int_equal(fixture.report_errors, 0);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void tune_little_memory(struct tunnel_options *options)
{
    options->node_buffered_bytes_max = 1024 * 1024; // half of it for long records
}

static int64_t buffered(const char *scope)
{
    return metric_value(metric_with(metrics_gauge("culvert_tunnel_buffered_bytes", "", "scope", NULL), scope));
}

// Long records of two agents on one node do not fit together: the second one waits until the first
// has gone.
static void test_long_records_wait_for_each_other(void **state)
{
    (void)state;
    enum { LONG_BYTES = 600 * 1000 };
    fixture_start(&fixture, tune_little_memory);
    int64_t before = buffered("reports");
    struct fake_agent *first =
        fixture_agent(&fixture, &(struct fake_agent_options){.report_bytes = LONG_BYTES, .report_cut = true});
    WAIT_UNTIL(atomic_load(&fixture.opened) == 1);
    unsigned node = atomic_load(&fixture.opened_node);
    WAIT_UNTIL(buffered("reports") >= before + LONG_BYTES); // all there is of it
    assert_int_equal(fixture.reports, 1);                   // its HELLO
    struct fake_agent *second = NULL;
    unsigned reports = 1;
    do { // until it came to the same node
        unsigned opened = atomic_load(&fixture.opened);
        if (second) fake_agent_stop(second);
        second = fixture_agent(
            &fixture,
            &(struct fake_agent_options){.token = FIXTURE_TOKEN_OTHER, .runtime = "other", .report_bytes = LONG_BYTES});
        WAIT_UNTIL(atomic_load(&fixture.opened) > opened);
        if (atomic_load(&fixture.opened_node) != node) {
            reports += 2; // HELLO and the long one
            WAIT_UNTIL(atomic_load(&fixture.reports) == reports);
        }
    } while (atomic_load(&fixture.opened_node) != node);
    WAIT_UNTIL(atomic_load(&fixture.reports) == reports + 1);
    WAIT_UNTIL(buffered("streams") >
               WINDOW_BYTES / 3); // more than one frame, for more than a moment: its credit is used up
    struct fixture_call call = {.fixture = &fixture, .runtime = "other", .path = "/bytes/100000"};
    fixture_call_start(&call); // goes by
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.received, 100000);
    assert_int_equal(fixture.reports, reports + 1);
    assert_true(buffered("reports") < before + 2 * LONG_BYTES);
    fake_agent_stop(first);
    WAIT_UNTIL(atomic_load(&fixture.reports) == reports + 2);
    fake_agent_stop(second);
    fixture_stop(&fixture);
    assert_int_equal(buffered("reports"), before);
}

static void test_agent_without_a_reporter(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){.reports_refused = true});
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->epoch) == 1);
    struct fixture_call call = {.fixture = &fixture, .path = "/hello"};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.status, 200);
    assert_false(fake_agent_seen(agent)->closed);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_broken_records_end_the_session(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){.reports_broken = true});
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    assert_string_equal(fixture.close_reason, "reports: the first record must be HELLO");
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_and_acknowledged),        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_long_records_wait_for_each_other), cmocka_unit_test(test_agent_without_a_reporter),
        cmocka_unit_test(test_broken_records_end_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
