#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"
#include "questions.h"
#include "storage/reports/report_store.h"

enum { START_MS = 1700000000 };

static struct report object_report(const struct database *database, const char *name, uint64_t epoch, uint64_t sequence,
                                   const char *manifest)
{
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = epoch,
                            .sequence = sequence,
                            .ref.group = STR("apps"),
                            .ref.version = STR("v1"),
                            .ref.kind = STR("Deployment"),
                            .ref.ns = STR("shop"),
                            .ref.name = str_c(name),
                            .ref.uid = STR("00000000-0000-0000-0000-000000000001"),
                            .cluster = STR("in-cluster"),
                            .sync_status = STR("Synced"),
                            .health_status = STR("Healthy"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    id_sha256(manifest, strlen(manifest), report.content_hash);
    return report;
}

static struct report snapshot_report(const struct database *database, enum report_type type, uint64_t epoch,
                                     uint64_t sequence, uint64_t count)
{
    return (struct report){.type = type,
                           .source = REPORT_FROM_TUNNEL,
                           .account_id = str_c(database->account),
                           .runtime = STR("prod"),
                           .epoch = epoch,
                           .sequence = sequence,
                           .observed_at_ms = clock_wall_ms(),
                           .count = count};
}

static void apply(struct database *database, const struct report *reports, size_t count, struct answer *answer)
{
    answer_init(answer, database);
    report_store_apply(database->pg, database_report_kinds(), reports, count, answer_on_reports, answer);
    answer_wait(answer);
    if (answer->code != ERROR_NONE) fail_msg("%s", answer->text);
    assert_int_equal(answer->outcome_count, count);
}

static enum report_result apply_one(struct database *database, struct report report)
{
    struct answer answer;
    apply(database, &report, 1, &answer);
    return answer.outcomes[0].result;
}

static const char *query(const struct database *database, const char *sql)
{
    static char text[1 << 16];
    database_query(database->account, sql, text, sizeof text);
    return text;
}

static const char deployment[] =
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\",\"labels\":{\"app\":\"web\"},"
    "\"ownerReferences\":[{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Rollout\",\"name\":\"r\",\"uid\":\"u\"}],"
    "\"creationTimestamp\":\"2026-01-02T03:04:05Z\"},\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":"
    "\"nginx:1\"},{\"image\":\"nginx:1\"},{\"image\":\"redis:7\"}]}}}}";

static void only_newer_reports_change_a_row(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 5, deployment)), REPORT_APPLIED);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 5, deployment)), REPORT_UNCHANGED);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 4, "{\"a\":1}")), REPORT_UNCHANGED);
    // Said again later: taken, but nothing changed.
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 6, deployment)), REPORT_UNCHANGED);
    assert_string_equal(query(database, "SELECT sequence FROM resources"), "6");
    // A new session counts from 1 again.
    assert_int_equal(apply_one(database, object_report(database, "web", 2, 1, "{\"a\":2}")), REPORT_APPLIED);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 99, deployment)), REPORT_UNCHANGED);
    struct report gone = object_report(database, "web", 2, 2, "");
    gone.type = REPORT_DELETED;
    assert_int_equal(apply_one(database, gone), REPORT_APPLIED);
    assert_int_equal(apply_one(database, gone), REPORT_UNCHANGED);
    assert_int_equal(apply_one(database, object_report(database, "web", 2, 1, deployment)), REPORT_UNCHANGED);
    assert_string_equal(query(database, "SELECT count(*) FROM resources WHERE NOT is_deleted"), "0");
    // Made anew: another uid, a new incarnation.
    struct report anew = object_report(database, "web", 2, 3, deployment);
    anew.ref.uid = STR("00000000-0000-0000-0000-000000000002");
    assert_int_equal(apply_one(database, anew), REPORT_APPLIED);
    assert_string_equal(query(database, "SELECT uid FROM resources WHERE NOT is_deleted"),
                        "00000000-0000-0000-0000-000000000002");
    assert_string_equal(query(database, "SELECT epoch || '/' || sequence FROM report_positions"), "2/3");
}

static const char details[] =
    "SELECT concat_ws(' ', health_status, health_source, health_message, presence, api_resource, "
    "marks, manifest_sha256 IS NOT NULL, jsonb_array_length(images)) FROM resources";

