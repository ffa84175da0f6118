// fetches: contents that are asked for one by one, because they are to be reported and no list or watch brings them: a
// few at a time, the others in line. The collector's; its client's loop.
#ifndef CULVERT_AGENT_FETCHES_H
#define CULVERT_AGENT_FETCHES_H

#include <jansson.h>

#include "agent/kube/kube_client.h"
#include "agent/reports/inventory.h"

struct fetches;

enum { FETCHES_AT_ONCE = 4 };

struct fetches_options {
    struct kube_client *client;
    // Where the object is (mem_free), NULL: nowhere (now).
    char *(*path_of)(void *arg, const struct inventory_resource *resource);
    // The content has come. May call back in.
    void (*on_fetched)(void *arg, struct inventory_resource *resource, json_t *object);
    // It could not be had after several tries: only a list can tell now.
    void (*on_failed)(void *arg, const struct inventory_resource *resource);
    void *arg;
};

struct fetches *fetches_create(const struct fetches_options *options);
void fetches_destroy(struct fetches *fetches); // NULL is fine; no callbacks

// Its content is wanted; nothing happens when it is already.
void fetches_add(struct fetches *fetches, struct inventory_resource *resource);
// Its content has come another way: what is in line is skipped, what is under way is not taken.
void fetches_drop(struct fetches *fetches, struct inventory_resource *resource);
// The resource is about to be freed.
void fetches_forget(struct fetches *fetches, const struct inventory_resource *resource);
// Starts what is in line, as far as there is room; a few times a second.
void fetches_tick(struct fetches *fetches);

// How many were ever added, and how many of these have ended.
uint64_t fetches_added(const struct fetches *fetches);
uint64_t fetches_ended(const struct fetches *fetches);

#endif
