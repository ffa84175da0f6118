// The second wall: what a query without any account check of its own sees and does as culvertd's login.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "database.h"
#include "storage/sessions/session_store.h"

static const char *const tables[] = {"accounts",
                                     "users",
                                     "api_keys",
                                     "browser_sessions",
                                     "sign_in_links",
                                     "teams",
                                     "team_members",
                                     "audit_heads",
                                     "audit_entries",
                                     "runtimes",
                                     "clusters",
                                     "runtime_tokens",
                                     "enrollment_tokens",
                                     "enrollment_uses",
                                     "runtime_epochs",
                                     "resources",
                                     "snapshot_verdicts",
                                     "tunnel_sessions",
                                     "manifests",
                                     "applications",
                                     "report_positions",
                                     "application_history",
                                     "application_operations",
                                     "cloud_events",
                                     "runtime_errors",
                                     "images",
                                     "image_layers",
                                     "image_registries",
                                     "annotations",
                                     "rollouts",
                                     "replica_sets",
                                     "analysis_runs",
                                     "workflows",
                                     "deployments",
                                     "manifest_sets",
                                     "commits",
                                     "image_uses",
                                     "tunnel_measures",
                                     "noisy_objects",
                                     "storage_usage",
                                     "storage_usage_changes",
                                     "operations",
                                     "sealing_keys",
                                     "access_settings",
                                     "access_rules",

                                     "application_search",
                                     "application_revisions",
                                     "external_identities",
                                     "transitions",
                                     "kubernetes_events"};
enum { TABLES = sizeof tables / sizeof *tables };

static PGconn *login_as(const char *account)
{
    PGconn *conn = PQconnectdb(getenv("CULVERT_TEST_DATABASE_APP_URL"));
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    PQclear(PQexec(conn, "SET search_path = culvert"));
    if (account)
        PQclear(PQexecParams(conn, "SELECT set_config('app.account_id', $1, false)", 1, NULL, &account, NULL, NULL, 0));
    return conn;
}