static void details_of_health_and_presence(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report report = object_report(database, "web", 1, 1, deployment);
    report.health_status = STR("Degraded");
    report.health_message = STR("container web: OOMKilled (exit code 137)");
    report.health_source = STR("AGENT");
    report.marks = STR("REQUIRES_PRUNING");
    assert_int_equal(apply_one(database, report), REPORT_APPLIED);
    assert_string_equal(query(database, details),
                        "DEGRADED AGENT container web: OOMKilled (exit code 137) REQUIRES_PRUNING t 2");
    // Another reason alone is a change.
    report.sequence = 2;
    assert_int_equal(apply_one(database, report), REPORT_UNCHANGED);
    report.sequence = 3;
    report.health_message = STR("container web: CrashLoopBackOff");
    assert_int_equal(apply_one(database, report), REPORT_APPLIED);
    // What may not be read any more is shown as it was last, and said to be so.
    struct report unread = object_report(database, "web", 1, 4, "{\"kind\":\"Deployment\"}");
    unread.health_status = unread.ref.uid = STR_EMPTY;
    unread.presence = STR("UNREADABLE");
    unread.api_resource = STR("deployments");
    assert_int_equal(apply_one(database, unread), REPORT_APPLIED);
    assert_string_equal(query(database, details),
                        "DEGRADED AGENT container web: CrashLoopBackOff UNREADABLE deployments t 2");
    assert_string_equal(query(database, "SELECT uid <> '' FROM resources"), "t");
    // What is missing has nothing to show; a word that nobody knows is dropped.
    struct report missing = object_report(database, "web", 1, 5, "{\"kind\":\"Deployment\"}");
    missing.health_status = STR("Missing");
    missing.health_source = STR("A word of tomorrow");
    missing.presence = STR("MISSING");
    assert_int_equal(apply_one(database, missing), REPORT_APPLIED);
    assert_string_equal(query(database, details), "MISSING MISSING f 0");
    report.sequence = 6;
    assert_int_equal(apply_one(database, report), REPORT_APPLIED);
    assert_string_equal(query(database, details),
                        "DEGRADED AGENT container web: CrashLoopBackOff REQUIRES_PRUNING t 2");
}

static void resources_have_their_columns(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report report = object_report(database, "web", 1, 1, deployment);
    report.application_name = STR("shop");
    report.application_ns = STR("argocd");
    report.health_status = STR("Progressing");
    report.sync_status = STR("OutOfSync");
    assert_int_equal(apply_one(database, report), REPORT_APPLIED);
    assert_string_equal(query(database, "SELECT concat_ws(' ', sync_status, health_status, application_namespace, "
                                        "application_name, images, labels, owners -> 0 ->> 'kind', version, "
                                        "to_char(resource_created_at, 'YYYY-MM-DD HH24:MI:SS')) FROM resources"),
                        "OUT_OF_SYNC PROGRESSING argocd shop [\"nginx:1\", \"redis:7\"] {\"app\": \"web\"} Rollout v1 "
                        "2026-01-02 03:04:05");
    assert_string_equal(query(database, "SELECT encoding || ' ' || (plain_bytes > length(content)) FROM manifests"),
                        "1 true");
}

static void a_bad_record_does_not_sink_its_batch(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    size_t big = (size_t)10 * 1024 * 1024 + 1;
    char *huge = mem_alloc(big + 1);
    memset(huge, ' ', big);
    huge[big] = '\0';
    char nul[] = "a\0b", broken[] = "\xff\xfe", unicode_nul[] = "{\"a\":\"\\u0000\"}";
    struct report reports[] = {
        object_report(database, "good-1", 1, 1, deployment),
        object_report(database, "text", 1, 2, "not json"),
        object_report(database, "array", 1, 3, "[1]"),
        object_report(database, "huge", 1, 4, huge),
        object_report(database, "nul", 1, 5, deployment),
        object_report(database, "utf8", 1, 6, deployment),
        object_report(database, "", 1, 7, deployment),
        object_report(database, "escape", 1, 8, unicode_nul),
        object_report(database, "twice", 1, 9, "{\"a\":1,\"a\":2}"),
        object_report(database, "nowhere", 1, 10, deployment),
        object_report(database, "hash", 1, 11, deployment),
        object_report(database, "good-2", 1, 12, deployment),
    };
    reports[4].ref.name = str_of(nul, 3);
    reports[5].ref.ns = str_of(broken, 2);
    reports[9].runtime = STR("no-such-runtime");
    reports[10].health_message = str_of(broken, 2);
    size_t count = sizeof reports / sizeof *reports;
    struct answer answer;
    apply(database, reports, count, &answer);
    for (size_t i = 0; i < count; i++) {
        bool is_good = i == 0 || i == count - 1;
        if (answer.outcomes[i].result != (is_good ? REPORT_APPLIED : REPORT_REFUSED)) fail_msg("record %zu", i);
    }
    assert_string_equal(query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources "
                                        "WHERE NOT is_deleted"),
                        "good-1 good-2");
    // That the others were said is known, so that their agent is not asked for them again.
    assert_string_equal(query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources "
                                        "WHERE is_deleted AND content_hash IS NOT NULL"),
                        "array escape hash huge text twice");
    mem_free(huge);
}

