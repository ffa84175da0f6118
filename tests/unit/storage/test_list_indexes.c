// Pages of a long list are read from indexes: the statement that a query becomes is explained by
// culvertd's login under row-level security, with a generic plan as the server runs it, and what it
// reads is counted in pages of PostgreSQL. And what indexes find is what the conditions say.
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "questions.h"

enum { ROWS = 5000, BUFFERS_MAX = 200, SQL_BYTES = 16384 };

static void fill(struct database *database)
{
    char id[ID_UUID_BYTES], sql[2048], none[8];
    database_make_runtime(database, "prod", id);
    database_make_runtime(database, "test", id);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO applications (account_id, runtime, namespace, name, cluster, version, uid, sync_status,"
        " health_status, sync_revision, sync_policy, project, repo_url, path, labels, annotations, epoch, sequence,"
        " observed_at) SELECT '%s', CASE WHEN i %% 100 = 0 THEN 'test' ELSE 'prod' END, 'argocd', 'app-' ||"
        " to_char(i, 'FM00000'), 'in-cluster', 'v1alpha1', 'u' || i, CASE WHEN i %% 100 = 7 THEN 'OUT_OF_SYNC' ELSE"
        " 'SYNCED' END, CASE WHEN i %% 100 = 9 THEN 'DEGRADED' ELSE 'HEALTHY' END, md5(i::text), 'Automated',"
        " 'p' || i %% 50, 'https://git.example.org/team-' || i %% 40, 'apps/' || i,"
        " jsonb_build_object('team', 't' || i %% 40, 'only' || i, 'x'), jsonb_build_object('note',"
        " repeat('x', 300)), 1, i, now() FROM generate_series(1, %d) i",
        database->account, ROWS);
    database_query(database->account, sql, none, sizeof none);
    database_query(database->account, "ANALYZE applications", none, sizeof none);
    database_query(database->account, "ANALYZE application_search", none, sizeof none);
    database_query(database->account, "ANALYZE application_revisions", none, sizeof none);
}

static PGconn *login_as(const char *account)
{
    PGconn *conn = PQconnectdb(getenv("CULVERT_TEST_DATABASE_APP_URL"));
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    PQclear(PQexec(conn, "SET search_path = culvert"));
    PQclear(PQexec(conn, "SET plan_cache_mode = force_generic_plan"));
    PQclear(PQexecParams(conn, "SELECT set_config('app.account_id', $1, false)", 1, NULL, &account, NULL, NULL, 0));
    return conn;
}

// The statement that the pool ran last.
static void last_statement(PGconn *conn, const char *table, char out[SQL_BYTES])
{
    char text[512];
    snprintf(text, sizeof text,
             "SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user AND query"
             " LIKE '%%culvert.%s%%' ORDER BY query_start DESC LIMIT 1",
             table);
    PGresult *result = PQexec(conn, text);
    if (PQntuples(result) != 1) fail_msg("no statement: %s", PQerrorMessage(conn));
    snprintf(out, SQL_BYTES, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    if (strlen(out) > 1000 && !strstr(out, "LIMIT")) fail_msg("track_activity_query_size cuts the statement");
}

// Pages that the statement reads; account is its account, value all its other values.
static long buffers_of(struct database *database, const char *sql, const char *value)
{
    char text[SQL_BYTES + 256], place[32];
    PGconn *conn = login_as(database->account);
    snprintf(text, sizeof text, "PREPARE one AS %s", sql);
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    static const char explain[] = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ";
    snprintf(text, sizeof text, "%sEXECUTE one(", explain);
    for (int i = 1;; i++) {
        snprintf(place, sizeof place, "$%d", i);
        if (!strstr(sql, place)) break;
        snprintf(place, sizeof place, "account_id = $%d ", i);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s'%s'", i > 1 ? ", " : "",
                 strstr(sql, place) ? database->account : value);
    }
    strcat(text, ")");
    PQclear(PQexec(conn, text + strlen(explain))); // what is read of the catalog once
    result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail_msg("%s: %s", text, PQerrorMessage(conn));
    json_t *plans = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
    const json_t *top = json_object_get(json_array_get(plans, 0), "Plan");
    long buffers = (long)(json_get_int(top, "Shared Hit Blocks", 0) + json_get_int(top, "Shared Read Blocks", 0));
    json_decref(plans);
    PQclear(result);
    PQfinish(conn);
    return buffers;
}

