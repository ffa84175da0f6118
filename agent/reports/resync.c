#include "agent/reports/resync.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tunnel/wire/digest.h"

struct resync {
    struct outbox *outbox;
    const struct resync_events *events;
    void *arg;
    enum resync_state state;
    uint64_t branches;             // to be sent
    struct digest_leaf_set leaves; // to be sent
    uint8_t (*wanted)[DIGEST_KEY_BYTES];
    size_t wanted_count, wanted_room;
};

static void set_state(struct resync *resync, enum resync_state state)
{
    static const unsigned allowed[] = {
        [RESYNC_IDLE] = 1u << RESYNC_IDLE | 1u << RESYNC_PROBE_DUE | 1u << RESYNC_ROOT_DUE,
        [RESYNC_PROBE_DUE] = 1u << RESYNC_IDLE,
        [RESYNC_ROOT_DUE] = 1u << RESYNC_IDLE | 1u << RESYNC_ASKING,
        [RESYNC_ASKING] = 1u << RESYNC_IDLE,
    };
    assert(allowed[resync->state] & 1u << state);
    resync->state = state;
}

struct resync *resync_create(struct outbox *outbox, const struct resync_events *events, void *arg)
{
    struct resync *resync = mem_zalloc(sizeof *resync);
    resync->outbox = outbox;
    resync->events = events;
    resync->arg = arg;
    return resync;
}

void resync_stop(struct resync *resync)
{
    set_state(resync, RESYNC_IDLE);
    resync->branches = 0;
    resync->leaves = (struct digest_leaf_set){0};
    mem_free(resync->wanted);
    resync->wanted = NULL;
    resync->wanted_count = resync->wanted_room = 0;
}

void resync_destroy(struct resync *resync)
{
    if (!resync) return;
    resync_stop(resync);
    mem_free(resync);
}

void resync_probe(struct resync *resync)
{
    set_state(resync, RESYNC_PROBE_DUE);
}

void resync_begin(struct resync *resync)
{
    resync_stop(resync);
    set_state(resync, RESYNC_ROOT_DUE);
}

// ---- what to say ---------------------------------------------------------------------------------------------------

static bool put(const struct digest *digest, struct strbuf *out)
{
    struct error err;
    return digest_encode(digest, out, &err) == ERROR_NONE;
}

static bool put_root(struct resync *resync, struct strbuf *out)
{
    uint8_t nodes[DIGEST_BRANCHES][DIGEST_NODE_BYTES];
    // What is seen from here on is in no answer: it is sent at once.
    outbox_set_mode(resync->outbox, OUTBOX_TELLS);
    for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++)
        digest_tree_branch(outbox_tree(resync->outbox), branch, nodes[branch]);
    set_state(resync, RESYNC_ASKING);
    return put(&(struct digest){.kind = DIGEST_ROOT, .nodes = nodes[0]}, out);
}

static bool put_branches(struct resync *resync, struct strbuf *out)
{
    enum { BRANCH_BYTES = DIGEST_LEAVES / DIGEST_BRANCHES * DIGEST_NODE_BYTES };
    const struct digest_tree *tree = outbox_tree(resync->outbox);
    struct digest sent = {.kind = DIGEST_BRANCHES_SENT, .branches = resync->branches};
    uint8_t *nodes = mem_alloc((size_t)DIGEST_BRANCHES * BRANCH_BYTES), *to = nodes;
    for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++) {
        if (!(sent.branches >> branch & 1)) continue;
        memcpy(to, tree->leaves[branch * (DIGEST_LEAVES / DIGEST_BRANCHES)], BRANCH_BYTES);
        to += BRANCH_BYTES;
    }
    resync->branches = 0;
    sent.nodes = nodes;
    bool good = put(&sent, out);
    mem_free(nodes);
    return good;
}

struct gathering {
    const struct digest_leaf_set *leaves;
    uint32_t counts[DIGEST_LEAVES];
    uint8_t *to; // NULL: counting
};

static void gather(void *arg, const uint8_t *entry)
{
    struct gathering *gathering = arg;
    unsigned leaf = digest_entry_leaf(entry);
    if (!digest_leaf_set_has(gathering->leaves, leaf)) return;
    gathering->counts[leaf]++;
    if (!gathering->to) return;
    memcpy(gathering->to, entry, DIGEST_ENTRY_BYTES);
    gathering->to += DIGEST_ENTRY_BYTES;
}