static void nothing_is_deleted_until_a_snapshot_matches(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct answer answer;
    struct report before[] = {
        object_report(database, "a", 1, 1, "{\"n\":1}"),
        object_report(database, "b", 1, 2, "{\"n\":2}"),
        object_report(database, "c", 1, 3, "{\"n\":3}"),
    };
    apply(database, before, 3, &answer);
    // Two of three come, but three are counted: ask again, keep all.
    struct report wrong[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 1, 0),
        object_report(database, "a", 2, 2, "{\"n\":1}"),
        object_report(database, "b", 2, 3, "{\"n\":2}"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 4, 3),
    };
    apply(database, wrong, 4, &answer);
    assert_int_equal(answer.outcomes[3].result, REPORT_RESYNC);
    assert_string_equal(query(database, "SELECT count(*) FROM resources WHERE NOT is_deleted"), "3");
    struct report right[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 5, 0),
        object_report(database, "a", 2, 6, "{\"n\":1}"),
        object_report(database, "b", 2, 7, "{\"n\":2}"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 8, 2),
    };
    apply(database, right, 4, &answer);
    assert_int_equal(answer.outcomes[3].result, REPORT_APPLIED);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"), "a b");
    assert_int_equal(apply_one(database, right[3]), REPORT_UNCHANGED);
    // An end without its beginning, or of another session, deletes nothing.
    assert_int_equal(apply_one(database, snapshot_report(database, REPORT_SNAPSHOT_END, 3, 1, 0)), REPORT_RESYNC);
    assert_string_equal(query(database, "SELECT count(*) FROM resources WHERE NOT is_deleted"), "2");
    // An object that cannot be stored does not make every snapshot fail, and its older row stays.
    struct report refused[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 3, 2, 0),
        object_report(database, "a", 3, 3, "broken"),
        object_report(database, "new", 3, 4, "broken"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 3, 5, 2),
    };
    apply(database, refused, 4, &answer);
    assert_int_equal(answer.outcomes[1].result, REPORT_REFUSED);
    assert_int_equal(answer.outcomes[3].result, REPORT_APPLIED);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"), "a");
}

// What the agent may not read it does not tell of, nor of what that owns: neither is gone.
static void what_is_unread_is_not_gone(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct answer answer;
    struct report before[] = {
        object_report(database, "web", 1, 1, "{}"),
        object_report(database, "job", 1, 2, "{}"),
        object_report(
            database, "set", 1, 3,
            "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"uid\":\"u-job\"}]}}"),
        object_report(
            database, "pod", 1, 4,
            "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"Set\",\"uid\":\"u-set\"}]}}"),
        object_report(
            database, "other-pod", 1, 5,
            "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"Set\",\"uid\":\"x\"}]}}"),
        object_report(database, "app", 1, 6, "{\"spec\":{}}"),
    };
    before[1].ref.group = STR("batch");
    before[1].ref.kind = STR("Job");
    before[1].ref.uid = STR("u-job");
    before[2].ref.kind = STR("Set");
    before[2].ref.uid = STR("u-set");
    before[3].ref.group = before[4].ref.group = STR("");
    before[3].ref.kind = before[4].ref.kind = STR("Pod");
    before[5].ref.group = STR("argoproj.io");
    before[5].ref.kind = STR("Application");
    apply(database, before, 6, &answer);
    struct report snapshot[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 1, 0),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 2, 0),
    };
    snapshot[1].unread = STR("/Secret\nbatch/Job\nargoproj.io/Application\n");
    apply(database, snapshot, 2, &answer);
    assert_int_equal(answer.outcomes[1].result, REPORT_APPLIED);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"),
        "job pod set");
    assert_string_equal(query(database, "SELECT count(*) FROM applications WHERE NOT is_deleted"), "1");
    struct report readable[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 3, 1, 0),
        snapshot_report(database, REPORT_SNAPSHOT_END, 3, 2, 0),
    };
    apply(database, readable, 2, &answer);
    assert_string_equal(query(database, "SELECT count(*) FROM resources WHERE NOT is_deleted"), "0");
    assert_string_equal(query(database, "SELECT count(*) FROM applications WHERE NOT is_deleted"), "0");
}

// The agent heard that an object was refused before it counted: its older row is still no reason for another snapshot.
static void what_is_refused_makes_no_second_snapshot(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct answer answer;
    struct report reports[] = {
        object_report(database, "a", 1, 1, "{}"),
        object_report(database, "b", 1, 2, "{}"),
        object_report(database, "gone", 1, 3, "{}"),
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 1, 0),
        object_report(database, "a", 2, 2, "broken"),
        object_report(database, "b", 2, 3, "{}"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 4, 1),
    };
    apply(database, reports, 7, &answer);
    assert_int_equal(answer.outcomes[4].result, REPORT_REFUSED);
    assert_int_equal(answer.outcomes[6].result, REPORT_APPLIED);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"), "a b");
}

