#include "server/reports/source.h"

#include <stdio.h>

#include "base/mem.h"

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
