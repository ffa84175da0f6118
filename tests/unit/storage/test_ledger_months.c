// Months of the ledger on a server of the test's own: they come and go, and a database with rows of
// the version before gets them.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "migrations/migrations.h"
#include "private_server.h"

#define ACCOUNT "0123456789abcdef01234567"

static struct private_server server;
static bool has_server;

static int setup(void **state)
{
    (void)state;
    has_server = private_server_start(&server);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (has_server) private_server_destroy(&server);
    return 0;
}

// The first value, "" without one. As the superuser, who sees every account.
static const char *query(const char *sql)
{
    static char text[8192];
    PGconn *conn = PQconnectdb(server.superuser_url);
    PQclear(PQexec(conn, "SET client_min_messages = warning; SET search_path = culvert, pg_catalog"));
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    snprintf(text, sizeof text, "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(conn);
    return text;
}

// As `culvertd migrate` of an older version would have left it.
static void apply_before(unsigned version)
{
    PGconn *conn = PQconnectdb(server.url);
    PQclear(PQexec(conn,
                   "SET client_min_messages = warning; CREATE SCHEMA culvert; CREATE TABLE "
                   "culvert.schema_migrations (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT "
                   "NULL, older_binaries_work boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"));
    for (size_t i = 0; i < migrations_count && migrations_all[i].version < version; i++) {
        char checksum[ID_SHA256_HEX_BYTES], number[16];
        id_sha256_hex(migrations_all[i].sql, strlen(migrations_all[i].sql), checksum);
        snprintf(number, sizeof number, "%u", migrations_all[i].version);
        const char *values[] = {number, migrations_all[i].name, checksum};
        PQclear(PQexec(conn, "BEGIN"));
        PGresult *result = PQexec(conn, migrations_all[i].sql);
        if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
            fail_msg("%s: %s", migrations_all[i].name, PQerrorMessage(conn));
        PQclear(result);
        PQclear(PQexecParams(conn, "INSERT INTO culvert.schema_migrations VALUES ($1, $2, $3, true)", 3, NULL, values,
                             NULL, NULL, 0));
        PQclear(PQexec(conn, "COMMIT"));
    }
    PQfinish(conn);
}

static const char old_rows[] =
    "INSERT INTO accounts (account_id, name) VALUES ('" ACCOUNT "', 'a');"
    "INSERT INTO runtimes (account_id, runtime, runtime_id, runtime_version) "
    "SELECT '" ACCOUNT "', 'prod', gen_random_uuid(), '1';"
    "INSERT INTO application_history (account_id, runtime, namespace, name, uid, history_id, revision, deployed_at) "
    "SELECT '" ACCOUNT "', 'prod', 'argocd', 'shop', 'u', n, 'r' || n, now() - n * interval '60 days' "
    "  FROM generate_series(1, 30) n;"
    "INSERT INTO application_history (account_id, runtime, namespace, name, uid, history_id, revision, deployed_at) "
    "VALUES ('" ACCOUNT "', 'prod', 'argocd', 'shop', 'u', 31, 'r', NULL),"
    "       ('" ACCOUNT "', 'prod', 'argocd', 'shop', 'u', 32, 'r', now() + interval '9 years');"
    "INSERT INTO application_operations (account_id, runtime, namespace, name, uid, started_at, phase, epoch, "
    "sequence, "
    "observed_at) SELECT '" ACCOUNT "', 'prod', 'argocd', 'shop', 'u', now() - n * interval '60 days', 'Failed', 1, n, "
    "now() FROM generate_series(1, 30) n;";

static void rows_of_the_version_before_are_filed(void **state)
{
    (void)state;
    if (!has_server) skip();
    enum { THIS = 11 };
    struct error err;
    apply_before(THIS);
    // Columns that a runtime must have differ between versions: make it by the old tables' own
    // rules.
    query(old_rows);
    if (migrations_apply(server.url, NULL, NULL, &err) != ERROR_NONE) fail_msg("%s", err.text);
    assert_string_equal(query("SELECT count(*) || ' ' || count(*) FILTER (WHERE filed_at = deployed_at) || ' ' || "
                              "count(DISTINCT tableoid) FROM deployments"),
                        "32 6 7"); // 60 to 360 days ago by the month, the rest before all months
    assert_string_equal(query("SELECT count(*) || ' ' || count(DISTINCT tableoid) FROM application_operations"),
                        "30 7");
    assert_string_equal(query("SELECT count(*) FROM application_history"), "0");
    // An account sees its own through the login, and nothing without naming itself.
    PGconn *conn = PQconnectdb(server.app_url);
    PGresult *result = PQexec(conn, "SELECT count(*) FROM culvert.deployments");
    assert_string_equal(PQgetvalue(result, 0, 0), "0");
    PQclear(result);
    PQfinish(conn);
}

static const char months_sql[] = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'deployments'::regclass";

// As the sweeper does, through culvertd's login.
static void sweep(void)
{
    PGconn *conn = PQconnectdb(server.app_url);
    static const char *const steps[] = {"SELECT culvert.ledger_partitions()",
                                        "SELECT culvert.history_sweep('deployments', 200, 1000)",
                                        "SELECT culvert.history_sweep('kept_deployments', 200, 1000)",
                                        "SELECT culvert.history_sweep('operations', 200, 1000)"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        PGresult *result = PQexec(conn, steps[i]);
        if (PQresultStatus(result) != PGRES_TUPLES_OK) fail_msg("%s: %s", steps[i], PQerrorMessage(conn));
        PQclear(result);
    }
    PQfinish(conn);
}

static void months_go_when_nobody_keeps_them(void **state)
{
    (void)state;
    if (!has_server) skip();
    int before = atoi(query(months_sql));
    assert_int_equal(before, 1 + 12 + 3);
    // What runs now is older than what is kept.
    query("INSERT INTO applications (account_id, runtime, namespace, name, cluster, version, uid, sync_status, "
          "sync_policy, history_id, epoch, sequence, observed_at) VALUES ('" ACCOUNT
          "', 'prod', 'argocd', 'shop', 'in-cluster', 'v1', 'u', 'SYNCED', 'Manual', 5, 1, 1, now())");
    for (int i = 0; i < 40; i++)
        sweep();
    assert_string_equal(query("SELECT string_agg(history_id::text, ' ' ORDER BY history_id) FROM deployments WHERE "
                              "history_id <> 31 AND history_id <> 32"),
                        "1 2 3 5");
    assert_string_equal(query("SELECT filed_at = 'epoch' FROM deployments WHERE history_id = 5"), "t");
    // 31 and 32 have no time that could be trusted, so theirs is when they were recorded.
    assert_string_equal(query("SELECT count(*) FROM deployments"), "6");
    assert_string_equal(query("SELECT count(*) FROM application_operations"), "3");
    int after = atoi(query(months_sql));
    assert_in_range(after, before - 6, before - 5); // of the last twelve about half a year is left
    assert_string_equal(
        query("SELECT oldest > now() - interval '8 months' AND oldest < now() - interval '5 months' FROM "
              "ledger_bounds"),
        "t");
    // A deployment of a month that is gone finds a place.
    query("SELECT deployments_add('" ACCOUNT "', 'prod', 'argocd', 'shop', 'u', '[{\"id\": 40, \"revision\": \"x\", "
          "\"deployed_at\": \"2020-01-01T00:00:00Z\"}]')");
    assert_string_equal(query("SELECT filed_at = 'epoch' FROM deployments WHERE history_id = 40"), "t");
}

// The months to come are there before they begin, also when nobody swept for long.
static void months_come_without_a_gap(void **state)
{
    (void)state;
    if (!has_server) skip();
    query(
        "DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND "
        "relname ~ '_[0-9]{6}$' AND right(relname, 6) > to_char(now() AT TIME ZONE 'UTC', 'YYYYMM') LOOP "
        "EXECUTE 'DROP TABLE ' || t; END LOOP; UPDATE ledger_bounds SET newest = date_trunc('month', "
        "now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '1 month'; END $$");
    int before = atoi(query(months_sql));
    sweep();
    assert_true(atoi(query(months_sql)) > before);
    query("INSERT INTO application_operations (account_id, runtime, namespace, name, uid, started_at, phase, epoch, "
          "sequence, observed_at) SELECT '" ACCOUNT
          "', 'prod', 'argocd', 'shop', 'u', now() + n * interval '1 day', 'x', "
          "1, 1, now() FROM generate_series(0, 58) n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_version_before_are_filed),
        cmocka_unit_test(months_go_when_nobody_keeps_them),
        cmocka_unit_test(months_come_without_a_gap),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
