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
#include "tunnel/wire/report.h"

static enum outbox_put put_at(struct outbox *outbox, const char *name, const char *manifest, uint64_t now_ms)
{
    struct outbox_object object = {.ref.version = STR("v1"),
                                   .ref.kind = STR("Pod"),
                                   .ref.ns = STR("ns"),
                                   .ref.name = str_c(name),
                                   .ref.uid = STR("uid"),
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
    outbox_delete(outbox, &(struct outbox_object){.ref.kind = STR("Pod"), .ref.ns = STR("ns"), .ref.name = str_c(name)},
                  1000);
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

static struct outbox_object in_cluster(const char *cluster, const char *manifest)
{
    struct outbox_object object = {.cluster = str_c(cluster),
                                   .ref.version = STR("v1"),
                                   .ref.kind = STR("Pod"),
                                   .ref.ns = STR("ns"),
                                   .ref.name = STR("a"),
                                   .ref.uid = STR("uid"),
                                   .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), object.hash);
    return object;
}

static void equal_names_in_two_clusters_are_two_objects(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(&(struct outbox_options){.cluster_name = "hub"});
    const struct outbox_object own = in_cluster("", "{1}"), east = in_cluster("east", "{1}");
    assert_int_equal(outbox_put(outbox, &own, 1000), OUTBOX_PUT_QUEUED);
    assert_int_equal(outbox_put(outbox, &east, 1000), OUTBOX_PUT_QUEUED);
    assert_int_equal(outbox_count(outbox), 2);
    const struct outbox_slot *there = outbox_find(outbox, &east);
    assert_true(str_eq(there->object.cluster, STR("east")));
    // The platform names the own cluster, too: its entry is another one.
    assert_memory_not_equal(outbox_find(outbox, &own)->entry, there->entry, sizeof there->entry);
    outbox_delete(outbox, &east, 1000);
    assert_int_equal(outbox_count(outbox), 1);
    assert_null(outbox_find(outbox, &east));
    assert_non_null(outbox_find(outbox, &own));
    outbox_destroy(outbox);
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
    assert_true(outbox_has_unsynced(outbox));
    struct outbox_slot *slot = next(outbox);
    check_manifest(slot, "{2}");
    outbox_written(outbox, slot, 1);
    assert_int_equal(outbox_bytes(outbox), 0);
    assert_false(outbox_has_unsynced(outbox));
    assert_null(next(outbox));
    assert_int_equal(put(outbox, "a", "{2}"), OUTBOX_PUT_UNCHANGED);
    outbox_acknowledge(outbox, 1);
    assert_int_equal(slot->state, OUTBOX_IDLE);
    assert_int_equal(put(outbox, "a", "{2}"), OUTBOX_PUT_UNCHANGED);
    assert_int_equal(outbox_synced_count(outbox), 1);
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
    assert_int_equal(outbox_synced_count(outbox), 1);
    struct outbox_slot *slot = next(outbox);
    assert_true(slot->deleted);
    outbox_written(outbox, slot, 2);
    assert_int_equal(outbox_synced_count(outbox), 0);
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

static bool is_there(void *arg, const struct outbox_object *object)
{
    (void)arg;
    return str_eq(object->ref.name, STR("cannot be listed"));
}

static void snapshot_counts(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "stays", "{}");
    put(outbox, "goes", "{}");
    put(outbox, "cannot be listed", "{}");
    uint64_t sequence = 0;
    for (struct outbox_slot *slot; (slot = next(outbox));)
        outbox_written(outbox, slot, ++sequence);
    outbox_acknowledge(outbox, sequence);
    outbox_mark(outbox);
    assert_int_equal(outbox_synced_count(outbox), 0);
    assert_int_equal(put(outbox, "stays", "{}"), OUTBOX_PUT_QUEUED);
    assert_true(outbox_has_unsynced(outbox));
    outbox_written(outbox, next(outbox), ++sequence);
    assert_false(outbox_has_unsynced(outbox));
    assert_int_equal(outbox_delete_unlisted(outbox, 1000, is_there, NULL), 1);
    assert_int_equal(outbox_synced_count(outbox), 1);
    struct outbox_slot *slot = next(outbox);
    assert_true(slot->deleted);
    assert_string_equal(slot->object.ref.name.at, "goes");
    outbox_destroy(outbox);
}

static void refused_content_is_not_sent_again(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "a", "{bad}");
    outbox_written(outbox, next(outbox), 7);
    outbox_refuse(outbox, 6);
    assert_int_equal(outbox_synced_count(outbox), 1);
    outbox_refuse(outbox, 7);
    assert_int_equal(outbox_synced_count(outbox), 0);
    assert_int_equal(put(outbox, "a", "{bad}"), OUTBOX_PUT_UNCHANGED);
    assert_false(outbox_has_unsynced(outbox));
    assert_int_equal(put(outbox, "a", "{good}"), OUTBOX_PUT_QUEUED);
    outbox_written(outbox, next(outbox), 8);
    outbox_refuse(outbox, 8);
    // But in every snapshot: an object that is not named there is gone.
    outbox_mark(outbox);
    assert_int_equal(put(outbox, "a", "{good}"), OUTBOX_PUT_QUEUED);
    assert_int_equal(outbox_delete_unlisted(outbox, 1000, is_there, NULL), 0);
    outbox_destroy(outbox);
}

