// change: what a committed transaction has changed, as references to objects, never their state: a
// reader that misses one reads the database. `changes` are those of one account: immutable, with
// counted references, so that loops share them. Any thread.
#ifndef CULVERT_API_LIVE_CHANGE_H
#define CULVERT_API_LIVE_CHANGE_H

#include <stddef.h>

#include "base/error.h"
#include "base/object_ref.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { CHANGES_MAX = 8192, CHANGES_MESSAGE_BYTES_MAX = 512 * 1024, CHANGE_ORIGIN_BYTES = 40 };

// Of kind Runtime: its tunnel opened or closed, which changes the freshness of all that is of it.
struct change {
    struct object_ref ref;
    struct str runtime;
    bool is_deleted;
};

struct changes;

// Copies. count: 1 to CHANGES_MAX.
struct changes *changes_create(struct str account_id, const struct change *items, size_t count);
struct changes *changes_ref(struct changes *changes);
void changes_unref(struct changes *changes); // NULL is fine
struct str changes_account(const struct changes *changes);
const struct change *changes_items(const struct changes *changes, size_t *out_count);

// As a message for other replicas: {"from":ORIGIN,"changes":[{"group","version","kind","runtime",
// "namespace","name","event"}]}. False: it would be larger than `out` may be.
bool changes_write(const struct changes *changes, const char *origin, struct strbuf *out);
// The same back; origin: empty if the message has none. ERROR_INVALID: no such message.
MUST_CHECK enum error_code changes_parse(struct str account_id, struct str message, char origin[CHANGE_ORIGIN_BYTES],
                                         struct changes **out, struct error *err);

#endif
