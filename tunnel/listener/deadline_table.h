// deadline_table: the deadline table: when each of a loop's sessions is due next. An idle session has
// nothing to do for seconds; with ten thousand of them a tick must not touch each. So the times
// stand side by side in one array, which a tick runs through (16 bytes an entry), and only what is
// due is looked at. Private to tunnel/. On its node's loop.
#ifndef CULVERT_TUNNEL_LISTENER_DEADLINE_TABLE_H
#define CULVERT_TUNNEL_LISTENER_DEADLINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct tunnel_session;

struct deadline_table_entry {
    uint64_t due_ms; // monotonic
    struct tunnel_session *session;
};

struct deadline_table {
    struct deadline_table_entry *entries;
    size_t count, cap;
};

void deadline_table_init(struct deadline_table *table);
void deadline_table_finish(struct deadline_table *table);
// Due at once. The session keeps its place in session->deadline_table_slot; adding and removing others
// may change it.
void deadline_table_add(struct deadline_table *table, struct tunnel_session *session);
void deadline_table_remove(struct deadline_table *table, struct tunnel_session *session);
void deadline_table_set(struct deadline_table *table, const struct tunnel_session *session, uint64_t due_ms);
// A session that is due, looked for from *at on, which is moved behind it; NULL: no more are due.
// Between calls sessions may come, go and be set anew: one that moves into a place behind *at waits
// for the next round.
struct tunnel_session *deadline_table_next_due(const struct deadline_table *table, size_t *at, uint64_t now_ms);

#endif
