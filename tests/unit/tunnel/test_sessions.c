// Sessions: who gets in, whose epoch counts, liveness, revocation, drain, and agents that break the
// protocol.
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tunnel/broker_fixture.h"

static struct fixture fixture;

static int dial_status(const struct fake_agent_options *options)
{
    struct fake_agent *agent = fixture_agent(&fixture, options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->status) != 0);
    int status = atomic_load(&fake_agent_seen(agent)->status);
    fake_agent_stop(agent);
    return status;
}

static void tune_few_sessions(struct tunnel_options *options)
{
    options->sessions_max = 1;
}

static void test_who_gets_in(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    assert_int_equal(dial_status(&(struct fake_agent_options){.token = "nonsense"}), 401);
    assert_int_equal(dial_status(&(struct fake_agent_options){.token = "forbidden"}), 403);
    assert_int_equal(dial_status(&(struct fake_agent_options){.token = "later"}), 503);
    assert_int_equal(dial_status(&(struct fake_agent_options){.runtime = "another"}), 403);
    assert_int_equal(fixture.openings, 0);
    assert_int_equal(dial_status(&(struct fake_agent_options){0}), 101);
    fixture_stop(&fixture);
}

static void test_session_limit(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_few_sessions);
    atomic_store(&fixture.hold_opening, true); // so that none takes over from another
    struct fake_agent *agents[6];
    int in = 0, out = 0;
    for (int i = 0; i < 6; i++) {
        agents[i] = fixture_agent(&fixture, &(struct fake_agent_options){.mute = true});
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agents[i])->status) != 0);
        in += fake_agent_seen(agents[i])->status == 101;
        out += fake_agent_seen(agents[i])->status == 503;
    }
    assert_int_equal(in, 1); // of the process, whichever loops they came to
    assert_int_equal(out, 5);
    for (int i = 0; i < 6; i++)
        fake_agent_stop(agents[i]);
    fixture_stop(&fixture);
}

static void tune_two_an_address(struct tunnel_options *options)
{
    options->sessions_per_address = 2;
}

static bool is_loopback(void *ctx, struct str address)
{
    (void)ctx;
    return str_eq(address, STR("127.0.0.1"));
}

static void tune_behind_a_proxy(struct tunnel_options *options)
{
    options->sessions_per_address = 2;
    options->is_proxy = is_loopback;
}

static int count_admitted(void (*tune)(struct tunnel_options *options))
{
    fixture_start(&fixture, tune);
    atomic_store(&fixture.hold_opening, true);
    struct fake_agent *agents[6];
    int in = 0;
    for (int i = 0; i < 6; i++) {
        agents[i] = fixture_agent(&fixture, &(struct fake_agent_options){.mute = true});
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agents[i])->status) != 0);
        in += fake_agent_seen(agents[i])->status == 101;
    }
    for (int i = 0; i < 6; i++)
        fake_agent_stop(agents[i]);
    // Their places are free again.
    WAIT_UNTIL(dial_status(&(struct fake_agent_options){0}) == 101);
    fixture_stop(&fixture);
    return in;
}

static void test_sessions_of_one_address(void **state)
{
    (void)state;
    assert_int_equal(count_admitted(tune_two_an_address), 2);
    assert_int_equal(count_admitted(tune_behind_a_proxy), 6);
}

static atomic_bool agents_may_come;

static bool may_come(void *ctx)
{
    (void)ctx;
    return atomic_load(&agents_may_come);
}

static void tune_not_yet(struct tunnel_options *options)
{
    options->may_come = may_come;
}

// Who dials before the broker can tell who is who waits, and is told nothing but yes.
static void test_agents_wait_until_they_may_come(void **state)
{
    (void)state;
    atomic_store(&agents_may_come, false);
    fixture_start(&fixture, tune_not_yet);
    struct fake_agent *agents[4];
    for (int i = 0; i < 4; i++)
        agents[i] = fixture_agent(&fixture, &(struct fake_agent_options){.mute = true});
    struct fixture_call call = {.fixture = &fixture, .path = "/hello"}; // takes a while: nobody is there
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&call.done));
    for (int i = 0; i < 4; i++)
        assert_int_equal(fake_agent_seen(agents[i])->status, 0);
    assert_int_equal(fixture.openings, 0);
    atomic_store(&agents_may_come, true);
    for (int i = 0; i < 4; i++)
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agents[i])->status) == 101);
    for (int i = 0; i < 4; i++)
        fake_agent_stop(agents[i]);
    fixture_stop(&fixture);
}

