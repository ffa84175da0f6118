// annotation_store: what people and pipelines pin to a thing: the issues and pull requests behind an image, and the
// like. One value a thing, type and key; the last one said stands.
#ifndef CULVERT_MODULES_ANNOTATIONS_ANNOTATION_STORE_H
#define CULVERT_MODULES_ANNOTATIONS_ANNOTATION_STORE_H

#include "storage/sql/store.h"

struct annotation {
    struct str entity_type, entity_id, type, key; // none empty
    struct str classic_id;                        // may be empty
    struct str value;                             // JSON
    struct str runtime;                           // whose token writes; empty for a user
};

// count 0: a runtime's token, and others were the first to write this.

void annotation_store_put(struct pg *pg, const char *account_id, const struct annotation *annotation,
                          store_count_done on_done, void *arg);

#endif