// As many of the asked leaves as one word may hold, and one at least.
static bool put_leaves(struct resync *resync, struct strbuf *out)
{
    struct gathering gathering = {.leaves = &resync->leaves};
    outbox_each_entry(resync->outbox, gather, &gathering);
    struct digest sent = {.kind = DIGEST_LEAVES_SENT};
    bool any = false;
    for (unsigned leaf = 0; leaf < DIGEST_LEAVES; leaf++) {
        if (!digest_leaf_set_has(&resync->leaves, leaf)) continue;
        if (any && sent.count + gathering.counts[leaf] > DIGEST_LEAVES_ENTRIES_MAX) break;
        any = true;
        sent.count += gathering.counts[leaf];
        digest_leaf_set_add(&sent.leaves, leaf);
    }
    for (size_t i = 0; i < sizeof sent.leaves.bits; i++)
        resync->leaves.bits[i] &= (uint8_t)~sent.leaves.bits[i];
    uint8_t *entries = mem_alloc(sent.count * DIGEST_ENTRY_BYTES + 1);
    gathering.leaves = &sent.leaves;
    gathering.to = entries;
    outbox_each_entry(resync->outbox, gather, &gathering);
    sent.items = entries;
    bool good = put(&sent, out);
    mem_free(entries);
    return good;
}

bool resync_next(struct resync *resync, struct strbuf *out)
{
    if (resync->state == RESYNC_PROBE_DUE) {
        set_state(resync, RESYNC_IDLE);
        return put(&(struct digest){.kind = DIGEST_PROBE}, out);
    }
    if (resync->state == RESYNC_ROOT_DUE) return put_root(resync, out);
    if (resync->branches) return put_branches(resync, out);
    if (digest_leaf_set_count(&resync->leaves)) return put_leaves(resync, out);
    return false;
}

// ---- what is said --------------------------------------------------------------------------------------------------

static enum error_code take_wanted(struct resync *resync, const struct digest *digest, struct error *err)
{
    size_t count = resync->wanted_count + digest->count;
    // It can only want what was sent.
    if (count > outbox_count(resync->outbox) + DIGEST_ENTRIES_MAX)
        return error_set(err, ERROR_PROTOCOL, "more objects are requested than exist");
    if (count > resync->wanted_room) {
        resync->wanted_room = count * 2;
        resync->wanted = mem_realloc(resync->wanted, resync->wanted_room * sizeof *resync->wanted);
    }
    if (digest->count) memcpy(resync->wanted[resync->wanted_count], digest->items, digest->count * DIGEST_KEY_BYTES);
    resync->wanted_count = count;
    return ERROR_NONE;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_KEY_BYTES);
}

static void settle(struct resync *resync)
{
    if (resync->wanted_count) qsort(resync->wanted, resync->wanted_count, sizeof *resync->wanted, compare_keys);
    size_t differs = resync->wanted_count;
    size_t wanted = outbox_settle(resync->outbox, (const uint8_t(*)[DIGEST_KEY_BYTES])resync->wanted,
                                  resync->wanted_count, resync->events->on_wanted, resync->arg);
    resync_stop(resync);
    resync->events->on_settled(resync->arg, differs, wanted);
}

enum error_code resync_take(struct resync *resync, struct str payload, struct error *err)
{
    struct digest digest;
    enum error_code code = digest_decode((const uint8_t *)payload.at, payload.len, &digest, err);
    if (code) return code;
    if (digest.kind == DIGEST_SNAPSHOT) {
        resync_stop(resync);
        resync->events->on_snapshot(resync->arg);
        return ERROR_NONE;
    }
    // Of an exchange that was given up, or from before the one that is due.
    if (resync->state == RESYNC_IDLE || resync->state == RESYNC_PROBE_DUE) return ERROR_NONE;
    switch (digest.kind) {
    case DIGEST_ASK_BRANCHES: resync->branches |= digest.branches; return ERROR_NONE;
    case DIGEST_ASK_LEAVES:
        for (size_t i = 0; i < sizeof digest.leaves.bits; i++)
            resync->leaves.bits[i] |= digest.leaves.bits[i];
        return ERROR_NONE;
    case DIGEST_WANTED: return take_wanted(resync, &digest, err);
    case DIGEST_MATCHED:
    case DIGEST_DONE: settle(resync); return ERROR_NONE;
    case DIGEST_LATER:
        resync_stop(resync);
        resync->events->on_later(resync->arg);
        return ERROR_NONE;
    default: return error_set(err, ERROR_PROTOCOL, "digest of kind %u may be sent by agents only", digest.kind);
    }
}