static void tune_slow_listener(struct tunnel_options *options)
{
    options->handshakes_per_second = 1;
}

static void test_handshake_rate(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_slow_listener);
    int refused = 0;
    for (int i = 0; i < 8; i++)
        refused += dial_status(&(struct fake_agent_options){0}) == 503;
    assert_true(refused >= 4);
    fixture_stop(&fixture);
}

static void tune_one_address(struct tunnel_options *options)
{
    options->handshakes_per_address = 2;
}

static bool is_cut(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

// Silent connections of one address take their own places only; when they go, there is room again.
static void test_handshakes_of_one_address(void **state)
{
    enum { PEERS = 12, KEPT_MAX = 2 };
    (void)state;
    fixture_start(&fixture, tune_one_address);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)fixture.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    int cut = 0;
    struct fixture_wait wait = fixture_wait_begin();
    do {
        cut = 0;
        for (int i = 0; i < PEERS; i++)
            cut += is_cut(fds[i]);
    } while (cut < PEERS - KEPT_MAX && fixture_wait_more(&wait));
    assert_true(cut >= PEERS - KEPT_MAX && cut < PEERS);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    WAIT_UNTIL(dial_status(&(struct fake_agent_options){0}) == 101);
    fixture_stop(&fixture);
}

static void test_newest_epoch_wins(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *first = fixture_agent_up(&fixture);
    struct fake_agent *second = fixture_agent_up(&fixture);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->superseded_by) == 2);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->closed));
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        struct fixture_call call = {.fixture = &fixture, .node = node, .path = "/hello"};
        fixture_call_start(&call);
        WAIT_UNTIL(atomic_load(&call.done));
        assert_int_equal(call.status, 200);
    }
    assert_false(fake_agent_seen(second)->closed);
    fake_agent_stop(first);
    fake_agent_stop(second);
    fixture_stop(&fixture);
}

// The authority says so: the session stays without an epoch, asks when who serves seems to have
// gone, and then serves.
static void test_standby_takes_over(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *active = fixture_agent_up_as(&fixture, "pod-1");
    atomic_store(&fixture.stand_by, true);
    struct fake_agent *standby = fixture_agent(&fixture, &(struct fake_agent_options){.instance_id = "pod-2"});
    WAIT_UNTIL(atomic_load(&fake_agent_seen(standby)->standbys) == 1);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        unsigned requests = atomic_load(&fake_agent_seen(active)->requests);
        struct fixture_call call = {.fixture = &fixture, .node = node, .path = "/hello"};
        fixture_call_start(&call);
        WAIT_UNTIL(atomic_load(&call.done));
        assert_int_equal(call.status, 200);
        assert_int_equal(fake_agent_seen(active)->requests, requests + 1);
    }
    // Woken in vain: it asks a few times more, soon, and is told STANDBY once only.
    unsigned openings = atomic_load(&fixture.openings);
    tunnel_broker_wake_standbys(fixture.broker, &(struct runtime_key){STR("another"), STR("demo")});
    tunnel_broker_wake_standbys(fixture.broker, &(struct runtime_key){STR(FIXTURE_ACCOUNT), STR("demo")});
    WAIT_UNTIL(atomic_load(&fixture.openings) >= openings + 3);
    assert_int_equal(fake_agent_seen(standby)->standbys, 1);
    assert_false(fake_agent_seen(standby)->closed);
    assert_int_equal(fake_agent_seen(standby)->epoch, 0);
    assert_false(fake_agent_seen(active)->closed);
    atomic_store(&fixture.stand_by, false);
    fake_agent_stop(active);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(standby)->epoch) == 2);
    struct fixture_call call = {.fixture = &fixture, .path = "/hello"};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.status, 200);
    fake_agent_stop(standby);
    fixture_stop(&fixture);
}

