#include "agent/reports/outbox.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <zstd.h>

#include "agent/reports/key_table.h"
#include "base/mem.h"
#include "tunnel/wire/report.h"

struct slot_list {
    struct outbox_slot *first, *last;
    size_t count;
};

struct outbox {
    struct outbox_options options;
    struct key_table *slots;
    ZSTD_CCtx *compressor;
    struct slot_list queue;     // in the order of their first unsynced change
    struct slot_list in_flight; // in the order of their sequence
    size_t bytes;
    size_t synced;
    size_t unsynced; // queued, alive and not told since the mark
    size_t wanted;   // by the platform, and not acknowledged
    enum outbox_mode mode;
    struct digest_tree tree;
    unsigned tokens; // for changes of all objects together
    uint64_t tokens_at_ms;
    uint64_t slowed, coalesced;
};

enum { OBJECTS_MAX = 200000, BYTES_MAX = 64 * 1024 * 1024, BURST = 10, INTERVAL_MS = 1000, COMPRESSION_LEVEL = 3 };

// ---- lists and slots -----------------------------------------------------------------------------------------

static void list_append(struct slot_list *list, struct outbox_slot *slot)
{
    slot->previous = list->last;
    slot->next = NULL;
    if (list->last)
        list->last->next = slot;
    else
        list->first = slot;
    list->last = slot;
    list->count++;
}

static void list_remove(struct slot_list *list, struct outbox_slot *slot)
{
    assert(list->count > 0);
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        list->first = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    else
        list->last = slot->previous;
    slot->next = slot->previous = NULL;
    list->count--;
}

static bool is_unsynced(const struct outbox_slot *slot)
{
    return slot->state == OUTBOX_QUEUED && !slot->deleted && slot->sync != OUTBOX_SYNCED;
}

static bool may_follow(enum outbox_sync before, enum outbox_sync sync)
{
    // clang-format off
    static const unsigned allowed[] = {
        [OUTBOX_UNSYNCED] = 1u << OUTBOX_SYNCED | 1u << OUTBOX_MAYBE_SYNCED | 1u << OUTBOX_REFUSED,
        [OUTBOX_SYNCED] = 1u << OUTBOX_UNSYNCED | 1u << OUTBOX_MAYBE_SYNCED | 1u << OUTBOX_REFUSED,
        [OUTBOX_MAYBE_SYNCED] = 1u << OUTBOX_UNSYNCED | 1u << OUTBOX_SYNCED,
        [OUTBOX_REFUSED] = 1u << OUTBOX_UNSYNCED | 1u << OUTBOX_MAYBE_SYNCED,
    };
    // clang-format on
    return before == sync || allowed[before] & 1u << sync;
}

// The one place that changes a slot's states; moves it between the lists and keeps the counts.
static void set_state(struct outbox *outbox, struct outbox_slot *slot, enum outbox_state state, bool deleted,
                      enum outbox_sync sync)
{
    assert(slot->state != OUTBOX_IDLE || state != OUTBOX_IN_FLIGHT);
    assert(state != OUTBOX_IDLE || !deleted);
    assert(may_follow(slot->sync, sync));
    outbox->unsynced -= is_unsynced(slot);
    outbox->synced -= slot->sync == OUTBOX_SYNCED;
    if (slot->state != state) {
        if (slot->state == OUTBOX_QUEUED) list_remove(&outbox->queue, slot);
        if (slot->state == OUTBOX_IN_FLIGHT) list_remove(&outbox->in_flight, slot);
        if (state == OUTBOX_QUEUED) list_append(&outbox->queue, slot);
        if (state == OUTBOX_IN_FLIGHT) list_append(&outbox->in_flight, slot);
    }
    slot->state = state;
    slot->deleted = deleted;
    slot->sync = sync;
    slot->maybe_known = slot->maybe_known || sync == OUTBOX_SYNCED || sync == OUTBOX_MAYBE_SYNCED;
    outbox->synced += slot->sync == OUTBOX_SYNCED;
    outbox->unsynced += is_unsynced(slot);
}

