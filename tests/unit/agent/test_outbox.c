#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "agent/reports/outbox.h"
#include "base/mem.h"

static enum outbox_put put_at(struct outbox *outbox, const char *name, const char *manifest, uint64_t now_ms)
{
    struct outbox_object object = {.version = STR("v1"),
                                   .kind = STR("Pod"),
                                   .ns = STR("ns"),
                                   .name = str_c(name),
                                   .uid = STR("uid"),
                                   .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), object.hash);
    return outbox_put(outbox, &object, now_ms);
}

static enum outbox_put put(struct outbox *outbox, const char *name, const char *manifest)
{
    return put_at(outbox, name, manifest, 1000);
}

static void erase(struct outbox *outbox, const char *name)
{
    outbox_delete(outbox, STR_EMPTY, STR("Pod"), STR("ns"), str_c(name), 1000);
}

static struct outbox_slot *next(struct outbox *outbox)
{
    uint64_t wait_ms;
    return outbox_next(outbox, 1000, &wait_ms);
}

static void check_manifest(const struct outbox_slot *slot, const char *expected)
{
    char text[256] = "";
    size_t len = ZSTD_decompress(text, sizeof text, slot->object.manifest.at, slot->object.manifest.len);
    assert_int_equal(len, slot->manifest_bytes);
    assert_string_equal(text, expected);
}

static void newest_wins_and_unchanged_is_nothing(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_QUEUED);
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_UNCHANGED);
    assert_int_equal(put(outbox, "a", "{2}"), OUTBOX_PUT_QUEUED);
    assert_int_equal(outbox_count(outbox), 1);
    assert_int_equal(outbox_queued(outbox), 1);
    assert_true(outbox_has_untold(outbox));
    struct outbox_slot *slot = next(outbox);
    check_manifest(slot, "{2}");
    outbox_written(outbox, slot, 1);
    assert_int_equal(outbox_bytes(outbox), 0);
    assert_false(outbox_has_untold(outbox));
    assert_null(next(outbox));
    assert_int_equal(put(outbox, "a", "{2}"), OUTBOX_PUT_UNCHANGED);
    outbox_acknowledge(outbox, 1);
    assert_int_equal(slot->state, OUTBOX_IDLE);
    assert_int_equal(put(outbox, "a", "{2}"), OUTBOX_PUT_UNCHANGED);
    assert_int_equal(outbox_told(outbox), 1);
    outbox_destroy(outbox);
}

static void tombstones(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "never-told", "{}");
    erase(outbox, "never-told");
    assert_int_equal(outbox_count(outbox), 0);
    put(outbox, "a", "{}");
    outbox_written(outbox, next(outbox), 1);
    erase(outbox, "a");
    erase(outbox, "a");
    // The platform still holds it until the tombstone is written.
    assert_int_equal(outbox_told(outbox), 1);
    struct outbox_slot *slot = next(outbox);
    assert_true(slot->deleted);
    outbox_written(outbox, slot, 2);
    assert_int_equal(outbox_told(outbox), 0);
    outbox_acknowledge(outbox, 2);
    assert_int_equal(outbox_count(outbox), 0);
    // Born again while its tombstone waits.
    put(outbox, "b", "{1}");
    outbox_written(outbox, next(outbox), 3);
    erase(outbox, "b");
    assert_int_equal(put(outbox, "b", "{1}"), OUTBOX_PUT_QUEUED);
    slot = next(outbox);
    assert_false(slot->deleted);
    check_manifest(slot, "{1}");
    outbox_destroy(outbox);
}

