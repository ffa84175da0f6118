// bus_message: every member of a report arrives as it was sent, alone or with others, compressed or
// not; damage is noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/bus/bus_message.h"

// All that can be said of an object, each text another one.
static struct report full_report(enum report_source source)
{
    struct report report = {
        .type = REPORT_OBJECT,
        .source = source,
        .account_id = STR("a1"),
        .runtime = STR("prod"),
        .epoch = 7,
        .sequence = UINT64_MAX - 1,
        .ref.group = STR("argoproj.io"),
        .ref.version = STR("v1alpha1"),
        .ref.kind = STR("Application"),
        .ref.ns = STR("argocd"),
        .ref.name = STR("shop"),
        .ref.uid = STR("u-1"),
        .cluster = STR("in-cluster"),
        .resource_version = STR("4711"),
        .created_at = STR("2026-01-02T03:04:05Z"),
        .application_ns = STR("app ns"),
        .application_name = STR("app name"),
        .sync_status = STR("Synced"),
        .health_status = STR("Healthy"),
        .health_message = STR("all well"),
        .observed_at_ms = -5,
        .manifest = STR("{\"live\":1}"),
        .desired_manifest = STR("{\"desired\":1}"),
        .git_manifest = STR("{\"git\":1}"),
        .repo_url = STR("https://git"),
        .path = STR("charts"),
        .revision = STR("abc"),
        .commit_message = STR("fix"),
        .commit_author = STR("me"),
        .commit_date = STR("2026"),
        .errors = STR("[1]"),
        .app_versions = STR("{}"),
        .unread = STR("/Secret\n"),
        .count = 12,
    };
    memset(report.content_hash, 0xab, sizeof report.content_hash);
    return report;
}

static void write_all(struct strbuf *out, const struct report *reports, size_t count)
{
    struct bus_message_writer writer;
    bus_message_begin(&writer, &reports[0], 1234);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(bus_message_add(&writer, &reports[i], NULL), ERROR_NONE);
    bus_message_end(&writer, out);
}

static void check_same(const struct report *a, const struct report *b)
{
    // All texts in a row, so that a forgotten one shows.
    char left[1024], right[1024];
    struct report of_left, of_right;
    size_t bytes = report_text_bytes(a);
    assert_int_equal(report_text_bytes(b), bytes);
    assert_true(bytes < sizeof left);
    report_copy_into(&of_left, a, left);
    report_copy_into(&of_right, b, right);
    assert_memory_equal(left, right, bytes);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->source, b->source);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->observed_at_ms, b->observed_at_ms);
    assert_memory_equal(a->content_hash, b->content_hash, sizeof a->content_hash);
}

static void everything_arrives(void **state)
{
    (void)state;
    for (enum report_source source = REPORT_FROM_TUNNEL; source <= REPORT_FROM_HTTP; source++) {
        struct report reports[3] = {full_report(source), full_report(source), full_report(source)};
        reports[1].type = REPORT_DELETED;
        reports[1].manifest = STR_EMPTY;
        reports[2].ref.name = STR("other");
        struct strbuf bytes;
        struct bus_message message;
        write_all(&bytes, reports, 3);
        assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
        assert_int_equal(message.count, 3);
        assert_int_equal(message.received_at_ms, 1234);
        for (size_t i = 0; i < 3; i++)
            check_same(&message.reports[i], &reports[i]);
        bus_message_close(&message);
        strbuf_finish(&bytes);
    }
}

// Compresses well, but not so well that it is refused.
static char *blanks_and_noise(size_t len)
{
    char *text = mem_zalloc(len);
    uint32_t seed = 1;
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        text[i] = i % 1024 < 24 ? (char)('a' + (seed >> 24) % 26) : ' ';
    }
    return text;
}