// Its place in the tree: taken with the entry it has then.
static void set_counted(struct outbox *outbox, struct outbox_slot *slot, bool counted)
{
    if (slot->counted != counted) digest_tree_toggle(&outbox->tree, slot->entry);
    slot->counted = counted;
}

static void set_wanted(struct outbox *outbox, struct outbox_slot *slot, bool wanted)
{
    outbox->wanted = outbox->wanted - slot->wanted + wanted;
    slot->wanted = wanted;
}

static struct str copy(struct str s)
{
    return str_of(mem_strndup(s.at ? s.at : "", s.len), s.len);
}

static void replace(struct str *old, struct str fresh)
{
    if (old->at && str_eq(*old, fresh)) return;
    struct str kept = copy(fresh);
    mem_free((char *)old->at);
    *old = kept;
}

static const size_t details[] = {
    offsetof(struct outbox_object, health_message), offsetof(struct outbox_object, health_source),
    offsetof(struct outbox_object, presence),       offsetof(struct outbox_object, resource),
    offsetof(struct outbox_object, marks),
};

static struct str *detail_of(const struct outbox_object *object, size_t i)
{
    return (struct str *)(uintptr_t)((const char *)object + details[i]);
}

// What only the next record needs: the manifest and the details.
static void drop_manifest(struct outbox *outbox, struct outbox_slot *slot)
{
    assert(outbox->bytes >= slot->object.manifest.len);
    outbox->bytes -= slot->object.manifest.len;
    mem_free((char *)slot->object.manifest.at);
    slot->object.manifest = STR_EMPTY;
    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        struct str *text = detail_of(&slot->object, i);
        mem_free((char *)text->at);
        *text = STR_EMPTY;
    }
}

static void set_manifest(struct outbox *outbox, struct outbox_slot *slot, const struct outbox_object *object)
{
    struct str text = object->manifest;
    drop_manifest(outbox, slot);
    for (size_t i = 0; i < sizeof details / sizeof *details; i++)
        if (detail_of(object, i)->len) *detail_of(&slot->object, i) = copy(*detail_of(object, i));
    size_t bound = ZSTD_compressBound(text.len);
    char *packed = mem_alloc(bound);
    size_t len = ZSTD_compressCCtx(outbox->compressor, packed, bound, text.at, text.len, COMPRESSION_LEVEL);
    if (ZSTD_isError(len)) abort(); // the room is enough, so only memory can be missing
    slot->manifest_bytes = text.len;
    // Under half the ratio that the platform accepts: another version of it may count otherwise.
    slot->is_plain = text.len > WIRE_REPORT_RATIO_FREE_BYTES && len < text.len / (WIRE_REPORT_RATIO_MAX / 2);
    if (slot->is_plain) {
        len = text.len;
        memcpy(packed, text.at, len);
    }
    slot->object.manifest = str_of(mem_realloc(packed, len), len);
    outbox->bytes += len;
}

static void slot_free(struct outbox *outbox, struct outbox_slot *slot)
{
    set_state(outbox, slot, OUTBOX_IDLE, false, OUTBOX_UNSYNCED);
    set_counted(outbox, slot, false);
    set_wanted(outbox, slot, false);
    drop_manifest(outbox, slot);
    struct outbox_object *o = &slot->object;
    struct str *texts[] = {&o->cluster,          &o->ref.group,   &o->ref.version,  &o->ref.kind,
                           &o->ref.ns,           &o->ref.name,    &o->ref.uid,      &o->application_ns,
                           &o->application_name, &o->sync_status, &o->health_status};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mem_free((char *)texts[i]->at);
    mem_free(slot->key);
    mem_free(slot);
}

static void slot_forget(struct outbox *outbox, struct outbox_slot *slot)
{
    key_table_remove(outbox->slots, str_c(slot->key));
    slot_free(outbox, slot);
}

// ---- the whole -----------------------------------------------------------------------------------------------

