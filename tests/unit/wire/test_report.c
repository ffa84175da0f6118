// tunnel/wire/report: round trips, every cut, and what a hostile end may send.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/wire/report.h"

static struct wire_report sample_object(void)
{
    struct wire_report report = {.type = WIRE_REPORT_OBJECT,
                                 .sequence = 42,
                                 .boot_id = STR("boot-1"),
                                 .ref.group = STR("apps"),
                                 .ref.version = STR("v1"),
                                 .ref.kind = STR("Deployment"),
                                 .ref.ns = STR("shop"),
                                 .ref.name = STR("cart"),
                                 .ref.uid = STR("uid-1"),
                                 .cluster = STR("in-cluster"),
                                 .application_ns = STR("argocd"),
                                 .application_name = STR("shop"),
                                 .sync_status = STR("Synced"),
                                 .health_status = STR("Healthy"),
                                 .health_message = STR("all \xc3\xa4 well"),
                                 .health_source = STR(WIRE_HEALTH_AGENT),
                                 .presence = STR(WIRE_PRESENCE_UNREADABLE),
                                 .resource = STR("deployments"),
                                 .marks = STR(WIRE_MARK_HOOK),
                                 .observed_at_ms = 1700000000123,
                                 .encoding = WIRE_REPORT_ZSTD,
                                 .manifest_bytes = 4096,
                                 .manifest = STR("\x28\xb5\x2f\xfd rest")};
    for (size_t i = 0; i < sizeof(report.hash); i++)
        report.hash[i] = (uint8_t)(i + 1);
    return report;
}

static void assert_same_text(struct str a, struct str b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.at ? a.at : "", b.at ? b.at : "", a.len);
}

static void test_object_round_trip(void **state)
{
    (void)state;
    struct wire_report in = sample_object();
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    assert_int_equal(wire_report_encode(&in, &text, NULL), ERROR_NONE);
    struct wire_report out;
    size_t used = 0;
    assert_int_equal(wire_report_decode((const uint8_t *)text.at, text.len, &out, &used, NULL), ERROR_NONE);
    assert_int_equal(used, text.len);
    assert_int_equal(out.type, in.type);
    assert_int_equal(out.sequence, in.sequence);
    assert_same_text(out.boot_id, in.boot_id);
    assert_same_text(out.ref.group, in.ref.group);
    assert_same_text(out.ref.version, in.ref.version);
    assert_same_text(out.ref.kind, in.ref.kind);
    assert_same_text(out.ref.ns, in.ref.ns);
    assert_same_text(out.ref.name, in.ref.name);
    assert_same_text(out.ref.uid, in.ref.uid);
    assert_same_text(out.cluster, in.cluster);
    assert_same_text(out.application_ns, in.application_ns);
    assert_same_text(out.application_name, in.application_name);
    assert_same_text(out.sync_status, in.sync_status);
    assert_same_text(out.health_status, in.health_status);
    assert_same_text(out.health_message, in.health_message);
    assert_same_text(out.health_source, in.health_source);
    assert_same_text(out.presence, in.presence);
    assert_same_text(out.resource, in.resource);
    assert_same_text(out.marks, in.marks);
    assert_int_equal(out.observed_at_ms, in.observed_at_ms);
    assert_memory_equal(out.hash, in.hash, sizeof(in.hash));
    assert_int_equal(out.encoding, in.encoding);
    assert_int_equal(out.manifest_bytes, in.manifest_bytes);
    assert_same_text(out.manifest, in.manifest);
    strbuf_finish(&text);
}

static void test_every_type(void **state)
{
    (void)state;
    const struct wire_report reports[] = {
        {.type = WIRE_REPORT_HELLO, .sequence = 1, .boot_id = STR("b")},
        {.type = WIRE_REPORT_DELETED, .sequence = 2, .ref.kind = STR("Pod"), .ref.name = STR("p"), .ref.uid = STR("u")},
        {.type = WIRE_REPORT_SNAPSHOT_BEGIN, .sequence = 3},
        {.type = WIRE_REPORT_SNAPSHOT_END, .sequence = 4, .count = 0},
        {.type = WIRE_REPORT_SNAPSHOT_END, .sequence = 5, .count = 123456789},
        {.type = WIRE_REPORT_CLUSTER, .sequence = 6, .manifest = STR("{\"name\":\"in-cluster\"}")},
        {.type = WIRE_REPORT_DIGEST, .sequence = 7, .digest = STR("\4")},
        {.type = WIRE_REPORT_SNAPSHOT_END, .sequence = 8, .count = 1, .unread = STR("/Secret\nbatch/Job\n")},
    };
    struct strbuf text;
    strbuf_init(&text, 1 << 16);
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++)
        assert_int_equal(wire_report_encode(&reports[i], &text, NULL), ERROR_NONE);
    size_t at = 0;
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        struct wire_report out;
        size_t used = 0;
        assert_int_equal(wire_report_decode((const uint8_t *)text.at + at, text.len - at, &out, &used, NULL),
                         ERROR_NONE);
        assert_int_equal(out.type, reports[i].type);
        assert_int_equal(out.sequence, reports[i].sequence);
        assert_int_equal(out.count, reports[i].count);
        assert_same_text(out.digest, reports[i].digest);
        assert_same_text(out.unread, reports[i].unread);
        at += used;
    }
    assert_int_equal(at, text.len);
    strbuf_finish(&text);
}

