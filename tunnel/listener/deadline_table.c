#include "tunnel/listener/deadline_table.h"

#include <assert.h>

#include "base/mem.h"
#include "tunnel/session/session.h"

enum { CAP_MIN = 64 };

void deadline_table_init(struct deadline_table *table)
{
    *table = (struct deadline_table){0};
}

void deadline_table_finish(struct deadline_table *table)
{
    mem_free(table->entries);
    deadline_table_init(table);
}

void deadline_table_add(struct deadline_table *table, struct tunnel_session *session)
{
    if (table->count == table->cap) {
        table->cap = table->cap ? table->cap * 2 : CAP_MIN;
        table->entries = mem_realloc(table->entries, table->cap * sizeof(*table->entries));
    }
    session->deadline_table_slot = table->count;
    table->entries[table->count++] = (struct deadline_table_entry){.session = session};
}

void deadline_table_remove(struct deadline_table *table, struct tunnel_session *session)
{
    size_t slot = session->deadline_table_slot;
    assert(slot < table->count && table->entries[slot].session == session);
    table->entries[slot] = table->entries[--table->count];
    table->entries[slot].session->deadline_table_slot = slot;
}

void deadline_table_set(struct deadline_table *table, const struct tunnel_session *session, uint64_t due_ms)
{
    assert(table->entries[session->deadline_table_slot].session == session);
    table->entries[session->deadline_table_slot].due_ms = due_ms;
}

struct tunnel_session *deadline_table_next_due(const struct deadline_table *table, size_t *at, uint64_t now_ms)
{
    for (; *at < table->count; ++*at)
        if (table->entries[*at].due_ms <= now_ms) return table->entries[(*at)++].session;
    return NULL;
}