// Neither what a frame states nor what it unpacks to is trusted.
static void ratios_are_bounded(void **state)
{
    (void)state;
    enum { MANIFEST_BYTES = 1024 * 1024, PACKED_BYTES = 64 * 1024 };
    char *plain = mem_zalloc(MANIFEST_BYTES), *packed = mem_alloc(PACKED_BYTES);
    struct report report = full_report(REPORT_FROM_TUNNEL);
    struct strbuf bytes;
    struct bus_message message;
    struct error err;
    memset(plain, ' ', MANIFEST_BYTES);
    report.packed_manifest = str_of(packed, ZSTD_compress(packed, PACKED_BYTES, plain, MANIFEST_BYTES, 1));
    write_all(&bytes, &report, 1);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, &err), ERROR_TOO_LARGE);
    assert_non_null(strstr(err.text, "100 times"));
    strbuf_finish(&bytes);
    // A body of our own that compresses too well travels plain; another party's is refused.
    report.packed_manifest = STR_EMPTY;
    report.manifest = str_of(plain, MANIFEST_BYTES);
    write_all(&bytes, &report, 1);
    assert_true(bytes.len > MANIFEST_BYTES);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
    assert_true(str_eq(message.reports[0].manifest, report.manifest));
    bus_message_close(&message);
    enum { HEAD = 9 };
    char *forged = mem_alloc(HEAD + PACKED_BYTES);
    memcpy(forged, bytes.at, HEAD);
    forged[4] = 1; // compressed
    size_t len = ZSTD_compress(forged + HEAD, PACKED_BYTES, bytes.at + HEAD, bytes.len - HEAD, 1);
    assert_false(ZSTD_isError(len));
    assert_int_equal(bus_message_open(&message, forged, HEAD + len, &err), ERROR_TOO_LARGE);
    assert_non_null(strstr(err.text, "1000 times"));
    strbuf_finish(&bytes);
    mem_free(forged);
    mem_free(plain);
    mem_free(packed);
}

static void a_manifest_travels_as_it_came(void **state)
{
    (void)state;
    char packed[256];
    struct report report = full_report(REPORT_FROM_TUNNEL);
    size_t len = ZSTD_compress(packed, sizeof packed, report.manifest.at, report.manifest.len, 3);
    struct strbuf bytes;
    struct bus_message message;
    report.packed_manifest = str_of(packed, len);
    write_all(&bytes, &report, 1);
    assert_non_null(memmem(bytes.at, bytes.len, packed, len));
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
    check_same(&message.reports[0], &report);
    bus_message_close(&message);
    // A frame that is cut, and one that claims more than a manifest may have.
    strbuf_finish(&bytes);
    report.packed_manifest.len--;
    write_all(&bytes, &report, 1);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_INVALID);
    strbuf_finish(&bytes);
    char *zeroes = mem_zalloc(11 * 1024 * 1024), *bomb = mem_alloc(64 * 1024);
    len = ZSTD_compress(bomb, 64 * 1024, zeroes, 11 * 1024 * 1024, 1);
    assert_false(ZSTD_isError(len));
    report.packed_manifest = str_of(bomb, len);
    write_all(&bytes, &report, 1);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_TOO_LARGE);
    strbuf_finish(&bytes);
    mem_free(zeroes);
    mem_free(bomb);
}

// Plain manifests are worth compressing; each cut and each changed byte is noticed or means
// something valid.
static void damage_is_noticed(void **state)
{
    (void)state;
    struct report reports[8];
    struct strbuf bytes;
    struct bus_message message;
    for (size_t i = 0; i < 8; i++)
        reports[i] = full_report(REPORT_FROM_HTTP);
    write_all(&bytes, reports, 8);
    for (size_t i = 0; i < bytes.len; i++)
        assert_int_not_equal(bus_message_open(&message, bytes.at, i, NULL), ERROR_NONE);
    bytes.at[3] = 2;
    struct error err;
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, &err), ERROR_INVALID);
    assert_non_null(strstr(err.text, "newer"));
    strbuf_finish(&bytes);
}

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    struct report report = {.type = REPORT_DELETED,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = STR("a"),
                            .runtime = STR("r"),
                            .epoch = 1,
                            .sequence = 2,
                            .ref.name = STR("x"),
                            .errors = STR("y")};
    struct strbuf bytes;
    struct bus_message message;
    write_all(&bytes, &report, 1);
    // The last field, tag 23, becomes one of a time to come.
    char *tag = memrchr(bytes.at, 23, bytes.len);
    assert_non_null(tag);
    *tag = 99;
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
    assert_true(str_eq(message.reports[0].ref.name, STR("x")));
    assert_int_equal(message.reports[0].errors.len, 0);
    bus_message_close(&message);
    strbuf_finish(&bytes);
}