// Rows it gives or changes; -1: refused.
__attribute__((format(printf, 2, 3))) static int rows_of(PGconn *conn, const char *format, ...)
{
    char sql[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    assert_true(len > 0 && (size_t)len < sizeof sql);
    PGresult *result = PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    int rows = status == PGRES_TUPLES_OK    ? PQntuples(result)
               : status == PGRES_COMMAND_OK ? atoi(PQcmdTuples(result))
                                            : -1;
    PQclear(result);
    return rows;
}

static void fill(struct database *database)
{
    char id[ID_UUID_BYTES];
    struct answer answer;
    database_make_runtime(database, "prod", id);
    database_open_session(database, "prod", id, "replica");
    char measures[160];
    answer_init(&answer, database);
    snprintf(measures, sizeof measures, "[{\"a\":\"%s\",\"r\":\"prod\",\"e\":1,\"t\":1,\"s\":1,\"i\":1,\"o\":1}]",
             database->account);
    session_store_measured(database->pg, str_c(measures), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = 1,
                            .ref.group = STR("argoproj.io"),
                            .ref.kind = STR("Application"),
                            .ref.name = STR("shop"),
                            .manifest = STR("{\"a\":1}")};
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
}

static void an_account_reaches_no_other(void **state)
{
    struct database *database = database_of(state);
    char victim[ID_ACCOUNT_BYTES];
    fill(database);
    snprintf(victim, sizeof victim, "%s", database->account);
    database_of(state);
    fill(database);
    PGconn *nobody = login_as(NULL), *neighbour = login_as(database->account);
    for (int i = 0; i < TABLES; i++) {
        char where[128];
        assert_int_equal(rows_of(nobody, "SELECT 1 FROM %s", tables[i]), 0);
        snprintf(where, sizeof where, "%s WHERE account_id <> '%s'", tables[i], database->account);
        assert_int_equal(rows_of(neighbour, "SELECT 1 FROM %s", where), 0);
        assert_true(rows_of(neighbour, "DELETE FROM %s", where) <= 0); // of none, or not permitted
        snprintf(where, sizeof where, "%s SET account_id = '%s'", tables[i], victim);
        assert_true(rows_of(neighbour, "UPDATE %s", where) <= 0);
        assert_true(rows_of(nobody, "DELETE FROM %s", tables[i]) <= 0);
    }
    char sql[256];
    snprintf(sql, sizeof sql, "INSERT INTO runtimes (account_id, runtime, runtime_id) VALUES ('%s', 'forged', 'x')",
             victim);
    assert_int_equal(rows_of(neighbour, "%s", sql), -1);
    assert_int_equal(rows_of(nobody, "%s", sql), -1);
    // Its own row is there: the wall is not simply shut.
    assert_int_equal(rows_of(neighbour, "SELECT 1 FROM %s", "applications"), 1);
    PQfinish(nobody);
    PQfinish(neighbour);
}

static void the_login_changes_no_tables(void **state)
{
    struct database *database = database_of(state);
    PGconn *conn = login_as(database->account);
    static const char *const statements[] = {
        "CREATE TABLE culvert.extra (a integer)",
        "ALTER TABLE culvert.accounts DISABLE ROW LEVEL SECURITY",
        "DROP TABLE culvert.accounts",
        "TRUNCATE culvert.accounts CASCADE",
        "DELETE FROM culvert.audit_entries",
        "UPDATE culvert.audit_entries SET outcome = ''",
        "SET ROLE culvert_lookup",
        "SET SESSION AUTHORIZATION culvert_owner",
        "INSERT INTO culvert.schema_migrations VALUES (9999, 'x', 'x', true)",
        "CREATE FUNCTION culvert.evil() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (rows_of(conn, "%s", statements[i]) != -1) fail_msg("%s", statements[i]);
    PQfinish(conn);
}

static void the_catalogue_has_no_gap(void **state)
{
    struct database *database = database_of(state);
    char text[512];
    // Every table of an account: row security on and forced, and the account first in the primary key.
    database_query(
        database->account,
        "SELECT coalesce(string_agg(c.relname, ' '), '') FROM pg_class c JOIN pg_attribute a ON a.attrelid = "
        "c.oid AND a.attname = 'account_id' LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
        "WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'culvert'::regnamespace AND "
        "c.relname <> 'device_authorizations' AND (NOT c.relrowsecurity "
        "OR NOT c.relforcerowsecurity OR i.indkey IS NULL OR i.indkey[0] <> a.attnum)",
        text, sizeof text);
    assert_string_equal(text, "");
    // And this test knows them all.
    char count[16];
    snprintf(count, sizeof count, "%d", (int)TABLES);
    database_query(database->account,
                   "SELECT count(*) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = "
                   "'account_id' WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND "
                   "c.relname <> 'device_authorizations' AND c.relnamespace = "
                   "'culvert'::regnamespace",
                   text, sizeof text);
    assert_string_equal(text, count);
    // What belongs to no account until a person decides: through definer's functions alone.
    database_query(
        database->account,
        "SELECT c.relrowsecurity || ' ' || c.relforcerowsecurity || ' ' || has_table_privilege('culvert_app', "
        "c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE') FROM pg_class c WHERE c.oid = "
        "'culvert.device_authorizations'::regclass",
        text, sizeof text);
    assert_string_equal(text, "true true false");
    // Partitions are reached through their table alone.
    database_query(
        database->account,
        "SELECT coalesce(string_agg(c.relname, ' '), '') FROM pg_class c WHERE c.relispartition AND c.relkind "
        "= 'r' AND c.relnamespace = 'culvert'::regnamespace AND (c.relacl IS NOT NULL OR NOT "
        "c.relforcerowsecurity)",
        text, sizeof text);
    assert_string_equal(text, "");
    // Functions that run as their owner have their search path pinned and are not everybody's. They belong to
    // culvert_lookup, but for those that make and drop partitions, which only the tables' owner can do.
    database_query(
        database->account,
        "SELECT coalesce(string_agg(p.proname, ' '), '') FROM pg_proc p WHERE p.pronamespace = "
        "'culvert'::regnamespace AND p.prosecdef AND ((p.proowner <> 'culvert_lookup'::regrole AND "
        "p.proname NOT IN ('cloud_events_partitions', 'ledger_partitions', 'transitions_partitions')) OR NOT "
        "'search_path=pg_catalog' = ANY (coalesce(p.proconfig, '{}')) OR has_function_privilege('public', "
        "p.oid, 'EXECUTE'))",
        text, sizeof text);
    assert_string_equal(text, "");
    // No login is a member, and what may hand the role out has none of its privileges (server/admin/command_roles.c).
    database_query(database->account,
                   "SELECT coalesce(string_agg(member::regrole::text, ' '), '') FROM pg_auth_members "
                   "WHERE roleid = 'culvert_lookup'::regrole",
                   text, sizeof text);
    assert_string_equal(text, "culvert_roles");
    database_query(database->account,
                   "SELECT pg_has_role(current_user, 'culvert_lookup', 'USAGE') || ' ' || rolinherit || ' ' || "
                   "rolcanlogin FROM pg_roles WHERE rolname = 'culvert_roles'",
                   text, sizeof text);
    assert_string_equal(text, "false false false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_reaches_no_other),
        cmocka_unit_test(the_login_changes_no_tables),
        cmocka_unit_test(the_catalogue_has_no_gap),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
