#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "tunnel/wire/ws_frame.h"

struct seen {
    uint8_t data[300000];
    size_t data_len;
    unsigned pings, pongs, closes;
    uint16_t close_code;
    char control[126];
};

static enum error_code feed(struct ws_frame_decoder *d, const uint8_t *bytes, size_t len, size_t step,
                            struct seen *seen)
{
    uint8_t *copy = mem_dup(bytes, len ? len : 1);
    enum error_code code = ERROR_NONE;
    for (size_t at = 0; at < len && !code;) {
        size_t piece = len - at < step ? len - at : step, used = 0;
        struct ws_frame_event event;
        code = ws_frame_decode(d, copy + at, piece, &used, &event, NULL);
        if (code) break;
        at += used;
        if (event.type == WS_FRAME_EVENT_DATA) {
            memcpy(seen->data + seen->data_len, event.at, event.len);
            seen->data_len += event.len;
        } else if (event.type != WS_FRAME_EVENT_NONE) {
            seen->pings += event.type == WS_FRAME_EVENT_PING;
            seen->pongs += event.type == WS_FRAME_EVENT_PONG;
            seen->closes += event.type == WS_FRAME_EVENT_CLOSE;
            seen->close_code = event.close_code;
            memcpy(seen->control, event.at, event.len);
            seen->control[event.len] = '\0';
        }
    }
    mem_free(copy);
    return code;
}

// ---- RFC 6455 section 5.7's own examples -----------------------------------------------------------------------

static void test_rfc_examples(void **state)
{
    (void)state;
    static const uint8_t unmasked[] = {0x82, 0x05, 'H', 'e', 'l', 'l', 'o'};
    static const uint8_t masked[] = {0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58};
    static const uint8_t fragments[] = {0x02, 0x03, 'H', 'e', 'l', 0x80, 0x02, 'l', 'o'};
    static const uint8_t ping[] = {0x89, 0x05, 'H', 'e', 'l', 'l', 'o'};
    for (size_t step = 1; step < 12; step++) {
        struct ws_frame_decoder d;
        static struct seen seen;
        memset(&seen, 0, sizeof(seen));
        ws_frame_decoder_init(&d, false);
        assert_int_equal(feed(&d, unmasked, sizeof(unmasked), step, &seen), ERROR_NONE);
        assert_int_equal(feed(&d, fragments, sizeof(fragments), step, &seen), ERROR_NONE);
        assert_int_equal(feed(&d, ping, sizeof(ping), step, &seen), ERROR_NONE);
        assert_memory_equal(seen.data, "HelloHello", 10);
        assert_int_equal(seen.pings, 1);
        assert_string_equal(seen.control, "Hello");

        memset(&seen, 0, sizeof(seen));
        ws_frame_decoder_init(&d, true);
        assert_int_equal(feed(&d, masked, sizeof(masked), step, &seen), ERROR_NONE);
        assert_memory_equal(seen.data, "Hello", 5);
    }
}

// ---- what is written is what is read ---------------------------------------------------------------------------

static void test_round_trip_of_all_lengths(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 7, 8, 9, 125, 126, 127, 4096, 65535, 65536, 65537, 200000};
    static uint8_t wire[200000 + WS_FRAME_HEADER_BYTES_MAX], payload[200000];
    static struct seen seen;
    struct ws_frame_masks masks;
    ws_frame_masks_init(&masks);
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int masked = 0; masked < 2; masked++) {
            uint8_t mask[4];
            struct ws_frame_decoder d;
            ws_frame_masks_next(&masks, mask);
            size_t n = ws_frame_header(wire, WS_FRAME_BINARY, lengths[i], masked ? mask : NULL);
            assert_int_equal(n, ws_frame_header_bytes(lengths[i], masked));
            memcpy(wire + n, payload, lengths[i]);
            if (masked) ws_frame_apply_mask(wire + n, lengths[i], mask, 0);
            memset(&seen, 0, sizeof(seen));
            ws_frame_decoder_init(&d, masked);
            assert_int_equal(feed(&d, wire, n + lengths[i], 1 + i * 1237, &seen), ERROR_NONE);
            assert_int_equal(seen.data_len, lengths[i]);
            assert_memory_equal(seen.data, payload, lengths[i]);
        }
    }
}

static void test_mask_in_pieces_is_mask_in_one(void **state)
{
    (void)state;
    static const uint8_t mask[4] = {1, 2, 3, 200};
    for (size_t len = 0; len < 70; len++) {
        for (size_t cut = 0; cut <= len; cut++) {
            uint8_t whole[70] = {0}, parts[70] = {0};
            ws_frame_apply_mask(whole, len, mask, 0);
            ws_frame_apply_mask(parts, cut, mask, 0);
            ws_frame_apply_mask(parts + cut, len - cut, mask, cut);
            for (size_t i = 0; i < len; i++)
                assert_int_equal(whole[i], mask[i % 4]);
            assert_memory_equal(whole, parts, len);
        }
    }
}

static void test_masks_differ(void **state)
{
    (void)state;
    struct ws_frame_masks masks;
    uint8_t last[4] = {0}, next[4];
    unsigned same = 0;
    ws_frame_masks_init(&masks);
    for (unsigned i = 0; i < 1000; i++) {
        ws_frame_masks_next(&masks, next);
        same += memcmp(last, next, sizeof(next)) == 0;
        memcpy(last, next, sizeof(next));
    }
    assert_true(same < 3);
}

// ---- control frames --------------------------------------------------------------------------------------------

