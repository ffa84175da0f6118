#include "tunnel/listener/timetable.h"

#include <assert.h>

#include "base/mem.h"
#include "tunnel/session/session.h"

enum { CAP_MIN = 64 };

void timetable_init(struct timetable *table)
{
    *table = (struct timetable){0};
}

void timetable_finish(struct timetable *table)
{
    mem_free(table->entries);
    timetable_init(table);
}

void timetable_add(struct timetable *table, struct tunnel_session *session)
{
    if (table->count == table->cap) {
        table->cap = table->cap ? table->cap * 2 : CAP_MIN;
        table->entries = mem_realloc(table->entries, table->cap * sizeof(*table->entries));
    }
    session->timetable_slot = table->count;
    table->entries[table->count++] = (struct timetable_entry){.session = session};
}

void timetable_remove(struct timetable *table, struct tunnel_session *session)
{
    size_t slot = session->timetable_slot;
    assert(slot < table->count && table->entries[slot].session == session);
    table->entries[slot] = table->entries[--table->count];
    table->entries[slot].session->timetable_slot = slot;
}

void timetable_set(struct timetable *table, const struct tunnel_session *session, uint64_t due_ms)
{
    assert(table->entries[session->timetable_slot].session == session);
    table->entries[session->timetable_slot].due_ms = due_ms;
}

struct tunnel_session *timetable_next_due(const struct timetable *table, size_t *at, uint64_t now_ms)
{
    for (; *at < table->count; ++*at)
        if (table->entries[*at].due_ms <= now_ms) return table->entries[(*at)++].session;
    return NULL;
}