static void test_every_cut_wants_more(void **state)
{
    (void)state;
    struct wire_report in = sample_object();
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    assert_int_equal(wire_report_encode(&in, &text, NULL), ERROR_NONE);
    for (size_t len = 0; len < text.len; len++) {
        uint8_t *cut = mem_dup(text.at, len);
        struct wire_report out;
        size_t wanted = 99;
        assert_int_equal(wire_report_decode(cut, len, &out, &wanted, NULL), ERROR_AGAIN);
        assert_int_equal(wanted, len < 4 ? 0 : text.len);
        mem_free(cut);
    }
    strbuf_finish(&text);
}

static enum error_code decode(const void *at, size_t len)
{
    struct wire_report out;
    size_t used = 0;
    return wire_report_decode(at, len, &out, &used, NULL);
}
#define DECODE(literal) decode(literal, sizeof(literal) - 1)

static void test_broken_records(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\xff\xff\xff\xff"), ERROR_TOO_LARGE);
    assert_int_equal(DECODE("\0\0\0\x02\1\1"), ERROR_PROTOCOL);                               // no room for a head
    assert_int_equal(DECODE("\0\0\0\x0a\2\3\0\0\0\0\0\0\0\1"), ERROR_PROTOCOL);               // version
    assert_int_equal(DECODE("\0\0\0\x0a\1\x63\0\0\0\0\0\0\0\1"), ERROR_PROTOCOL);             // type
    assert_int_equal(DECODE("\0\0\0\x0a\1\3\0\0\0\0\0\0\0\0"), ERROR_PROTOCOL);               // sequence 0
    assert_int_equal(DECODE("\0\0\0\x0a\1\1\0\0\0\0\0\0\0\1"), ERROR_PROTOCOL);               // HELLO without boot id
    assert_int_equal(DECODE("\0\0\0\x0c\1\3\0\0\0\0\0\0\0\1\1\0"), ERROR_PROTOCOL);           // cut field head
    assert_int_equal(DECODE("\0\0\0\x0f\1\3\0\0\0\0\0\0\0\1\1\0\0\0\x01"), ERROR_PROTOCOL);   // cut field
    assert_int_equal(DECODE("\0\0\0\x10\1\1\0\0\0\0\0\0\0\1\1\0\0\0\1\xff"), ERROR_PROTOCOL); // not UTF-8
    assert_int_equal(DECODE("\0\0\0\x16\1\1\0\0\0\0\0\0\0\1\1\0\0\0\1x\1\0\0\0\1x"), ERROR_PROTOCOL);    // twice
    assert_int_equal(DECODE("\0\0\0\x16\1\1\0\0\0\0\0\0\0\1\1\0\0\0\1x\x77\0\0\0\1x"), ERROR_NONE);      // unknown tag
    assert_int_equal(DECODE("\0\0\0\x16\1\1\0\0\0\0\0\0\0\1\1\0\0\0\1x\x0f\0\0\0\1\2"), ERROR_PROTOCOL); // encoding
}

static void test_encode_limits(void **state)
{
    (void)state;
    static char big[WIRE_REPORT_RECORD_BYTES_MAX + 1];
    struct strbuf text;
    strbuf_init(&text, sizeof(big) * 2);
    struct wire_report report = sample_object();
    report.ref.name = str_of(big, 513);
    assert_int_equal(wire_report_encode(&report, &text, NULL), ERROR_TOO_LARGE);
    report = sample_object();
    report.manifest = str_of(big, sizeof(big));
    assert_int_equal(wire_report_encode(&report, &text, NULL), ERROR_TOO_LARGE);
    report.manifest = str_of(big, 10 * 1024 * 1024);
    assert_int_equal(wire_report_encode(&report, &text, NULL), ERROR_NONE);
    assert_int_equal(decode(text.at, text.len), ERROR_NONE);
    report.sequence = 0;
    assert_int_equal(wire_report_encode(&report, &text, NULL), ERROR_INVALID);
    strbuf_finish(&text);
}

static void test_acks(void **state)
{
    (void)state;
    const struct wire_ack acks[] = {
        {.type = WIRE_ACK, .sequence = 7},
        {.type = WIRE_ACK_RESYNC},
        {.type = WIRE_ACK_REJECT, .sequence = 9, .reason = STR("no such kind")},
        {.type = WIRE_ACK_DIGEST, .sequence = 10, .digest = STR("\x13\xff\xfe\0\1\2\3\4\5")}};
    struct strbuf text;
    strbuf_init(&text, 4096);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(wire_ack_encode(&acks[i], &text, NULL), ERROR_NONE);
    size_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        struct wire_ack out;
        size_t used = 0;
        for (size_t len = 0; len < 14; len++)
            assert_int_equal(wire_ack_decode((const uint8_t *)text.at + at, len, &out, &used, NULL), ERROR_AGAIN);
        assert_int_equal(wire_ack_decode((const uint8_t *)text.at + at, text.len - at, &out, &used, NULL), ERROR_NONE);
        assert_int_equal(out.type, acks[i].type);
        assert_int_equal(out.sequence, acks[i].sequence);
        assert_same_text(out.reason, acks[i].reason);
        assert_same_text(out.digest, acks[i].digest);
        at += used;
    }
    struct wire_ack out;
    size_t used = 0;
    assert_int_equal(wire_ack_decode((const uint8_t *)"\0\0\0\x0a\1\5\0\0\0\0\0\0\0\1", 14, &out, &used, NULL),
                     ERROR_PROTOCOL);
    assert_int_equal(wire_ack_decode((const uint8_t *)"\0\1\0\0", 4, &out, &used, NULL), ERROR_TOO_LARGE);
    strbuf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object_round_trip),    cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_every_cut_wants_more), cmocka_unit_test(test_broken_records),
        cmocka_unit_test(test_encode_limits),        cmocka_unit_test(test_acks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
