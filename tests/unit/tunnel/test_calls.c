// Calls through a broker on two loops and a fake agent: once from the session's own loop, once
// across.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/unit/tunnel/broker_fixture.h"

enum { WINDOW_BYTES = 64 * 1024 };

static struct fixture fixture;

static void call_and_wait(struct fixture_call *call)
{
    call->fixture = &fixture;
    fixture_call_start(call);
    WAIT_UNTIL(atomic_load(&call->done));
}

static void test_get_and_echo(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call hello = {.node = node, .path = "/hello"};
        call_and_wait(&hello);
        assert_int_equal(hello.status, 200);
        assert_int_equal(hello.cause, TUNNEL_CAUSE_NONE);
        assert_int_equal(hello.received, 5);
        // Far more than any queue or window: back-pressure both ways.
        struct fixture_call echo = {.node = node, .method = "POST", .path = "/echo", .upload_bytes = 3000001};
        call_and_wait(&echo);
        assert_int_equal(echo.status, 200);
        assert_int_equal(echo.received, 3000001);
        assert_false(echo.wrong_bytes);
        struct fixture_call trailers = {.node = node, .path = "/trailers"};
        call_and_wait(&trailers);
        assert_int_equal(trailers.trailers, 1);
        assert_int_equal(trailers.cause, TUNNEL_CAUSE_NONE);
    }
    assert_int_equal(fake_agent_seen(agent)->identities, 3 * FIXTURE_NODES);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// The halves of an upgraded connection end each on its own: the far end's is told at once, and ours
