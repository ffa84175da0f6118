#include "migrations/migrations.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"

// Any number will do as long as every version of culvertd uses it.
#define MIGRATIONS_LOCK "1131771506"

static const char bootstrap_sql[] =
    "CREATE SCHEMA IF NOT EXISTS culvert;"
    "CREATE TABLE IF NOT EXISTS culvert.schema_migrations ("
    " version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, older_binaries_work boolean NOT NULL,"
    " applied_at timestamptz NOT NULL DEFAULT now());";

bool migration_lets_older_work(const struct migration *migration)
{
    return str_starts(str_c(migration->sql), STR("-- older-binaries: work\n"));
}

// PQerrorMessage is several lines; people read one.
static enum error_code fail(struct error *err, enum error_code code, PGconn *conn, const char *what)
{
    char text[ERROR_TEXT_BYTES / 2];
    snprintf(text, sizeof text, "%s", PQerrorMessage(conn));
    text[strcspn(text, "\n")] = '\0';
    return error_set(err, code, "%s: %s", what, text);
}

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static enum error_code connect_blocking(const char *conninfo, PGconn **out, struct error *err)
{
    const char *keywords[] = {"connect_timeout", "dbname", "client_encoding", "application_name", NULL};
    const char *values[] = {"10", conninfo, "UTF8", "culvertd migrate", NULL};
    PGconn *conn = PQconnectdbParams(keywords, values, 1);
    if (PQstatus(conn) != CONNECTION_OK) {
        enum error_code code = fail(err, ERROR_UNAVAILABLE, conn, "PostgreSQL");
        PQfinish(conn);
        return code;
    }
    PQsetNoticeProcessor(conn, ignore_notice, NULL);
    *out = conn;
    return ERROR_NONE;
}

// Constant SQL only: values travel as parameters.
static enum error_code run_script(PGconn *conn, const char *script, const char *what, struct error *err)
{
    PGresult *result = PQexec(conn, script);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool locked = state && strcmp(state, "55P03") == 0;
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return ERROR_NONE;
    if (PQstatus(conn) != CONNECTION_OK) return fail(err, ERROR_UNAVAILABLE, conn, what);
    return fail(err, locked ? ERROR_TIMEOUT : ERROR_INTERNAL, conn, what);
}

static bool is_undefined_table(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state && (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0);
}

// The rows of schema_migrations in order; a database without the table has none.
static enum error_code read_applied(PGconn *conn, PGresult **out, struct error *err)
{
    PGresult *result = PQexecParams(
        conn, "SELECT version, name, checksum, older_binaries_work FROM culvert.schema_migrations ORDER BY version", 0,
        NULL, NULL, NULL, NULL, 0);
    if (PQresultStatus(result) == PGRES_TUPLES_OK || is_undefined_table(result)) {
        *out = result;
        return ERROR_NONE;
    }
    PQclear(result);
    return fail(err, PQstatus(conn) == CONNECTION_OK ? ERROR_INTERNAL : ERROR_UNAVAILABLE, conn, "schema_migrations");
}

static void checksum_of(const struct migration *migration, char out[ID_SHA256_HEX_BYTES])
{
    id_sha256_hex(migration->sql, strlen(migration->sql), out);
}

static enum error_code compare_row(const PGresult *rows, int row, struct error *err)
{
    unsigned version = (unsigned)atoi(PQgetvalue(rows, row, 0));
    for (size_t i = 0; i < migrations_count; i++) {
        if (migrations_all[i].version != version) continue;
        char checksum[ID_SHA256_HEX_BYTES];
        checksum_of(&migrations_all[i], checksum);
        if (strcmp(checksum, PQgetvalue(rows, row, 2)) == 0) return ERROR_NONE;
        return error_set(err, ERROR_CONFLICT, "migration %s was applied with other content", migrations_all[i].name);
    }
    if (strcmp(PQgetvalue(rows, row, 3), "t") == 0) return ERROR_NONE;
    return error_set(err, ERROR_CONFLICT, "the database has migration %s, which this version cannot work with",
                     PQgetvalue(rows, row, 1));
}

