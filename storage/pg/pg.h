// pg: PostgreSQL on one loop: a small pool of pipelined libpq connections (libpq 15, chapter 34.5),
// every statement prepared at connect. The unit of work is a batch = one pipeline with one Sync =
// one transaction: all of it is committed when on_done gets no error, none of it otherwise.
// Reconnects with full jitter; while away, batches wait until their deadline and then fail with
// ERROR_UNAVAILABLE. Bounded queue. One loop; every call on it.
#ifndef CULVERT_STORAGE_PG_PG_H
#define CULVERT_STORAGE_PG_PG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/purpose_key.h"
#include "base/str.h"

struct pg;
struct pg_batch;

// From the .sql file beside its store (storage/sql/statements.awk); `name` is also the name of the
// prepared statement.
struct pg_statement {
    const char *name;
    const char *sql;
    unsigned parameters;
    const char *const *names; // of the parameters, in their order; NULL: they have none
    bool is_dynamic;          // prepared when first used; must live until on_done. Its name is of its text alone
};

enum { PG_STATEMENTS_DEFAULT = 256 };

struct pg_options {
    const char *conninfo; // libpq keyword/value or URI (never a bare name); password from PGPASSFILE or passfile=
    unsigned connections; // per loop, 1..16
    size_t queue_max;     // batches waiting, then ERROR_UNAVAILABLE at once
    uint64_t statement_timeout_ms;
    uint64_t slow_statement_timeout_ms; // of pg_batch_slow(); 0: the same
    size_t statements_max;              // dynamic ones kept prepared on each connection; 0: PG_STATEMENTS_DEFAULT
    bool checks_login;                  // refuse a login that has more than culvert_app needs, see pg_server_check()
    // Encrypts columns that must not be readable in a dump; copied. NULL: they are stored as they
    // are.
    const struct purpose_key *column_key;
    // Session settings of each connection, "app.NAME=VALUE app.NAME=VALUE", copied; NULL: none.
    const char *settings;
    _Atomic uint64_t *losses; // counted here for all pools of one server; NULL: this one counts for itself
};

// Zeroed memory is no value, so that one that was forgotten is noticed: pg_batch_add().
enum pg_param_kind { PG_PARAM_MISSING, PG_PARAM_NULL, PG_PARAM_TEXT, PG_PARAM_BINARY, PG_PARAM_LATER };

struct pg_param {
    const char *at; // copied by pg_batch_add, without need of a NUL behind it
    size_t len;
    enum pg_param_kind kind; // PG_PARAM_LATER: a place for what is not known yet
};
static inline struct pg_param pg_text(struct str s)
{
    return (struct pg_param){s.at ? s.at : "", s.len, PG_PARAM_TEXT};
}
static inline struct pg_param pg_null(void)
{
    return (struct pg_param){NULL, 0, PG_PARAM_NULL};
}
static inline struct pg_param pg_text_or_null(struct str s)
{
    return s.len ? pg_text(s) : pg_null();
}
static inline struct pg_param pg_bytea(const void *at, size_t len)
{
    return at ? (struct pg_param){at, len, PG_PARAM_BINARY} : pg_null();
}
static inline struct pg_param pg_later(void)
{
    return (struct pg_param){NULL, 0, PG_PARAM_LATER};
}

// Views into the answer, valid during on_done.
struct pg_rows {
    void *result; // PGresult
};
int pg_rows_count(const struct pg_rows *rows);
uint64_t pg_rows_affected(const struct pg_rows *rows);
struct str pg_rows_get(const struct pg_rows *rows, int row, int column); // text format; NULL gives the empty view
bool pg_rows_is_null(const struct pg_rows *rows, int row, int column);

// results[i] belongs to the i-th statement added. With err, count is 0; err->code:
// ERROR_UNAVAILABLE (away, queue full), ERROR_TIMEOUT, ERROR_CONFLICT (unique violation,
// serialization), ERROR_INVALID (data), ERROR_TOO_LARGE, ERROR_INTERNAL.
typedef void (*pg_done)(void *arg, const struct error *err, const struct pg_rows *results, size_t count);

