#include "server/intake/source.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"

struct source_table {
    struct table table;
};

struct source *source_create(const struct tunnel_session_info *session)
{
    struct source *source = mem_zalloc(sizeof *source);
    source->ref = session->ref;
    source->epoch = session->epoch;
    source->last = &source->first;
    snprintf(source->account_id, sizeof source->account_id, "%s", session->identity.account_id);
    snprintf(source->runtime, sizeof source->runtime, "%s", session->identity.runtime);
    list_init(&source->unacknowledged);
    list_init(&source->paused);
    list_init(&source->awaited);
    return source;
}

void source_destroy(struct source *source)
{
    list_remove(&source->unacknowledged);
    list_remove(&source->paused);
    list_remove(&source->awaited);
    for (struct in_flight *in_flight = source->first, *next; in_flight; in_flight = next) {
        next = in_flight->next;
        in_flight->source = NULL;
        if (in_flight->state != IN_FLIGHT_WAITING) mem_free(in_flight);
    }
    mem_free(source->end.unread);
    mem_free(source);
}

struct in_flight *source_enter(struct source *source, void *owner, uint64_t sequence, bool is_end)
{
    struct in_flight *in_flight = mem_alloc(sizeof *in_flight);
    *in_flight = (struct in_flight){.owner = owner, .source = source, .sequence = sequence, .is_end = is_end};
    *source->last = in_flight;
    source->last = &in_flight->next;
    return in_flight;
}

static void pop_done(struct source *source)
{
    while (source->first && source->first->state == IN_FLIGHT_DONE) {
        struct in_flight *in_flight = source->first;
        source->first = in_flight->next;
        if (!source->first) source->last = &source->first;
        if (in_flight->sequence > source->acknowledge) source->acknowledge = in_flight->sequence;
        mem_free(in_flight);
    }
}

struct source *in_flight_leave(struct in_flight *in_flight, bool done)
{
    struct source *source = in_flight->source;
    if (!source) {
        mem_free(in_flight);
        return NULL;
    }
    in_flight->state = done ? IN_FLIGHT_DONE : IN_FLIGHT_LOST;
    pop_done(source);
    return source;
}

void in_flight_withdraw(struct in_flight *in_flight)
{
    (void)in_flight_leave(in_flight, true);
}

// ---- all of them ---------------------------------------------------------------------------------------------------

struct source_table *source_table_create(void)
{
    struct source_table *table = mem_zalloc(sizeof *table);
    table_init(&table->table);
    return table;
}

void source_table_destroy(struct source_table *table)
{
    for (struct table_node *node; (node = table_next(&table->table, NULL));) {
        table_remove(&table->table, node);
        source_destroy(TABLE_OWNER(node, struct source, node));
    }
    table_finish(&table->table);
    mem_free(table);
}

static uint64_t hash_of(const struct source_table *table, struct tunnel_session_ref ref)
{
    return hash_end(table->table.seed ^ (uint64_t)ref.node << 56 ^ ref.id);
}

static bool is_source(const struct table_node *node, const void *key)
{
    const struct tunnel_session_ref *ref = key;
    const struct source *source = TABLE_OWNER(node, struct source, node);
    return source->ref.node == ref->node && source->ref.id == ref->id;
}

struct source *source_table_find(const struct source_table *table, struct tunnel_session_ref ref)
{
    struct table_node *node = table_find(&table->table, hash_of(table, ref), is_source, &ref);
    return node ? TABLE_OWNER(node, struct source, node) : NULL;
}

struct source *source_table_get(struct source_table *table, const struct tunnel_session_info *session)
{
    struct source *source = source_table_find(table, session->ref);
    if (source) return source;
    source = source_create(session);
    table_add(&table->table, &source->node, hash_of(table, session->ref));
    return source;
}

void source_table_remove(struct source_table *table, struct tunnel_session_ref ref)
{
    struct source *source = source_table_find(table, ref);
    if (!source) return;
    table_remove(&table->table, &source->node);
    source_destroy(source);
}