// Asks for 20 rows of the list, and returns how many pages its statement reads.
static long buffers_of_list(struct database *database, const char *list, const char *table, const char *arguments,
                            const char *selection, const char *value)
{
    char query[512], sql[SQL_BYTES];
    snprintf(query, sizeof query, "{%s(%s%spagination: {first: 20}) {edges {node {%s}}}}", list, arguments,
             *arguments ? ", " : "", selection);
    json_decref(question_field(database, query, NULL, list));
    PGconn *conn = login_as(database->account);
    last_statement(conn, table, sql);
    PQfinish(conn);
    return buffers_of(database, sql, value);
}

static void pages_are_read_from_indexes(void **state)
{
    struct database *database = database_of(state);
    static const struct {
        const char *arguments, *value;
    } cases[] = {
        {"orderBy: {field: NAME}", ""},
        {"orderBy: {field: NAME, direction: desc}", ""},
        {"orderBy: {field: SEVERITY}", ""},
        {"orderBy: {field: SEVERITY, direction: desc}", ""},
        {"orderBy: {field: SYNC}", ""},
        {"orderBy: {field: RUNTIME}", ""},
        {"filters: {runtime: \"test\"}", "test"},
        {"filters: {project: \"p7\"}", "p7"},
        {"filters: {statuses: [OUT_OF_SYNC]}", "OUT_OF_SYNC"},
        {"filters: {healthStatuses: [DEGRADED]}", "DEGRADED"},
        {"filters: {text: \"no one has this\"}", "no one has this"},
        {"filters: {text: \"app-00777\"}", "app-00777"},
        {"filters: {text: \"example\"}", "example"},
        {"filters: {text: \"c4ca4238\"}", "c4ca4238"}, // a revision
        {"filters: {labels: [\"absent\"]}", "{absent}"},
        {"filters: {labels: [\"team=absent\"]}", "{team=absent}"},
        {"filters: {labels: [\"only17\"]}", "{only17}"},
        {"filters: {ids: [\"test/argocd/app-00100\"]}", "{test/argocd/app-00100}"},
        {"filters: {errorText: \"absent\"}", "absent"}, // of no index: reads them all
    };
    fill(database);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long buffers = buffers_of_list(database, "applications", "applications a", cases[i].arguments,
                                       "metadata {name} syncStatus", cases[i].value);
        bool has_index = !strstr(cases[i].arguments, "errorText");
        if ((buffers <= BUFFERS_MAX) != has_index)
            fail_msg("%s: reads %ld pages, the limit is %d", cases[i].arguments, buffers, BUFFERS_MAX);
    }
}

static void fill_rollouts(struct database *database)
{
    static const char key[] = "account_id, runtime, cluster, api_group, kind, namespace, name, uid";
    static const char rows[] = "SELECT '%s', 'prod', 'in-cluster', 'argoproj.io', 'Rollout', 'shop', 'r-' ||"
                               " to_char(i * 7919 %% %d, 'FM00000'), 'u' || i";
    char sql[2048], values[512], none[8];
    snprintf(values, sizeof values, rows, database->account, ROWS);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO resources (%s, version, application_namespace, application_name, epoch, sequence, observed_at)"
        " %s, 'v1alpha1', 'argocd', 'app-' || to_char(i, 'FM00000'), 1, i, now() FROM generate_series(1, %d) i",
        key, values, ROWS);
    database_query(database->account, sql, none, sizeof none);
    snprintf(sql, sizeof sql,
             "INSERT INTO rollouts (%s, phase, strategy, desired_replicas, revision_history_limit, weight, is_aborted,"
             " is_paused, is_promote_full) %s, CASE WHEN i %% 100 = 7 THEN 'Degraded' ELSE 'Healthy' END, 'canary', 1,"
             " 1, 100, false, false, false FROM generate_series(1, %d) i",
             key, values, ROWS);
    database_query(database->account, sql, none, sizeof none);
    database_query(database->account, "ANALYZE resources", none, sizeof none);
    database_query(database->account, "ANALYZE rollouts", none, sizeof none);
}