static void test_call_in_flight_outlives_its_session(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *first = fixture_agent_up(&fixture);
    struct fixture_call call = {.fixture = &fixture, .node = 1, .path = "/bytes/500000", .holds = true};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&call.received) > 0);
    struct fake_agent *second = fixture_agent_up(&fixture);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->superseded_by) == 2);
    fixture_call_release(&call);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.received, 500000);
    assert_int_equal(call.cause, TUNNEL_CAUSE_NONE);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->closed));
    fake_agent_stop(first);
    fake_agent_stop(second);
    fixture_stop(&fixture);
}

static void test_older_epoch_is_fenced_off(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    atomic_store(&fixture.stale_epochs, true);
    struct fake_agent *first = fixture_agent_up(&fixture);                                // 999
    struct fake_agent *second = fixture_agent(&fixture, &(struct fake_agent_options){0}); // 998
    WAIT_UNTIL(atomic_load(&fake_agent_seen(second)->superseded_by) == 999);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(second)->closed));
    assert_false(fake_agent_seen(first)->closed);
    assert_int_equal(fixture.opened, 1);
    fake_agent_stop(first);
    fake_agent_stop(second);
    fixture_stop(&fixture);
}

static void test_other_replica_took_over(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    tunnel_broker_supersede(fixture.broker, FIXTURE_ACCOUNT, "demo", 1); // not newer
    tunnel_broker_supersede(fixture.broker, FIXTURE_ACCOUNT, "other", 9);
    assert_false(fake_agent_seen(agent)->closed);
    tunnel_broker_supersede(fixture.broker, FIXTURE_ACCOUNT, "demo", 9);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->superseded_by) == 9);
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_revocation(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call call = {.fixture = &fixture, .node = 1, .path = "/hang"};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 2); // the reports stream is one
    tunnel_broker_revoke(fixture.broker, FIXTURE_ACCOUNT, "demo", "ffffffffffffffffffffffff", "another token");
    tunnel_broker_revoke(fixture.broker, FIXTURE_ACCOUNT, "demo", "0123456789abcdef01234567", "revoked");
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.cause, TUNNEL_CAUSE_TUNNEL_LOST);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    assert_string_equal(fixture.close_reason, "revoked");
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// In the middle of answers and uploads, seen from both loops: all of it ends, and what the revoked
// agent goes on saying reaches nobody.
static void test_revocation_cuts_streams(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call calls[6];
    for (unsigned i = 0; i < 6; i++) {
        calls[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/bytes/900000000"};
        if (i >= 2) calls[i].method = "POST";
        if (i >= 2) calls[i].path = i >= 4 ? "/hang" : "/echo";
        if (i >= 2) calls[i].upload_bytes = 900000000;
        fixture_call_start(&calls[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        WAIT_UNTIL(atomic_load(&calls[i].received) > 500000);
    tunnel_broker_revoke(fixture.broker, FIXTURE_ACCOUNT, "demo", NULL, "revoked");
    uint64_t received[6];
    for (unsigned i = 0; i < 6; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        received[i] = atomic_load(&calls[i].received);
        assert_int_equal(calls[i].cause, TUNNEL_CAUSE_TUNNEL_LOST);
    }
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    unsigned requests = atomic_load(&fake_agent_seen(agent)->requests);
    struct fake_agent *other = fixture_agent_up(&fixture); // the calls that came after wait for this one
    struct fixture_call after = {.fixture = &fixture, .path = "/hello"};
    fixture_call_start(&after);
    WAIT_UNTIL(atomic_load(&after.done));
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(atomic_load(&calls[i].received), received[i]);
    assert_int_equal(fake_agent_seen(agent)->requests, requests);
    fake_agent_stop(agent);
    fake_agent_stop(other);
    fixture_stop(&fixture);
}

static void test_revoked_before_its_epoch(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    atomic_store(&fixture.hold_opening, true);
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){0});
    WAIT_UNTIL(atomic_load(&fixture.openings) == 1);
    tunnel_broker_revoke(fixture.broker, FIXTURE_ACCOUNT, "demo", NULL, "deleted");
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    assert_int_equal(fake_agent_seen(agent)->epoch, 0);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// Its session is not listed yet when the one word about it is spoken.
static void test_revoked_while_it_enters(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    for (int round = 0; round < 4; round++) {
        atomic_store(&fixture.revoke_on_entry, true);
        unsigned closed = atomic_load(&fixture.closed);
        struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){0});
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
        WAIT_UNTIL(atomic_load(&fixture.closed) == closed + 1);
        assert_int_equal(atomic_load(&fixture.openings), 0);
        assert_int_equal(fake_agent_seen(agent)->epoch, 0);
        fake_agent_stop(agent);
    }
    atomic_store(&fixture.revoke_on_entry, false);
    atomic_store(&fixture.revoked, false);
    fake_agent_stop(fixture_agent_up(&fixture));
    fixture_stop(&fixture);
}

static void tune_impatient(struct tunnel_options *options)
{
    options->ping_after_ms = 100;
    options->dead_after_ms = 100;
}

static void test_silence_is_noticed(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_impatient);
    struct fake_agent *mute = fixture_agent(&fixture, &(struct fake_agent_options){.mute = true});
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    assert_string_equal(fixture.close_reason, "silent");
    fake_agent_stop(mute);
    struct fake_agent *agent = fixture_agent_up(&fixture); // answers pings, says nothing else
    struct fixture_wait wait = {.until_ms = fixture_wait_begin().until_ms - FIXTURE_WAIT_MS + 600};
    while (fixture_wait_more(&wait))
        assert_false(fake_agent_seen(agent)->closed);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// A token that was sealed is good on its own connection, and answered by a proof; on another it
// says nothing.
static void test_sealed_tokens(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent_options options = {.seal = FAKE_AGENT_SEALS_TOKEN};
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->status) == 101);
    WAIT_UNTIL(atomic_load(&fixture.opened) == 1);
    fake_agent_stop(agent);
    options.seal = FAKE_AGENT_SEALS_FOR_ANOTHER;
    agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->status) == 401);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void tune_words(struct tunnel_options *options)
{
    options->ping_after_ms = 3000;
    options->dead_after_ms = 3000;
}

