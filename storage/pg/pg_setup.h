// pg_setup: what every connection does before it carries batches: session settings, the checks of
// the server, and all prepared statements, in one pipeline. For pg_connection.c.
#ifndef CULVERT_STORAGE_PG_PG_SETUP_H
#define CULVERT_STORAGE_PG_PG_SETUP_H

#include <libpq-fe.h>

#include "storage/pg/pg.h"

struct pg_setup {
    size_t answered;
    bool checks_login;          // refuse a login with more than it needs; set by pg_setup_send()
    bool bypasses_row_security; // after the answers
    bool is_failed;
    struct error error;
};

// False: the connection is broken.
bool pg_setup_send(struct pg_setup *setup, PGconn *conn, uint64_t statement_timeout_ms, bool checks_login,
                   const char *settings);
// The next answer of the pipeline; takes the result.
void pg_setup_take(struct pg_setup *setup, PGresult *result);

#endif
