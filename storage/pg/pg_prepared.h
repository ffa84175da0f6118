// pg_prepared: the dynamic statements that one connection has prepared, by their text's name; at
// most so many, then the one that was not used for longest is dropped on the server, too. Of its
// connection; one loop.
#ifndef CULVERT_STORAGE_PG_PG_PREPARED_H
#define CULVERT_STORAGE_PG_PG_PREPARED_H

#include <libpq-fe.h>
#include <stddef.h>

// One statement may need a place (DEALLOCATE) and to be prepared.
enum { PG_PREPARED_ANSWERS_MAX = 2 };
#define PG_PREPARED_NAME "dynamic_%u"

struct pg_prepared;

struct pg_prepared *pg_prepared_create(size_t statements_max);
void pg_prepared_destroy(struct pg_prepared *prepared);
void pg_prepared_clear(struct pg_prepared *prepared); // the connection is gone
// Writes into the pipeline what the statement still needs; name is of its text alone; for each
// answer that this will have, a number is added to answers. Returns the number for
// PG_PREPARED_NAME; 0: the connection is broken.
unsigned pg_prepared_send(struct pg_prepared *prepared, PGconn *conn, const char *statement, const char *sql,
                          unsigned *answers, size_t *count);
// The answer of that number was an error: it is not prepared.
void pg_prepared_forget(struct pg_prepared *prepared, unsigned number);

#endif
