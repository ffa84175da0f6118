// digest_store: what the platform holds of one runtime's inventory, for the exchange of digests with its agent: the
// leaves of the digest tree (tunnel/wire/digest_tree.h) and the rows in some of them. Reads, but for the fence. Loop of
// the pg; callbacks run later, exactly once.
#ifndef CULVERT_STORAGE_REPORTS_DIGEST_STORE_H
#define CULVERT_STORAGE_REPORTS_DIGEST_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/object_ref.h"
#include "storage/pg/pg.h"

enum { DIGEST_STORE_LEAVES = 4096, DIGEST_STORE_NODE_BYTES = 16, DIGEST_STORE_ENTRY_BYTES = 32 };

struct digest_store_tree {
    bool is_fenced;  // by a newer session, or there is no such runtime: what was asked for has no meaning any more
    bool is_partial; // there are live rows without an entry: the tree does not stand for what is held
    uint64_t rows;
    uint8_t nodes[DIGEST_STORE_LEAVES][DIGEST_STORE_NODE_BYTES];
    uint32_t leaf_rows[DIGEST_STORE_LEAVES];
};
typedef void (*digest_store_read)(void *arg, const struct error *err, const struct digest_store_tree *tree);
// Fences off what sessions before this epoch still have on its way, then reads the tree.
void digest_store_tree(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch,
                       digest_store_read on_done, void *arg);

// The comparison in this session, up to that record of it, has come to an end: what earlier sessions told is confirmed.
typedef void (*digest_store_confirmed)(void *arg, const struct error *err);
void digest_store_confirm(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, uint64_t sequence,
                          digest_store_confirmed on_done, void *arg);

// Is there anything at all that an agent of this runtime reported?
typedef void (*digest_store_asked)(void *arg, const struct error *err, bool holds_any);
void digest_store_holds_any(struct pg *pg, const char *account_id, struct str runtime, digest_store_asked on_done,
                            void *arg);

struct digest_store_row {
    uint8_t entry[DIGEST_STORE_ENTRY_BYTES];
    struct str cluster;
    struct object_ref ref;
    bool is_unread; // the agent may not read its kind, or that of what owns it: it says nothing of it
};
typedef void (*digest_store_listed)(void *arg, const struct error *err, const struct digest_store_row *rows,
                                    size_t count);
// leaves: a bit each, lowest first. unread: kinds that the agent may not read, as in report.h.
void digest_store_rows(struct pg *pg, const char *account_id, struct str runtime,
                       const uint8_t leaves[DIGEST_STORE_LEAVES / 8], struct str unread, digest_store_listed on_done,
                       void *arg);

#endif
