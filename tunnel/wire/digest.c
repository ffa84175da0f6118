#include "tunnel/wire/digest.h"

#include <string.h>

#include "tunnel/wire/bytes.h"

enum { BRANCH_BYTES = DIGEST_LEAVES / DIGEST_BRANCHES * DIGEST_NODE_BYTES };

static size_t branch_count(uint64_t branches)
{
    return (size_t)__builtin_popcountll(branches);
}

static bool counts_are_bounded(const struct digest *digest)
{
    switch (digest->kind) {
    case DIGEST_LEAVES_SENT: return digest->count <= DIGEST_ENTRIES_MAX && digest_leaf_set_count(&digest->leaves);
    case DIGEST_WANTED: return digest->count <= DIGEST_WANTED_MAX;
    case DIGEST_BRANCHES_SENT:
    case DIGEST_ASK_BRANCHES: return digest->branches != 0;
    default: return true;
    }
}

// ---- encode --------------------------------------------------------------------------------------------------------

static void put_leaves(const struct digest *digest, struct strbuf *out)
{
    bytes_put_u16(out, (uint16_t)digest_leaf_set_count(&digest->leaves));
    for (unsigned leaf = 0; leaf < DIGEST_LEAVES; leaf++)
        if (digest_leaf_set_has(&digest->leaves, leaf)) bytes_put_u16(out, (uint16_t)leaf);
    strbuf_add(out, digest->items, digest->count * DIGEST_ENTRY_BYTES);
}

enum error_code digest_encode(const struct digest *digest, struct strbuf *out, struct error *err)
{
    if (!counts_are_bounded(digest)) return error_set(err, ERROR_INVALID, "digest is empty or has too many entries");
    bytes_put_u8(out, (uint8_t)digest->kind);
    switch (digest->kind) {
    case DIGEST_ROOT: strbuf_add(out, digest->nodes, (size_t)DIGEST_BRANCHES * DIGEST_NODE_BYTES); break;
    case DIGEST_BRANCHES_SENT:
        bytes_put_u64(out, digest->branches);
        strbuf_add(out, digest->nodes, branch_count(digest->branches) * BRANCH_BYTES);
        break;
    case DIGEST_LEAVES_SENT: put_leaves(digest, out); break;
    case DIGEST_ASK_BRANCHES: bytes_put_u64(out, digest->branches); break;
    case DIGEST_ASK_LEAVES: strbuf_add(out, digest->leaves.bits, sizeof digest->leaves.bits); break;
    case DIGEST_WANTED: strbuf_add(out, digest->items, digest->count * DIGEST_KEY_BYTES); break;
    case DIGEST_PROBE:
    case DIGEST_MATCHED:
    case DIGEST_DONE:
    case DIGEST_SNAPSHOT:
    case DIGEST_LATER: break;
    }
    if (out->overflow) return error_set(err, ERROR_TOO_LARGE, "digest does not fit the buffer");
    return ERROR_NONE;
}

// ---- decode --------------------------------------------------------------------------------------------------------

// The leaves ascend, the entries lie in them: there is one way to write it.
static bool take_leaves(const uint8_t *at, size_t len, struct digest *out)
{
    if (len < 2) return false;
    size_t count = bytes_get_u16(at);
    if (count == 0 || count > DIGEST_LEAVES || len - 2 < count * 2) return false;
    for (size_t i = 0; i < count; i++) {
        unsigned leaf = bytes_get_u16(at + 2 + i * 2);
        if (leaf >= DIGEST_LEAVES || (i && leaf <= bytes_get_u16(at + i * 2))) return false;
        digest_leaf_set_add(&out->leaves, leaf);
    }
    out->items = at + 2 + count * 2;
    size_t left = len - 2 - count * 2;
    out->count = left / DIGEST_ENTRY_BYTES;
    if (left % DIGEST_ENTRY_BYTES || out->count > DIGEST_ENTRIES_MAX) return false;
    for (size_t i = 0; i < out->count; i++)
        if (!digest_leaf_set_has(&out->leaves, digest_entry_leaf(out->items + i * DIGEST_ENTRY_BYTES))) return false;
    return true;
}

static bool take_branches(const uint8_t *at, size_t len, bool with_nodes, struct digest *out)
{
    if (len < 8) return false;
    out->branches = bytes_get_u64(at);
    out->nodes = with_nodes ? at + 8 : NULL;
    return out->branches && len - 8 == (with_nodes ? branch_count(out->branches) * BRANCH_BYTES : 0);
}

static bool take_payload(const uint8_t *at, size_t len, struct digest *out)
{
    switch (out->kind) {
    case DIGEST_ROOT: out->nodes = at; return len == (size_t)DIGEST_BRANCHES * DIGEST_NODE_BYTES;
    case DIGEST_BRANCHES_SENT: return take_branches(at, len, true, out);
    case DIGEST_LEAVES_SENT: return take_leaves(at, len, out);
    case DIGEST_ASK_BRANCHES: return take_branches(at, len, false, out);
    case DIGEST_ASK_LEAVES:
        if (len != sizeof out->leaves.bits) return false;
        memcpy(out->leaves.bits, at, len);
        return true;
    case DIGEST_WANTED:
        out->items = at;
        out->count = len / DIGEST_KEY_BYTES;
        return len % DIGEST_KEY_BYTES == 0 && out->count <= DIGEST_WANTED_MAX;
    case DIGEST_PROBE:
    case DIGEST_MATCHED:
    case DIGEST_DONE:
    case DIGEST_SNAPSHOT:
    case DIGEST_LATER: return len == 0;
    }
    return false;
}

enum error_code digest_decode(const uint8_t *at, size_t len, struct digest *out, struct error *err)
{
    if (len == 0) return error_set(err, ERROR_PROTOCOL, "digest of no bytes");
    struct digest digest = {.kind = (enum digest_kind)at[0]};
    if (!take_payload(at + 1, len - 1, &digest))
        return error_set(err, ERROR_PROTOCOL, "invalid digest of kind %u and %zu bytes", at[0], len);
    *out = digest;
    return ERROR_NONE;
}