static bool is_applied(const PGresult *rows, unsigned version)
{
    for (int row = 0; row < PQntuples(rows); row++)
        if ((unsigned)atoi(PQgetvalue(rows, row, 0)) == version) return true;
    return false;
}

static enum error_code compare(const PGresult *rows, struct error *err)
{
    for (int row = 0; row < PQntuples(rows); row++) {
        enum error_code code = compare_row(rows, row, err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

static enum error_code record(PGconn *conn, const struct migration *migration, struct error *err)
{
    char version[16], checksum[ID_SHA256_HEX_BYTES];
    snprintf(version, sizeof version, "%u", migration->version);
    checksum_of(migration, checksum);
    const char *values[] = {version, migration->name, checksum, migration_lets_older_work(migration) ? "t" : "f"};
    PGresult *result = PQexecParams(
        conn,
        "INSERT INTO culvert.schema_migrations (version, name, checksum, older_binaries_work) VALUES ($1, $2, $3, $4)",
        4, NULL, values, NULL, NULL, 0);
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good ? ERROR_NONE : fail(err, ERROR_INTERNAL, conn, migration->name);
}

static enum error_code apply_one(PGconn *conn, const struct migration *migration, struct error *err)
{
    enum error_code code = run_script(conn, "BEGIN", migration->name, err);
    if (code != ERROR_NONE) return code;
    code = run_script(conn, migration->sql, migration->name, err);
    if (code == ERROR_NONE) code = record(conn, migration, err);
    if (code == ERROR_NONE) return run_script(conn, "COMMIT", migration->name, err);
    struct error ignored;
    if (run_script(conn, "ROLLBACK", "ROLLBACK", &ignored) != ERROR_NONE) return code; // the connection's end does it
    return code;
}

static enum error_code apply_missing(PGconn *conn, migrations_log log, void *arg, struct error *err)
{
    enum error_code code =
        run_script(conn, "SET lock_timeout = '60s'; SELECT pg_advisory_lock(" MIGRATIONS_LOCK ")", "lock", err);
    if (code != ERROR_NONE) return code;
    PGresult *rows = NULL;
    code = run_script(conn, bootstrap_sql, "schema culvert", err);
    if (code == ERROR_NONE) code = read_applied(conn, &rows, err);
    if (code == ERROR_NONE) code = compare(rows, err);
    for (size_t i = 0; i < migrations_count && code == ERROR_NONE; i++) {
        if (is_applied(rows, migrations_all[i].version)) continue;
        code = apply_one(conn, &migrations_all[i], err);
        if (code == ERROR_NONE && log) log(arg, migrations_all[i].version, migrations_all[i].name);
    }
    PQclear(rows);
    return code;
}

enum error_code migrations_apply(const char *conninfo, migrations_log log, void *arg, struct error *err)
{
    PGconn *conn = NULL;
    enum error_code code = connect_blocking(conninfo, &conn, err);
    if (code != ERROR_NONE) return code;
    code = apply_missing(conn, log, arg, err);
    PQfinish(conn); // gives the lock back
    return code;
}

enum error_code migrations_check(const char *conninfo, struct error *err)
{
    PGconn *conn = NULL;
    enum error_code code = connect_blocking(conninfo, &conn, err);
    if (code != ERROR_NONE) return code;
    PGresult *rows = NULL;
    code = read_applied(conn, &rows, err);
    PQfinish(conn);
    if (code != ERROR_NONE) return code;
    code = compare(rows, err);
    for (size_t i = 0; i < migrations_count && code == ERROR_NONE; i++)
        if (!is_applied(rows, migrations_all[i].version))
            code = error_set(err, ERROR_NOT_FOUND, "migration %s is not applied: run culvertd migrate",
                             migrations_all[i].name);
    PQclear(rows);
    return code;
}
