// Calls that meet an agent's GOAWAY: those of which nothing has reached the agent are
// opened again, as if nothing had been, and no other call is.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <linux/sockios.h>

#include "tests/unit/tunnel/broker_fixture.h"

enum {
    LAST_STREAM_AT = 12,        // in a GOAWAY
    LINGERING_CLOSE_BYTES = 40, // one GOAWAY on the wire, at the least: frame, WebSocket, TLS
    WINDOW_BYTES = 1 << 30,
    ENDLESS_BYTES = 900000000,
};

static struct fixture fixture;

struct lingering_close {
    uint8_t frame[17]; // GOAWAY: RFC 9113 section 6.8
};

static struct lingering_close lingering_close_after(uint32_t last_stream)
{
    struct lingering_close lingering_close = {{0, 0, 8, 7}};
    for (unsigned i = 0; i < 4; i++)
        lingering_close.frame[LAST_STREAM_AT - i] = (uint8_t)(last_stream >> 8 * i);
    return lingering_close;
}

// Lets an agent in that sends GOAWAY on request.
static struct fake_agent *agent_up(struct fake_agent_options options, const struct lingering_close *lingering_close)
{
    unsigned before = atomic_load(&fixture.opened);
    options.says = lingering_close->frame;
    options.says_len = sizeof(lingering_close->frame);
    options.says_when = FAKE_AGENT_TOLD;
    struct fake_agent *agent = fixture_agent(&fixture, &options);
    // Its reports stream is there, and it has answered the platform's PING: it says nothing more by
    // itself.
    WAIT_UNTIL(atomic_load(&fixture.opened) > before && atomic_load(&fake_agent_seen(agent)->requests) == 1);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->pings) >= 1);
    return agent;
}

// One that has come already and gets its epoch by next_opens(): calls wait for three seconds only.
static struct fake_agent *next_comes(void)
{
    unsigned before = atomic_load(&fixture.openings);
    atomic_store(&fixture.hold_opening, true);
    struct fake_agent *next = fixture_agent(&fixture, &(struct fake_agent_options){.instance_id = "pod-2"});
    WAIT_UNTIL(atomic_load(&fixture.openings) == before + 1);
    return next;
}

static void next_opens(struct fake_agent *next)
{
    atomic_store(&fixture.hold_opening, false);
    fixture_answer_held(&fixture);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(next)->epoch) > 0);
}

// The platform's end of an agent's connection.
static int socket_of(const struct fake_agent *agent)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == fake_agent_port(agent))
            return fd;
    }
    return -1;
}

static void count_calls(void *arg, const struct tunnel_session_info *session)
{
    unsigned *count = arg;
    *count += session->streams_open;
}

static unsigned calls_open(void)
{
    unsigned count = 0;
    tunnel_broker_each_session(fixture.broker, count_calls, &count);
    return count;
}

// ---- HEADERS that have not left ------------------------------------------------------------------------------

// Holds the session's loop until a call and the GOAWAY are both there for its next turn,
// the call first.
struct meeting {
    struct fake_agent *agent;
    struct fixture_call *calls;
    unsigned count;
    atomic_bool over;
};

static void meet(void *arg)
{
    struct meeting *meeting = arg;
    int fd = socket_of(meeting->agent), before = 0, unread = 0;
    ioctl(fd, FIONREAD, &before);
    for (unsigned i = 0; i < meeting->count; i++)
        fixture_call_start(&meeting->calls[i]);
    fake_agent_tell(meeting->agent);
    struct fixture_wait wait = fixture_wait_begin();
    // What it had said before may still be on its way, too.
    while ((unread < before + LINGERING_CLOSE_BYTES || !atomic_load(&fake_agent_seen(meeting->agent)->said)) &&
           fixture_wait_more(&wait))
        ioctl(fd, FIONREAD, &unread);
    atomic_store(&meeting->over, true);
}