// goes on.
static void test_far_end_ends_first(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call call = {.node = node,
                                    .method = "CONNECT",
                                    .protocol = "connect-tcp",
                                    .path = "/hello",
                                    .upload_bytes = 300001,
                                    .uploads_behind_end = true};
        call_and_wait(&call);
        assert_int_equal(call.status, 200);
        assert_int_equal(call.cause, TUNNEL_CAUSE_NONE);
        assert_int_equal(call.received, 5);
        assert_int_equal(call.remote_ends, 1);
        struct fixture_call plain = {.node = node, .path = "/hello"};
        call_and_wait(&plain);
        assert_int_equal(plain.remote_ends, 0);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_trailers_and_interim_answers(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call info = {.node = node, .path = "/info"};
        call_and_wait(&info);
        assert_int_equal(info.infos, 1);
        assert_int_equal(info.status, 200);
        assert_int_equal(info.received, 5);
        for (unsigned bytes = 1; bytes <= 300001; bytes += 300000) {
            unsigned before = atomic_load(&fake_agent_seen(agent)->trailers);
            struct fixture_call upload = {
                .node = node, .method = "POST", .path = "/echo", .upload_bytes = bytes, .sends_trailers = true};
            call_and_wait(&upload);
            assert_int_equal(upload.cause, TUNNEL_CAUSE_NONE);
            assert_int_equal(upload.received, bytes);
            assert_int_equal(fake_agent_seen(agent)->trailers, before + 1);
        }
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_many_at_once(void **state)
{
    (void)state;
    enum { CALLS = 60 };
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call *calls = mem_array(CALLS, sizeof(*calls));
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = (struct fixture_call){.fixture = &fixture, .node = i % FIXTURE_NODES};
        calls[i].path = i % 3 ? "/bytes/300000" : "/echo";
        if (i % 3 == 0) calls[i].method = "POST";
        if (i % 3 == 0) calls[i].upload_bytes = 200000;
        fixture_call_start(&calls[i]);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        assert_int_equal(calls[i].cause, TUNNEL_CAUSE_NONE);
        assert_int_equal(calls[i].received, i % 3 ? 300000 : 200000);
        assert_false(calls[i].wrong_bytes);
    }
    mem_free(calls);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_failures_are_kept_apart(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call nobody = {.node = node, .path = "/hello", .runtime = "elsewhere"};
        call_and_wait(&nobody);
        assert_int_equal(nobody.cause, TUNNEL_CAUSE_NO_TUNNEL);
        struct fixture_call cause = {.node = node, .path = "/cause"};
        call_and_wait(&cause);
        assert_int_equal(cause.cause, TUNNEL_CAUSE_DIAL_FAILED);
        assert_int_equal(cause.status, 0);
        struct fixture_call reset = {.node = node, .path = "/reset"};
        call_and_wait(&reset);
        assert_int_equal(reset.cause, TUNNEL_CAUSE_UPSTREAM_FAILED);
        struct fixture_call slow = {.node = node, .path = "/hang", .head_timeout_ms = 50};
        call_and_wait(&slow);
        assert_int_equal(slow.cause, TUNNEL_CAUSE_HEAD_TIMEOUT);
        struct fixture_call bad = {.node = node, .path = "no-slash"};
        call_and_wait(&bad);
        assert_int_equal(bad.cause, TUNNEL_CAUSE_UPSTREAM_FAILED);
        struct fixture_call connect = {
            .node = node, .method = "CONNECT", .path = "/hang", .protocol = "websocket", .head_timeout_ms = 50};
        call_and_wait(&connect);
        assert_int_equal(connect.cause, TUNNEL_CAUSE_HEAD_TIMEOUT);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_cancelling(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        unsigned resets = atomic_load(&fake_agent_seen(agent)->resets);
        struct fixture_call at_head = {.node = node, .path = "/bytes/10000000", .cancels_on_head = true};
        call_and_wait(&at_head);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->resets) == resets + 1);
        struct fixture_call at_data = {.node = node, .path = "/bytes/10000000", .cancels_on_data = true};
        call_and_wait(&at_data);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->resets) == resets + 2);
        struct fixture_call at_once = {.node = node, .path = "/hello", .cancels_at_once = true};
        call_and_wait(&at_once);
        struct fixture_call hangs = {.fixture = &fixture, .node = node, .path = "/hang"};
        unsigned requests = atomic_load(&fake_agent_seen(agent)->requests);
        fixture_call_start(&hangs);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == requests + 1);
        fixture_call_cancel(&hangs);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->resets) >= resets + 3);
        struct fixture_call after = {.node = node, .path = "/hello"};
        call_and_wait(&after);
        assert_int_equal(after.received, 5);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_slow_consumer_stops_nobody(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call slow = {.fixture = &fixture, .node = node, .path = "/bytes/1000000", .holds = true};
        fixture_call_start(&slow);
        WAIT_UNTIL(atomic_load(&slow.received) == WINDOW_BYTES);
        struct fixture_call other = {.node = node, .path = "/bytes/2000000"};
        call_and_wait(&other);
        assert_int_equal(other.received, 2000000);
        assert_int_equal(slow.received, WINDOW_BYTES); // not one byte without credit
        fixture_call_release(&slow);
        WAIT_UNTIL(atomic_load(&slow.done));
        assert_int_equal(slow.received, 1000000);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void tune_budget(struct tunnel_options *options)
{
    options->buffered_bytes_max = WINDOW_BYTES; // calls are refused at twice of it
    options->streams_max = 3;
}

static void test_budgets_refuse(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_budget);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call slow[2] = {{.fixture = &fixture, .path = "/bytes/1000000", .holds = true},
                                   {.fixture = &fixture, .node = 1, .path = "/bytes/1000000", .holds = true}};
    for (unsigned i = 0; i < 2; i++)
        fixture_call_start(&slow[i]);
    for (unsigned i = 0; i < 2; i++)
        WAIT_UNTIL(atomic_load(&slow[i].received) == WINDOW_BYTES);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call refused = {.node = node, .path = "/hello"};
        call_and_wait(&refused);
        assert_int_equal(refused.cause, TUNNEL_CAUSE_OVERLOADED);
    }
    for (unsigned i = 0; i < 2; i++) {
        fixture_call_release(&slow[i]);
        WAIT_UNTIL(atomic_load(&slow[i].done));
        assert_int_equal(slow[i].received, 1000000);
    }
    struct fixture_call hangs[3];
    for (unsigned i = 0; i < 3; i++) {
        hangs[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/hang"};
        unsigned requests = atomic_load(&fake_agent_seen(agent)->requests);
        fixture_call_start(&hangs[i]);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == requests + 1);
    }
    struct fixture_call refused = {.node = 0, .path = "/hello"};
    call_and_wait(&refused);
    assert_int_equal(refused.cause, TUNNEL_CAUSE_OVERLOADED);
    fake_agent_stop(agent); // the calls that hang lose their tunnel
    for (unsigned i = 0; i < 3; i++) {
        WAIT_UNTIL(atomic_load(&hangs[i].done));
        assert_int_equal(hangs[i].cause, TUNNEL_CAUSE_TUNNEL_LOST);
    }
    fixture_stop(&fixture);
}

enum { SHARE_WINDOWS = 4 };

static void tune_share(struct tunnel_options *options)
{
    options->account_buffered_bytes_max = SHARE_WINDOWS * WINDOW_BYTES;
    options->node_buffered_bytes_max = (SHARE_WINDOWS + 1) * WINDOW_BYTES;
}

// The agent of another account, its session on that loop.
static struct fake_agent *foreign_agent_on(unsigned node)
{
    for (;;) {
        unsigned opened = atomic_load(&fixture.opened);
        struct fake_agent *agent =
            fixture_agent(&fixture, &(struct fake_agent_options){.token = FIXTURE_TOKEN_FOREIGN});
        WAIT_UNTIL(atomic_load(&fixture.opened) == opened + 1);
        if (atomic_load(&fixture.opened_node) == node) return agent;
        unsigned closed = atomic_load(&fixture.closed);
        fake_agent_stop(agent);
        WAIT_UNTIL(atomic_load(&fixture.closed) == closed + 1);
    }
}