// 20 rows with a look into three tables each.
static void pages_of_rollouts_and_images_are_read_from_indexes(void **state)
{
    struct database *database = database_of(state);
    static const struct {
        const char *arguments, *value;
    } cases[] = {
        {"orderBy: {field: PLACE}", ""},
        {"orderBy: {field: PLACE, direction: desc}", ""},
        {"orderBy: {field: NAME}", ""},
        {"orderBy: {field: PHASE, direction: desc}", ""},
        {"filters: {runtime: \"prod\"}", "prod"},
        {"filters: {phases: [Degraded]}, orderBy: {field: PHASE}", "Degraded"},
    };
    enum { LIMIT = 600 };
    char sql[1024], none[8];
    fill(database);
    fill_rollouts(database);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO image_uses (account_id, runtime, cluster, api_group, kind, namespace, name, image, uid, since)"
        " SELECT account_id, runtime, cluster, api_group, kind, namespace, name, 'image:' || name, uid, now()"
        " FROM rollouts WHERE account_id = '%s'",
        database->account);
    database_query(database->account, sql, none, sizeof none);
    database_query(database->account, "ANALYZE image_uses", none, sizeof none);
    long of_images = buffers_of_list(database, "images", "image_uses t", "", "name usesCount", "");
    if (of_images > LIMIT) fail_msg("images: reads %ld pages, the limit is %d", of_images, LIMIT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long buffers = buffers_of_list(database, "rollouts", "rollouts t", cases[i].arguments,
                                       "metadata {name} status {phase}", cases[i].value);
        if (buffers > LIMIT) fail_msg("%s: reads %ld pages, the limit is %d", cases[i].arguments, buffers, LIMIT);
    }
}

// From the months of the ledger, newest or oldest first.
static void pages_of_releases_are_read_from_indexes(void **state)
{
    struct database *database = database_of(state);
    static const struct {
        const char *arguments, *value;
    } cases[] = {
        {"", ""},
        {"sort: {field: createdAt, order: asc}", ""},
        {"filters: {runtime: \"prod\", namespace: \"argocd\", name: \"app-00777\"}", "app-00777"},
    };
    char sql[2048], none[8];
    fill(database);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO deployments (account_id, runtime, namespace, name, uid, history_id, filed_at, deployed_at,"
        " revision) SELECT '%s', 'prod', 'argocd', 'app-' || to_char(i %% 1000, 'FM00000'), 'u', i, at, at, md5('r')"
        " FROM (SELECT i, now() - i * interval '10 minutes' AS at FROM generate_series(1, %d) i) t",
        database->account, ROWS);
    database_query(database->account, sql, none, sizeof none);
    database_query(database->account, "ANALYZE deployments", none, sizeof none);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long buffers = buffers_of_list(database, "gitopsReleases", "deployments x", cases[i].arguments,
                                       "historyId deployedAt current", cases[i].value);
        if (buffers > BUFFERS_MAX)
            fail_msg("%s: reads %ld pages, the limit is %d", cases[i].arguments, buffers, BUFFERS_MAX);
    }
}

