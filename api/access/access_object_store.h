// access_object_store: what rules see of applications, and of the objects that belong to them.
#ifndef CULVERT_API_ACCESS_ACCESS_OBJECT_STORE_H
#define CULVERT_API_ACCESS_ACCESS_OBJECT_STORE_H

#include "api/access/access_set.h"
#include "base/json/json.h"
#include "storage/sql/store.h"

struct access_subject {
    struct str runtime, group, kind, ns, name; // of an object; its application's attributes count
};

// node: an array, in the order of the subjects: what access_object_read() takes, or null where no
// application is found.
void access_object_store_get(struct pg *pg, const char *account_id, const struct access_subject *subjects, size_t count,
                             store_node_done on_done, void *arg);
// Views into the JSON; the labels are in the arena.
struct access_object access_object_read(const json_t *json, struct arena *arena);

#endif
