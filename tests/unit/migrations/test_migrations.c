#include "migrations/migrations.h"

#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "private_server.h"

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

static void count_one(void *arg, unsigned version, const char *name)
{
    (void)version;
    (void)name;
    ++*(size_t *)arg;
}

static void execute(const char *sql)
{
    PGconn *conn = PQconnectdb(server.url);
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void numbers_rise_and_first_lines_speak(void **state)
{
    (void)state;
    assert_true(migrations_count >= 3);
    for (size_t i = 0; i < migrations_count; i++) {
        const struct migration *migration = &migrations_all[i];
        if (i > 0) assert_true(migration->version > migrations_all[i - 1].version);
        assert_int_equal(atoi(migration->name), migration->version);
        if (strncmp(migration->sql, "-- older-binaries: work\n", 24) != 0 &&
            strncmp(migration->sql, "-- older-binaries: stop\n", 24) != 0)
            fail_msg("%s does not say what older binaries may do", migration->name);
        // Each runs inside a transaction that is not its own.
        assert_null(strstr(migration->sql, "COMMIT"));
        assert_null(strstr(migration->sql, "CONCURRENTLY"));
    }
    struct migration older_work = {.sql = "-- older-binaries: work\nSELECT 1;"};
    assert_true(migration_lets_older_work(&older_work));
    assert_false(migration_lets_older_work(&(struct migration){.sql = "-- older-binaries: workings\n"}));
}

// Several at once, as the pods of a deployment do: each is applied by one of them, and all succeed.
static void several_at_once_apply_each_one_time(void **state)
{
    (void)state;
    if (!has_server) skip();
    struct error err;
    assert_int_equal(migrations_check(server.app_url, &err), ERROR_NOT_FOUND);
    enum { PROCESSES = 4 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() > 0) continue;
        size_t applied = 0;
        enum error_code code = migrations_apply(server.url, count_one, &applied, &err);
        ssize_t written = write(ends[1], &applied, sizeof applied);
        _exit(code == ERROR_NONE && written == (ssize_t)sizeof applied ? 0 : 1);
    }
    size_t applied = 0, total = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;
        wait(&status);
        assert_int_equal(status, 0);
        assert_int_equal(read(ends[0], &applied, sizeof applied), sizeof applied);
        total += applied;
    }
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(total, migrations_count);
    assert_int_equal(migrations_check(server.app_url, &err), ERROR_NONE);
    applied = 0;
    assert_int_equal(migrations_apply(server.url, count_one, &applied, &err), ERROR_NONE);
    assert_int_equal(applied, 0);
}

static void other_content_and_newer_versions_are_noticed(void **state)
{
    (void)state;
    if (!has_server) skip();
    struct error err;
    execute("INSERT INTO culvert.schema_migrations VALUES (9998, '9998_add_column', 'x', true)");
    assert_int_equal(migrations_check(server.app_url, &err), ERROR_NONE);
    execute("INSERT INTO culvert.schema_migrations VALUES (9999, '9999_drop_column', 'x', false)");
    assert_int_equal(migrations_check(server.app_url, &err), ERROR_CONFLICT);
    assert_non_null(strstr(err.text, "9999_drop_column"));
    assert_int_equal(migrations_apply(server.url, NULL, NULL, &err), ERROR_CONFLICT);
    execute("DELETE FROM culvert.schema_migrations WHERE version > 9000");
    execute("UPDATE culvert.schema_migrations SET checksum = 'x' WHERE version = 2");
    assert_int_equal(migrations_check(server.app_url, &err), ERROR_CONFLICT);
    assert_int_equal(migrations_check("host=127.0.0.1 port=1 dbname=x user=x", &err), ERROR_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_rise_and_first_lines_speak),
        cmocka_unit_test(several_at_once_apply_each_one_time),
        cmocka_unit_test(other_content_and_newer_versions_are_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
