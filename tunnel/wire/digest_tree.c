#include "tunnel/wire/digest_tree.h"

#include <string.h>

#include "base/id.h"
#include "base/mem.h"

enum { TEXTS_MAX = 16 };

// Each text with its length in front, so that no two lists of texts look alike.
static size_t put_texts(char *out, const struct str *texts, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        for (int shift = 24; shift >= 0; shift -= 8)
            out[used++] = (char)(uint8_t)(texts[i].len >> shift);
        if (texts[i].len) memcpy(out + used, texts[i].at, texts[i].len);
        used += texts[i].len;
    }
    return used;
}

void digest_entry_make(const struct digest_object *object, uint8_t out[DIGEST_ENTRY_BYTES])
{
    const struct str cluster = object->cluster.len ? object->cluster : STR("in-cluster");
    const struct str key[] = {cluster, object->ref.group, object->ref.kind, object->ref.ns, object->ref.name};
    const struct str content[] = {object->ref.version,      object->ref.uid,     object->application_ns,
                                  object->application_name, object->sync_status, object->health_status};
    const struct str details[] = {object->health_message, object->health_source, object->presence, object->resource,
                                  object->marks};
    size_t bytes = ID_SHA256_BYTES + TEXTS_MAX * 4, detail_bytes = 0;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        bytes += key[i].len;
    for (size_t i = 0; i < sizeof content / sizeof *content; i++)
        bytes += content[i].len;
    for (size_t i = 0; i < sizeof details / sizeof *details; i++)
        detail_bytes += details[i].len;
    bytes += detail_bytes;
    char small[1024];
    char *text = bytes <= sizeof small ? small : mem_alloc(bytes);
    size_t used = put_texts(text, key, sizeof key / sizeof *key);
    uint8_t hash[ID_SHA256_BYTES];
    id_sha256(text, used, hash);
    memcpy(out, hash, DIGEST_KEY_BYTES);
    // The key is in it again: two objects of the same content must not cancel each other.
    used += put_texts(text + used, content, sizeof content / sizeof *content);
    if (detail_bytes) used += put_texts(text + used, details, sizeof details / sizeof *details);
    memcpy(text + used, object->manifest_sha256, ID_SHA256_BYTES);
    used += ID_SHA256_BYTES;
    id_sha256(text, used, hash);
    memcpy(out + DIGEST_KEY_BYTES, hash, DIGEST_ENTRY_BYTES - DIGEST_KEY_BYTES);
    if (text != small) mem_free(text);
}

void digest_tree_toggle(struct digest_tree *tree, const uint8_t entry[DIGEST_ENTRY_BYTES])
{
    uint8_t *node = tree->leaves[digest_entry_leaf(entry)];
    for (size_t i = 0; i < DIGEST_NODE_BYTES; i++)
        node[i] ^= entry[DIGEST_KEY_BYTES + i];
}

void digest_tree_branch(const struct digest_tree *tree, unsigned branch, uint8_t out[DIGEST_NODE_BYTES])
{
    enum { LEAVES = DIGEST_LEAVES / DIGEST_BRANCHES };
    memset(out, 0, DIGEST_NODE_BYTES);
    for (unsigned leaf = branch * LEAVES; leaf < (branch + 1) * LEAVES; leaf++)
        for (size_t i = 0; i < DIGEST_NODE_BYTES; i++)
            out[i] ^= tree->leaves[leaf][i];
}

unsigned digest_leaf_set_count(const struct digest_leaf_set *set)
{
    unsigned count = 0;
    for (size_t i = 0; i < sizeof set->bits; i++)
        count += (unsigned)__builtin_popcount(set->bits[i]);
    return count;
}