struct outbox *outbox_create(const struct outbox_options *options)
{
    struct outbox *outbox = mem_zalloc(sizeof *outbox);
    if (options) outbox->options = *options;
    if (!outbox->options.objects_max) outbox->options.objects_max = OBJECTS_MAX;
    if (!outbox->options.bytes_max) outbox->options.bytes_max = BYTES_MAX;
    if (!outbox->options.burst) outbox->options.burst = BURST;
    if (!outbox->options.interval_ms) outbox->options.interval_ms = INTERVAL_MS;
    outbox->tokens = outbox->options.changes_per_second;
    outbox->slots = key_table_create();
    outbox->compressor = ZSTD_createCCtx();
    if (!outbox->compressor) abort();
    return outbox;
}

void outbox_clear(struct outbox *outbox)
{
    size_t cursor = 0;
    for (struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));)
        slot_free(outbox, slot);
    key_table_destroy(outbox->slots);
    outbox->slots = key_table_create();
}

void outbox_destroy(struct outbox *outbox)
{
    if (!outbox) return;
    outbox_clear(outbox);
    key_table_destroy(outbox->slots);
    ZSTD_freeCCtx(outbox->compressor);
    mem_free(outbox);
}

void outbox_mark(struct outbox *outbox)
{
    size_t cursor = 0;
    for (struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));) {
        // What was refused goes out again, too: it has to be named for its row to stay.
        slot->listed = false;
        set_wanted(outbox, slot, false);
        set_state(outbox, slot, slot->state, slot->deleted, OUTBOX_UNSYNCED);
    }
    outbox->mode = OUTBOX_TELLS;
}

void outbox_pause(struct outbox *outbox)
{
    size_t cursor = 0;
    for (struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));) {
        // A tombstone is sent again: that costs little, and precedes the comparison of digests.
        bool again = slot->state == OUTBOX_IN_FLIGHT && slot->deleted;
        bool idle = slot->state == OUTBOX_IN_FLIGHT && !slot->deleted;
        bool unsure = slot->sync == OUTBOX_SYNCED || idle;
        set_wanted(outbox, slot, false);
        set_state(outbox, slot,
                  again  ? OUTBOX_QUEUED
                  : idle ? OUTBOX_IDLE
                         : slot->state,
                  slot->deleted, unsure ? OUTBOX_MAYBE_SYNCED : slot->sync);
    }
    outbox->mode = OUTBOX_CLOSED;
}

void outbox_set_mode(struct outbox *outbox, enum outbox_mode mode)
{
    outbox->mode = mode;
}

static char *make_key(const struct outbox_object *object)
{
    return mem_printf("%.*s\n%.*s/%.*s/%.*s/%.*s", STR_ARG(object->cluster), STR_ARG(object->ref.group),
                      STR_ARG(object->ref.kind), STR_ARG(object->ref.ns), STR_ARG(object->ref.name));
}

const struct outbox_slot *outbox_find(const struct outbox *outbox, const struct outbox_object *identity)
{
    AUTO_FREE char *key = make_key(identity);
    return key_table_get(outbox->slots, str_c(key));
}

// ---- changes -------------------------------------------------------------------------------------------------

// Takes a token for one change; without one the change waits for the interval.
static void meter(struct outbox *outbox, struct outbox_slot *slot, uint64_t now_ms)
{
    const struct outbox_options *options = &outbox->options;
    uint64_t refill = (now_ms - slot->tokens_at_ms) / options->interval_ms;
    if (refill) {
        slot->tokens = refill >= options->burst - slot->tokens ? options->burst : slot->tokens + (unsigned)refill;
        slot->tokens_at_ms += refill * options->interval_ms;
    }
    if (slot->tokens) {
        slot->tokens--;
        slot->due_at_ms = now_ms;
    } else {
        slot->due_at_ms = slot->tokens_at_ms + options->interval_ms;
        outbox->slowed++;
    }
}

