// command_query: one question of a command to the database, on a loop of its own that ends with the
// answer. The caller's thread waits meanwhile.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_QUERY_H
#define CULVERT_SERVER_ADMIN_COMMAND_QUERY_H

#include "base/loop/loop.h"
#include "base/loop/timer.h"
#include "server/config/config.h"
#include "storage/pg/pg.h"

struct command_query {
    struct loop *loop;
    struct pg *pg;
    struct error err;
    char *node; // JSON of the entity; the caller frees it (mem_free)
    uint64_t count;
    uint64_t deadline_ms;
    struct timer timer;
};

// Asks a store, with one of the two functions below for the answer and the query for its arg.
typedef void (*command_query_fn)(struct command_query *query, void *arg);
void command_query_on_node(void *arg, const struct error *err, struct str node);
void command_query_on_count(void *arg, const struct error *err, uint64_t count);

// Connects, calls fn, and returns when the answer is in query->node or query->count. What failed is
// in query->err, too: ERROR_UNAVAILABLE when the database does not answer within database.deadline.
MUST_CHECK enum error_code command_query_run(const struct config *config, struct command_query *query,
                                             command_query_fn fn, void *arg);

#endif