static void acknowledgement_standbys_newer_changes(void **state)
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
    assert_string_equal(slot->object.ref.name.at, "calm");
    outbox_written(outbox, slot, ++sequence);
    assert_null(outbox_next(outbox, 1200, &wait_ms));
    assert_int_equal(wait_ms, 800);
    slot = outbox_next(outbox, 2000, &wait_ms);
    check_manifest(slot, "{4}");
    assert_int_equal(outbox_slowed(outbox), 1);
    assert_int_equal(outbox_coalesced(outbox), 1);
    outbox_destroy(outbox);
}

// A limit for all objects together holds back changes of what was told, never what the platform
// does not hold yet.
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
    assert_string_equal(slot->object.ref.name.at, "new");
    outbox_written(outbox, slot, ++sequence);
    // Over ten seconds no more than so many a second, and all of them in the end, each as it then
    // is.
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

// The platform, as far as counts go: replays what is written and must agree with told at every
// step.
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
            held[atoi(slot->object.ref.name.at)] = !slot->deleted;
            outbox_written(outbox, slot, ++sequence);
        }
        }
        size_t count = 0;
        for (int j = 0; j < NAMES; j++)
            count += held[j];
        assert_int_equal(outbox_synced_count(outbox), count);
    }
    outbox_destroy(outbox);
}

// ---- streams that end ----------------------------------------------------------------------------------------------

static void what_was_on_its_way_is_unsure(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    put(outbox, "told", "{1}");
    outbox_written(outbox, next(outbox), 1);
    outbox_acknowledge(outbox, 1);
    put(outbox, "gone", "{1}");
    outbox_written(outbox, next(outbox), 2);
    erase(outbox, "gone");
    outbox_written(outbox, next(outbox), 3);
    put(outbox, "flying", "{1}");
    outbox_written(outbox, next(outbox), 4);
    put(outbox, "queued", "{1}");
    outbox_pause(outbox);
    assert_int_equal(outbox_in_flight(outbox), 0);
    assert_int_equal(outbox_queued(outbox), 2); // the last change and the tombstone
    // Without a stream: what is new or the same is not kept, what changes is, up to a bound.
    assert_int_equal(put(outbox, "told", "{1}"), OUTBOX_PUT_UNCHANGED);
    assert_int_equal(put(outbox, "new", "{1}"), OUTBOX_PUT_UNSURE);
    assert_int_equal(put(outbox, "new", "{1}"), OUTBOX_PUT_UNCHANGED);
    assert_int_equal(put(outbox, "told", "{2}"), OUTBOX_PUT_QUEUED);
    // The object that nobody told in this boot may be the platform's all the same: its end is told.
    erase(outbox, "new");
    assert_int_equal(outbox_queued(outbox), 4);
    outbox_set_mode(outbox, OUTBOX_ASKS);
    while (next(outbox))
        outbox_written(outbox, next(outbox), 20 - outbox_queued(outbox));
    assert_int_equal(outbox_count(outbox), 5);
    outbox_destroy(outbox);
}

