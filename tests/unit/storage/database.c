#include "database.h"

#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "migrations/migrations.h"
#include "modules/modules.h"
#include "modules/runtimes/runtime_store.h"
#include "storage/sessions/session_batch.h"

int database_setup(void **state)
{
    *state = NULL;
    const char *owner = getenv("CULVERT_TEST_DATABASE_URL"), *app = getenv("CULVERT_TEST_DATABASE_APP_URL");
    if (!owner || !app) {
        print_message("skipped: CULVERT_TEST_DATABASE_URL and CULVERT_TEST_DATABASE_APP_URL are not set "
                      "(tests/support/with_servers sets them)\n");
        return 0;
    }
    struct error err;
    if (migrations_apply(owner, NULL, NULL, &err) != ERROR_NONE) {
        print_error("%s\n", err.text);
        return -1;
    }
    log_set_level(LOG_ERROR);
    struct database *database = mem_zalloc(sizeof *database);
    database->loop = loop_create("test", 0);
    database->pg = pg_create(
        database->loop,
        &(struct pg_options){.conninfo = app, .connections = 2, .queue_max = 1000, .statement_timeout_ms = 5000});
    *state = database;
    return 0;
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

int database_teardown(void **state)
{
    struct database *database = *state;
    if (!database) return 0;
    bool is_closed = false;
    pg_close(database->pg, set_true, &is_closed);
    while (!is_closed)
        uv_run(loop_uv(database->loop), UV_RUN_ONCE);
    loop_destroy(database->loop);
    mem_free(database);
    return 0;
}

static void wake(uv_timer_t *timer)
{
    (void)timer;
}

void database_run_until(struct database *database, bool (*is_done)(void *arg), void *arg, unsigned seconds)
{
    uint64_t until = clock_mono_ms() + seconds * 1000;
    uv_timer_t timer; // so that a turn of the loop ends even when nothing happens
    uv_timer_init(loop_uv(database->loop), &timer);
    uv_timer_start(&timer, wake, 20, 20);
    while (!is_done(arg) && clock_mono_ms() < until)
        uv_run(loop_uv(database->loop), UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop_uv(database->loop), UV_RUN_NOWAIT);
    if (!is_done(arg)) fail_msg("nothing happened within %u s", seconds);
}

static bool is_answered(void *arg)
{
    return ((struct answer *)arg)->is_done;
}

void answer_init(struct answer *answer, struct database *database)
{
    *answer = (struct answer){.database = database};
}

void answer_finish(struct answer *answer)
{
    mem_free(answer->node);
    json_decref(answer->nodes);
    for (size_t i = 0; i < answer->cursor_count; i++)
        mem_free(answer->cursors[i]);
    answer_init(answer, answer->database);
}

void answer_wait(struct answer *answer)
{
    database_run_until(answer->database, is_answered, answer, 20);
}

static void take_error(struct answer *answer, const struct error *err)
{
    assert_false(answer->is_done);
    answer->is_done = true;
    if (!err) return;
    answer->code = err->code;
    snprintf(answer->text, sizeof answer->text, "%s", err->text);
}

void answer_on_node(void *arg, const struct error *err, struct str node)
{
    struct answer *answer = arg;
    take_error(answer, err);
    if (!err) answer->node = mem_strndup(node.at ? node.at : "", node.len);
}

void answer_on_count(void *arg, const struct error *err, uint64_t count)
{
    struct answer *answer = arg;
    take_error(answer, err);
    answer->count = count;
}

void answer_on_slice(void *arg, const struct error *err, const struct store_slice *slice)
{
    struct answer *answer = arg;
    take_error(answer, err);
    if (err) return;
    answer->nodes = json_array();
    answer->has_next = slice->has_next;
    answer->has_prev = slice->has_prev;
    for (size_t i = 0; i < slice->count; i++) {
        json_t *node = json_loadb(slice->nodes[i].at, slice->nodes[i].len, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(node);
        json_array_append_new(answer->nodes, node);
        if (i < 64) {
            answer->cursors[i] = mem_strndup(slice->cursors[i].at, slice->cursors[i].len);
            answer->cursor_count++;
        }
    }
}

void answer_on_reports(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count)
{
    struct answer *answer = arg;
    take_error(answer, err);
    for (size_t i = 0; i < count && i < 512; i++)
        answer->outcomes[i] = outcomes[i];
    answer->outcome_count = count;
    if (count && outcomes[0].result == REPORT_REFUSED)
        snprintf(answer->text, sizeof answer->text, "%s", outcomes[0].detail);
    for (size_t i = 0; i < count; i++)
        if (outcomes[i].result == REPORT_OVER_QUOTA)
            snprintf(answer->text, sizeof answer->text, "%s", outcomes[i].detail);
}

struct database *database_of(void **state)
{
    struct database *database = *state;
    if (!database) skip();
    id_account(database->account);
    snprintf(database->account_name, sizeof database->account_name, "account-%s", database->account);
    struct answer answer;
    answer_init(&answer, database);
    identity_store_create_account(database->pg, database->account, str_c(database->account_name), answer_on_node,
                                  &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    answer_finish(&answer);
    return database;
}

void database_make_runtime(struct database *database, const char *name, char out_id[ID_UUID_BYTES])
{
    char token_id[ID_ACCOUNT_BYTES];
    id_account(token_id);
    struct runtime_new runtime = {.name = str_c(name), .token_id = str_c(token_id), .access_mode = STR("TUNNEL")};
    id_random(runtime.token_sha256, sizeof runtime.token_sha256);
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_create(database->pg, database->account, &runtime, answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    json_t *node = json_loads(answer.node, 0, NULL);
    snprintf(out_id, ID_UUID_BYTES, "%s", json_string_value(json_object_get(node, "id")));
    json_decref(node);
    answer_finish(&answer);
}

static void on_opened(void *arg, const struct error *err, const struct session_grant *grants)
{
    answer_on_count(arg, err, err ? 0 : grants[0].epoch);
}

uint64_t database_open_session(struct database *database, const char *runtime, const char *runtime_id,
                               const char *replica)
{
    struct session_new session = {.account_id = database->account,
                                  .runtime = str_c(runtime),
                                  .runtime_id = str_c(runtime_id),
                                  .session_id = STR("session"),
                                  .instance_id = STR("instance"),
                                  .boot_id = STR("boot"),
                                  .agent_version = STR("1.2.3"),
                                  .remote = STR("127.0.0.1:1")};
    struct answer answer;
    answer_init(&answer, database);
    session_batch_open(database->pg, str_c(replica), &session, 1, on_opened, &answer);
    answer_wait(&answer);
    uint64_t epoch = answer.code == ERROR_NONE ? answer.count : 0;
    answer_finish(&answer);
    return epoch;
}

void database_close_session(struct database *database, const char *runtime, uint64_t epoch, const char *reason)
{
    struct session_over over = {
        .account_id = database->account, .runtime = str_c(runtime), .epoch = epoch, .reason = str_c(reason)};
    struct answer answer;
    answer_init(&answer, database);
    session_batch_close(database->pg, &over, 1, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
}

void database_query(const char *account, const char *sql, char *out, size_t out_bytes)
{
    PGconn *conn = PQconnectdb(getenv("CULVERT_TEST_DATABASE_URL"));
    PQclear(PQexecParams(conn,
                         "SELECT set_config('app.account_id', $1, false), set_config('search_path', 'culvert', "
                         "false)",
                         1, NULL, &account, NULL, NULL, 0));
    PGresult *result = PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail_msg("%s", PQerrorMessage(conn));
    snprintf(out, out_bytes, "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(conn);
}

struct swept {
    bool is_done, is_over;
    enum error_code code;
    struct sweep_place place;
};

static void on_swept(void *arg, const struct error *err, uint64_t count, const struct sweep_place *next)
{
    struct swept *swept = arg;
    swept->is_done = true;
    swept->code = err ? err->code : ERROR_NONE;
    (void)count;
    swept->is_over = !next;
    if (next) swept->place = *next;
}

static bool is_swept(void *arg)
{
    return ((struct swept *)arg)->is_done;
}

void database_sweep_manifests(struct database *database)
{
    struct swept swept = {0};
    for (unsigned refusals = 0; !swept.is_over;) {
        swept.is_done = false;
        report_store_sweep(database->pg, 1000, &swept.place, on_swept, &swept);
        database_run_until(database, is_swept, &swept, 20);
        // A sweep of all accounts may meet that of another test.
        if ((swept.code == ERROR_TIMEOUT || swept.code == ERROR_CONFLICT) && refusals++ < 50)
            swept.is_over = false;
        else
            assert_int_equal(swept.code, ERROR_NONE);
    }
}

const struct report_kinds *database_report_kinds(void)
{
    static struct module_tables tables;
    if (!tables.report_kinds.count) module_tables_init(&tables, modules);
    return &tables.report_kinds;
}

enum report_result database_apply(struct database *database, struct report report)
{
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), &report, 1, answer_on_reports, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    enum report_result result = answer.outcomes[0].result;
    if (result == REPORT_REFUSED) print_message("refused: %s\n", answer.text);
    answer_finish(&answer);
    return result;
}
