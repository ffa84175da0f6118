// pg_connection: one pipelined connection: a state machine over uv_poll that connects, sets itself
// up, carries batches and comes back with full jitter when it was lost. For pg.c, which owns it;
// one loop. Its callbacks run inside its poll or timer callback: they may call
// pg_connection_submit, but closing comes from outside of them.
#ifndef CULVERT_STORAGE_PG_PG_CONNECTION_H
#define CULVERT_STORAGE_PG_PG_CONNECTION_H

#include "storage/pg/pg_batch.h"

struct pg_connection;

struct pg_connection_options {
    uv_loop_t *uv;
    const char *conninfo, *settings; // must outlive it
    uint64_t statement_timeout_ms;
    size_t statements_max; // dynamic ones that are kept prepared
    bool checks_login;
    void *ctx;
    void (*on_ready)(void *ctx, struct pg_connection *connection, bool bypasses_row_security);
    void (*on_lost)(void *ctx, struct pg_connection *connection, bool was_ready, const struct error *err);
    void (*on_batch)(void *ctx, struct pg_batch *batch); // answered or failed: the owner's again
    void (*on_closed)(void *ctx);                        // freed already
};

struct pg_connection *pg_connection_create(const struct pg_connection_options *options);
// Fails what is in flight with this error and ends; on_closed later.
void pg_connection_close(struct pg_connection *connection, enum error_code code, const char *text);
bool pg_connection_is_ready(const struct pg_connection *connection);
size_t pg_connection_in_flight(const struct pg_connection *connection);
bool pg_connection_is_slow(const struct pg_connection *connection);                  // a slow batch is among them
void pg_connection_submit(struct pg_connection *connection, struct pg_batch *batch); // ready only
// Drops the connection when the oldest batch in flight is past its deadline.
void pg_connection_check_deadline(struct pg_connection *connection, uint64_t now_ms);

#endif
