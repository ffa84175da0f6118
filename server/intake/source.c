#include "server/intake/source.h"

#include <stdio.h>

#include "base/mem.h"

enum { BUCKETS = 4096 };

struct source_table {
    struct source *buckets[BUCKETS]; // by the session's id, which counts up
};

void hook_init(struct hook *hook, struct source *source)
{
    hook->next = hook->prev = hook;
    hook->source = source;
}

void hook_remove(struct hook *hook)
{
    hook->prev->next = hook->next;
    hook->next->prev = hook->prev;
    hook->next = hook->prev = hook;
}

void hook_add(struct hook *head, struct hook *hook)
{
    if (hook->next != hook) return;
    hook->prev = head->prev;
    hook->next = head;
    head->prev->next = hook;
    head->prev = hook;
}

struct source *source_create(const struct tunnel_session_info *session)
{
    struct source *source = mem_zalloc(sizeof *source);
    source->ref = session->ref;
    source->epoch = session->epoch;
    source->last = &source->first;
    snprintf(source->account_id, sizeof source->account_id, "%s", session->identity.account_id);
    snprintf(source->runtime, sizeof source->runtime, "%s", session->identity.runtime);
    hook_init(&source->untold, source);
    hook_init(&source->paused, source);
    hook_init(&source->awaited, source);
    return source;
}

void source_destroy(struct source *source)
{
    hook_remove(&source->untold);
    hook_remove(&source->paused);
    hook_remove(&source->awaited);
    for (struct passage *passage = source->first, *next; passage; passage = next) {
        next = passage->next;
        passage->source = NULL;
        if (passage->state != PASSAGE_UNDER_WAY) mem_free(passage);
    }
    mem_free(source->end.unread);
    mem_free(source);
}

struct passage *source_enter(struct source *source, void *owner, uint64_t sequence, bool is_end)
{
    struct passage *passage = mem_alloc(sizeof *passage);
    *passage = (struct passage){.owner = owner, .source = source, .sequence = sequence, .is_end = is_end};
    *source->last = passage;
    source->last = &passage->next;
    return passage;
}

static void pop_done(struct source *source)
{
    while (source->first && source->first->state == PASSAGE_DONE) {
        struct passage *passage = source->first;
        source->first = passage->next;
        if (!source->first) source->last = &source->first;
        if (passage->sequence > source->acknowledge) source->acknowledge = passage->sequence;
        mem_free(passage);
    }
}

struct source *passage_leave(struct passage *passage, bool done)
{
    struct source *source = passage->source;
    if (!source) {
        mem_free(passage);
        return NULL;
    }
    passage->state = done ? PASSAGE_DONE : PASSAGE_LOST;
    pop_done(source);
    return source;
}

void passage_withdraw(struct passage *passage)
{
    (void)passage_leave(passage, true);
}

// ---- all of them ---------------------------------------------------------------------------------------------------

struct source_table *source_table_create(void)
{
    return mem_zalloc(sizeof(struct source_table));
}

void source_table_destroy(struct source_table *table)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct source *source = table->buckets[i], *next; source; source = next) {
            next = source->next;
            source_destroy(source);
        }
    }
    mem_free(table);
}

static bool same_ref(struct tunnel_session_ref a, struct tunnel_session_ref b)
{
    return a.node == b.node && a.id == b.id;
}

// The link that points to it, or the one at the end of its bucket.
static struct source **find_link(struct source_table *table, struct tunnel_session_ref ref)
{
    struct source **link = &table->buckets[ref.id % BUCKETS];
    while (*link && !same_ref((*link)->ref, ref))
        link = &(*link)->next;
    return link;
}

struct source *source_table_find(const struct source_table *table, struct tunnel_session_ref ref)
{
    struct source *source = table->buckets[ref.id % BUCKETS];
    while (source && !same_ref(source->ref, ref))
        source = source->next;
    return source;
}

struct source *source_table_get(struct source_table *table, const struct tunnel_session_info *session)
{
    struct source **link = find_link(table, session->ref);
    if (!*link) *link = source_create(session);
    return *link;
}

void source_table_remove(struct source_table *table, struct tunnel_session_ref ref)
{
    struct source **link = find_link(table, ref), *source = *link;
    if (!source) return;
    *link = source->next;
    source_destroy(source);
}