// Words that nobody read count, and what comes behind one is read at once.
static void test_words_of_life(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_words);
    struct fake_agent_options options = {.words_each_ms = 1600, .words_max = 2};
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->pongs) == 1);
    assert_int_equal(atomic_load(&fake_agent_seen(agent)->pings), 1); // the one that measures, when it opened
    assert_false(atomic_load(&fake_agent_seen(agent)->closed));
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// A look that leaves a word where it is lets the next one join it, and nothing else: a question is
// read at once, behind a word as well as alone.
static void test_questions_are_never_left_with_words(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_words);
    struct fake_agent_options options = {.words_each_ms = 2000, .words_max = 3, .asks_more = 2};
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->pongs) == 3);
    assert_int_equal(atomic_load(&fake_agent_seen(agent)->pings), 1);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// A record's end may be shorter than a word: it is waited for as what it is.
static void test_ends_of_records_are_never_taken_for_words(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_words);
    struct fake_agent_options options = {.words_each_ms = 500, .words_max = 1, .asks_more = 2, .late_bytes = 10};
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->pongs) == 3);
    assert_int_equal(atomic_load(&fake_agent_seen(agent)->pings), 1);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void tune_talkative(struct tunnel_options *options)
{
    options->say_after_ms = 200;
}

// Who says words hears some.
static void test_words_for_words(void **state)
{
    (void)state;
    fixture_start(&fixture, tune_talkative);
    struct fake_agent_options options = {.words_each_ms = 50, .words_max = 100000};
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->words_heard) >= 3);
    assert_false(atomic_load(&fake_agent_seen(agent)->closed));
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_protocol_violations(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent(&fixture, &(struct fake_agent_options){.bad_control = true});
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1);
    assert_string_equal(fixture.close_reason, "control message hello_ack out of state");
    fake_agent_stop(agent);
    agent = fixture_agent(&fixture, &(struct fake_agent_options){.text_frames = true});
    WAIT_UNTIL(atomic_load(&fixture.closed) == 2);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_drain(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call call = {.fixture = &fixture, .path = "/bytes/300000", .holds = true};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&call.received) > 0);
    fixture_drain(&fixture, 15000);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->drains) == 1);
    assert_int_not_equal(dial_status(&(struct fake_agent_options){0}), 101); // nobody listens
    struct fixture_call during = {.fixture = &fixture, .path = "/hello"};    // still carried
    fixture_call_start(&during);
    WAIT_UNTIL(atomic_load(&during.done));
    assert_int_equal(during.status, 200);
    fixture_call_release(&call);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.received, 300000);
    WAIT_UNTIL(atomic_load(&fixture.drained) == FIXTURE_NODES);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_drain_deadline(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    struct fixture_call call = {.fixture = &fixture, .path = "/hang"};
    fixture_call_start(&call);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 2);
    fixture_drain(&fixture, 300);
    WAIT_UNTIL(atomic_load(&fixture.drained) == FIXTURE_NODES);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.cause, TUNNEL_CAUSE_TUNNEL_LOST);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void test_tls_reload(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    fixture_reload_tls(&fixture);
    WAIT_UNTIL(atomic_load(&fixture.reloads) == 1);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    FILE *file = fopen(fixture.key, "w"); // a broken file changes nothing
    assert_non_null(file);
    fclose(file);
    fixture_reload_tls(&fixture);
    WAIT_UNTIL(atomic_load(&fixture.reloads_failed) == 1);
    fake_agent_stop(agent);
    agent = fixture_agent_up(&fixture);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void count_session(void *arg, const struct tunnel_session_info *session)
{
    int *count = arg;
    assert_string_equal(session->identity.runtime, "demo");
    assert_string_equal(session->instance_id, "pod-1");
    assert_true(session->epoch > 0);
    (*count)++;
}

static void test_listing(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    int count = 0;
    tunnel_broker_each_session(fixture.broker, count_session, &count);
    assert_int_equal(count, 0);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    tunnel_broker_each_session(fixture.broker, count_session, &count);
    assert_int_equal(count, 1);
    assert_true(tunnel_node_has_runtime(fixture.nodes[0], &(struct runtime_key){STR(FIXTURE_ACCOUNT), STR("demo")}));
    assert_false(tunnel_node_has_runtime(fixture.nodes[0], &(struct runtime_key){STR("x"), STR("demo")}));
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_gets_in),
        cmocka_unit_test(test_session_limit),
        cmocka_unit_test(test_agents_wait_until_they_may_come),
        cmocka_unit_test(test_sessions_of_one_address),
        cmocka_unit_test(test_handshake_rate),
        cmocka_unit_test(test_handshakes_of_one_address),
        cmocka_unit_test(test_newest_epoch_wins),
        cmocka_unit_test(test_standby_takes_over),
        cmocka_unit_test(test_call_in_flight_outlives_its_session),
        cmocka_unit_test(test_older_epoch_is_fenced_off),
        cmocka_unit_test(test_other_replica_took_over),
        cmocka_unit_test(test_revocation),
        cmocka_unit_test(test_revocation_cuts_streams),
        cmocka_unit_test(test_revoked_before_its_epoch),
        cmocka_unit_test(test_revoked_while_it_enters),
        cmocka_unit_test(test_silence_is_noticed),
        cmocka_unit_test(test_sealed_tokens),
        cmocka_unit_test(test_words_of_life),
        cmocka_unit_test(test_questions_are_never_left_with_words),
        cmocka_unit_test(test_ends_of_records_are_never_taken_for_words),
        cmocka_unit_test(test_words_for_words),
        cmocka_unit_test(test_protocol_violations),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_deadline),
        cmocka_unit_test(test_tls_reload),
        cmocka_unit_test(test_listing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