// What was refused, or may be there, is not what is queued now.
static void queue(struct outbox *outbox, struct outbox_slot *slot, bool deleted, uint64_t now_ms)
{
    enum outbox_sync sync = slot->sync == OUTBOX_SYNCED ? OUTBOX_SYNCED : OUTBOX_UNSYNCED;
    if (slot->state != OUTBOX_QUEUED) {
        slot->queued_at_ms = now_ms;
        meter(outbox, slot, now_ms);
    } else {
        outbox->coalesced++;
    }
    set_state(outbox, slot, OUTBOX_QUEUED, deleted, sync);
}

static struct outbox_slot *slot_of(struct outbox *outbox, const struct outbox_object *object, uint64_t now_ms)
{
    char *key = make_key(object);
    struct outbox_slot *slot = key_table_get(outbox->slots, str_c(key));
    if (slot || key_table_count(outbox->slots) >= outbox->options.objects_max) {
        mem_free(key);
        return slot;
    }
    slot = mem_zalloc(sizeof *slot);
    slot->key = key;
    slot->object.cluster = copy(object->cluster);
    slot->object.ref.group = copy(object->ref.group);
    slot->object.ref.kind = copy(object->ref.kind);
    slot->object.ref.ns = copy(object->ref.ns);
    slot->object.ref.name = copy(object->ref.name);
    slot->tokens = outbox->options.burst;
    slot->tokens_at_ms = now_ms;
    key_table_put(outbox->slots, str_c(key), slot);
    return slot;
}

static void make_entry(const struct outbox *outbox, const struct outbox_object *object, uint8_t out[DIGEST_ENTRY_BYTES])
{
    struct str own = str_c(outbox->options.cluster_name);
    digest_entry_make(&(struct digest_object){.cluster = object->cluster.len ? object->cluster : own,
                                              .ref = object->ref,
                                              .application_ns = object->application_ns,
                                              .application_name = object->application_name,
                                              .sync_status = object->sync_status,
                                              .health_status = object->health_status,
                                              .health_message = object->health_message,
                                              .health_source = object->health_source,
                                              .presence = object->presence,
                                              .resource = object->resource,
                                              .marks = object->marks,
                                              .manifest_sha256 = object->hash},
                      out);
}

static void keep(struct outbox *outbox, struct outbox_slot *slot, const struct outbox_object *object,
                 const uint8_t entry[DIGEST_ENTRY_BYTES])
{
    struct outbox_object *kept = &slot->object;
    replace(&kept->ref.version, object->ref.version);
    replace(&kept->ref.uid, object->ref.uid);
    replace(&kept->application_ns, object->application_ns);
    replace(&kept->application_name, object->application_name);
    replace(&kept->sync_status, object->sync_status);
    replace(&kept->health_status, object->health_status);
    memcpy(kept->hash, object->hash, sizeof kept->hash);
    kept->observed_at_ms = object->observed_at_ms;
    set_counted(outbox, slot, false);
    memcpy(slot->entry, entry, sizeof slot->entry);
    set_counted(outbox, slot, true);
}

// May the change wait for the next exchange, so that its content need not be kept?
static bool may_be_unsure(const struct outbox *outbox, const struct outbox_slot *slot)
{
    bool is_new = !slot->counted && !slot->deleted;
    return (outbox->mode != OUTBOX_TELLS && is_new) ||
           (outbox->mode == OUTBOX_CLOSED && outbox->bytes >= outbox->options.bytes_max / 4);
}

enum outbox_put outbox_put(struct outbox *outbox, const struct outbox_object *object, uint64_t now_ms)
{
    struct outbox_slot *slot = slot_of(outbox, object, now_ms);
    if (!slot) return OUTBOX_PUT_REFUSED;
    uint8_t entry[DIGEST_ENTRY_BYTES];
    make_entry(outbox, object, entry);
    slot->listed = true;
    bool known = slot->state == OUTBOX_QUEUED || slot->sync != OUTBOX_UNSYNCED;
    if (known && !slot->deleted && memcmp(slot->entry, entry, sizeof entry) == 0) return OUTBOX_PUT_UNCHANGED;
    bool unsure = may_be_unsure(outbox, slot);
    keep(outbox, slot, object, entry);
    if (unsure) {
        drop_manifest(outbox, slot);
        set_state(outbox, slot, OUTBOX_IDLE, false, OUTBOX_MAYBE_SYNCED);
        return OUTBOX_PUT_UNSURE;
    }
    set_manifest(outbox, slot, object);
    queue(outbox, slot, false, now_ms);
    return OUTBOX_PUT_QUEUED;
}

