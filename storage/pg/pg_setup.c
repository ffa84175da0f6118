#include "storage/pg/pg_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "culvert_statements.h"
#include "storage/pg/pg_batch.h"

// The stores' statements name tables without their schema: the path is pinned here. What is slow is cut by the server,
// too, so that a caller that gave up leaves nothing running.
static const char settings_sql[] =
    "SELECT set_config('search_path', 'culvert, pg_temp', false), set_config('TimeZone', 'UTC', false),"
    " set_config('DateStyle', 'ISO, YMD', false), set_config('bytea_output', 'hex', false),"
    " set_config('jit', 'off', false), set_config('statement_timeout', $1, false),"
    " set_config('lock_timeout', $1, false), set_config('idle_in_transaction_session_timeout', '60s', false),"
    " (SELECT count(set_config(split_part(s, '=', 1), split_part(s, '=', 2), false))"
    "    FROM string_to_table($2, ' ') s WHERE s <> '')";

static const char check_sql[] =
    "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),"
    " pg_catalog.pg_is_in_recovery(),"
    " EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = current_user AND (rolsuper OR rolbypassrls)),"
    " session_user, "
    // What the login has, or gets by SET ROLE: every role that it is a member of counts.
    "(SELECT CASE WHEN bool_or(r.rolsuper) THEN 'SUPERUSER' ELSE concat_ws(', ',"
    "  CASE WHEN bool_or(r.rolbypassrls) THEN 'BYPASSRLS' END, CASE WHEN bool_or(r.rolcreaterole) THEN 'CREATEROLE' "
    "END,"
    "  CASE WHEN bool_or(r.rolcreatedb) THEN 'CREATEDB' END, CASE WHEN bool_or(r.rolreplication) THEN 'REPLICATION' "
    "END,"
    "  CASE WHEN bool_or(EXISTS (SELECT FROM pg_catalog.pg_database d"
    "   WHERE d.datname = current_database() AND d.datdba = r.oid)) THEN 'ownership of the database' END,"
    "  CASE WHEN bool_or(EXISTS (SELECT FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c"
    "   ON c.relnamespace = n.oid WHERE n.nspname = 'culvert' AND r.oid IN (n.nspowner, c.relowner)))"
    "   THEN 'ownership of the schema culvert' END,"
    "  'membership in ' || string_agg(CASE WHEN r.rolname IN ('culvert_lookup', 'culvert_roles', 'pg_read_all_data',"
    "   'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program',"
    "   'pg_signal_backend', 'pg_checkpoint', 'pg_database_owner') THEN r.rolname END, ' and ')) END"
    " FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER'))";

static enum error_code check_row(const PGresult *result, bool checks_login, bool *out_bypasses, struct error *err)
{
    static const char *const names[] = {"fsync", "full_page_writes", "synchronous_commit"};
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        return error_set(err, ERROR_INTERNAL, "the server did not answer the durability check");
    for (int i = 0; i < 3; i++)
        if (strcmp(PQgetvalue(result, 0, i), "off") == 0)
            return error_set(err, ERROR_FORBIDDEN,
                             "PostgreSQL runs with %s = off: acknowledged data may be lost; set it to on", names[i]);
    if (strcmp(PQgetvalue(result, 0, 3), "t") == 0)
        return error_set(err, ERROR_FORBIDDEN, "this PostgreSQL is a standby and cannot be written to");
    const char *login = PQgetvalue(result, 0, 5), *privileges = PQgetvalue(result, 0, 6);
    if (checks_login && privileges[0])
        return error_set(err, ERROR_FORBIDDEN,
                         "the login \"%s\" has more privileges than the server needs: %s; database.url must name a "
                         "login that is a member of culvert_app only (`culvertd admin print-roles`)",
                         login, privileges);
    *out_bypasses = strcmp(PQgetvalue(result, 0, 4), "t") == 0;
    return ERROR_NONE;
}

bool pg_setup_send(struct pg_setup *setup, PGconn *conn, uint64_t statement_timeout_ms, bool checks_login,
                   const char *settings)
{
    *setup = (struct pg_setup){.checks_login = checks_login};
    char timeout[24];
    snprintf(timeout, sizeof timeout, "%" PRIu64, statement_timeout_ms);
    const char *values[] = {timeout, settings};
    bool good = PQsendQueryParams(conn, check_sql, 0, NULL, NULL, NULL, NULL, 0) &&
                PQsendQueryParams(conn, settings_sql, 2, NULL, values, NULL, NULL, 0) &&
                PQsendPrepare(conn, pg_batch_set_account.name, pg_batch_set_account.sql, 0, NULL) &&
                PQsendPrepare(conn, pg_batch_set_reader.name, pg_batch_set_reader.sql, 0, NULL) &&
                PQsendPrepare(conn, pg_batch_set_actor.name, pg_batch_set_actor.sql, 0, NULL);
    for (size_t i = 0; i < culvert_statements_count && good; i++)
        good = PQsendPrepare(conn, culvert_statements[i]->name, culvert_statements[i]->sql, 0, NULL);
    return good && PQpipelineSync(conn);
}

static void setup_fail(struct pg_setup *setup, const PGresult *result)
{
    enum { BEFORE_STATEMENTS = 5 };
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    size_t i = setup->answered;
    const char *name = "session settings";
    if (i >= BEFORE_STATEMENTS && i - BEFORE_STATEMENTS < culvert_statements_count)
        name = culvert_statements[i - BEFORE_STATEMENTS]->name;
    setup->is_failed = true;
    error_set(&setup->error, pg_sqlstate_code(state), "%s: %s (%s)", name, text ? text : "no answer",
              state ? state : "connection");
}

void pg_setup_take(struct pg_setup *setup, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!setup->is_failed) {
        if (!good)
            setup_fail(setup, result);
        else if (setup->answered == 0)
            setup->is_failed =
                check_row(result, setup->checks_login, &setup->bypasses_row_security, &setup->error) != ERROR_NONE;
    }
    setup->answered++;
    PQclear(result);
}

enum error_code pg_server_check(const char *conninfo, bool checks_login, struct error *err)
{
    const char *keywords[] = {"connect_timeout", "dbname", NULL};
    const char *values[] = {"10", conninfo, NULL};
    PGconn *conn = PQconnectdbParams(keywords, values, 1);
    enum error_code code;
    if (PQstatus(conn) != CONNECTION_OK) {
        char text[ERROR_TEXT_BYTES / 2];
        snprintf(text, sizeof text, "%s", PQerrorMessage(conn));
        text[strcspn(text, "\n")] = '\0';
        code = error_set(err, ERROR_UNAVAILABLE, "PostgreSQL: %s", text);
    } else {
        bool bypasses = false;
        PGresult *result = PQexecParams(conn, check_sql, 0, NULL, NULL, NULL, NULL, 0);
        code = check_row(result, checks_login, &bypasses, err);
        PQclear(result);
    }
    PQfinish(conn);
    return code;
}
