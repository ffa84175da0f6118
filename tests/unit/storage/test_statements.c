// storage/sql/statements.awk: what it makes of .sql files and what it refuses, with file and line;
// and that a value which is missing at run time does not become NULL.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "culvert_statements.h"

static char output[1 << 16];

// Runs the generator over one file of this text; the answer is its exit status.
static int generate(const char *part, const char *sql)
{
    char path[] = "/tmp/culvert_statements_XXXXXX", command[1024];
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, sql, strlen(sql)), (ssize_t)strlen(sql));
    close(file);
    snprintf(command, sizeof command, "awk -v part=%s -f %s/storage/sql/statements.awk %s 2>&1", part,
             CULVERT_SOURCE_DIR, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(output, 1, sizeof output - 1, pipe);
    output[len] = '\0';
    int status = pclose(pipe);
    unlink(path);
    return WEXITSTATUS(status);
}

static void assert_has(const char *text)
{
    if (!strstr(output, text)) fail_msg("no \"%s\" in: %s", text, output);
}

static void names_get_numbers(void **state)
{
    (void)state;
    static const char sql[] = "-- fragment: mine\n"
                              "t.account_id = :account_id\n"
                              "-- name: one\n"
                              "SELECT ':no', 'it''s :no', :name::text, a[1], x::jsonb FROM t\n"
                              " WHERE :{mine} AND (:name = '' OR t.name = :name) AND t.at > :since_1::timestamptz\n"
                              "-- name: none\n"
                              "SELECT 1\n";
    assert_int_equal(generate("c", sql), 0);
    assert_has("SELECT ':no', 'it''s :no', $1::text, a[1], x::jsonb FROM t");
    assert_has("t.account_id = $2 AND ($1 = '' OR t.name = $1) AND t.at > $3::timestamptz");
    assert_has(".parameters = 3,\n    .names = (const char *const[]){\"name\", \"account_id\", \"since_1\", NULL},");
    assert_int_equal(generate("h", sql), 0);
    assert_has("struct sql_one {\n    struct pg_param name, account_id, since_1;\n};");
    assert_null(strstr(output, "struct sql_none"));
}

static void a_list_is_written_once(void **state)
{
    (void)state;
    static const char sql[] = "-- fragment: key\n"
                              "coalesce(t.a, 'x, y')\n"
                              "-- list: things\n"
                              "-- order: :{key}, t.b\n"
                              "SELECT n, :{keys} FROM t WHERE :{page} ORDER BY :{order} LIMIT :limit::bigint\n"
                              "-- list: newest\n"
                              "-- order: t.at DESC, t.b\n"
                              "SELECT n FROM t ORDER BY :{order}\n";
    assert_int_equal(generate("c", sql), 0);
    assert_has("SELECT n, coalesce(t.a, 'x, y'), t.b FROM t WHERE (coalesce(t.a, 'x, y'), t.b) > ($1, $2) AND "
               "(coalesce(t.a, 'x, y'), t.b) < ($3, $4) ORDER BY coalesce(t.a, 'x, y'), t.b LIMIT $5::bigint");
    assert_has("ORDER BY coalesce(t.a, 'x, y') DESC, t.b DESC LIMIT $5::bigint");
    assert_has("statement_newest = {");
    assert_has("ORDER BY t.at DESC, t.b\\n");
    assert_has("statement_newest_back = {");
    assert_has("ORDER BY t.at, t.b DESC\\n");
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *reason;
    } cases[] = {
        {"-- name: a\nSELECT $1\n", ":1: a numbered parameter in a; write :name"},
        {"-- name: a\nSELECT 'x\n", ":1: a quote without its end in a"},
        {"\n-- name: a\nSELECT :{b}\n", ":2: unknown fragment b"},
        {"-- fragment: b\n:{b}\n-- name: a\nSELECT :{b}\n", ":3: fragments that contain each other"},
        {"-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", ":3: a second block a"},
        {"SELECT 1\n", ":1: text before the first block"},
        {"-- list: a\nSELECT 1\n", ":1: the list a has no line \"-- order:\""},
        {"-- list: a\n-- order: x DESC\nSELECT :{page}\n", ":1: unknown fragment page"},
        {"-- name: a\nSELECT :{order}\n", ":1: unknown fragment order"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(generate("c", cases[i].sql), 1);
        assert_has(cases[i].reason);
    }
}

static void a_missing_value_aborts(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        struct pg_batch *batch = pg_batch_create(NULL, "0123456789abcdef01234567");
        pg_add(batch, runtime_delete, .account_id = pg_text(STR("a")));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_get_numbers),
        cmocka_unit_test(a_list_is_written_once),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(a_missing_value_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
