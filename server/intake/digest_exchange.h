// digest_exchange: one exchange of digests with one agent (tunnel/wire/digest.h), the platform's side without its I/O:
// what to ask next, which objects to want, which rows stand for something that is gone. Owned by resyncs.h; its loop.
#ifndef CULVERT_SERVER_INTAKE_DIGEST_EXCHANGE_H
#define CULVERT_SERVER_INTAKE_DIGEST_EXCHANGE_H

#include "storage/reports/digest_store.h"
#include "tunnel/wire/digest.h"

struct digest_exchange;

// root: as the agent sent it.
struct digest_exchange *digest_exchange_create(const struct digest *root);
void digest_exchange_destroy(struct digest_exchange *exchange); // NULL is fine

// What the platform holds, copied. *out_answer is MATCHED, ASK_BRANCHES or SNAPSHOT; its views live in the exchange.
void digest_exchange_take_tree(struct digest_exchange *exchange, const struct digest_store_tree *tree,
                               struct digest *out_answer);
// *out_answer: ASK_LEAVES, or DONE when nothing differs any more. ERROR_PROTOCOL: it was not asked for.
MUST_CHECK enum error_code digest_exchange_take_branches(struct digest_exchange *exchange, const struct digest *message,
                                                         struct digest *out_answer, struct error *err);
// ERROR_PROTOCOL: leaf that was not requested.
MUST_CHECK enum error_code digest_exchange_take_leaves(struct digest_exchange *exchange, const struct digest *message,
                                                       struct error *err);
// After the entries were compared. False: leaves that were asked for are still to come. *out_answer: the next
// ASK_LEAVES, or DONE.
bool digest_exchange_next(struct digest_exchange *exchange, struct digest *out_answer);

// Told leaves beside the rows of the same leaves; sorts both. The lists are the caller's to free (mem_free).
struct digest_exchange_difference {
    uint8_t *wanted; // keys, DIGEST_KEY_BYTES each
    size_t wanted_count;
    const struct digest_store_row **gone; // rows that the agent has no object for
    size_t gone_count;
    size_t kept_count; // rows that it has none for because it may not read them: nothing follows from that
    bool is_unsure;    // a row's entry is not its own: nothing may be concluded from it
};
void digest_exchange_compare(uint8_t (*entries)[DIGEST_ENTRY_BYTES], size_t entry_count, struct digest_store_row *rows,
                             size_t row_count, struct digest_exchange_difference *out);

#endif
