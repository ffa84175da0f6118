// Agents that are authenticated and mean harm: every control message in every state of a session,
// HTTP/2 frames that must not be, and random ones. The broker ends such a session and serves the
// others. CULVERT_TEST_SEED repeats a run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/tunnel/broker_fixture.h"
#include "tunnel/wire/control.h"

static struct fixture fixture;
static uint64_t random_state;

static unsigned random_below(unsigned limit) // splitmix64
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % limit);
}

static int seed(void **state)
{
    (void)state;
    const char *text = getenv("CULVERT_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 10) : clock_mono_us();
    printf("CULVERT_TEST_SEED=%llu\n", (unsigned long long)random_state);
    return 0;
}

static size_t frame_head(uint8_t *out, size_t len, uint8_t type, uint8_t flags, uint32_t stream)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    memcpy(out, head, sizeof(head));
    return sizeof(head);
}

// ---- control messages ----------------------------------------------------------------------------------------

static size_t control_frame(uint8_t *out, enum wire_control_type type)
{
    struct strbuf text;
    strbuf_init(&text, WIRE_CONTROL_BYTES_MAX);
    const struct wire_control control = {.type = type, .session = 1, .epoch = 1, .time_ms = 1, .reason = STR("r")};
    assert_int_equal(wire_control_encode(&control, &text, NULL), ERROR_NONE);
    size_t len = frame_head(out, text.len, WIRE_CONTROL_FRAME, 0, 0);
    memcpy(out + len, text.at, text.len);
    len += text.len;
    strbuf_finish(&text);
    return len;
}

// In the state that the moment stands for. Ends all it began.
static void say_in_state(enum fake_agent_moment moment, const uint8_t *at, size_t len, bool ends)
{
    struct fake_agent *other = NULL, *agent = NULL;
    struct fake_agent_options options = {.instance_id = "pod-2", .says = at, .says_len = len, .says_when = moment};
    struct fixture_call call = {.fixture = &fixture, .path = "/hang"};
    fixture_start(&fixture, NULL);
    atomic_store(&fixture.hold_opening, moment == FAKE_AGENT_AT_ONCE);
    atomic_store(&fixture.stand_by, moment == FAKE_AGENT_STANDBY);
    unsigned closed = atomic_load(&fixture.closed);
    agent = fixture_agent(&fixture, &options);
    if (moment == FAKE_AGENT_SUPERSEDED) { // CLOSING, for as long as the call takes
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 1);
        fixture_call_start(&call);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->requests) == 2);
        other = fixture_agent_up(&fixture);
    }
    WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->said));
    if (ends) {
        WAIT_UNTIL(atomic_load(&fixture.closed) == closed + 1);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
    } else if (moment == FAKE_AGENT_OPEN) {
        struct fixture_call hello = {.fixture = &fixture, .path = "/hello"};
        fixture_call_start(&hello);
        WAIT_UNTIL(atomic_load(&hello.done));
        assert_int_equal(hello.status, 200);
    }
    if (!ends) assert_int_equal(atomic_load(&fixture.closed), closed);
    fake_agent_stop(agent);
    if (other) fake_agent_stop(other);
    if (moment == FAKE_AGENT_SUPERSEDED) WAIT_UNTIL(atomic_load(&call.done));
    fixture_stop(&fixture);
}

static void test_every_message_in_every_state(void **state)
{
    (void)state;
    static const enum wire_control_type types[] = {WIRE_CONTROL_HELLO_ACK,  WIRE_CONTROL_DRAIN,
                                                   WIRE_CONTROL_STATS,      WIRE_CONTROL_TIME,
                                                   WIRE_CONTROL_SUPERSEDED, WIRE_CONTROL_STANDBY};
    for (int moment = FAKE_AGENT_AT_ONCE; moment <= FAKE_AGENT_SUPERSEDED; moment++) {
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            uint8_t frame[128];
            size_t len = control_frame(frame, types[i]);
            bool serves = moment == FAKE_AGENT_OPEN || moment == FAKE_AGENT_SUPERSEDED;
            say_in_state((enum fake_agent_moment)moment, frame, len, !(serves && types[i] == WIRE_CONTROL_STATS));
        }
        uint8_t newer[11] = {0}; // a type that this build does not know: ignored
        frame_head(newer, 2, WIRE_CONTROL_FRAME, 0, 0);
        newer[9] = 1;
        newer[10] = 77;
        say_in_state((enum fake_agent_moment)moment, newer, sizeof(newer), false);
        uint8_t broken[10] = {0}; // no type at all
        frame_head(broken, 1, WIRE_CONTROL_FRAME, 0, 0);
        say_in_state((enum fake_agent_moment)moment, broken, sizeof(broken), true);
    }
}