static void snapshot_counts(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "stays", "{}");
    put(outbox, "goes", "{}");
    uint64_t sequence = 0;
    for (struct outbox_slot *slot; (slot = next(outbox));)
        outbox_written(outbox, slot, ++sequence);
    outbox_acknowledge(outbox, sequence);
    outbox_mark(outbox);
    assert_int_equal(outbox_told(outbox), 0);
    assert_int_equal(put(outbox, "stays", "{}"), OUTBOX_PUT_QUEUED);
    assert_true(outbox_has_untold(outbox));
    outbox_written(outbox, next(outbox), ++sequence);
    assert_false(outbox_has_untold(outbox));
    assert_int_equal(outbox_delete_unlisted(outbox, 1000), 1);
    assert_int_equal(outbox_told(outbox), 1);
    struct outbox_slot *slot = next(outbox);
    assert_true(slot->deleted);
    assert_string_equal(slot->object.name.at, "goes");
    outbox_destroy(outbox);
}

static void refused_content_is_not_sent_again(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "a", "{bad}");
    outbox_written(outbox, next(outbox), 7);
    outbox_refuse(outbox, 6);
    assert_int_equal(outbox_told(outbox), 1);
    outbox_refuse(outbox, 7);
    assert_int_equal(outbox_told(outbox), 0);
    outbox_mark(outbox);
    assert_int_equal(put(outbox, "a", "{bad}"), OUTBOX_PUT_UNCHANGED);
    assert_false(outbox_has_untold(outbox));
    assert_int_equal(outbox_delete_unlisted(outbox, 1000), 0);
    assert_int_equal(put(outbox, "a", "{good}"), OUTBOX_PUT_QUEUED);
    outbox_destroy(outbox);
}

static void acknowledgement_spares_newer_changes(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "a", "{1}");
    struct outbox_slot *slot = next(outbox);
    outbox_written(outbox, slot, 1);
    put(outbox, "a", "{2}");
    outbox_acknowledge(outbox, 1);
    assert_int_equal(slot->state, OUTBOX_QUEUED);
    check_manifest(next(outbox), "{2}");
    outbox_destroy(outbox);
}

static void busy_objects_are_slowed(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(&(struct outbox_options){.burst = 3, .interval_ms = 1000});
    uint64_t wait_ms, sequence = 0;
    char manifest[16];
    for (int i = 0; i < 3; i++) {
        snprintf(manifest, sizeof manifest, "{%d}", i);
        put_at(outbox, "noisy", manifest, 1000);
        outbox_written(outbox, outbox_next(outbox, 1000, &wait_ms), ++sequence);
    }
    put_at(outbox, "noisy", "{3}", 1100);
    put_at(outbox, "noisy", "{4}", 1200);
    put_at(outbox, "calm", "{}", 1200);
    struct outbox_slot *slot = outbox_next(outbox, 1200, &wait_ms);
    assert_string_equal(slot->object.name.at, "calm");
    outbox_written(outbox, slot, ++sequence);
    assert_null(outbox_next(outbox, 1200, &wait_ms));
    assert_int_equal(wait_ms, 800);
    slot = outbox_next(outbox, 2000, &wait_ms);
    check_manifest(slot, "{4}");
    assert_int_equal(outbox_slowed(outbox), 1);
    assert_int_equal(outbox_coalesced(outbox), 1);
    outbox_destroy(outbox);
}