// Readers that take nothing use up what their account may have, and no one else's.
static void test_an_account_has_its_share(void **state)
{
    (void)state;
    enum { SLOW = SHARE_WINDOWS + 1, FOREIGN = 4 };
    fixture_start(&fixture, tune_share);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fake_agent *foreign = foreign_agent_on(atomic_load(&fixture.opened_node));
    struct fixture_call slow[SLOW], foreigners[FOREIGN];
    for (unsigned i = 0; i < SLOW; i++) { // all at once: nobody has buffered anything yet
        slow[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/bytes/1000000", .holds = true};
        fixture_call_start(&slow[i]);
    }
    for (unsigned i = 0; i < SLOW; i++)
        WAIT_UNTIL(atomic_load(&slow[i].received) == WINDOW_BYTES || atomic_load(&slow[i].done));
    struct fixture_call refused = {.path = "/hello"};
    call_and_wait(&refused);
    assert_int_equal(refused.cause, TUNNEL_CAUSE_OVERLOADED);
    for (unsigned i = 0; i < FOREIGN; i++) { // although the loop is at its budget
        foreigners[i] = (struct fixture_call){
            .fixture = &fixture, .account = FIXTURE_ACCOUNT_FOREIGN, .path = "/bytes/1000000", .holds = true};
        fixture_call_start(&foreigners[i]);
        WAIT_UNTIL(atomic_load(&foreigners[i].received) == WINDOW_BYTES);
    }
    for (unsigned i = 0; i < FOREIGN; i++)
        fixture_call_release(&foreigners[i]);
    for (unsigned i = 0; i < SLOW; i++)
        if (!atomic_load(&slow[i].done)) fixture_call_release(&slow[i]);
    for (unsigned i = 0; i < FOREIGN; i++)
        WAIT_UNTIL(atomic_load(&foreigners[i].done));
    for (unsigned i = 0; i < SLOW; i++)
        WAIT_UNTIL(atomic_load(&slow[i].done));
    struct fixture_call again = {.path = "/hello"};
    call_and_wait(&again);
    assert_int_equal(again.status, 200);
    fake_agent_stop(agent);
    fake_agent_stop(foreign);
    fixture_stop(&fixture);
}

// Calls that have nothing waiting yet could fill the loop all at once.
static void test_an_account_has_its_share_of_calls(void **state)
{
    (void)state;
    enum { HANGS = SHARE_WINDOWS + 1 };
    fixture_start(&fixture, tune_share);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fake_agent *foreign = foreign_agent_on(atomic_load(&fixture.opened_node));
    struct fixture_call hangs[HANGS];
    unsigned requests = 1; // the reports stream
    for (unsigned i = 0; i < HANGS; i++) {
        hangs[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/hang"};
        fixture_call_start(&hangs[i]);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == requests + i + 1);
    }
    struct fixture_call refused = {.path = "/hello"};
    call_and_wait(&refused);
    assert_int_equal(refused.cause, TUNNEL_CAUSE_OVERLOADED);
    struct fixture_call other = {.account = FIXTURE_ACCOUNT_FOREIGN, .path = "/hello"};
    call_and_wait(&other);
    assert_int_equal(other.status, 200);
    fake_agent_stop(agent);
    for (unsigned i = 0; i < HANGS; i++)
        WAIT_UNTIL(atomic_load(&hangs[i].done));
    fake_agent_stop(foreign);
    fixture_stop(&fixture);
}

static void test_call_waits_for_the_agent_to_come_back(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    fake_agent_stop(agent);
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    struct fixture_call calls[4];
    for (unsigned i = 0; i < 4; i++) {
        calls[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/hello"};
        if (i >= 2) calls[i].method = "POST";
        if (i >= 2) calls[i].path = "/echo";
        if (i >= 2) calls[i].upload_bytes = 100000;
        fixture_call_start(&calls[i]);
    }
    struct fixture_call gone = {.fixture = &fixture, .path = "/hello"};
    fixture_call_start(&gone);
    fixture_call_cancel(&gone);
    agent = fixture_agent_up(&fixture);
    for (unsigned i = 0; i < 4; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        assert_int_equal(calls[i].status, 200);
        assert_int_equal(calls[i].received, i >= 2 ? 100000 : 5);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_stopping_with_calls_in_flight(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call calls[8];
    for (unsigned i = 0; i < 8; i++) {
        calls[i] =
            (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = i < 4 ? "/hang" : "/bytes/90000000"};
        fixture_call_start(&calls[i]);
    }
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) >= 8);
    fixture_stop(&fixture); // nothing leaks, and every call is told
    for (unsigned i = 0; i < 8; i++)
        assert_true(calls[i].done);
    fake_agent_stop(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_and_echo),
        cmocka_unit_test(test_far_end_ends_first),
        cmocka_unit_test(test_trailers_and_interim_answers),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_failures_are_kept_apart),
        cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_slow_consumer_stops_nobody),
        cmocka_unit_test(test_budgets_refuse),
        cmocka_unit_test(test_an_account_has_its_share),
        cmocka_unit_test(test_an_account_has_its_share_of_calls),
        cmocka_unit_test(test_call_waits_for_the_agent_to_come_back),
        cmocka_unit_test(test_stopping_with_calls_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