// ---- HTTP/2 --------------------------------------------------------------------------------------------------

#define FRAME(literal)                                                                                                 \
    {                                                                                                                  \
        (const uint8_t *)(literal), sizeof(literal) - 1                                                                \
    }

static void test_frames_that_must_not_be(void **state)
{
    (void)state;
    static const struct {
        const uint8_t *at;
        size_t len;
    } frames[] = {
        FRAME("\0\0\x04\x05\x04\0\0\0\x01\0\0\0\x02"),           // PUSH_PROMISE
        FRAME("\0\0\x01\x01\x05\0\0\0\x02\x88"),                 // HEADERS on a stream that an agent opens
        FRAME("\0\0\x01\x01\x05\0\0\0\x63\x88"),                 // HEADERS on one that nobody opened
        FRAME("\0\0\x01\0\0\0\0\0\0x"),                          // DATA on stream 0
        FRAME("\0\0\x01\0\0\0\0\0\x63x"),                        // DATA on one that nobody opened
        FRAME("\0\0\x04\x08\0\0\0\0\0\0\0\0\0"),                 // a WINDOW_UPDATE of nothing
        FRAME("\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff"),         // more credit than there can be
        FRAME("\0\0\x04\x08\0\0\0\0\x63\0\0\0\x01"),             // credit for one that nobody opened
        FRAME("\0\0\x03\x08\0\0\0\0\0\0\0\0"),                   // a short WINDOW_UPDATE
        FRAME("\0\0\x05\x04\0\0\0\0\0\0\x01\0\0\0"),             // SETTINGS of no whole entry
        FRAME("\0\0\x06\x04\0\0\0\0\0\0\x04\xff\xff\xff\xff"),   // an initial window that cannot be
        FRAME("\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\0\x01"),         // frames of one byte
        FRAME("\0\0\x01\x04\x01\0\0\0\0x"),                      // an acknowledgement with something in it
        FRAME("\0\0\0\x04\x01\0\0\0\0"),                         // a second acknowledgement
        FRAME("\0\0\x04\x03\0\0\0\0\0\0\0\0\x08"),               // RST_STREAM of stream 0
        FRAME("\0\0\x04\x03\0\0\0\0\x63\0\0\0\x08"),             // and of one that nobody opened
        FRAME("\0\0\x07\x06\0\0\0\0\0\0\0\0\0\0\0\0"),           // a short PING
        FRAME("\0\0\x08\x06\0\0\0\0\x01\0\0\0\0\0\0\0\0"),       // PING on a stream
        FRAME("\0\0\x01\x09\x04\0\0\0\x01\x88"),                 // CONTINUATION of nothing
        FRAME("\0\0\x04\x07\0\0\0\0\0\0\0\0\0"),                 // a short GOAWAY
        FRAME("\xff\xff\xff\0\0\0\0\0\x01"),                     // 16 MiB in one frame
        FRAME("\0\x20\x01\xe0\0\0\0\0\0"),                       // a control message over its limit
        FRAME("\0\0\x02\xe0\0\0\0\0\x01\x01\x03"),               // a control message on a stream
        FRAME("\0\0\x05\x01\x04\0\0\0\x01\xff\xff\xff\xff\xff"), // HPACK of nonsense
        FRAME("\0\0\x01\x01\x04\0\0\0\x01\xbe"),                 // an index into a table that is empty
    };
    fixture_start(&fixture, NULL);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        unsigned closed = atomic_load(&fixture.closed);
        struct fake_agent *agent =
            fixture_agent(&fixture, &(struct fake_agent_options){
                                        .says = frames[i].at, .says_len = frames[i].len, .says_when = FAKE_AGENT_OPEN});
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->closed));
        fake_agent_stop(agent);
        WAIT_UNTIL(atomic_load(&fixture.closed) == closed + 1);
        pthread_mutex_lock(&fixture.mutex);
        bool lost = !strcmp(fixture.close_reason, "the agent's connection was lost");
        pthread_mutex_unlock(&fixture.mutex);
        if (lost) fail_msg("frame %zu was let pass", i);
    }
    fixture_stop(&fixture);
}