// A snapshot of a session that is over comes late, as it may from a broker: a newer session's inventory was compared
// meanwhile, and what it told since happens to be as much as the old one counted.
static void an_old_sessions_snapshot_deletes_nothing(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct answer answer;
    struct report before[] = {object_report(database, "a", 1, 1, "{}"), object_report(database, "b", 1, 2, "{}")};
    apply(database, before, 2, &answer);
    query(database, "WITH p AS (UPDATE report_positions SET fence_epoch = 3 RETURNING 1) SELECT count(*) FROM p");
    assert_int_equal(apply_one(database, object_report(database, "c", 3, 1, "{}")), REPORT_APPLIED);
    struct report late[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 1, 0),
        object_report(database, "d", 2, 2, "{}"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 3, 1),
    };
    apply(database, late, 3, &answer);
    assert_int_equal(answer.outcomes[2].result, REPORT_RESYNC);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"), "a b c");
    // Also when it had begun before.
    query(database, "WITH p AS (UPDATE report_positions SET snapshot_epoch = 2, snapshot_sequence = 1 RETURNING 1)"
                    " SELECT count(*) FROM p");
    assert_int_equal(apply_one(database, late[2]), REPORT_RESYNC);
    assert_string_equal(query(database, "SELECT count(*) FROM resources WHERE NOT is_deleted"), "3");
}

// A report over HTTP at a time, in milliseconds after some start.
static struct report http_report(const struct database *database, const char *name, int64_t at_ms, const char *manifest)
{
    struct report report = object_report(database, name, 0, 0, manifest);
    report.source = REPORT_FROM_HTTP;
    report.observed_at_ms = START_MS * INT64_C(1000) + at_ms;
    report.desired_manifest = STR("{\"wish\":true}");
    report.commit_message = STR("a commit");
    report.revision = STR("abc");
    report.errors = STR("[{\"type\":\"sync\",\"level\":\"warning\",\"message\":\"careful\",\"lastSeen\":\"x\"}]");
    return report;
}

static void http_yields_to_tunnels(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    assert_int_equal(apply_one(database, http_report(database, "web", 10, "{\"n\":1}")), REPORT_APPLIED);
    assert_int_equal(apply_one(database, http_report(database, "web", 5, "{\"n\":0}")), REPORT_UNCHANGED);
    assert_int_equal(apply_one(database, http_report(database, "web", 10, "{\"n\":1}")), REPORT_UNCHANGED);
    assert_int_equal(apply_one(database, http_report(database, "web", 20, "{\"n\":2}")), REPORT_APPLIED);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 1, "{\"n\":3}")), REPORT_APPLIED);
    assert_int_equal(apply_one(database, http_report(database, "web", 30, "{\"n\":4}")), REPORT_UNCHANGED);
    struct report gone = http_report(database, "web", 40, "");
    gone.type = REPORT_DELETED;
    assert_int_equal(apply_one(database, gone), REPORT_UNCHANGED);
    // What only HTTP knows stays beside what the tunnel says.
    assert_string_equal(query(database,
                              "SELECT epoch || ' ' || commit_message || ' ' || (desired_sha256 IS NOT NULL) || "
                              "' ' || (source_errors -> 0 ->> '__typename') || ' ' || (source_errors -> 0 ->> "
                              "'level') FROM resources WHERE NOT is_deleted"),
                        "1 a commit true SyncError WARNING");
    // A snapshot over the tunnel does not take away what only HTTP reported.
    assert_int_equal(apply_one(database, http_report(database, "only-http", 1, "{}")), REPORT_APPLIED);
    struct report snapshot[] = {
        snapshot_report(database, REPORT_SNAPSHOT_BEGIN, 2, 1, 0),
        object_report(database, "web", 2, 2, "{\"n\":3}"),
        snapshot_report(database, REPORT_SNAPSHOT_END, 2, 3, 1),
    };
    struct answer answer;
    apply(database, snapshot, 3, &answer);
    assert_int_not_equal(answer.outcomes[2].result, REPORT_RESYNC);
    assert_string_equal(
        query(database, "SELECT string_agg(name, ' ' ORDER BY name) FROM resources WHERE NOT is_deleted"),
        "only-http web");
}

static void a_clock_that_runs_ahead_blocks_nobody(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report ahead = http_report(database, "web", 0, "{\"n\":1}");
    ahead.observed_at_ms = clock_wall_ms() + INT64_C(10) * 365 * 86400 * 1000;
    assert_int_equal(apply_one(database, ahead), REPORT_APPLIED);
    assert_string_equal(query(database, "SELECT observed_at < now() + interval '2 minutes' FROM resources"), "t");
}