static void without_a_stream_little_is_kept(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(&(struct outbox_options){.bytes_max = 400});
    char name[16];
    uint64_t sequence = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%d", i);
        put(outbox, name, "{1}");
        outbox_written(outbox, next(outbox), ++sequence);
    }
    outbox_acknowledge(outbox, sequence);
    outbox_pause(outbox);
    unsigned unsure = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%d", i);
        unsure += put(outbox, name, "{2}") == OUTBOX_PUT_UNSURE;
    }
    assert_true(unsure > 30);
    assert_true(outbox_bytes(outbox) < 200);
    outbox_destroy(outbox);
}

static void on_wanted_ignored(void *arg, const struct outbox_slot *slot)
{
    (void)arg;
    (void)slot;
}

// The platform has an older state of it, which must not stay.
static void wanted_and_gone_before_it_is_told(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    outbox_set_mode(outbox, OUTBOX_ASKS);
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_UNSURE);
    const struct outbox_slot *slot =
        outbox_find(outbox, &(struct outbox_object){.ref.kind = STR("Pod"), .ref.ns = STR("ns"), .ref.name = STR("a")});
    assert_non_null(slot);
    uint8_t key[1][DIGEST_KEY_BYTES];
    memcpy(key[0], slot->entry, DIGEST_KEY_BYTES);
    assert_int_equal(outbox_settle(outbox, (const uint8_t(*)[DIGEST_KEY_BYTES])key, 1, on_wanted_ignored, NULL), 1);
    erase(outbox, "a");
    slot = next(outbox);
    assert_non_null(slot);
    assert_true(slot->deleted);
    outbox_destroy(outbox);
}

// The platform was asked before it was there, so the answer says nothing of it.
static void new_after_the_question(void **state)
{
    (void)state;
    struct outbox *outbox = outbox_create(NULL);
    outbox_set_mode(outbox, OUTBOX_ASKS);
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_UNSURE);
    outbox_set_mode(outbox, OUTBOX_TELLS);
    assert_int_equal(put(outbox, "b", "{1}"), OUTBOX_PUT_QUEUED);
    assert_int_equal(outbox_settle(outbox, NULL, 0, on_wanted_ignored, NULL), 0);
    assert_int_equal(outbox_queued(outbox), 1);
    assert_int_equal(put(outbox, "a", "{1}"), OUTBOX_PUT_UNCHANGED);
    outbox_destroy(outbox);
}

enum { MODEL_NAMES = 20 };

struct model {
    struct outbox *outbox;
    int cluster[MODEL_NAMES]; // 0: there is none
    struct {
        bool there;
        uint8_t entry[DIGEST_ENTRY_BYTES];
    } platform[MODEL_NAMES];
    struct {
        uint64_t sequence;
        int name;
        bool there;
        uint8_t entry[DIGEST_ENTRY_BYTES];
    } flying[1000];
    size_t flying_count;
    uint64_t sequence;
    uint8_t told[MODEL_NAMES][DIGEST_ENTRY_BYTES]; // gathered
    size_t told_count;
    int fetch[MODEL_NAMES];
    size_t fetch_count;
};

static void model_put(struct model *model, int i)
{
    char name[16], manifest[16];
    snprintf(name, sizeof name, "%d", i);
    snprintf(manifest, sizeof manifest, "{%d}", model->cluster[i]);
    if (model->cluster[i])
        put(model->outbox, name, manifest);
    else
        erase(model->outbox, name);
}

static void model_land(struct model *model, size_t f)
{
    int i = model->flying[f].name;
    model->platform[i].there = model->flying[f].there;
    memcpy(model->platform[i].entry, model->flying[f].entry, DIGEST_ENTRY_BYTES);
}

