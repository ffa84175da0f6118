// timetable: the deadline table: when each of a loop's sessions is due next. An idle session has
// nothing to do for seconds; with ten thousand of them a tick must not touch each. So the times
// stand side by side in one array, which a tick runs through (16 bytes an entry), and only what is
// due is looked at. Private to tunnel/. On its node's loop.
#ifndef CULVERT_TUNNEL_LISTENER_TIMETABLE_H
#define CULVERT_TUNNEL_LISTENER_TIMETABLE_H

#include <stddef.h>
#include <stdint.h>

struct tunnel_session;

struct timetable_entry {
    uint64_t due_ms; // monotonic
    struct tunnel_session *session;
};

struct timetable {
    struct timetable_entry *entries;
    size_t count, cap;
};

void timetable_init(struct timetable *table);
void timetable_finish(struct timetable *table);
// Due at once. The session keeps its place in session->timetable_slot; adding and removing others
// may change it.
void timetable_add(struct timetable *table, struct tunnel_session *session);
void timetable_remove(struct timetable *table, struct tunnel_session *session);
void timetable_set(struct timetable *table, const struct tunnel_session *session, uint64_t due_ms);
// A session that is due, looked for from *at on, which is moved behind it; NULL: no more are due.
// Between calls sessions may come, go and be set anew: one that moves into a place behind *at waits
// for the next round.
struct tunnel_session *timetable_next_due(const struct timetable *table, size_t *at, uint64_t now_ms);

#endif