static void bounds_hold(void **state)
{
    (void)state;
    struct report report = {.type = REPORT_DELETED, .account_id = STR("a"), .runtime = STR("r"), .ref.name = STR("x")};
    struct bus_message_writer writer;
    struct strbuf bytes;
    struct bus_message message;
    bus_message_begin(&writer, &report, 0);
    for (size_t i = 0; i < BUS_MESSAGE_COUNT_MAX; i++)
        assert_int_equal(bus_message_add(&writer, &report, NULL), ERROR_NONE);
    assert_int_equal(bus_message_add(&writer, &report, NULL), ERROR_TOO_LARGE);
    bus_message_end(&writer, &bytes);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
    assert_int_equal(message.count, BUS_MESSAGE_COUNT_MAX);
    bus_message_close(&message);
    strbuf_finish(&bytes);
}

// What is small on the way may be large for whoever reads it: only as much goes into one message as
// can be read.
static void what_is_written_can_be_read(void **state)
{
    (void)state;
    enum { MANIFEST_BYTES = 10 * 1024 * 1024, PACKED_BYTES = 1024 * 1024 };
    char *plain = blanks_and_noise(MANIFEST_BYTES), *packed = mem_alloc(PACKED_BYTES);
    size_t len = ZSTD_compress(packed, PACKED_BYTES, plain, MANIFEST_BYTES, 1);
    assert_false(ZSTD_isError(len));
    struct report report = full_report(REPORT_FROM_TUNNEL);
    report.manifest = str_of(plain, MANIFEST_BYTES);
    report.packed_manifest = str_of(packed, len);
    struct bus_message_writer writer;
    struct strbuf bytes;
    struct bus_message message;
    size_t count = 0;
    bus_message_begin(&writer, &report, 0);
    while (bus_message_fits(&writer, &report) && count++ < 100)
        assert_int_equal(bus_message_add(&writer, &report, NULL), ERROR_NONE);
    assert_int_equal(bus_message_add(&writer, &report, NULL), ERROR_TOO_LARGE);
    assert_int_equal(count, BUS_MESSAGE_UNPACKED_BYTES_MAX / MANIFEST_BYTES);
    bus_message_end(&writer, &bytes);
    assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_NONE);
    assert_int_equal(message.count, count);
    bus_message_close(&message);
    strbuf_finish(&bytes);
    mem_free(plain);
    mem_free(packed);
}

// Somebody else's message, with more in it: refused, whatever the sizes of its parts.
static void more_than_may_be_unpacked(void **state)
{
    (void)state;
    enum { EACH = 8 * 1024 * 1024, PACKED_BYTES = 1024 * 1024 };
    static const size_t odds[] = {0, 1, 15, 16, 17, 100};
    char *plain = blanks_and_noise(EACH), *packed = mem_alloc(PACKED_BYTES);
    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
        struct report report = full_report(REPORT_FROM_TUNNEL);
        struct bus_message_writer writer;
        struct strbuf bytes;
        struct bus_message message;
        size_t of = EACH - odds[i], len = ZSTD_compress(packed, PACKED_BYTES, plain, of, 1);
        report.packed_manifest = str_of(packed, len);
        bus_message_begin(&writer, &report, 0);
        for (size_t k = 0; k < 20; k++)
            assert_int_equal(bus_message_add(&writer, &report, NULL), ERROR_NONE); // it does not know how large
        bus_message_end(&writer, &bytes);
        assert_int_equal(bus_message_open(&message, bytes.at, bytes.len, NULL), ERROR_TOO_LARGE);
        strbuf_finish(&bytes);
    }
    mem_free(plain);
    mem_free(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(ratios_are_bounded),
        cmocka_unit_test(a_manifest_travels_as_it_came),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(what_is_written_can_be_read),
        cmocka_unit_test(more_than_may_be_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