static void model_write(struct model *model)
{
    struct outbox_slot *slot = next(model->outbox);
    if (!slot) return;
    size_t f = model->flying_count++;
    model->flying[f].sequence = ++model->sequence;
    model->flying[f].name = atoi(slot->object.ref.name.at);
    model->flying[f].there = !slot->deleted;
    memcpy(model->flying[f].entry, slot->entry, DIGEST_ENTRY_BYTES);
    outbox_written(model->outbox, slot, model->sequence);
}

static void model_acknowledge(struct model *model)
{
    for (size_t f = 0; f < model->flying_count; f++)
        model_land(model, f);
    model->flying_count = 0;
    outbox_acknowledge(model->outbox, model->sequence);
}

static void on_entry(void *arg, const uint8_t *entry)
{
    struct model *model = arg;
    memcpy(model->told[model->told_count++], entry, DIGEST_ENTRY_BYTES);
}

static void on_wanted(void *arg, const struct outbox_slot *slot)
{
    struct model *model = arg;
    model->fetch[model->fetch_count++] = atoi(slot->object.ref.name.at);
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_KEY_BYTES);
}

static void model_change(struct model *model, int changes)
{
    for (; changes > 0; changes--) {
        int i = rand() % MODEL_NAMES;
        model->cluster[i] = rand() % 4;
        model_put(model, i);
    }
}

// What the platform and resync.h make of it, in short. The cluster changes meanwhile.
static void model_compare(struct model *model)
{
    uint8_t wanted[MODEL_NAMES][DIGEST_KEY_BYTES];
    size_t count = 0;
    model->told_count = model->fetch_count = 0;
    outbox_set_mode(model->outbox, OUTBOX_TELLS);
    outbox_each_entry(model->outbox, on_entry, model);
    model_change(model, rand() % 3);
    for (size_t t = 0; t < model->told_count; t++) {
        bool held = false;
        for (int i = 0; i < MODEL_NAMES; i++)
            held |=
                model->platform[i].there && memcmp(model->platform[i].entry, model->told[t], DIGEST_ENTRY_BYTES) == 0;
        if (!held) memcpy(wanted[count++], model->told[t], DIGEST_KEY_BYTES);
    }
    for (int i = 0; i < MODEL_NAMES; i++) {
        bool named = false;
        for (size_t t = 0; t < model->told_count; t++)
            named |= memcmp(model->platform[i].entry, model->told[t], DIGEST_KEY_BYTES) == 0;
        model->platform[i].there = model->platform[i].there && named;
    }
    qsort(wanted, count, sizeof *wanted, compare_keys);
    outbox_settle(model->outbox, (const uint8_t(*)[DIGEST_KEY_BYTES])wanted, count, on_wanted, model);
    model_change(model, rand() % 3);
    for (size_t i = 0; i < model->fetch_count; i++)
        if (model->cluster[model->fetch[i]]) model_put(model, model->fetch[i]);
}

static void model_reconnect(struct model *model)
{
    // Some of what was on its way arrived, up to a point; its acknowledgement did not.
    size_t landed = model->flying_count ? (size_t)rand() % (model->flying_count + 1) : 0;
    for (size_t f = 0; f < landed; f++)
        model_land(model, f);
    model->flying_count = 0;
    outbox_pause(model->outbox);
    model_change(model, rand() % 10);
    // The platform comes back from an older backup, or the agent's memory is lost.
    if (rand() % 4 == 0) model->platform[rand() % MODEL_NAMES].there = false;
    if (rand() % 4 == 0) {
        outbox_clear(model->outbox);
        outbox_set_mode(model->outbox, OUTBOX_ASKS);
        for (int i = 0; i < MODEL_NAMES; i++)
            if (model->cluster[i]) model_put(model, i);
    }
    outbox_set_mode(model->outbox, OUTBOX_ASKS);
    for (int n = rand() % 5; n > 0; n--)
        model_write(model);
    if (rand() % 2) model_acknowledge(model);
    // Compared or not, everything lands in its order: tombstones by digest are older than what is
    // written after.
    for (size_t f = 0; f < model->flying_count; f++)
        model_land(model, f);
    model_compare(model);
}