static void test_control_inside_a_message(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x02, 0x02, 'a', 'b', 0x8a, 0x01, 'x', 0x80, 0x01, 'c'};
    static struct seen seen;
    struct ws_frame_decoder d;
    memset(&seen, 0, sizeof(seen));
    ws_frame_decoder_init(&d, false);
    assert_int_equal(feed(&d, bytes, sizeof(bytes), 3, &seen), ERROR_NONE);
    assert_memory_equal(seen.data, "abc", 3);
    assert_int_equal(seen.pongs, 1);
}

static void test_close_codes(void **state)
{
    (void)state;
    static struct seen seen;
    for (unsigned code = 0; code < 5200; code++) {
        uint8_t bytes[131];
        struct ws_frame_decoder d;
        bool valid = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
        size_t n = ws_frame_close(bytes, (uint16_t)code, STR("why"), NULL);
        memset(&seen, 0, sizeof(seen));
        ws_frame_decoder_init(&d, false);
        assert_int_equal(feed(&d, bytes, n, 200, &seen), valid ? ERROR_NONE : ERROR_PROTOCOL);
        if (!valid) continue;
        assert_int_equal(seen.close_code, code);
        assert_string_equal(seen.control, "why");
        // Nothing may follow.
        assert_int_equal(feed(&d, bytes, n, 200, &seen), ERROR_PROTOCOL);
    }
}

static void test_close_without_code(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x88, 0x00};
    static struct seen seen;
    struct ws_frame_decoder d;
    memset(&seen, 0, sizeof(seen));
    ws_frame_decoder_init(&d, false);
    assert_int_equal(feed(&d, bytes, sizeof(bytes), 1, &seen), ERROR_NONE);
    assert_int_equal(seen.close_code, WS_FRAME_CLOSE_NONE);
}

static void test_close_reason_is_cut_between_characters(void **state)
{
    (void)state;
    static struct seen seen;
    char reason[200];
    uint8_t bytes[131];
    struct ws_frame_decoder d;
    for (size_t i = 0; i + 1 < sizeof(reason); i += 2)
        memcpy(reason + i, "\xc3\xa4", 2);
    size_t n = ws_frame_close(bytes, 1001, str_of(reason, sizeof(reason)), NULL);
    memset(&seen, 0, sizeof(seen));
    ws_frame_decoder_init(&d, false);
    assert_int_equal(feed(&d, bytes, n, 200, &seen), ERROR_NONE);
    assert_int_equal(strlen(seen.control), 122);
}

// ---- refusals --------------------------------------------------------------------------------------------------

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool expects_mask;
        uint8_t bytes[16];
        size_t len;
        uint16_t fail_code;
    } cases[] = {
        {"rsv1", false, {0xc2, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"rsv2", false, {0xa2, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"rsv3", false, {0x92, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"opcode 3", false, {0x83, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"opcode 7", false, {0x87, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"opcode 11", false, {0x8b, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"opcode 15", false, {0x8f, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"masked from server", false, {0x82, 0x80, 1, 2, 3, 4}, 6, WS_FRAME_CLOSE_PROTOCOL},
        {"unmasked from client", true, {0x82, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"continuation of nothing", false, {0x80, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"message in message", false, {0x02, 0x00, 0x82, 0x00}, 4, WS_FRAME_CLOSE_PROTOCOL},
        {"fragmented ping", false, {0x09, 0x00}, 2, WS_FRAME_CLOSE_PROTOCOL},
        {"ping of 126", false, {0x89, 126, 0, 126}, 4, WS_FRAME_CLOSE_PROTOCOL},
        {"close of one byte", false, {0x88, 0x01, 3}, 3, WS_FRAME_CLOSE_PROTOCOL},
        {"long form of 125", false, {0x82, 126, 0, 125}, 4, WS_FRAME_CLOSE_PROTOCOL},
        {"longest form of 65535", false, {0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 10, WS_FRAME_CLOSE_PROTOCOL},
        {"2^63", false, {0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, 10, WS_FRAME_CLOSE_PROTOCOL},
        {"reason that is not UTF-8", false, {0x88, 0x03, 0x03, 0xe8, 0xff}, 5, WS_FRAME_CLOSE_INVALID_DATA},
        {"text", false, {0x81, 0x01, 'a'}, 3, WS_FRAME_CLOSE_UNSUPPORTED},
        {"empty text", false, {0x81, 0x00}, 2, WS_FRAME_CLOSE_UNSUPPORTED},
    };
    static struct seen seen;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t step = 1; step <= 16; step += 15) {
            struct ws_frame_decoder d;
            memset(&seen, 0, sizeof(seen));
            ws_frame_decoder_init(&d, cases[i].expects_mask);
            d.binary_only = true;
            enum error_code code = feed(&d, cases[i].bytes, cases[i].len, step, &seen);
            if (code != ERROR_PROTOCOL) fail_msg("%s was accepted", cases[i].what);
            assert_int_equal(d.fail_code, cases[i].fail_code);
        }
    }
}

static void test_header_of_2_to_the_62_needs_no_memory(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x82, 127, 0x40, 0, 0, 0, 0, 0, 0, 0, 'x'};
    static struct seen seen;
    struct ws_frame_decoder d;
    memset(&seen, 0, sizeof(seen));
    ws_frame_decoder_init(&d, false);
    assert_int_equal(feed(&d, bytes, sizeof(bytes), 16, &seen), ERROR_NONE);
    assert_int_equal(seen.data_len, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc_examples),
        cmocka_unit_test(test_round_trip_of_all_lengths),
        cmocka_unit_test(test_mask_in_pieces_is_mask_in_one),
        cmocka_unit_test(test_masks_differ),
        cmocka_unit_test(test_control_inside_a_message),
        cmocka_unit_test(test_close_codes),
        cmocka_unit_test(test_close_without_code),
        cmocka_unit_test(test_close_reason_is_cut_between_characters),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_header_of_2_to_the_62_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
