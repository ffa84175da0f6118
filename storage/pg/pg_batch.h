// pg_batch: the inside of a batch, for the files of this folder: statements with their values on
// the way in, results on the way out. Owned by whoever holds it: the caller until pg_batch_submit,
// then the pool's queue, then one connection, then the pool again to report and free it. One loop.
#ifndef CULVERT_STORAGE_PG_PG_BATCH_H
#define CULVERT_STORAGE_PG_PG_BATCH_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "storage/pg/pg.h"

enum { PG_BATCH_STATEMENTS_MAX = 4096, PG_BATCH_BYTES_MAX = 64 * 1024 * 1024 };

struct pg_prepared;

struct pg_batch_entry {
    const struct pg_statement *statement;
    const char *name; // on the server
    const char **values;
    int *lengths, *formats;
};

struct pg_batch {
    struct pg_batch *next;
    struct pg *pg;
    struct arena *arena;
    char account_id[64]; // empty: none
    const char *actor;   // NULL: none
    struct pg_batch_entry *entries;
    size_t count, capacity, bytes;
    bool is_slow, is_generic;
    uint64_t deadline_at_ms; // monotonic
    uint64_t submitted_us;
    pg_done on_done;
    void *arg;

    struct pg_rows *results;
    size_t result_count;
    unsigned *prepared; // what was prepared or dropped in front of the rest: pg_prepared_send()
    size_t prepared_count;
    size_t answered; // results read so far, with those and the one of app.account_id
    bool is_failed;  // error says why: the first reason stays
    struct error error;
};

// Prepared beside those of the stores; the second one is for pg_batch_generic().
extern const struct pg_statement pg_batch_set_account, pg_batch_set_reader, pg_batch_set_actor;

void pg_batch_fail(struct pg_batch *batch, enum error_code code, const char *text);
// The text of a failed statement and its SQLSTATE as an error code.
void pg_batch_fail_with(struct pg_batch *batch, const PGresult *result);
// The next answer of the pipeline; takes the result.
void pg_batch_take(struct pg_batch *batch, struct pg_prepared *prepared, PGresult *result);
// Writes it into the connection's pipeline, with its Sync. False: the connection is broken.
bool pg_batch_send(struct pg_batch *batch, struct pg_prepared *prepared, PGconn *conn);
// Tells the caller and frees it.
void pg_batch_end(struct pg_batch *batch);

enum error_code pg_sqlstate_code(const char *sqlstate);

#endif
