// tunnel/wire/control: round trips and refusals of the control messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/wire/control.h"

static const struct wire_control samples[] = {
    {.type = WIRE_CONTROL_HELLO_ACK,
     .session = 7,
     .epoch = 1 << 30,
     .ping_after_ms = 10000,
     .dead_after_ms = 5000,
     .capabilities = WIRE_CAPABILITY_BOUND_IDENTITY,
     .time_ms = 77},
    {.type = WIRE_CONTROL_DRAIN, .deadline_ms = 30000, .spread_ms = 500, .reason = STR("deploy")},
    {.type = WIRE_CONTROL_STATS,
     .streams_open = 3,
     .outbox_depth = 99,
     .rss_bytes = 1 << 24,
     .behind_ms = 7,
     .blind_ms = 8},
    {.type = WIRE_CONTROL_TIME, .time_ms = 1 << 30},
    {.type = WIRE_CONTROL_SUPERSEDED, .epoch = 12, .reason = STR("newer")},
    {.type = WIRE_CONTROL_STANDBY, .reason = STR("another one")},
    {.type = WIRE_CONTROL_OPERATION,
     .operation = STR("01a205e0-582b-7749-b85d-b8b8df17106f"),
     .attempt = 2,
     .ttl_ms = 60000,
     .document = STR("{}")},
    {.type = WIRE_CONTROL_OPERATION_STATE,
     .operation = STR("01a205e0-582b-7749-b85d-b8b8df17106f"),
     .attempt = 2,
     .state = WIRE_OPERATION_FAILED,
     .code = STR("NOT_ALLOWED"),
     .reason = STR("the setting")},
};

static void test_round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct wire_control *in = &samples[i];
        struct strbuf text;
        strbuf_init(&text, WIRE_CONTROL_BYTES_MAX);
        assert_int_equal(wire_control_encode(in, &text, NULL), ERROR_NONE);
        struct wire_control out;
        assert_int_equal(wire_control_decode((const uint8_t *)text.at, text.len, &out, NULL), ERROR_NONE);
        assert_int_equal(out.type, in->type);
        assert_int_equal(out.session, in->session);
        assert_int_equal(out.epoch, in->epoch);
        assert_int_equal(out.ping_after_ms, in->ping_after_ms);
        assert_int_equal(out.dead_after_ms, in->dead_after_ms);
        assert_int_equal(out.deadline_ms, in->deadline_ms);
        assert_int_equal(out.spread_ms, in->spread_ms);
        assert_int_equal(out.streams_open, in->streams_open);
        assert_int_equal(out.outbox_depth, in->outbox_depth);
        assert_int_equal(out.behind_ms, in->behind_ms);
        assert_int_equal(out.blind_ms, in->blind_ms);
        assert_int_equal(out.rss_bytes, in->rss_bytes);
        assert_true(str_eq(out.reason, in->reason));
        assert_int_equal(out.time_ms, in->time_ms);
        assert_int_equal(out.attempt, in->attempt);
        assert_int_equal(out.ttl_ms, in->ttl_ms);
        assert_int_equal(out.state, in->state);
        assert_true(str_eq(out.operation, in->operation));
        assert_true(str_eq(out.document, in->document));
        assert_true(str_eq(out.code, in->code));
        for (size_t len = 0; len < text.len; len++) { // a cut message is never taken for a whole one with other content
            uint8_t *cut = mem_dup(text.at, len);
            enum error_code code = wire_control_decode(cut, len, &out, NULL);
            if (code == ERROR_NONE) assert_int_equal(out.type, in->type);
            mem_free(cut);
        }
        strbuf_finish(&text);
    }
}

static enum error_code decode(const void *at, size_t len)
{
    struct wire_control out;
    return wire_control_decode(at, len, &out, NULL);
}
#define DECODE(literal) decode(literal, sizeof(literal) - 1)

static void test_refusals(void **state)
{
    (void)state;
    assert_int_equal(DECODE(""), ERROR_PROTOCOL);
    assert_int_equal(DECODE("\1"), ERROR_PROTOCOL);
    assert_int_equal(DECODE("\2\1"), ERROR_NOT_FOUND);
    assert_int_equal(DECODE("\1\0"), ERROR_NOT_FOUND);
    assert_int_equal(DECODE("\1\x63"), ERROR_NOT_FOUND);
    assert_int_equal(DECODE("\1\1"), ERROR_PROTOCOL);                         // fields are missing
    assert_int_equal(DECODE("\1\3"), ERROR_NONE);                             // STATS needs none
    assert_int_equal(DECODE("\1\3\x09\0\4\0\0\0\0"), ERROR_PROTOCOL);         // short number
    assert_int_equal(DECODE("\1\3\x09\0\x08\0\0\0\0\0\0\0"), ERROR_PROTOCOL); // cut
    assert_int_equal(DECODE("\1\3\x63\0\1x"), ERROR_NONE);                    // unknown field
    assert_int_equal(DECODE("\1\6\x08\0\1\xff"), ERROR_PROTOCOL);             // not UTF-8
    assert_int_equal(DECODE("\1\6\x08\0\1x\x08\0\1x"), ERROR_PROTOCOL);       // twice
    static const uint8_t big[WIRE_CONTROL_BYTES_MAX + 1] = {1, 3};
    assert_int_equal(decode(big, sizeof(big)), ERROR_PROTOCOL);
    char text[WIRE_CONTROL_TEXT_BYTES_MAX + 1] = {'x'};
    struct strbuf out;
    strbuf_init(&out, 4096);
    assert_int_equal(
        wire_control_encode(&(struct wire_control){.type = WIRE_CONTROL_STANDBY, .reason = str_of(text, sizeof(text))},
                            &out, NULL),
        ERROR_TOO_LARGE);
    assert_int_equal(wire_control_encode(&(struct wire_control){.type = (enum wire_control_type)77}, &out, NULL),
                     ERROR_INVALID);
    strbuf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trips), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
