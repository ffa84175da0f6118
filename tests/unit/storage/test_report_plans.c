// What PostgreSQL does for a report on tables that were never analyzed, with plans that were made
// while they were empty: rows are found by their primary keys, however many there are by then.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "culvert_statements.h"
#include "migrations/migrations.h"
#include "private_server.h"

#define ACCOUNT "0123456789abcdef01234567"

static struct private_server server;
static PGconn *owner, *app;

static char *run(PGconn *conn, const char *sql)
{
    static char text[1 << 16];
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail_msg("%s: %s", sql, PQerrorMessage(conn));
    size_t len = 0;
    text[0] = '\0';
    for (int row = 0; row < PQntuples(result) && len < sizeof text; row++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\n", PQgetvalue(result, row, 0));
    PQclear(result);
    return text;
}

static int setup(void **state)
{
    (void)state;
    struct error err;
    if (!private_server_start(&server)) return 0;
    if (migrations_apply(server.url, NULL, NULL, &err) != ERROR_NONE) fail_msg("%s", err.text);
    owner = PQconnectdb(server.superuser_url);
    app = PQconnectdb(server.app_url);
    run(owner, "ALTER SYSTEM SET autovacuum = off");
    run(owner, "SELECT pg_reload_conf()");
    run(owner, "SET search_path = culvert");
    run(app, "SET search_path = culvert, pg_temp");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!owner) return 0;
    PQfinish(owner);
    PQfinish(app);
    private_server_destroy(&server);
    return 0;
}

static const struct pg_statement *const writes[] = {
    &statement_report_open,
    &statement_report_blob,
    &statement_application_upsert,
    &statement_application_tombstone,
    &statement_application_enrich,
    &statement_application_touch,
    &statement_application_operation_upsert,
    &statement_resource_upsert,
    &statement_resource_tombstone,
    &statement_resource_enrich,
    &statement_resource_touch,
    &statement_cluster_upsert,
    &statement_cluster_tombstone,
    &statement_rollout_put,
    &statement_replica_set_put,
    &statement_analysis_run_put,
    &statement_workflow_put,
    &statement_image_uses_put,
    &statement_deployment_add,
    &statement_commit_put,
    &statement_report_snapshot_begin,
    &statement_report_snapshot_refused,
};

static void prepare(const struct pg_statement *statement)
{
    PGresult *result = PQprepare(app, statement->name, statement->sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s: %s", statement->name, PQerrorMessage(app));
    PQclear(result);
}

// In the lines of a plan, "Index Scan using resources_pkey on resources r" and "Seq Scan on
// ledger_bounds b".
static void check_line(const char *name, const char *line, size_t len)
{
    static const char by[] = " using ", all[] = "Seq Scan on ";
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)len, line);
    const char *index = strstr(text, by), *table = strstr(text, all);
    if (table && strncmp(table + sizeof all - 1, "ledger_bounds", 13) != 0) fail_msg("%s: %s", name, text);
    if (!index) return;
    index += sizeof by - 1;
    size_t index_len = strcspn(index, " ");
    if (index_len < 5 || strncmp(index + index_len - 5, "_pkey", 5) != 0) fail_msg("%s: %s", name, text);
}

static void rows_are_found_by_their_keys(void **state)
{
    (void)state;
    if (!owner) skip();
    prepare(&statement_report_by_key);
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        prepare(writes[i]);
    run(app, "BEGIN");
    run(app, "EXECUTE report_by_key");
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        char sql[1024];
        size_t len = (size_t)snprintf(sql, sizeof sql, "EXPLAIN EXECUTE %s", writes[i]->name);
        for (unsigned n = 0; n < writes[i]->parameters; n++)
            len += (size_t)snprintf(sql + len, sizeof sql - len, n ? ", NULL" : "(NULL");
        snprintf(sql + len, sizeof sql - len, ")");
        for (const char *line = run(app, sql); *line; line += strcspn(line, "\n") + 1)
            check_line(writes[i]->name, line, strcspn(line, "\n"));
    }
    run(app, "COMMIT");
}

// Applications and resources of these numbers, as if reports of them were under way.
static void fill(int from, int to)
{
    static const char *const tables[] = {
        "resources (account_id, runtime, cluster, api_group, kind, namespace, name, version, uid, "
        "application_namespace,"
        " application_name, images, manifest_sha256, epoch, sequence, observed_at) SELECT '" ACCOUNT "', 'prod', 'c',"
        " 'apps', 'Deployment', 'ns', 'd' || i, 'v1', 'uid', 'argocd', 'a' || i, '[\"image:2\"]', sha256('m'), 1, 1,"
        " '2026-01-01'",
        "image_uses SELECT '" ACCOUNT "', 'prod', 'c', 'apps', 'Deployment', 'ns', 'd' || i, 'image:1', 'uid', now()",
        "applications (account_id, runtime, namespace, name, cluster, version, uid, sync_status, sync_policy, "
        "history_id,"
        " epoch, sequence, observed_at) SELECT '" ACCOUNT "', 'prod', 'argocd', 'a' || i, 'c', 'v1', 'uid', 'SYNCED',"
        " 'Manual', 3, 1, 1, now()",
        "deployments (account_id, runtime, namespace, name, uid, history_id, filed_at, revision) SELECT '" ACCOUNT
        "', 'prod', 'argocd', 'a' || i, 'uid', 1, now(), 'r'",
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[1024];
        snprintf(sql, sizeof sql, "INSERT INTO %s FROM generate_series(%d, %d) i", tables[i], from, to);
        run(owner, sql);
    }
}