// A limit for all objects together holds back changes of what was told, never what the platform does not hold yet.
static void all_together_are_slowed(void **state)
{
    (void)state;
    enum { PER_SECOND = 4 };
    struct outbox *outbox = outbox_create(&(struct outbox_options){.burst = 100, .changes_per_second = PER_SECOND});
    uint64_t wait_ms, sequence = 0;
    char name[16], manifest[16];
    for (int i = 0; i < 20; i++) { // a snapshot
        snprintf(name, sizeof name, "%d", i);
        put_at(outbox, name, "{}", 1000);
        outbox_written(outbox, outbox_next(outbox, 1000, &wait_ms), ++sequence);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%d", i);
        snprintf(manifest, sizeof manifest, "{%d}", i);
        put_at(outbox, name, manifest, 1000);
    }
    struct outbox_slot *slot;
    for (int i = 0; i < PER_SECOND; i++) {
        slot = outbox_next(outbox, 1000, &wait_ms);
        assert_non_null(slot);
        outbox_written(outbox, slot, ++sequence);
    }
    assert_null(outbox_next(outbox, 1000, &wait_ms));
    assert_true(wait_ms > 0 && wait_ms <= 1000 / PER_SECOND + 1);
    put_at(outbox, "new", "{}", 1000);
    slot = outbox_next(outbox, 1000, &wait_ms);
    assert_string_equal(slot->object.name.at, "new");
    outbox_written(outbox, slot, ++sequence);
    // Over ten seconds no more than so many a second, and all of them in the end, each as it then is.
    size_t told = 0;
    for (uint64_t now = 1000; now <= 11000; now += 10) {
        while ((slot = outbox_next(outbox, now, &wait_ms))) {
            outbox_written(outbox, slot, ++sequence);
            told++;
            assert_true(told <= (now - 1000) * PER_SECOND / 1000 + 1);
        }
    }
    assert_int_equal(told, 20 - PER_SECOND);
    assert_int_equal(outbox_queued(outbox), 0);
    assert_int_equal(outbox_coalesced(outbox), 0);
    put_at(outbox, "1", "{8}", 12000);
    put_at(outbox, "1", "{9}", 12000);
    assert_int_equal(outbox_coalesced(outbox), 1);
    assert_int_equal(outbox_slowed(outbox), 0);
    outbox_destroy(outbox);
}

static void bounds(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(&(struct outbox_options){.objects_max = 2, .bytes_max = 30});
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_QUEUED);
    assert_false(outbox_is_full(outbox));
    assert_int_equal(put(outbox, "b", "{123456789012345678901234567890}"), OUTBOX_PUT_QUEUED);
    assert_true(outbox_is_full(outbox));
    assert_int_equal(put(outbox, "c", "{1}"), OUTBOX_PUT_REFUSED);
    outbox_clear(outbox);
    assert_int_equal(outbox_bytes(outbox), 0);
    assert_int_equal(outbox_queued(outbox), 0);
    assert_int_equal(put(outbox, "c", "{1}"), OUTBOX_PUT_QUEUED);
    outbox_destroy(outbox);
}

// The platform, as far as counts go: replays what is written and must agree with told at every step.
static void counts_agree_with_a_model(void **state)
{
    (void)state;
    enum { NAMES = 12, STEPS = 20000 };
    bool held[NAMES] = {false};
    struct outbox *outbox = outbox_create(&(struct outbox_options){.burst = 1000000});
    uint64_t sequence = 0, acknowledged = 0;
    srand(42);
    for (int step = 0; step < STEPS; step++) {
        int i = rand() % NAMES;
        char name[8], manifest[8];
        snprintf(name, sizeof name, "%d", i);
        snprintf(manifest, sizeof manifest, "{%d}", rand() % 3);
        switch (rand() % 8) {
        case 0:
        case 1: put(outbox, name, manifest); break;
        case 2: erase(outbox, name); break;
        case 3:
            if (rand() % 50) break;
            outbox_mark(outbox);
            memset(held, 0, sizeof held);
            break;
        case 4:
            acknowledged += (uint64_t)rand() % (sequence - acknowledged + 1);
            outbox_acknowledge(outbox, acknowledged);
            break;
        default: {
            struct outbox_slot *slot = next(outbox);
            if (!slot) break;
            held[atoi(slot->object.name.at)] = !slot->deleted;
            outbox_written(outbox, slot, ++sequence);
        }
        }
        size_t count = 0;
        for (int j = 0; j < NAMES; j++)
            count += held[j];
        assert_int_equal(outbox_told(outbox), count);
    }
    outbox_destroy(outbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_wins_and_unchanged_is_nothing),
        cmocka_unit_test(tombstones),
        cmocka_unit_test(snapshot_counts),
        cmocka_unit_test(refused_content_is_not_sent_again),
        cmocka_unit_test(acknowledgement_spares_newer_changes),
        cmocka_unit_test(busy_objects_are_slowed),
        cmocka_unit_test(all_together_are_slowed),
        cmocka_unit_test(bounds),
        cmocka_unit_test(counts_agree_with_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