static void test_heads_that_meet_a_lingering_close(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    const struct lingering_close lingering_close = lingering_close_after(0x7fffffff);
    struct fake_agent *first = agent_up((struct fake_agent_options){0}, &lingering_close);
    unsigned node = atomic_load(&fixture.opened_node);
    struct fake_agent *next = next_comes();
    struct fixture_call calls[] = {
        {.fixture = &fixture, .node = node, .path = "/hello"},
        {.fixture = &fixture, .node = node, .path = "/echo", .method = "POST", .upload_bytes = 50000},
        {.fixture = &fixture, .node = node, .path = "/echo", .method = "POST", .upload_bytes = 300000},
        {.fixture = &fixture,
         .node = node,
         .path = "/echo",
         .method = "POST",
         .upload_bytes = 100,
         .sends_trailers = true},
    };
    struct meeting meeting = {.agent = first, .calls = calls, .count = 4};
    loop_post(fixture.loops[node], meet, &meeting);
    WAIT_UNTIL(atomic_load(&meeting.over));
    next_opens(next);
    const uint64_t bytes[] = {5, 50000, 300000, 100};
    for (unsigned i = 0; i < 4; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        assert_int_equal(calls[i].cause, TUNNEL_CAUSE_NONE);
        assert_int_equal(calls[i].status, 200);
        assert_int_equal(calls[i].received, bytes[i]);
        assert_true(i == 0 || !calls[i].wrong_bytes);
    }
    assert_int_equal(fake_agent_seen(first)->requests, 1); // nothing was asked of it
    assert_int_equal(fake_agent_seen(next)->trailers, 1);
    fake_agent_stop(first);
    fake_agent_stop(next);
    fixture_stop(&fixture);
}

// The same of an agent that was asked to move: what had been begun leaves first, and it serves
// that.
static void test_who_was_asked_to_move_is_told_first(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    const struct lingering_close lingering_close = lingering_close_after(0x7fffffff);
    struct fake_agent *agent = agent_up((struct fake_agent_options){0}, &lingering_close);
    unsigned node = atomic_load(&fixture.opened_node);
    tunnel_broker_move_sessions(fixture.broker, 100 * FIXTURE_WAIT_MS); // it may stay for as long as the test does
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->drains) == 1);
    struct fixture_call call = {.fixture = &fixture, .node = node, .path = "/hello"};
    struct meeting meeting = {.agent = agent, .calls = &call, .count = 1};
    loop_post(fixture.loops[node], meet, &meeting);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.status, 200); // no one else is there
    assert_int_equal(fake_agent_seen(agent)->requests, 2);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// Nothing is on its way to the agent any more, since it has no room, and there is none for what
// would follow either.
static bool is_blocked(int fd)
{
    int unacknowledged = 0, unsent = 0; // tcp(7): SIOCOUTQ; SIOCOUTQNSD is of them what was not sent either
    struct pollfd socket = {.fd = fd, .events = POLLOUT};
    if (ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || ioctl(fd, SIOCOUTQNSD, &unsent) != 0) return false;
    return unsent > 0 && unsent == unacknowledged && poll(&socket, 1, 0) == 0;
}

static void wait_until_blocked(const struct fake_agent *agent)
{
    enum { LOOKS = 30 };
    int fd = socket_of(agent);
    struct fixture_wait wait = fixture_wait_begin();
    for (int looks = 0; looks < LOOKS;) {
        looks = is_blocked(fd) ? looks + 1 : 0;
        if (!fixture_wait_more(&wait)) fail_msg("the socket never filled up");
    }
}