// Blocking, for the start of the process: refuses (ERROR_FORBIDDEN) a server that may lose what it
// acknowledged: fsync, full_page_writes or synchronous_commit off, or a standby; and with
// checks_login a login that is, or may become by SET ROLE, a superuser, or has BYPASSRLS,
// CREATEROLE, CREATEDB or REPLICATION, owns the database, the schema or its tables, or is a member
// of culvert_lookup or of a predefined role that reaches files, programs or all data. Connections
// made later are checked again by themselves.
MUST_CHECK enum error_code pg_server_check(const char *conninfo, bool checks_login, struct error *err);

// Copies the options. Connects by itself, again and again.
struct pg *pg_create(struct loop *loop, const struct pg_options *options);
// Fails what waits (ERROR_CANCELLED), closes; on_closed once all handles are closed.
void pg_close(struct pg *pg, loop_fn on_closed, void *arg);
// For work on other threads that ends in a submit: until pg_release, on_closed waits, and what is
// submitted after pg_close ends with ERROR_CANCELLED.
void pg_hold(struct pg *pg);
void pg_release(struct pg *pg);
struct loop *pg_loop(const struct pg *pg);
const struct purpose_key *pg_column_key(const struct pg *pg); // NULL: there is none
bool pg_is_ready(const struct pg *pg); // at least one connection is up and its server passed the durability check

// How many connections were lost while in use, here and wherever else options.losses counts: after
// a change another server may answer, or the same one with other data.
uint64_t pg_losses(const struct pg *pg);

// account_id: sets app.account_id for the transaction (row-level security); NULL: none is visible
// but through the security definer functions.
struct pg_batch *pg_batch_create(struct pg *pg, const char *account_id);
// Batches of an account that are created from now on have this JSON in app.actor, for triggers that
// write the audit log. Copied; empty: none. Pools of which it was never called are not slower.
void pg_set_actor(struct pg *pg, struct str actor);
struct str pg_actor(const struct pg *pg); // NULL is fine
// Values are copied; there are as many as the statement has parameters, and one that is missing
// aborts with its name. At most 4,096 statements and 64 MiB a batch; over that the submit fails
// with ERROR_TOO_LARGE. Text with a NUL byte fails it with ERROR_INVALID.
void pg_batch_add(struct pg_batch *batch, const struct pg_statement *statement, const struct pg_param *params);
// A statement of culvert_statements.h with its values by name, which the compiler checks:
//     pg_add(batch, runtime_get, .account_id = pg_text(account_id), .runtime = pg_text(name));
#define pg_add(batch, name, ...)                                                                                       \
    pg_batch_add((batch), &statement_##name, sql_##name(&(const struct sql_##name){__VA_ARGS__}))
// Of a list, in its order or in the opposite one, with the values in a struct sql_NAME.
#define pg_add_list(batch, name, is_back, values)                                                                      \
    pg_batch_add((batch), (is_back) ? &statement_##name##_back : &statement_##name, sql_##name(values))
size_t pg_batch_count(const struct pg_batch *batch);
// What is added from here on is of this account: one transaction for several. Counts as a statement
// of its own.
void pg_batch_switch_account(struct pg_batch *batch, const char *account_id);
// For reads whose statements hold the conditions that are given and no others: the server plans
// each once, whatever its values are. Before the batch is submitted.
void pg_batch_generic(struct pg_batch *batch);
// For what may have to look at very many rows: what is added from here on may take
// slow_statement_timeout_ms a statement, the batch has as much longer, and as long as there is
// another connection nobody else waits behind it. Counts as a statement of its own: the answers of
// what follows come behind that one.
enum { PG_BATCH_SLOW_ANSWERS = 1 };
void pg_batch_slow(struct pg_batch *batch);
// Takes the batch. on_done runs later, exactly once, on the loop. deadline_ms: how long from now; a
// batch that the server has not answered by then takes its connection down with it.
void pg_batch_submit(struct pg_batch *batch, uint64_t deadline_ms, pg_done on_done, void *arg);
void pg_batch_destroy(struct pg_batch *batch); // an unsubmitted one

#endif