// Rows and index entries that were read in this transaction.
static long read_so_far(void)
{
    return atol(run(app, "SELECT sum(pg_stat_get_xact_tuples_returned(c.oid)) FROM pg_catalog.pg_class c"
                         " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'culvert'"));
}

// SQL literals of parameters, by their names; ends with a NULL name.
struct literal {
    const char *name, *text;
};

static void execute(const struct pg_statement *statement, const struct literal *literals)
{
    char sql[1024];
    size_t len = (size_t)snprintf(sql, sizeof sql, "EXECUTE %s(", statement->name);
    for (unsigned i = 0; i < statement->parameters; i++) {
        const struct literal *each = literals;
        while (each->name && strcmp(each->name, statement->names[i]) != 0)
            each++;
        if (!each->name) fail_msg("no value of %s", statement->names[i]);
        len += (size_t)snprintf(sql + len, sizeof sql - len, "%s%s", i ? ", " : "", each->text);
    }
    snprintf(sql + len, sizeof sql - len, ")");
    run(app, sql);
}

// The statements that go on in functions, whose plans stay, too.
static long report_one(int number)
{
    char resource[32], application[32];
    snprintf(resource, sizeof resource, "'d%d'", number);
    snprintf(application, sizeof application, "'a%d'", number);
    run(app, "BEGIN");
    run(app, "SELECT set_config('app.account_id', '" ACCOUNT "', true)");
    run(app, "EXECUTE report_by_key");
    execute(&statement_image_uses_put, (struct literal[]){{"account_id", "'" ACCOUNT "'"},
                                                          {"runtime", "'prod'"},
                                                          {"cluster", "'c'"},
                                                          {"namespace", "'ns'"},
                                                          {"name", resource},
                                                          {"epoch", "1"},
                                                          {"sequence", "1"},
                                                          {"observed_at", "'2026-01-01'"},
                                                          {"manifest_sha256", "sha256('m')"},
                                                          {"api_group", "'apps'"},
                                                          {"kind", "'Deployment'"},
                                                          {NULL, NULL}});
    execute(&statement_deployment_add,
            (struct literal[]){{"account_id", "'" ACCOUNT "'"},
                               {"runtime", "'prod'"},
                               {"namespace", "'argocd'"},
                               {"name", application},
                               {"uid", "'uid'"},
                               {"history", "'[{\"id\":1},{\"id\":2},{\"id\":3},{\"id\":3}]'"},
                               {"history_ids", "'{1,2,3}'"},
                               {NULL, NULL}});
    long rows = read_so_far();
    run(app, "COMMIT");
    return rows;
}

static void a_report_reads_its_own_rows(void **state)
{
    enum { OWN_ROWS_MAX = 60 };
    (void)state;
    if (!owner) skip();
    run(owner, "INSERT INTO accounts (account_id, name) VALUES ('" ACCOUNT "', 'one')");
    run(owner, "INSERT INTO runtimes (account_id, runtime, runtime_id) VALUES ('" ACCOUNT "', 'prod', 'x')");
    run(owner, "INSERT INTO report_positions (account_id, runtime) VALUES ('" ACCOUNT "', 'prod')");
    run(owner, "INSERT INTO manifests (account_id, sha256, encoding, plain_bytes, content)"
               " VALUES ('" ACCOUNT "', sha256('m'), 0, 1, 'm')");
    fill(1, 1);
    report_one(1);
    fill(2, 3000);
    long rows = report_one(1000);
    if (rows > OWN_ROWS_MAX) fail_msg("%ld rows were read", rows);
    assert_string_equal(run(owner, "SELECT image FROM image_uses WHERE name = 'd1000'"), "image:2\n");
    assert_string_equal(run(owner, "SELECT history_id || coalesce(images::text, '') || is_settled FROM deployments"
                                   " WHERE name = 'a1000' ORDER BY history_id"),
                        "1true\n2true\n3[\"image:2\"]false\n");
}

static void what_is_a_runtimes_goes_with_it(void **state)
{
    (void)state;
    if (!owner) skip();
    run(owner, "DELETE FROM resources WHERE name = 'd2000'");
    assert_string_equal(run(owner, "SELECT count(*) FROM image_uses"), "2999\n");
    run(app, "BEGIN");
    run(app, "SELECT set_config('app.account_id', '" ACCOUNT "', true)");
    run(app, "DELETE FROM runtimes WHERE runtime = 'prod'");
    run(app, "COMMIT");
    static const char *const tables[] = {"resources", "image_uses", "applications", "deployments", "report_positions"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i]);
        if (strcmp(run(owner, sql), "0\n") != 0) fail_msg("%s has rows", tables[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_by_their_keys),
        cmocka_unit_test(a_report_reads_its_own_rows),
        cmocka_unit_test(what_is_a_runtimes_goes_with_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
