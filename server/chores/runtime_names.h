// runtime_names: the names of runtimes, each as often as it was added, and whether one is there.
// Pure; a value, guarded by its owner.
#ifndef CULVERT_SERVER_CHORES_RUNTIME_NAMES_H
#define CULVERT_SERVER_CHORES_RUNTIME_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runtime_key.h"
#include "base/str.h"

struct runtime_name;

struct runtime_names {
    struct runtime_name **buckets;
    size_t bucket_count, count; // bucket_count is a power of two
    uint64_t seed;              // tenants choose names: they must not choose buckets
};

void runtime_names_init(struct runtime_names *names);
void runtime_names_finish(struct runtime_names *names);
void runtime_names_add(struct runtime_names *names, const struct runtime_key *key);
void runtime_names_remove(struct runtime_names *names, const struct runtime_key *key); // once
bool runtime_names_have(const struct runtime_names *names, const struct runtime_key *key);

#endif
