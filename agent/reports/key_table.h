// key_table: pointers by text key, for tables of objects whose names come from a cluster's users (keyed SipHash, so
// that chosen names cannot collide). The table copies keys and never touches the values. One owner, one thread.
#ifndef CULVERT_AGENT_KEY_TABLE_H
#define CULVERT_AGENT_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct key_table;

struct key_table *key_table_create(void);
void key_table_destroy(struct key_table *table); // NULL is fine; values are the owner's

void *key_table_get(const struct key_table *table, struct str key); // NULL when absent
// value is not NULL. Gives back the value that was there before, or NULL.
void *key_table_put(struct key_table *table, struct str key, void *value);
void *key_table_remove(struct key_table *table, struct str key); // the value that was there, or NULL
size_t key_table_count(const struct key_table *table);

// Walks in no order: start with *cursor = 0, ends with NULL. Removing the entry just given is allowed (its key dies
// with it), putting is not. out_key may be NULL.
void *key_table_next(const struct key_table *table, size_t *cursor, struct str *out_key);

#endif
