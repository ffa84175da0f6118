// PostgreSQL dies by SIGKILL again and again under a stream of reports: what was acknowledged is there, in order, and
// the pool comes back by itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/parse.h"
#include "database.h"
#include "private_server.h"

enum { KILLS = 3, LANES = 4, BATCH = 25 };

struct lane {
    struct database *database;
    uint64_t sequence, acknowledged; // last submitted, last committed
    bool *is_stopping;
    bool is_idle;
    unsigned failures;
    struct report reports[BATCH];
    char names[BATCH][16];
    unsigned number;
};

static void lane_send(struct lane *lane);

static void on_applied(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count)
{
    struct lane *lane = arg;
    if (err) {
        // Unknown what became of it: the same again, as an agent does.
        lane->failures++;
        lane->sequence -= BATCH;
        assert_true(err->code == ERROR_UNAVAILABLE || err->code == ERROR_TIMEOUT || err->code == ERROR_CONFLICT);
    } else {
        for (size_t i = 0; i < count; i++)
            assert_true(outcomes[i].result == REPORT_APPLIED || outcomes[i].result == REPORT_UNCHANGED);
        lane->acknowledged = lane->sequence;
    }
    lane->is_idle = *lane->is_stopping;
    if (!lane->is_idle) lane_send(lane);
}

static void lane_send(struct lane *lane)
{
    for (size_t i = 0; i < BATCH; i++) {
        lane->sequence++;
        snprintf(lane->names[i], sizeof lane->names[i], "lane-%u-%d", lane->number, (int)i);
        static char manifests[LANES][BATCH][64];
        char *manifest = manifests[lane->number][i];
        snprintf(manifest, 64, "{\"n\":%d}", (int)lane->sequence);
        lane->reports[i] = (struct report){.type = REPORT_OBJECT,
                                           .source = REPORT_FROM_TUNNEL,
                                           .account_id = str_c(lane->database->account),
                                           .runtime = STR("prod"),
                                           .epoch = 1,
                                           .sequence = lane->sequence,
                                           .ref.version = STR("v1"),
                                           .ref.kind = STR("ConfigMap"),
                                           .ref.name = str_c(lane->names[i]),
                                           .observed_at_ms = clock_wall_ms(),
                                           .manifest = str_c(manifest)};
    }
    report_store_apply(lane->database->pg, database_report_kinds(), lane->reports, BATCH, on_applied, lane);
}

struct progress {
    struct lane *lanes;
    uint64_t wanted; // more than these acknowledged by every lane; 0: until all are idle
};

static bool has_progressed(void *arg)
{
    struct progress *progress = arg;
    for (size_t i = 0; i < LANES; i++)
        if (progress->wanted ? progress->lanes[i].acknowledged < progress->wanted : !progress->lanes[i].is_idle)
            return false;
    return true;
}

static void check_ledger(const struct database *database, const struct lane *lane)
{
    char sql[256], text[64];
    uint64_t last = 0;
    snprintf(sql, sizeof sql, "SELECT max(sequence) FROM resources WHERE name LIKE 'lane-%u-%%'", lane->number);
    database_query(database->account, sql, text, sizeof text);
    assert_int_equal(parse_u64(str_c(text), 0, UINT64_MAX, &last, NULL), ERROR_NONE);
    assert_true(last >= lane->acknowledged);
    // Each object holds the report that was its last: its manifest names the row's own sequence.
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM resources r WHERE name LIKE 'lane-%u-%%' AND manifest_sha256 = "
             "sha256(convert_to('{\"n\":' || sequence || '}', 'UTF8'))",
             lane->number);
    database_query(database->account, sql, text, sizeof text);
    char expected[16];
    snprintf(expected, sizeof expected, "%d", BATCH);
    assert_string_equal(text, expected);
}

static void nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    struct private_server server;
    if (!private_server_start(&server)) skip();
    setenv("CULVERT_TEST_DATABASE_URL", server.url, 1);
    setenv("CULVERT_TEST_DATABASE_APP_URL", server.app_url, 1);
    void *opened = NULL;
    assert_int_equal(database_setup(&opened), 0);
    struct database *database = database_of(&opened);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    static struct lane lanes[LANES];
    bool is_stopping = false;
    struct progress progress = {.lanes = lanes};
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.database = database, .is_stopping = &is_stopping, .number = i};
        lane_send(&lanes[i]);
    }
    for (int kill = 0; kill < KILLS; kill++) {
        progress.wanted += 500 + id_random_below(500);
        database_run_until(database, has_progressed, &progress, 60);
        private_server_kill(&server);
        private_server_again(&server);
    }
    progress.wanted += 500;
    database_run_until(database, has_progressed, &progress, 60);
    is_stopping = true;
    progress.wanted = 0;
    database_run_until(database, has_progressed, &progress, 60);
    unsigned failures = 0;
    for (unsigned i = 0; i < LANES; i++) {
        check_ledger(database, &lanes[i]);
        failures += lanes[i].failures;
    }
    assert_true(failures > 0); // it was really hit
    database_teardown(&opened);
    private_server_destroy(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_acknowledged_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
