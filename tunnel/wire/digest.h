// digest: the messages by which the two ends find where their inventories differ (digest_tree.h),
// as the payload of report records (agent) and acknowledgements (platform). Pure codec: bytes in,
// bytes out; any thread.
//
//   agent                          platform
//   ROOT      64 branch digests    MATCHED                 both are the same
//                                  ASK_BRANCHES  which     these branches differ
//   BRANCHES  64 leaf digests each ASK_LEAVES    which     these leaves differ
//   LEAVES    all their entries    WANTED        keys      of these the platform has something else, or nothing
//                                  DONE                    everything has been compared
// Several LEAVES may answer one ASK_LEAVES; each gets its WANTED. What a sent leaf does not name is
// gone. At any time the platform may send SNAPSHOT (send everything) or LATER (cannot compare now,
// ask again), which ends the exchange, as a new ROOT does. PROBE, before the agent knows its own
// inventory, asks whether a SNAPSHOT is wanted anyway; it has no other answer.
//
// An exchange is offered by the request header WIRE_HEADER_DIGEST of the reports stream: agents
// that do not know it send snapshots, and so do agents whose platform does not offer it.
#ifndef CULVERT_TUNNEL_WIRE_DIGEST_H
#define CULVERT_TUNNEL_WIRE_DIGEST_H

#include "base/error.h"
#include "base/strbuf.h"
#include "tunnel/wire/digest_tree.h"

enum {
    DIGEST_LEAVES_ENTRIES_MAX = 8192, // of one LEAVES, unless a single leaf has more
    DIGEST_ENTRIES_MAX = 65536,       // of one LEAVES at all
    DIGEST_WANTED_MAX = 2048,         // keys of one WANTED
    DIGEST_BYTES_MAX = 16 + DIGEST_LEAVES * 2 + DIGEST_ENTRIES_MAX * DIGEST_ENTRY_BYTES,
    DIGEST_ANSWER_BYTES_MAX = 16 + DIGEST_WANTED_MAX * DIGEST_KEY_BYTES,
};

enum digest_kind {
    DIGEST_ROOT = 1,
    DIGEST_BRANCHES_SENT = 2,
    DIGEST_LEAVES_SENT = 3,
    DIGEST_PROBE = 4,
    DIGEST_MATCHED = 16,
    DIGEST_ASK_BRANCHES = 17,
    DIGEST_ASK_LEAVES = 18,
    DIGEST_WANTED = 19,
    DIGEST_DONE = 20,
    DIGEST_SNAPSHOT = 21,
    DIGEST_LATER = 22,
};

// Views into what was decoded, or into the caller's memory.
struct digest {
    enum digest_kind kind;
    uint64_t branches;             // BRANCHES_SENT, ASK_BRANCHES: bit b: branch b
    const uint8_t *nodes;          // ROOT: of all branches; BRANCHES_SENT: 64 for each bit, lowest first
    struct digest_leaf_set leaves; // ASK_LEAVES, LEAVES_SENT
    const uint8_t *items;          // LEAVES_SENT: entries, each in one of the leaves; WANTED: keys
    size_t count;                  // of the items
};

MUST_CHECK enum error_code digest_encode(const struct digest *digest, struct strbuf *out, struct error *err);
// at..len is one whole payload. ERROR_PROTOCOL: invalid.
MUST_CHECK enum error_code digest_decode(const uint8_t *at, size_t len, struct digest *out, struct error *err);

#endif