// Behind a socket that is full: such calls go elsewhere while the one that fills it stays.
static void test_full_socket_keeps_no_call(void **state)
{
    (void)state;
    for (unsigned far = 0; far < 2; far++) {
        fixture_start(&fixture, NULL);
        const struct lingering_close lingering_close = lingering_close_after(3);
        struct fake_agent *first = agent_up(
            (struct fake_agent_options){.window_bytes = WINDOW_BYTES, .receive_bytes = 16384}, &lingering_close);
        unsigned node = (atomic_load(&fixture.opened_node) + far) % FIXTURE_NODES;
        fake_agent_mute(first);
        struct fixture_call filler = {
            .fixture = &fixture, .node = node, .method = "POST", .path = "/hang", .upload_bytes = ENDLESS_BYTES};
        fixture_call_start(&filler);
        wait_until_blocked(first);
        struct fixture_call call = {.fixture = &fixture,
                                    .node = node,
                                    .method = "POST",
                                    .path = "/echo",
                                    .upload_bytes = 50000,
                                    .later_bytes = 20000};
        fixture_call_start(&call);
        WAIT_UNTIL(calls_open() == 2);
        struct fake_agent *next = next_comes();
        fixture_call_go_on(&call); // from the other loop, it may come before the GOAWAY or behind it
        fake_agent_tell(first);
        WAIT_UNTIL(atomic_load(&fixture.retired) == 1);
        assert_int_equal(call.taken, 0); // who handed the call over must have all of it
        next_opens(next);
        WAIT_UNTIL(atomic_load(&call.done));
        assert_int_equal(call.status, 200);
        assert_int_equal(call.received, 50000);
        assert_false(call.wrong_bytes);
        assert_false(filler.done);
        fake_agent_stop(first);
        WAIT_UNTIL(atomic_load(&filler.done));
        assert_int_equal(filler.cause, TUNNEL_CAUSE_TUNNEL_LOST);
        fake_agent_stop(next);
        fixture_stop(&fixture);
    }
}

struct ending {
    struct fixture_call *call;
};

static void open_and_end(void *arg)
{
    const struct ending *ending = arg;
    fixture_call_start(ending->call);
    tunnel_broker_revoke(fixture.broker, FIXTURE_ACCOUNT, "demo", NULL, "revoked"); // behind it in the same mailbox
}

static void test_session_ends_before_a_head_leaves(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    const struct lingering_close lingering_close = lingering_close_after(1);
    struct fake_agent *first = agent_up((struct fake_agent_options){0}, &lingering_close);
    unsigned node = atomic_load(&fixture.opened_node);
    struct fixture_call call = {
        .fixture = &fixture, .node = node, .method = "POST", .path = "/echo", .upload_bytes = 50000};
    struct ending ending = {.call = &call};
    loop_post(fixture.loops[node], open_and_end, &ending);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->closed));
    struct fake_agent *next = fixture_agent_up(&fixture);
    WAIT_UNTIL(atomic_load(&call.done));
    assert_int_equal(call.status, 200);
    assert_int_equal(call.received, 50000);
    assert_int_equal(fake_agent_seen(first)->requests, 1);
    fake_agent_stop(first);
    fake_agent_stop(next);
    fixture_stop(&fixture);
}

// ---- HEADERS that the agent did not look at ------------------------------------------------------------------

static void test_streams_above_the_last(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    const struct lingering_close lingering_close = lingering_close_after(3);
    struct fake_agent *first = agent_up((struct fake_agent_options){.answers_nothing = true}, &lingering_close);
    struct fixture_call begun = {.fixture = &fixture, .path = "/hello"}; // stream 3: the agent may have begun it
    fixture_call_start(&begun);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->requests) == 2);
    struct fixture_call calls[] = {
        {.fixture = &fixture, .node = 0, .path = "/hello"},
        {.fixture = &fixture, .node = 1, .path = "/hello"},
        // What was sent of a body is not there any more, and another replica's call is that one's
        // to open again.
        {.fixture = &fixture, .node = 0, .method = "POST", .path = "/echo", .upload_bytes = 10},
        {.fixture = &fixture, .node = 1, .method = "POST", .path = "/echo", .upload_bytes = 10},
        {.fixture = &fixture, .node = 0, .path = "/hello", .epoch = 1},
        {.fixture = &fixture, .node = 1, .path = "/hello", .epoch = 1},
    };
    for (unsigned i = 0; i < 6; i++)
        fixture_call_start(&calls[i]);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->requests) == 8);
    WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->received) == 20);
    struct fake_agent *next = next_comes();
    fake_agent_tell(first);
    for (unsigned i = 2; i < 6; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        assert_int_equal(calls[i].cause, TUNNEL_CAUSE_NO_TUNNEL);
    }
    next_opens(next);
    for (unsigned i = 0; i < 2; i++) {
        WAIT_UNTIL(atomic_load(&calls[i].done));
        assert_int_equal(calls[i].status, 200);
    }
    assert_false(begun.done);
    fake_agent_stop(first);
    WAIT_UNTIL(atomic_load(&begun.done));
    assert_int_equal(begun.cause, TUNNEL_CAUSE_TUNNEL_LOST);
    fake_agent_stop(next);
    fixture_stop(&fixture);
}

