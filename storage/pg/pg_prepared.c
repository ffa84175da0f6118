#include "storage/pg/pg_prepared.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/table.h"

enum { NAME_BYTES = 40 };

struct entry {
    struct table_node node;
    struct list used;
    unsigned number;
    char name[NAME_BYTES];
};

struct pg_prepared {
    struct table entries;
    struct list used; // the one that was not used for longest first
    size_t statements_max;
    unsigned last_number; // of a connection's life: never twice
    struct metric *hits, *misses, *evictions;
};

struct pg_prepared *pg_prepared_create(size_t statements_max)
{
    struct pg_prepared *prepared = mem_zalloc(sizeof *prepared);
    table_init(&prepared->entries);
    list_init(&prepared->used);
    prepared->statements_max = statements_max;
    struct metric_family *uses = metrics_counter("culvert_pg_dynamic_statements_total",
                                                 "Uses of statements that are prepared on demand.", "result", NULL);
    prepared->hits = metric_with(uses, "hit");
    prepared->misses = metric_with(uses, "prepared");
    prepared->evictions = metric_with(uses, "evicted");
    return prepared;
}

static void drop(struct pg_prepared *prepared, struct entry *entry)
{
    table_remove(&prepared->entries, &entry->node);
    list_remove(&entry->used);
    mem_free(entry);
}

void pg_prepared_clear(struct pg_prepared *prepared)
{
    while (!list_is_empty(&prepared->used))
        drop(prepared, LIST_OWNER(prepared->used.next, struct entry, used));
}

void pg_prepared_destroy(struct pg_prepared *prepared)
{
    pg_prepared_clear(prepared);
    table_finish(&prepared->entries);
    mem_free(prepared);
}

static bool is_entry(const struct table_node *node, const void *key)
{
    return strcmp(TABLE_OWNER(node, const struct entry, node)->name, key) == 0;
}

static bool make_room(struct pg_prepared *prepared, PGconn *conn, unsigned *answers, size_t *count)
{
    if (prepared->entries.count < prepared->statements_max) return true;
    struct entry *oldest = LIST_OWNER(prepared->used.next, struct entry, used);
    char sql[48];
    snprintf(sql, sizeof sql, "DEALLOCATE " PG_PREPARED_NAME, oldest->number);
    drop(prepared, oldest);
    metric_add(prepared->evictions, 1);
    answers[(*count)++] = 0;
    return PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

unsigned pg_prepared_send(struct pg_prepared *prepared, PGconn *conn, const char *statement, const char *sql,
                          unsigned *answers, size_t *count)
{
    uint64_t hash = hash_end(hash_part(prepared->entries.seed, str_c(statement)));
    struct table_node *node = table_find(&prepared->entries, hash, is_entry, statement);
    if (node) {
        struct entry *entry = TABLE_OWNER(node, struct entry, node);
        list_remove(&entry->used);
        list_add_last(&prepared->used, &entry->used);
        metric_add(prepared->hits, 1);
        return entry->number;
    }
    metric_add(prepared->misses, 1);
    if (!make_room(prepared, conn, answers, count)) return 0;
    struct entry *entry = mem_zalloc(sizeof *entry);
    entry->number = ++prepared->last_number;
    snprintf(entry->name, sizeof entry->name, "%s", statement);
    list_init(&entry->used);
    list_add_last(&prepared->used, &entry->used);
    table_add(&prepared->entries, &entry->node, hash);
    answers[(*count)++] = entry->number;
    char name[32];
    snprintf(name, sizeof name, PG_PREPARED_NAME, entry->number);
    return PQsendPrepare(conn, name, sql, 0, NULL) == 1 ? entry->number : 0;
}

void pg_prepared_forget(struct pg_prepared *prepared, unsigned number)
{
    for (struct list *at = prepared->used.next; number && at != &prepared->used; at = at->next) {
        struct entry *entry = LIST_OWNER(at, struct entry, used);
        if (entry->number != number) continue;
        drop(prepared, entry);
        return;
    }
}