static size_t total_of(struct database *database, const char *filters)
{
    char query[512];
    snprintf(query, sizeof query, "{applicationsIndex(filters: {%s}) {total}}", filters);
    json_t *index = question_field(database, query, NULL, "applicationsIndex");
    size_t total = (size_t)json_get_int(index, "total", -1);
    json_decref(index);
    return total;
}

// Pages of all sizes give each row once, few and many alike; and so does what counts them.
static void what_is_searched_is_found(void **state)
{
    struct database *database = database_of(state);
    static const struct {
        const char *filters;
        size_t count;
    } cases[] = {
        {"text: \"app-0007\"", 10},
        {"text: \"APP-00\"", 999},
        {"text: \"app-0\"", 5000},
        {"text: \"app_0\"", 0},
        {"text: \"%\"", 0},
        {"text: \"C4CA4238a0b923\"", 1},
        {"text: \"4ca4238a0b92382\"", 0}, // of revisions the beginning alone
        {"text: \"team-7\", statuses: [OUT_OF_SYNC]", 25},
        {"labels: [\"team=t7\"]", 125},
        {"labels: [\"team\"]", 5000},
        {"labels: [\"team=t7\", \"team\", \"only8\"]", 5000},
        {"labels: [\"only8\", \"only9=x\", \"only9=y\"]", 2},
        {"labels: [\"team=t7\"], text: \"app-00007\"", 1},
    };
    fill(database);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char query[1024], cursor[256] = "";
        size_t found = 0;
        for (bool has_more = true; has_more;) {
            snprintf(query, sizeof query,
                     "{applications(filters: {%s}, orderBy: {field: NAME, direction: desc}, pagination: {first: "
                     "700%s%s%s}) {edges {cursor} pageInfo"
                     " {endCursor hasNextPage}}}",
                     cases[i].filters, *cursor ? ", after: \"" : "", cursor, *cursor ? "\"" : "");
            json_t *slice = question_field(database, query, NULL, "applications");
            found += json_array_size(json_object_get(slice, "edges"));
            const json_t *info = json_object_get(slice, "pageInfo");
            has_more = json_get_bool(info, "hasNextPage", false);
            snprintf(cursor, sizeof cursor, "%.*s", STR_ARG(json_get_str(info, "endCursor")));
            json_decref(slice);
        }
        if (found != cases[i].count) fail_msg("%s: pages have %zu", cases[i].filters, found);
        if (total_of(database, cases[i].filters) != found) fail_msg("%s: the total differs", cases[i].filters);
    }
    // From behind a row on, with rows left out.
    json_t *slice = question_field(database,
                                   "{applications(filters: {text: \"app-0\"}, pagination: {first: 1, skip: 499})"
                                   " {edges {node {metadata {name}}}}}",
                                   NULL, "applications");
    assert_string_equal(json_string_value(json_path(json_array_get(json_object_get(slice, "edges"), 0), "node",
                                                    "metadata", "name", NULL)),
                        "app-00500");
    json_decref(slice);
    char none[8];
    database_query(database->account,
                   "UPDATE applications SET path = 'moved', sync_revision = 'V2', labels = '{\"new\": \"1\"}' WHERE "
                   "name = 'app-00001'",
                   none, sizeof none);
    database_query(database->account, "DELETE FROM applications WHERE name = 'app-00002'", none, sizeof none);
    assert_int_equal(total_of(database, "text: \"MOVED\""), 1);
    assert_int_equal(total_of(database, "text: \"v2\""), 1);
    assert_int_equal(total_of(database, "text: \"c4ca4238\""), 0);
    assert_int_equal(total_of(database, "labels: [\"new\"]"), 1);
    assert_int_equal(total_of(database, "labels: [\"only1\"]"), 0);
    assert_int_equal(total_of(database, "text: \"app-00002\""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_read_from_indexes),
        cmocka_unit_test(pages_of_rollouts_and_images_are_read_from_indexes),
        cmocka_unit_test(pages_of_releases_are_read_from_indexes),
        cmocka_unit_test(what_is_searched_is_found),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