// Interim answers have no credit: only their number bounds what waits for a client that does not
// read.
static void test_interim_answers_without_end(void **state)
{
    (void)state;
    fixture_start(&fixture, NULL);
    struct fake_agent *agent = fixture_agent_up(&fixture);
    for (unsigned node = 0; node < FIXTURE_NODES; node++) { // on the session's loop and across
        unsigned resets = atomic_load(&fake_agent_seen(agent)->resets);
        struct fixture_call many = {.fixture = &fixture, .node = node, .path = "/info/16"};
        fixture_call_start(&many);
        WAIT_UNTIL(atomic_load(&many.done));
        assert_int_equal(many.status, 200);
        assert_int_equal(many.infos, 16);
        struct fixture_call too_many = {.fixture = &fixture, .node = node, .path = "/info/5000"};
        fixture_call_start(&too_many);
        WAIT_UNTIL(atomic_load(&too_many.done));
        assert_int_equal(too_many.cause, TUNNEL_CAUSE_UPSTREAM_FAILED);
        assert_int_equal(too_many.status, 0);
        assert_int_equal(too_many.infos, 16);
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->resets) == resets + 1);
        struct fixture_call after = {.fixture = &fixture, .node = node, .path = "/hello"};
        fixture_call_start(&after);
        WAIT_UNTIL(atomic_load(&after.done));
        assert_int_equal(after.status, 200);
    }
    fake_agent_stop(agent);
    fixture_stop(&fixture);
}

// Ten thousand of them; whatever becomes of the session, the broker stays well and serves the next
// one.
static void test_random_frames(void **state)
{
    (void)state;
    enum { AGENTS = 50, FRAMES = 200, PAYLOAD_BYTES_MAX = 64 };
    static uint8_t frames[FRAMES * (9 + PAYLOAD_BYTES_MAX)];
    fixture_start(&fixture, NULL);
    for (unsigned round = 0; round < AGENTS; round++) {
        size_t used = 0;
        for (unsigned i = 0; i < FRAMES; i++) {
            size_t len = random_below(PAYLOAD_BYTES_MAX);
            uint8_t type = random_below(8) ? (uint8_t)random_below(10) : (uint8_t)random_below(256);
            used += frame_head(frames + used, len, type, (uint8_t)random_below(256), random_below(8));
            for (size_t byte = 0; byte < len; byte++)
                frames[used++] = (uint8_t)random_below(random_below(2) ? 256 : 2);
        }
        struct fake_agent *agent = fixture_agent(
            &fixture, &(struct fake_agent_options){.says = frames + random_below(3) * (round % 4 == 0), // out of step
                                                   .says_len = used - 8,
                                                   .says_when = FAKE_AGENT_OPEN});
        WAIT_UNTIL(atomic_load(&fake_agent_seen(agent)->said) || atomic_load(&fake_agent_seen(agent)->closed));
        struct fixture_call call = {.fixture = &fixture, .node = round % FIXTURE_NODES, .path = "/hello"};
        if (round % 10 == 0) fixture_call_start(&call); // into it, or into what comes after it
        struct fake_agent *good = fixture_agent_up(&fixture);
        fake_agent_stop(agent);
        if (round % 10 == 0) WAIT_UNTIL(atomic_load(&call.done));
        struct fixture_call after = {.fixture = &fixture, .node = round % FIXTURE_NODES, .path = "/hello"};
        fixture_call_start(&after);
        WAIT_UNTIL(atomic_load(&after.done));
        assert_int_equal(after.status, 200);
        fake_agent_stop(good);
    }
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_in_every_state),
        cmocka_unit_test(test_frames_that_must_not_be),
        cmocka_unit_test(test_interim_answers_without_end),
        cmocka_unit_test(test_random_frames),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