static void delete_slot(struct outbox *outbox, struct outbox_slot *slot, uint64_t now_ms)
{
    if (slot->deleted) return;
    drop_manifest(outbox, slot);
    set_counted(outbox, slot, false);
    if (!slot->maybe_known) {
        slot_forget(outbox, slot);
        return;
    }
    queue(outbox, slot, true, now_ms);
}

void outbox_delete(struct outbox *outbox, const struct outbox_object *identity, uint64_t now_ms)
{
    AUTO_FREE char *key = make_key(identity);
    struct outbox_slot *slot = key_table_get(outbox->slots, str_c(key));
    if (slot) delete_slot(outbox, slot, now_ms);
}

size_t outbox_delete_unlisted(struct outbox *outbox, uint64_t now_ms,
                              bool (*is_there)(void *arg, const struct outbox_object *object), void *arg)
{
    size_t cursor = 0, gone = 0;
    for (struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));) {
        if (slot->listed || slot->deleted || is_there(arg, &slot->object)) continue;
        gone++;
        delete_slot(outbox, slot, now_ms);
    }
    return gone;
}

// ---- records -------------------------------------------------------------------------------------------------

// Until when a change of an object that the platform holds has to wait for the others.
static uint64_t common_due_ms(struct outbox *outbox, uint64_t now_ms)
{
    uint64_t most = outbox->options.changes_per_second;
    if (!most) return 0;
    uint64_t refill = (now_ms - outbox->tokens_at_ms) * most / 1000;
    if (refill >= most - outbox->tokens) {
        outbox->tokens = (unsigned)most;
        outbox->tokens_at_ms = now_ms;
    } else if (refill) {
        outbox->tokens += (unsigned)refill;
        outbox->tokens_at_ms += refill * 1000 / most;
    }
    return outbox->tokens ? 0 : outbox->tokens_at_ms + 1000 / most + 1;
}

struct outbox_slot *outbox_next(struct outbox *outbox, uint64_t now_ms, uint64_t *out_wait_ms)
{
    uint64_t soonest = UINT64_MAX, common_due = common_due_ms(outbox, now_ms);
    // Slowed slots are few and go to the back when met, so that they are not looked at over and over.
    for (size_t left = outbox->queue.count; left; left--) {
        struct outbox_slot *slot = outbox->queue.first;
        uint64_t due = slot->sync == OUTBOX_SYNCED && common_due > slot->due_at_ms ? common_due : slot->due_at_ms;
        if (due <= now_ms) return slot;
        if (due - now_ms < soonest) soonest = due - now_ms;
        list_remove(&outbox->queue, slot);
        list_append(&outbox->queue, slot);
    }
    *out_wait_ms = soonest == UINT64_MAX ? 0 : soonest;
    return NULL;
}

void outbox_written(struct outbox *outbox, struct outbox_slot *slot, uint64_t sequence)
{
    assert(slot->state == OUTBOX_QUEUED);
    assert(!outbox->in_flight.last || outbox->in_flight.last->sequence < sequence);
    slot->sequence = sequence;
    if (slot->sync == OUTBOX_SYNCED && outbox->tokens) outbox->tokens--;
    drop_manifest(outbox, slot);
    set_state(outbox, slot, OUTBOX_IN_FLIGHT, slot->deleted, slot->deleted ? OUTBOX_UNSYNCED : OUTBOX_SYNCED);
}

// What was written of it has been answered.
static void settle_slot(struct outbox *outbox, struct outbox_slot *slot, enum outbox_sync sync)
{
    set_wanted(outbox, slot, false);
    set_state(outbox, slot, OUTBOX_IDLE, false, sync);
}

