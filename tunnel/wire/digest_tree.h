// digest_tree: an inventory as 64 branches of 64 leaves, so that two ends find where theirs differ
// by sending each other a few hashes. Every object is one entry of 32 bytes: the first 8 name it
// (from its key; their first 12 bits show in which leaf it is), the other 24 stand for the last
// report about it. The digest of a leaf or a branch is the exclusive or of bytes 8 to 24 of its
// entries: an object's coming, going or changing costs two exclusive ors, the order does not
// matter, and PostgreSQL has the same aggregate. Keys are unique, so that entries never cancel each
// other.
//
// Entries come from SHA-256, so that different inventories get the same digests by accident once in
// 2^128 times. It is no defence against an end that makes them equal on purpose: exclusive ors can
// be solved for. An attacker who can choose thousands of objects of a cluster can hide changes of
// that cluster from its own account until they change again, and no other's. Pure values; owned by
// the holder; any one thread.
#ifndef CULVERT_TUNNEL_WIRE_DIGEST_TREE_H
#define CULVERT_TUNNEL_WIRE_DIGEST_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/object_ref.h"
#include "base/str.h"

enum {
    DIGEST_ENTRY_BYTES = 32,
    DIGEST_KEY_BYTES = 8,   // of an entry, in front
    DIGEST_NODE_BYTES = 16, // of a branch or a leaf
    DIGEST_BRANCHES = 64,
    DIGEST_LEAVES = 4096, // leaf / 64 is its branch
};

// What an entry is made of. Empty texts are as good as absent; an empty cluster is "in-cluster".
struct digest_object {
    struct str cluster; // with the identity of ref: the key
    struct object_ref ref;
    struct str application_ns, application_name, sync_status, health_status; // as they are on the wire
    // Details; of an object without any the entry is what it was before there were details.
    struct str health_message, health_source, presence, resource, marks;
    const uint8_t *manifest_sha256; // of the plain text, 32 bytes
};

void digest_entry_make(const struct digest_object *object, uint8_t out[DIGEST_ENTRY_BYTES]);

static inline unsigned digest_entry_leaf(const uint8_t entry[DIGEST_ENTRY_BYTES])
{
    return (unsigned)entry[0] << 4 | entry[1] >> 4;
}

struct digest_tree {
    uint8_t leaves[DIGEST_LEAVES][DIGEST_NODE_BYTES]; // all zero: the tree of nothing
};

// Puts an entry that is not in the tree, or takes out one that is.
void digest_tree_toggle(struct digest_tree *tree, const uint8_t entry[DIGEST_ENTRY_BYTES]);
void digest_tree_branch(const struct digest_tree *tree, unsigned branch, uint8_t out[DIGEST_NODE_BYTES]);

// A set of leaves.
struct digest_leaf_set {
    uint8_t bits[DIGEST_LEAVES / 8];
};
static inline bool digest_leaf_set_has(const struct digest_leaf_set *set, unsigned leaf)
{
    return set->bits[leaf / 8] >> leaf % 8 & 1;
}
static inline void digest_leaf_set_add(struct digest_leaf_set *set, unsigned leaf)
{
    set->bits[leaf / 8] |= (uint8_t)(1u << leaf % 8);
}
static inline void digest_leaf_set_remove(struct digest_leaf_set *set, unsigned leaf)
{
    set->bits[leaf / 8] &= (uint8_t) ~(1u << leaf % 8);
}
unsigned digest_leaf_set_count(const struct digest_leaf_set *set);

#endif