// However streams end, and whatever either side forgets: in the end the platform holds what the
// cluster does.
static void platform_equals_cluster_in_the_end(void **state)
{
    (void)state;
    const char *text = getenv("CULVERT_TEST_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)id_random_u64();
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 100; round++) {
        struct model *model = mem_zalloc(sizeof *model);
        model->outbox = outbox_create(&(struct outbox_options){.burst = 1000000, .bytes_max = rand() % 2 ? 0 : 100});
        for (int step = 0; step < 500; step++) {
            int i = rand() % MODEL_NAMES, what = rand() % 40;
            if (what == 0)
                model_reconnect(model);
            else if (what < 3)
                model_acknowledge(model);
            else if (what < 20)
                model_write(model);
            else {
                model->cluster[i] = rand() % 4;
                model_put(model, i);
            }
        }
        model_reconnect(model);
        while (outbox_queued(model->outbox))
            model_write(model);
        model_acknowledge(model);
        struct digest_tree *expected = mem_zalloc(sizeof *expected);
        for (int i = 0; i < MODEL_NAMES; i++) {
            if (model->platform[i].there != (model->cluster[i] != 0))
                fail_msg("seed %u round %d name %d", seed, round, i);
            if (model->platform[i].there) digest_tree_toggle(expected, model->platform[i].entry);
        }
        assert_memory_equal(expected, outbox_tree(model->outbox), sizeof *expected);
        mem_free(expected);
        outbox_destroy(model->outbox);
        mem_free(model);
    }
}

// What compresses better than the platform accepts travels plain.
static void ratio_is_kept(void **state)
{
    (void)state;
    enum { LARGE = 1024 * 1024 };
    struct outbox *outbox = outbox_create(NULL);
    char *text = mem_zalloc(LARGE + 1);
    memset(text, ' ', LARGE);
    (void)put(outbox, "a", text);
    struct outbox_slot *slot = next(outbox);
    assert_true(slot->is_plain);
    assert_int_equal(slot->object.manifest.len, LARGE);
    assert_memory_equal(slot->object.manifest.at, text, LARGE);
    assert_int_equal(outbox_bytes(outbox), LARGE);
    // Little text may compress as well as it can; other text does not compress so well.
    memset(text, ' ', 60 * 1024);
    text[60 * 1024] = '\0';
    (void)put(outbox, "a", text);
    slot = next(outbox);
    assert_false(slot->is_plain);
    assert_true(slot->object.manifest.len < 1024);
    for (size_t i = 0; i < LARGE; i++)
        text[i] = (char)('a' + (i * i / 7) % 26);
    (void)put(outbox, "a", text);
    slot = next(outbox);
    assert_true(slot->is_plain || slot->object.manifest.len * WIRE_REPORT_RATIO_MAX >= LARGE);
    mem_free(text);
    outbox_destroy(outbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_wins_and_unchanged_is_nothing),
        cmocka_unit_test(equal_names_in_two_clusters_are_two_objects),
        cmocka_unit_test(tombstones),
        cmocka_unit_test(snapshot_counts),
        cmocka_unit_test(refused_content_is_not_sent_again),
        cmocka_unit_test(acknowledgement_standbys_newer_changes),
        cmocka_unit_test(busy_objects_are_slowed),
        cmocka_unit_test(all_together_are_slowed),
        cmocka_unit_test(bounds),
        cmocka_unit_test(ratio_is_kept),
        cmocka_unit_test(counts_agree_with_a_model),
        cmocka_unit_test(what_was_on_its_way_is_unsure),
        cmocka_unit_test(without_a_stream_little_is_kept),
        cmocka_unit_test(wanted_and_gone_before_it_is_told),
        cmocka_unit_test(new_after_the_question),
        cmocka_unit_test(platform_equals_cluster_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
