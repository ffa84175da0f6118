#include "server/intake/digest_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"

enum {
    LEAVES_OF_BRANCH = DIGEST_LEAVES / DIGEST_BRANCHES,
    PORTION_ROWS_MAX = 4096, // of the platform's in what is asked for at once
    PORTION_LEAVES_MAX = 1024,
};

struct digest_exchange {
    uint8_t root[DIGEST_BRANCHES][DIGEST_NODE_BYTES]; // the agent's
    struct digest_tree ours;
    uint32_t leaf_rows[DIGEST_LEAVES];
    uint64_t branches;                // asked for
    struct digest_leaf_set differing; // to be asked for
    struct digest_leaf_set asked;     // and not answered yet
};

_Static_assert((int)DIGEST_STORE_LEAVES == DIGEST_LEAVES && (int)DIGEST_STORE_NODE_BYTES == DIGEST_NODE_BYTES &&
                   (int)DIGEST_STORE_ENTRY_BYTES == DIGEST_ENTRY_BYTES,
               "the store reads the same tree");

struct digest_exchange *digest_exchange_create(const struct digest *root)
{
    struct digest_exchange *exchange = mem_zalloc(sizeof *exchange);
    memcpy(exchange->root, root->nodes, sizeof exchange->root);
    return exchange;
}

void digest_exchange_destroy(struct digest_exchange *exchange)
{
    mem_free(exchange);
}

static bool is_of_nothing(const struct digest_exchange *exchange)
{
    static const uint8_t nothing[DIGEST_BRANCHES][DIGEST_NODE_BYTES];
    return memcmp(exchange->root, nothing, sizeof nothing) == 0;
}

void digest_exchange_take_tree(struct digest_exchange *exchange, const struct digest_store_tree *tree,
                               struct digest *out_answer)
{
    memcpy(exchange->ours.leaves, tree->nodes, sizeof tree->nodes);
    memcpy(exchange->leaf_rows, tree->leaf_rows, sizeof tree->leaf_rows);
    *out_answer = (struct digest){.kind = DIGEST_MATCHED};
    // Whoever has nothing gets everything faster without being asked about each object first.
    if (tree->is_partial || (tree->rows == 0 && !is_of_nothing(exchange))) {
        out_answer->kind = DIGEST_SNAPSHOT;
        return;
    }
    exchange->branches = 0;
    for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++) {
        uint8_t ours[DIGEST_NODE_BYTES];
        digest_tree_branch(&exchange->ours, branch, ours);
        if (memcmp(ours, exchange->root[branch], sizeof ours) != 0) exchange->branches |= (uint64_t)1 << branch;
    }
    if (!exchange->branches) return;
    out_answer->kind = DIGEST_ASK_BRANCHES;
    out_answer->branches = exchange->branches;
}

enum error_code digest_exchange_take_branches(struct digest_exchange *exchange, const struct digest *message,
                                              struct digest *out_answer, struct error *err)
{
    if (!exchange->branches || message->branches != exchange->branches)
        return error_set(err, ERROR_PROTOCOL, "branches that were not requested");
    const uint8_t *node = message->nodes;
    for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++) {
        if (!(message->branches >> branch & 1)) continue;
        for (unsigned i = 0; i < LEAVES_OF_BRANCH; i++, node += DIGEST_NODE_BYTES) {
            unsigned leaf = branch * LEAVES_OF_BRANCH + i;
            if (memcmp(node, exchange->ours.leaves[leaf], DIGEST_NODE_BYTES) != 0)
                digest_leaf_set_add(&exchange->differing, leaf);
        }
    }
    exchange->branches = 0;
    if (!digest_exchange_next(exchange, out_answer))
        return error_set(err, ERROR_PROTOCOL, "branches while leaves are expected");
    return ERROR_NONE;
}

enum error_code digest_exchange_take_leaves(struct digest_exchange *exchange, const struct digest *message,
                                            struct error *err)
{
    for (size_t i = 0; i < sizeof message->leaves.bits; i++)
        if (message->leaves.bits[i] & ~exchange->asked.bits[i])
            return error_set(err, ERROR_PROTOCOL, "leaf that was not requested");
    for (size_t i = 0; i < sizeof message->leaves.bits; i++)
        exchange->asked.bits[i] &= (uint8_t)~message->leaves.bits[i];
    return ERROR_NONE;
}

bool digest_exchange_next(struct digest_exchange *exchange, struct digest *out_answer)
{
    if (digest_leaf_set_count(&exchange->asked)) return false;
    *out_answer = (struct digest){.kind = DIGEST_DONE};
    uint64_t rows = 0;
    unsigned count = 0;
    for (unsigned leaf = 0; leaf < DIGEST_LEAVES; leaf++) {
        if (!digest_leaf_set_has(&exchange->differing, leaf)) continue;
        rows += exchange->leaf_rows[leaf];
        if (count && (rows > PORTION_ROWS_MAX || count == PORTION_LEAVES_MAX)) break;
        digest_leaf_set_remove(&exchange->differing, leaf);
        digest_leaf_set_add(&exchange->asked, leaf);
        count++;
    }
    if (!count) return true;
    out_answer->kind = DIGEST_ASK_LEAVES;
    out_answer->leaves = exchange->asked;
    return true;
}

// ---- leaves --------------------------------------------------------------------------------------------------------

static int compare_entries(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_ENTRY_BYTES);
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_KEY_BYTES);
}

// Rows begin with their entry, so that these compare them, too.
_Static_assert(offsetof(struct digest_store_row, entry) == 0, "a row begins with its entry");

static bool is_its_own(const struct digest_store_row *row)
{
    static const uint8_t none[ID_SHA256_BYTES];
    uint8_t entry[DIGEST_ENTRY_BYTES];
    digest_entry_make(&(struct digest_object){.cluster = row->cluster, .ref = row->ref, .manifest_sha256 = none},
                      entry);
    return memcmp(entry, row->entry, DIGEST_KEY_BYTES) == 0;
}

void digest_exchange_compare(uint8_t (*entries)[DIGEST_ENTRY_BYTES], size_t entry_count, struct digest_store_row *rows,
                             size_t row_count, struct digest_exchange_difference *out)
{
    if (entry_count) qsort(entries, entry_count, sizeof *entries, compare_entries);
    if (row_count) qsort(rows, row_count, sizeof *rows, compare_entries);
    *out = (struct digest_exchange_difference){.wanted = mem_alloc((entry_count + 1) * DIGEST_KEY_BYTES),
                                               .gone = mem_array(row_count + 1, sizeof(struct digest_store_row *))};
    for (size_t i = 0; i < entry_count; i++) {
        if (row_count && bsearch(entries[i], rows, row_count, sizeof *rows, compare_entries)) continue;
        memcpy(out->wanted + out->wanted_count++ * DIGEST_KEY_BYTES, entries[i], DIGEST_KEY_BYTES);
    }
    for (size_t i = 0; i < row_count; i++) {
        if (entry_count && bsearch(&rows[i], entries, entry_count, sizeof *entries, compare_keys)) continue;
        if (rows[i].is_unread) {
            out->kept_count++;
            continue;
        }
        if (!is_its_own(&rows[i])) out->is_unsure = true;
        out->gone[out->gone_count++] = &rows[i];
    }
}