static char *large_manifest(size_t bytes, int number)
{
    char *text = mem_alloc(bytes + 64);
    int start = snprintf(text, 64, "{\"n\":%d,\"pad\":\"", number);
    memset(text + start, 'x', bytes);
    snprintf(text + start + bytes, 8, "\"}");
    return text;
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static bool is_set(void *arg)
{
    return *(bool *)arg;
}

static void large_batches_leave_the_loop_and_come_back(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    AUTO_FREE char *first = large_manifest((size_t)3 * 1024 * 1024, 1);
    char *second = large_manifest((size_t)600 * 1024, 2);
    struct report reports[] = {object_report(database, "a", 1, 1, first), object_report(database, "b", 1, 2, second),
                               object_report(database, "c", 1, 3, "broken")};
    struct answer answer;
    answer_init(&answer, database);
    report_store_apply(database->pg, database_report_kinds(), reports, 3, answer_on_reports, &answer);
    memset(first, 'y', 100); // what was given may go at once
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_int_equal(answer.outcomes[0].result, REPORT_APPLIED);
    assert_int_equal(answer.outcomes[1].result, REPORT_APPLIED);
    assert_int_equal(answer.outcomes[2].result, REPORT_REFUSED);
    assert_string_equal(query(database, "SELECT max(plain_bytes) > 3000000 FROM manifests"), "t");

    // The pool closes meanwhile.
    struct pg *pg = pg_create(database->loop, &(struct pg_options){.conninfo = getenv("CULVERT_TEST_DATABASE_APP_URL"),
                                                                   .connections = 1,
                                                                   .queue_max = 10,
                                                                   .statement_timeout_ms = 1000});
    struct answer cancelled;
    bool is_closed = false;
    answer_init(&cancelled, database);
    reports[1].sequence = 9;
    report_store_apply(pg, database_report_kinds(), reports + 1, 1, answer_on_reports, &cancelled);
    pg_close(pg, set_true, &is_closed);
    database_run_until(database, is_set, &is_closed, 10);
    assert_true(cancelled.is_done);
    assert_int_equal(cancelled.code, ERROR_CANCELLED);
    mem_free(second);
}

static void the_sweep_takes_what_nothing_names(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    assert_int_equal(apply_one(database, object_report(database, "web", 1, 1, "{\"n\":1}")), REPORT_APPLIED);
    for (char number = 'a'; number < 'a' + 20; number++) {
        char manifest[] = "{\"n\":\"?\"}";
        manifest[6] = number;
        struct report report = object_report(database, "web", 1, 2 + (uint64_t)(number - 'a'), manifest);
        assert_int_equal(apply_one(database, report), REPORT_APPLIED);
    }
    database_sweep_manifests(database);
    assert_string_equal(query(database, "SELECT count(*) FROM manifests"), "21"); // too young
    query(database, "UPDATE manifests SET touched_at = now() - interval '2 hours'");
    database_sweep_manifests(database);
    assert_string_equal(query(database, "SELECT count(*) FROM manifests m JOIN resources r ON r.manifest_sha256 = "
                                        "m.sha256"),
                        "1");
    assert_string_equal(query(database, "SELECT count(*) FROM manifests"), "1");
    // A tombstone is kept for a week.
    struct report gone = object_report(database, "web", 1, 99, "");
    gone.type = REPORT_DELETED;
    assert_int_equal(apply_one(database, gone), REPORT_APPLIED);
    for (int round = 0; round < 2; round++) {
        struct answer answer;
        answer_init(&answer, database);
        report_store_sweep_tombstones(database->pg, 1000, answer_on_count, &answer);
        answer_wait(&answer);
        assert_int_equal(answer.code, ERROR_NONE);
        answer_finish(&answer);
        assert_string_equal(query(database, "SELECT count(*) FROM resources"), round ? "0" : "1");
        query(database, "UPDATE resources SET received_at = now() - interval '8 days'");
    }
}

// ---- hostile manifests
// -----------------------------------------------------------------------------------------------

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static json_t *nasty_value(uint64_t *seed)
{
    static const char *const texts[] = {"",
                                        "'; DROP TABLE applications; --",
                                        "\xf0\x9f\x92\xa9",
                                        "infinity",
                                        "$1",
                                        "0001-01-01T00:00:00Z",
                                        "9999-12-31T23:59:60Z",
                                        "2026-02-30T00:00:00Z",
                                        "\\u0000",
                                        "\xef\xbf\xbf",
                                        "-1",
                                        "NaN",
                                        "{}",
                                        "\x7f\x01\x1b[31m"};
    enum { TEXTS = sizeof texts / sizeof *texts, LONG = 9000 };
    char longest[LONG + 4];
    switch (next_random(seed) % 9) {
    case 0: return json_null();
    case 1: return json_integer(INT64_MAX);
    case 2: return json_integer(INT64_MIN);
    case 3: return json_real(1e308);
    case 4: return json_array();
    case 5: return json_pack("{s:{s:[i,s]}}", "a", "b", 1, "c");
    case 6: // two-byte characters, so that every cut falls inside one half of the time
        for (size_t i = 0; i < LONG; i += 2)
            memcpy(longest + i, "\xc3\xa9", 2);
        longest[LONG] = '\0';
        return json_sprintf("%s%s", next_random(seed) % 2 ? "x" : "", longest);
    case 7: return json_true();
    default: return json_string(texts[next_random(seed) % TEXTS]);
    }
}

// Walks to a random place and puts something else there.
static void spoil(json_t *value, uint64_t *seed)
{
    for (;;) {
        size_t size = json_is_object(value) ? json_object_size(value) : json_array_size(value);
        if (size == 0) return;
        size_t chosen = next_random(seed) % size;
        bool is_end = next_random(seed) % 4 == 0;
        json_t *next = NULL;
        if (json_is_object(value)) {
            void *at = json_object_iter(value);
            for (size_t i = 0; i < chosen; i++)
                at = json_object_iter_next(value, at);
            next = json_object_iter_value(at);
            if (is_end || (!json_is_object(next) && !json_is_array(next))) {
                json_object_iter_set_new(value, at, nasty_value(seed));
                return;
            }
        } else {
            next = json_array_get(value, chosen);
            if (is_end || (!json_is_object(next) && !json_is_array(next))) {
                json_array_set_new(value, chosen, nasty_value(seed));
                return;
            }
        }
        value = next;
    }
}

static const char full_application[] =
    "{\"metadata\":{\"uid\":\"u\",\"labels\":{\"a\":\"b\"},\"annotations\":{\"c\":\"d\","
    "\"rollout.argoproj.io/revision\":\"4\",\"argocd.argoproj.io/tracking-id\":\"a_b:g/k:n/m\","
    "\"app.meta.revisions-metadata\":\"{}\"},\"creationTimestamp\":"
    "\"2026-01-02T03:04:05Z\",\"ownerReferences\":[{\"kind\":\"K\",\"name\":\"n\",\"uid\":\"o\",\"controller\":true}]},"
    "\"spec\":{"
    "\"replicas\":2,\"revisionHistoryLimit\":3,\"strategy\":{\"canary\":{\"steps\":[{\"setWeight\":20},{\"pause\":{}}],"
    "\"stableService\":\"s\"}},\"entrypoint\":\"e\",\"templates\":[{\"name\":\"t\"}],\"workflowTemplateRef\":{\"name\":"
    "\"w\",\"clusterScope\":true},"
    "\"project\":\"p\",\"destination\":{\"server\":\"s\",\"namespace\":\"n\"},\"sources\":[{\"repoURL\":\"r\","
    "\"path\":\"p\",\"chart\":\"c\"}],\"source\":{\"repoURL\":\"r\",\"directory\":{\"include\":\"i\"}},"
    "\"syncPolicy\":{\"automated\":{\"enabled\":true}},\"template\":{\"spec\":{\"containers\":[{\"image\":\"i\"}]}}},"
    "\"status\":{\"phase\":\"Running\",\"progress\":\"1/"
    "2\",\"startedAt\":\"2026-01-02T03:04:05Z\",\"currentStepIndex\":1,"
    "\"readyReplicas\":1,\"currentPodHash\":\"c\",\"stableRS\":\"s\",\"canary\":{\"weights\":{\"canary\":{\"weight\":5}"
    "},"
    "\"currentStepAnalysisRunStatus\":{\"name\":\"r\",\"status\":\"Running\"}},\"metricResults\":[{\"name\":\"m\","
    "\"successful\":1,\"failed\":2}],\"nodes\":{\"n\":{\"id\":\"n\",\"type\":\"Pod\",\"phase\":\"Running\","
    "\"children\":[\"c\"]}},"
    "\"resourcesDuration\":{\"cpu\":1},\"sync\":{\"status\":\"Synced\",\"revision\":\"r\",\"revisions\":[\"a\"]},"
    "\"health\":{\"status\":"
    "\"Healthy\",\"message\":\"m\"},\"history\":[{\"id\":1,\"revision\":\"r\",\"deployedAt\":\"2026-01-02T03:04:05Z\","
    "\"initiatedBy\":{\"username\":\"u\"},\"source\":{\"repoURL\":\"r\"}},{\"id\":1},{\"id\":2}],\"conditions\":[{"
    "\"type\":\"SyncError\",\"message\":\"m\"}],\"operationState\":{\"phase\":\"Failed\",\"message\":\"m\","
    "\"startedAt\":\"2026-01-02T03:04:05Z\",\"retryCount\":1,\"operation\":{\"sync\":{\"revision\":\"r\"},"
    "\"initiatedBy\":{\"username\":\"u\"}},\"syncResult\":{\"revision\":\"r\",\"revisions\":[\"r\"],\"changeRevision\":"
    "\"c\",\"changeRevisions\":[\"c\"],"
    "\"resources\":[{\"kind\":\"K\",\"status\":\"Synced\"}]}}},"
    "\"name\":\"east\",\"server\":\"s\",\"clusters\":[\"c\"],\"connectionState\":{"
    "\"status\":\"Failed\","
    "\"attemptedAt\":\"2026-01-02T03:04:05Z\"},\"cacheInfo\":{\"resourcesCount\":1},\"namespaces\":[\"n\"]}";

static const char *const entity_kinds[] = {"Rollout", "ReplicaSet", "AnalysisRun", "Workflow"};
enum { ENTITY_KINDS = sizeof entity_kinds / sizeof *entity_kinds };

// Whatever a manifest holds, its batch is committed: bad ones are kept out before they reach SQL.
static const char every_workflow[] =
    "{workflows {edges {node {metadata {name created labels {key value}} spec {entrypoint templateNames} status {phase"
    " progress message startedAt finishedAt nodes {name phase} conditions {type} resourcesDuration {cpu memory}"
    " activePodName failedNodes {name}} initiator {userName} pipeline {spec {trigger}}}}}}";

static void no_manifest_sinks_its_batch(void **state)
{
    enum { EACH = 40, BATCHES = 15 };
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    const char *given = getenv("CULVERT_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : id_random_u64() | 1;
    print_message("CULVERT_TEST_SEED=%llu\n", (unsigned long long)seed);
    uint64_t sequence = 0;
    for (int round = 0; round < BATCHES; round++) {
        struct report reports[EACH];
        char names[EACH][32], *manifests[EACH];
        for (int i = 0; i < EACH; i++) {
            json_t *manifest = json_loads(full_application, 0, NULL);
            assert_non_null(manifest);
            for (uint64_t n = 1 + next_random(&seed) % 4; n > 0; n--)
                spoil(manifest, &seed);
            manifests[i] = json_dumps(manifest, JSON_COMPACT);
            json_decref(manifest);
            snprintf(names[i], sizeof names[i], "object-%d", (int)(next_random(&seed) % 30));
            reports[i] = object_report(database, names[i], 1, ++sequence, manifests[i]);
            reports[i].ref.uid = STR_EMPTY;
            if (i % 3 == 0) reports[i].ref.group = STR("argoproj.io");
            if (i % 3 == 0) reports[i].ref.kind = STR("Application");
            const char *kind = entity_kinds[next_random(&seed) % ENTITY_KINDS];
            if (i % 3 == 1) reports[i].ref.group = strcmp(kind, "ReplicaSet") ? STR("argoproj.io") : STR("apps");
            if (i % 3 == 1) reports[i].ref.kind = str_c(kind);
            if (i % 7 == 0) reports[i].type = REPORT_CLUSTER;
            if (i % 5 == 0) {
                reports[i].source = REPORT_FROM_HTTP;
                reports[i].errors = reports[i].desired_manifest = str_c(manifests[i]);
            }
        }
        struct answer answer;
        apply(database, reports, EACH, &answer); // fails the test on an error of the batch
        for (int i = 0; i < EACH; i++)
            free(manifests[i]);
    }
    // What went in can be read out again.
    json_t *slice = question_field(database, "{applications {edges {cursor}}}", NULL, "applications");
    assert_true(json_array_size(json_object_get(slice, "edges")) > 5);
    json_decref(slice);
    slice = question_field(database, every_workflow, NULL, "workflows");
    assert_true(json_array_size(json_object_get(slice, "edges")) > 0);
    json_decref(slice);
    slice = question_field(database, "{rollouts {edges {node {images}}}}", NULL, "rollouts");
    assert_true(json_array_size(json_object_get(slice, "edges")) > 0);
    json_decref(slice);
    slice = question_field(database, "{images {edges {node {uses {name}}}}}", NULL, "images");
    assert_true(json_array_size(json_object_get(slice, "edges")) > 0);
    json_decref(slice);
    json_decref(
        question_field(database, "{gitopsReleases {edges {node {manifests {sha256}}}}}", NULL, "gitopsReleases"));
}

// ---- every order ends alike
// ------------------------------------------------------------------------------------------

enum { OBJECTS = 6, STORY = 60, ROUNDS = 12 };

static const char rows_sql[] =
    "SELECT coalesce(string_agg(row_to_json(x)::text, E'\\n' ORDER BY x.kind, x.name, x.uid), '') FROM ("
    " SELECT kind, name, uid, encode(manifest_sha256, 'hex') AS manifest, sync_status, health_status, epoch, sequence"
    "   FROM resources WHERE NOT is_deleted AND runtime = 'prod'"
    " UNION ALL"
    " SELECT 'Application', name, uid, encode(manifest_sha256, 'hex'), sync_status, health_status, epoch, sequence"
    "   FROM applications WHERE NOT is_deleted AND runtime = 'prod'"
    " UNION ALL"
    " SELECT 'History', name || history_id, uid, revision, '', '', 0, 0 FROM deployments"
    " UNION ALL"
    " SELECT 'Operation', name || started_at, uid, phase, '', '', 0, 0 FROM application_operations) x";

struct story {
    struct report reports[STORY];
    char names[STORY][16], uids[STORY][16], manifests[STORY][1024];
};

static void tell_story(struct story *story, const struct database *database, uint64_t *seed)
{
    for (size_t i = 0; i < STORY; i++) {
        uint64_t which = next_random(seed) % OBJECTS, epoch = 1 + i / 20, version = next_random(seed) % 5;
        bool is_application = which % 2 == 0;
        snprintf(story->names[i], sizeof story->names[i], "object-%d", (int)which);
        snprintf(story->uids[i], sizeof story->uids[i], "uid-%d-%d", (int)which, (int)(i / 15));
        snprintf(
            story->manifests[i], sizeof story->manifests[i],
            "{\"metadata\":{\"uid\":\"%s\"},\"n\":%d,\"status\":{\"sync\":{\"status\":\"%s\"},\"history\":[{\"id\":%d,"
            "\"revision\":\"r%d\"},{\"id\":%d,\"revision\":\"r%d\"}],\"operationState\":{\"phase\":\"%s\","
            "\"startedAt\":\"2026-01-01T00:00:0%dZ\"}}}",
            story->uids[i], (int)i, version % 2 ? "Synced" : "OutOfSync", (int)i, (int)i, (int)i + 1, (int)i + 1,
            version % 3 ? "Succeeded" : "Failed", (int)version);
        story->reports[i] = object_report(database, story->names[i], epoch, i + 1, story->manifests[i]);
        struct report *report = &story->reports[i];
        report->ref.uid = str_c(story->uids[i]);
        if (is_application) {
            report->ref.group = STR("argoproj.io");
            report->ref.kind = STR("Application");
            report->ref.version = STR("v1alpha1");
        }
        if (next_random(seed) % 5 == 0) report->type = REPORT_DELETED;
    }
}

static void replay_and_shuffle_end_in_the_same_rows(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    const char *given = getenv("CULVERT_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : id_random_u64() | 1;
    print_message("CULVERT_TEST_SEED=%llu\n", (unsigned long long)seed);
    static struct story story;
    tell_story(&story, database, &seed);
    static struct report told[STORY * 2];
    static char expected[1 << 16];
    struct answer answer;
    for (unsigned round = 0; round < ROUNDS; round++) {
        database_make_runtime(database, "prod", id);
        size_t count = STORY;
        memcpy(told, story.reports, sizeof story.reports);
        for (size_t i = 0; round > 0 && i < STORY; i++) // some are told twice
            if (next_random(&seed) % 3 == 0) told[count++] = story.reports[i];
        for (size_t i = count - 1; round > 0 && i > 0; i--) {
            size_t k = next_random(&seed) % (i + 1);
            struct report swap = told[i];
            told[i] = told[k];
            told[k] = swap;
        }
        for (size_t done = 0; done < count;) {
            size_t some = 1 + next_random(&seed) % 20;
            if (some > count - done) some = count - done;
            apply(database, told + done, some, &answer);
            done += some;
        }
        const char *rows = query(database, rows_sql);
        if (round == 0)
            snprintf(expected, sizeof expected, "%s", rows);
        else
            assert_string_equal(rows, expected);
        answer_init(&answer, database);
        runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
        answer_wait(&answer);
        assert_int_equal(answer.count, 1);
        answer_finish(&answer);
        assert_string_equal(query(database, rows_sql), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_newer_reports_change_a_row),
        cmocka_unit_test(details_of_health_and_presence),
        cmocka_unit_test(resources_have_their_columns),
        cmocka_unit_test(a_bad_record_does_not_sink_its_batch),
        cmocka_unit_test(nothing_is_deleted_until_a_snapshot_matches),
        cmocka_unit_test(what_is_unread_is_not_gone),
        cmocka_unit_test(what_is_refused_makes_no_second_snapshot),
        cmocka_unit_test(an_old_sessions_snapshot_deletes_nothing),
        cmocka_unit_test(http_yields_to_tunnels),
        cmocka_unit_test(a_clock_that_runs_ahead_blocks_nobody),
        cmocka_unit_test(large_batches_leave_the_loop_and_come_back),
        cmocka_unit_test(the_sweep_takes_what_nothing_names),
        cmocka_unit_test(no_manifest_sinks_its_batch),
        cmocka_unit_test(replay_and_shuffle_end_in_the_same_rows),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