static void test_refused_streams(void **state)
{
    (void)state;
    for (unsigned node = 0; node < FIXTURE_NODES; node++) {
        fixture_start(&fixture, NULL);
        struct fake_agent *agent = fixture_agent_up(&fixture);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 1);
        struct fixture_call twice = {.fixture = &fixture, .node = node, .path = "/refuse/2"};
        fixture_call_start(&twice);
        WAIT_UNTIL(atomic_load(&twice.done));
        assert_int_equal(twice.status, 200);
        assert_int_equal(fake_agent_seen(agent)->requests, 1 + 3);
        struct fixture_call always = {.fixture = &fixture, .node = node, .path = "/refuse/1000"};
        fixture_call_start(&always);
        WAIT_UNTIL(atomic_load(&always.done));
        assert_int_equal(always.cause, TUNNEL_CAUSE_OVERLOADED);
        assert_int_equal(fake_agent_seen(agent)->requests, 1 + 3 + 4);
        fake_agent_stop(agent);
        fixture_stop(&fixture);
    }
}

// Nobody comes: calls end as those do that find no tunnel, and those that leave meanwhile leave.
static void test_nobody_comes_back(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    const struct lingering_close lingering_close = lingering_close_after(1);
    struct fake_agent *agent = agent_up((struct fake_agent_options){.answers_nothing = true}, &lingering_close);
    struct fixture_call calls[4];
    for (unsigned i = 0; i < 4; i++) {
        calls[i] = (struct fixture_call){.fixture = &fixture, .node = i % 2, .path = "/hello"};
        fixture_call_start(&calls[i]);
    }
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 5);
    fake_agent_tell(agent);
    WAIT_UNTIL(atomic_load(&fixture.closed) == 1); // nothing is left on it
    fixture_call_cancel(&calls[0]);
    fixture_call_cancel(&calls[1]);
    for (unsigned i = 0; i < 4; i++)
        WAIT_UNTIL(atomic_load(&calls[i].done));
    assert_int_equal(calls[2].cause, TUNNEL_CAUSE_NO_TUNNEL);
    assert_int_equal(calls[3].cause, TUNNEL_CAUSE_NO_TUNNEL);
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

static void tune_room(struct tunnel_options *options)
{
    options->node_buffered_bytes_max = 1024; // of heads, as of answers
}

// More than may be kept is not: such a call fails as one that may have been begun.
static void test_kept_heads_are_bounded(void **state)
{
    (void)state;
    enum { CALLS = 8 };
    fixture_start(&fixture, tune_room);
    const struct lingering_close lingering_close = lingering_close_after(1);
    struct fake_agent *first = agent_up((struct fake_agent_options){.answers_nothing = true}, &lingering_close);
    struct fixture_call calls[CALLS];
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = (struct fixture_call){.fixture = &fixture, .path = "/hello"};
        fixture_call_start(&calls[i]);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(first)->requests) == 2 + i);
    }
    struct fake_agent *next = next_comes();
    fake_agent_tell(first);
    WAIT_UNTIL(atomic_load(&calls[CALLS - 1].done));
    assert_int_equal(calls[CALLS - 1].cause, TUNNEL_CAUSE_NO_TUNNEL);
    next_opens(next);
    WAIT_UNTIL(atomic_load(&calls[0].done));
    assert_int_equal(calls[0].status, 200);
    for (unsigned i = 0; i < CALLS; i++)
        WAIT_UNTIL(atomic_load(&calls[i].done));
    fake_agent_stop(first);
    fake_agent_stop(next);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_that_meet_a_lingering_close),
        cmocka_unit_test(test_who_was_asked_to_move_is_told_first),
        cmocka_unit_test(test_full_socket_keeps_no_call),
        cmocka_unit_test(test_session_ends_before_a_head_leaves),
        cmocka_unit_test(test_streams_above_the_last),
        cmocka_unit_test(test_refused_streams),
        cmocka_unit_test(test_nobody_comes_back),
        cmocka_unit_test(test_kept_heads_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