void outbox_acknowledge(struct outbox *outbox, uint64_t sequence)
{
    while (outbox->in_flight.first && outbox->in_flight.first->sequence <= sequence) {
        struct outbox_slot *slot = outbox->in_flight.first;
        if (slot->deleted)
            slot_forget(outbox, slot);
        else
            settle_slot(outbox, slot, slot->sync);
    }
}

void outbox_refuse(struct outbox *outbox, uint64_t sequence)
{
    for (struct outbox_slot *slot = outbox->in_flight.first; slot; slot = slot->next) {
        if (slot->sequence != sequence) continue;
        if (slot->deleted) {
            slot_forget(outbox, slot);
            return;
        }
        settle_slot(outbox, slot, OUTBOX_REFUSED);
        return;
    }
}

// ---- exchanges of digests ------------------------------------------------------------------------------------

const struct digest_tree *outbox_tree(const struct outbox *outbox)
{
    return &outbox->tree;
}

void outbox_each_entry(const struct outbox *outbox, void (*on_each)(void *arg, const uint8_t *entry), void *arg)
{
    size_t cursor = 0;
    for (const struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));)
        if (slot->counted) on_each(arg, slot->entry);
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_KEY_BYTES);
}

size_t outbox_settle(struct outbox *outbox, const uint8_t (*keys)[DIGEST_KEY_BYTES], size_t count,
                     void (*on_wanted)(void *arg, const struct outbox_slot *slot), void *arg)
{
    size_t cursor = 0, wanted = 0;
    for (struct outbox_slot *slot; (slot = key_table_next(outbox->slots, &cursor, NULL));) {
        // What was sent since the stream began, or is about to be, is newer than what was compared.
        bool on_its_way = slot->state != OUTBOX_IDLE || slot->sync == OUTBOX_SYNCED || !slot->counted;
        if (on_its_way) {
            enum outbox_sync sync = slot->sync == OUTBOX_MAYBE_SYNCED ? OUTBOX_UNSYNCED : slot->sync;
            set_state(outbox, slot, slot->state, slot->deleted, sync);
        } else if (count && bsearch(slot->entry, keys, count, sizeof *keys, compare_keys)) {
            set_state(outbox, slot, OUTBOX_IDLE, false, OUTBOX_UNSYNCED);
            slot->maybe_known = true;
            set_wanted(outbox, slot, true);
            on_wanted(arg, slot);
            wanted++;
        } else if (slot->sync != OUTBOX_REFUSED) {
            set_state(outbox, slot, OUTBOX_IDLE, false, OUTBOX_SYNCED);
        }
    }
    outbox->mode = OUTBOX_TELLS;
    return wanted;
}

size_t outbox_in_flight(const struct outbox *outbox)
{
    return outbox->in_flight.count;
}

size_t outbox_count(const struct outbox *outbox)
{
    return key_table_count(outbox->slots);
}

size_t outbox_queued(const struct outbox *outbox)
{
    return outbox->queue.count;
}

size_t outbox_bytes(const struct outbox *outbox)
{
    return outbox->bytes;
}

uint64_t outbox_slowed(const struct outbox *outbox)
{
    return outbox->slowed;
}

uint64_t outbox_coalesced(const struct outbox *outbox)
{
    return outbox->coalesced;
}

size_t outbox_synced_count(const struct outbox *outbox)
{
    return outbox->synced;
}

size_t outbox_wanted(const struct outbox *outbox)
{
    return outbox->wanted;
}

bool outbox_has_unsynced(const struct outbox *outbox)
{
    return outbox->unsynced != 0;
}

bool outbox_is_full(const struct outbox *outbox)
{
    return outbox->bytes >= outbox->options.bytes_max;
}

uint64_t outbox_oldest_ms(const struct outbox *outbox, uint64_t now_ms)
{
    const struct outbox_slot *first = outbox->queue.first;
    return first && now_ms > first->queued_at_ms ? now_ms - first->queued_at_ms : 0;
}
