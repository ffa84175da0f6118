// What accounts and runtimes store is counted in the transaction that stores it, whoever writes or removes it, and what
// does not fit into their quotas stays out until there is room.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "database.h"
#include "modules/annotations/annotation_store.h"
#include "modules/events/cloud_event_store.h"
#include "modules/images/image_store.h"
#include "modules/runtimes/runtime_error_store.h"
#include "modules/runtimes/runtime_store.h"
#include "storage/manifests/manifest_known.h"
#include "storage/reports/report_store.h"
#include "storage/reports/storage_usage_store.h"

enum { TEXTS = 600, TEXT_BYTES = 24 * 1024 };

// Memory of the reports of one test.
static char texts[TEXTS][TEXT_BYTES];
static size_t texts_used;

static const char *query(struct database *database, const char *sql)
{
    static char out[4][1024];
    static size_t next;
    char *to = out[next++ % 4];
    database_query(database->account, sql, to, sizeof out[0]);
    return to;
}

// A manifest of about so many bytes that nothing makes smaller.
static const char *manifest_of(const char *kind, size_t bytes)
{
    assert_true(texts_used < TEXTS && bytes < TEXT_BYTES - 600);
    char *text = texts[texts_used++];
    uint8_t random[TEXT_BYTES / 2];
    id_random(random, sizeof random);
    int head = snprintf(text, TEXT_BYTES,
                        "{\"metadata\":{\"uid\":\"u\",\"labels\":{\"app\":\"web\"}},\"spec\":{\"template\":{\"spec\":{"
                        "\"containers\":[{\"image\":\"nginx:%s\"}]}}},\"flapping\":\"",
                        kind);
    size_t at = (size_t)head;
    for (size_t i = 0; at < bytes; i++)
        text[at++] = (char)('a' + random[i % sizeof random] % 26);
    snprintf(text + at, TEXT_BYTES - at, "\"}");
    return text;
}

static struct report object(const struct database *database, const char *runtime, const char *kind, const char *name,
                            uint64_t sequence, const char *manifest)
{
    bool is_argo = strcmp(kind, "Application") == 0 || strcmp(kind, "Rollout") == 0 || strcmp(kind, "Workflow") == 0;
    struct report report = {.type = manifest ? REPORT_OBJECT : REPORT_DELETED,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = str_c(runtime),
                            .epoch = 1,
                            .sequence = sequence,
                            .ref.group = is_argo ? STR("argoproj.io") : STR("apps"),
                            .ref.version = STR("v1"),
                            .ref.kind = str_c(kind),
                            .ref.ns = STR("shop"),
                            .ref.name = str_c(name),
                            .ref.uid = STR("u"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = manifest ? str_c(manifest) : STR_EMPTY};
    id_sha256(report.manifest.at ? report.manifest.at : "", report.manifest.len, report.content_hash);
    return report;
}

struct applying {
    struct report_transaction *transaction;
    bool is_ready;
};

static void on_ready(void *arg)
{
    ((struct applying *)arg)->is_ready = true;
}

static bool is_ready(void *arg)
{
    return ((struct applying *)arg)->is_ready;
}

// As a lane does: what ended in a conflict is made anew.
static struct answer apply(struct database *database, struct manifest_known *known, const struct report *reports,
                           size_t count)
{
    struct answer answer;
    for (unsigned tries = 0; tries < 3; tries++) {
        struct applying applying = {0};
        applying.transaction =
            report_store_prepare(database->pg, database_report_kinds(), known, reports, count, on_ready, &applying);
        database_run_until(database, is_ready, &applying, 20);
        answer_init(&answer, database);
        report_transaction_submit(applying.transaction, answer_on_reports, &answer);
        answer_wait(&answer);
        if (answer.code != ERROR_CONFLICT) break;
    }
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    assert_int_equal(answer.outcome_count, count);
    return answer;
}

static enum report_result apply_one(struct database *database, struct manifest_known *known, struct report report)
{
    return apply(database, known, &report, 1).outcomes[0].result;
}

static const char usage_sql[] =
    "SELECT string_agg(concat_ws(' ', runtime, bytes, rows), ', ' ORDER BY runtime) FROM ("
    "SELECT runtime, sum(bytes) AS bytes, sum(rows) AS rows FROM (SELECT runtime, bytes, rows FROM storage_usage UNION "
    "ALL SELECT runtime, bytes, rows FROM storage_usage_changes) u GROUP BY runtime) s WHERE bytes <> 0 OR rows <> 0";

// What was counted step by step is what counting anew comes to.
static void expect_true_count(struct database *database, const char *after)
{
    char counted[1024], known[1024];
    snprintf(counted, sizeof counted, "%s", query(database, usage_sql));
    query(database, "SELECT storage_recount(current_setting('app.account_id'))");
    snprintf(known, sizeof known, "%s", query(database, usage_sql));
    if (strcmp(counted, known) != 0) fail_msg("after %s: counted <%s>, there are <%s>", after, counted, known);
}

static long long used_bytes(struct database *database)
{
    return atoll(query(database, "SELECT used_bytes FROM storage_room(current_setting('app.account_id'), '')"));
}

static void set_quota(struct database *database, const char *columns)
{
    char sql[256];
    snprintf(sql, sizeof sql, "UPDATE accounts SET %s", columns);
    query(database, sql);
}

static void sweep(struct database *database)
{
    query(database, "UPDATE manifests SET touched_at = now() - interval '2 hours'");
    database_sweep_manifests(database);
    query(database, "UPDATE manifests SET touched_at = now()"); // so that no other test's sweep takes any
}

static void fold(struct database *database)
{
    struct answer answer;
    do {
        answer_init(&answer, database);
        storage_usage_store_fold(database->pg, 1000, answer_on_count, &answer);
        answer_wait(&answer);
        assert_int_equal(answer.code, ERROR_NONE);
    } while (answer.count > 0);
}

static void put_others(struct database *database, const char *json)
{
    struct answer answer;
    answer_init(&answer, database);
    image_store_put(database->pg, database->account, STR_EMPTY, STR("image"), str_c(json), answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    answer_finish(&answer);
    const struct annotation annotation = {
        STR("image"), STR("id"), STR("issue"), STR("key"), STR_EMPTY, str_c(json), STR_EMPTY,
    };
    annotation_store_put(database->pg, database->account, &annotation, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_init(&answer, database);
    const struct cloud_event event = {.id = STR("1"), .source = STR("git"), .type = STR("push"), .json = str_c(json)};
    cloud_event_store_put(database->pg, database->account, STR("prod"), &event, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
}

static const char application_text[] =
    "{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"source\":{\"repoURL\":\"https://git/shop\"}},\"status\":{\"history\":[{"
    "\"id\":1,\"revision\":\"abc\",\"deployedAt\":\"%s\"},{\"id\":2,\"revision\":\"def\",\"deployedAt\":\"%s\"}],"
    "\"operationState\":{\"phase\":\"Succeeded\",\"startedAt\":\"%s\",\"message\":\"%s\"}}}";

static void every_writer_counts(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES], now[CLOCK_RFC3339_BYTES], application[2048];
    database_make_runtime(database, "prod", id);
    database_make_runtime(database, "test", id);
    clock_format_rfc3339(clock_wall_ms(), now);
    texts_used = 0;
    const char *shared = manifest_of("shared", 5000);
    snprintf(application, sizeof application, application_text, now, now, now, "well");
    struct report first[] = {
        object(database, "prod", "Deployment", "a", 1, shared),
        object(database, "test", "Deployment", "a", 1, shared),
        object(database, "prod", "Rollout", "r", 2, manifest_of("r", 2000)),
        object(database, "prod", "Workflow", "w", 3, manifest_of("w", 2000)),
        object(database, "prod", "Application", "shop", 4, application),
        object(database, "prod", "Deployment", "bad", 5, "no json"),
        object(database, "prod", "Deployment", "never", 6, NULL),
        object(database, "prod", "Deployment", "b", 7, manifest_of("b", 100)),
    };
    first[7].source = REPORT_FROM_HTTP;
    first[7].epoch = first[7].sequence = 0;
    first[7].desired_manifest = str_c(manifest_of("desired", 3000));
    first[7].commit_message = STR("why");
    first[7].revision = STR("abc");
    apply(database, known, first, 8);
    expect_true_count(database, "objects that are new");
    assert_true(used_bytes(database) > 5000 + 2000 + 2000 + 3000);
    assert_true(used_bytes(database) < 40000);
    apply(database, known, first, 8);
    expect_true_count(database, "the same again");
    struct report second[] = {
        object(database, "prod", "Deployment", "a", 11, manifest_of("longer", 9000)),
        object(database, "prod", "Deployment", "a", 12, manifest_of("shorter", 1000)),
        object(database, "prod", "Rollout", "r", 13, NULL),
        object(database, "prod", "Deployment", "bad", 14, manifest_of("good", 700)),
        object(database, "test", "Deployment", "a", 2, NULL),
        object(database, "test", "Deployment", "a", 3, shared),
        object(database, "prod", "Application", "shop", 15, NULL),
    };
    apply(database, known, second, 7);
    expect_true_count(database, "changes and deletions");
    put_others(database, "{\"imageName\":\"nginx\"}");
    expect_true_count(database, "an image, an annotation, an event");
    put_others(database, "{\"imageName\":\"nginx\",\"branch\":\"main\"}");
    expect_true_count(database, "the same of another size");
    fold(database);
    expect_true_count(database, "adding up");
    assert_string_equal(query(database, "SELECT count(*) FROM storage_usage_changes"), "0");
    // A snapshot that names only one of them.
    struct report snapshot[] = {object(database, "prod", "", "", 20, NULL),
                                object(database, "prod", "Deployment", "a", 21, shared),
                                object(database, "prod", "", "", 22, NULL)};
    snapshot[0].type = REPORT_SNAPSHOT_BEGIN;
    snapshot[2].type = REPORT_SNAPSHOT_END;
    snapshot[0].epoch = snapshot[1].epoch = snapshot[2].epoch = 2;
    snapshot[2].count = 1;
    struct answer answer = apply(database, known, snapshot, 3);
    assert_int_equal(answer.outcomes[2].result, REPORT_APPLIED);
    expect_true_count(database, "the end of a snapshot");
    sweep(database);
    expect_true_count(database, "a sweep of manifests");
    query(database, "UPDATE resources SET received_at = now() - interval '8 days' WHERE is_deleted");
    answer_init(&answer, database);
    report_store_sweep_tombstones(database->pg, 1000, answer_on_count, &answer);
    answer_wait(&answer);
    expect_true_count(database, "a sweep of tombstones");
    answer_init(&answer, database);
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    expect_true_count(database, "the runtime's deletion");
    sweep(database);
    expect_true_count(database, "a sweep of what it left");
    assert_string_equal(query(database, "SELECT coalesce(sum(rows), 0) FROM storage_usage WHERE runtime = 'prod'"),
                        "0");
    manifest_known_destroy(known);
}

// A transaction that is not committed counts nothing, one that is made anew counts once.
static void older_reports_count_nothing(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    texts_used = 0;
    const char *newer = manifest_of("new", 2000), *older = manifest_of("old", 6000);
    apply_one(database, NULL, object(database, "prod", "Deployment", "a", 9, newer));
    char before[1024];
    snprintf(before, sizeof before, "%s", query(database, usage_sql));
    assert_int_equal(apply_one(database, NULL, object(database, "prod", "Deployment", "a", 9, newer)),
                     REPORT_UNCHANGED);
    assert_string_equal(query(database, usage_sql), before);
    // Its manifest is there until it is swept, its row is not.
    assert_int_equal(apply_one(database, NULL, object(database, "prod", "Deployment", "a", 8, older)),
                     REPORT_UNCHANGED);
    expect_true_count(database, "an older one");
    assert_string_equal(query(database, "SELECT sum(rows) FROM storage_usage"), "1");
}

// "LEVEL healthStatus message" of what the runtime shows about its quota; "" of nothing.
static const char *finding(struct database *database)
{
    static char text[512];
    struct answer answer;
    json_t *each;
    size_t i;
    answer_init(&answer, database);
    runtime_store_get(database->pg, database->account, STR("prod"), answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    json_t *node = json_loads(answer.node, JSON_REJECT_DUPLICATES, NULL);
    text[0] = '\0';
    json_array_foreach(json_get_array(node, "errors"), i, each)
    {
        if (!str_eq(json_get_str(each, "title"), STR("Storage quota"))) continue;
        snprintf(text, sizeof text, "%.*s %.*s", STR_ARG(json_get_str(each, "level")),
                 STR_ARG(json_get_str(each, "message")));
    }
    json_decref(node);
    answer_finish(&answer);
    return text;
}

// A quota that is nearly used up is a warning; one that is, or that refuses reports, is an error.
static void a_quota_is_a_finding_of_its_runtime(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES], name[16];
    database_make_runtime(database, "prod", id);
    texts_used = 0;
    assert_string_equal(finding(database), "");
    for (uint64_t i = 1; i <= 10; i++) {
        snprintf(name, sizeof name, "o%d", (int)i);
        assert_int_equal(
            apply_one(database, known, object(database, "prod", "Deployment", name, i, manifest_of(name, 500))),
            REPORT_APPLIED);
    }
    set_quota(database, "quota_runtime_rows = 12");
    assert_string_equal(finding(database), "");
    set_quota(database, "quota_runtime_rows = 11");
    assert_non_null(strstr(finding(database), "WARNING storage quota of the runtime: "));
    assert_non_null(strstr(finding(database), " and 10 of 11 rows are used (STORAGE_QUOTA)"));
    set_quota(database, "quota_rows = 10");
    assert_non_null(strstr(finding(database), "ERROR storage quota of the account: "));
    assert_null(strstr(finding(database), "refused"));
    set_quota(database, "quota_rows = NULL");
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "x", 100, manifest_of("x", 20000))),
        REPORT_APPLIED);
    set_quota(database, "quota_runtime_rows = NULL, "
                        "quota_runtime_bytes = (SELECT sum(bytes) * 1.25 FROM storage_usage)");
    assert_string_equal(finding(database), "");
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "y", 101, manifest_of("y", 20000))),
        REPORT_OVER_QUOTA);
    assert_non_null(strstr(finding(database), "ERROR storage quota of the runtime: "));
    assert_non_null(strstr(finding(database), "; reports are refused, the last at "));
    // It ends some minutes after the last refusal.
    query(database, "UPDATE storage_usage SET refused_at = now() - interval '16 minutes'");
    assert_string_equal(finding(database), "");
    manifest_known_destroy(known);
}

static void what_grows_stops_at_the_quota(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES], name[16];
    database_make_runtime(database, "prod", id);
    texts_used = 0;
    set_quota(database, "quota_runtime_bytes = 1000000, quota_bytes = 3000000");
    // 118 of them would be as many times the quota.
    size_t applied = 0, refused = 0;
    struct report reports[40];
    char names[40][16];
    for (uint64_t sequence = 1; sequence <= 240; sequence += 40) {
        for (uint64_t i = 0; i < 40; i++) {
            snprintf(names[i], sizeof names[i], "o%d", (int)(sequence + i));
            reports[i] = object(database, "prod", "Deployment", names[i], sequence + i, manifest_of(names[i], 12000));
        }
        struct answer answer = apply(database, known, reports, 40);
        for (size_t i = 0; i < 40; i++) {
            bool is_in = answer.outcomes[i].result == REPORT_APPLIED;
            if (!is_in) {
                assert_int_equal(answer.outcomes[i].result, REPORT_OVER_QUOTA);
                assert_non_null(strstr(answer.text, "storage quota of the runtime: "));
            }
            is_in ? applied++ : refused++;
        }
    }
    assert_true(applied > 60 && refused > 60);
    assert_true(used_bytes(database) <= 1000000);
    assert_true(used_bytes(database) > 980000); // to the brim
    snprintf(name, sizeof name, "%zu", refused);
    assert_string_equal(query(database, "SELECT refused FROM storage_usage WHERE runtime = 'prod'"), name);
    snprintf(name, sizeof name, "%zu", applied);
    assert_string_equal(query(database, "SELECT count(*) FROM resources"), name); // nothing is left of the others
    expect_true_count(database, "refusals");
    // Another runtime goes on, and what does not grow; what grows does not.
    database_make_runtime(database, "test", id);
    assert_int_equal(
        apply_one(database, known, object(database, "test", "Deployment", "x", 1, manifest_of("x", 12000))),
        REPORT_APPLIED);
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "o1", 901, manifest_of("s", 9000))),
        REPORT_APPLIED);
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "o1", 902, manifest_of("g", 15000))),
        REPORT_OVER_QUOTA);
    assert_string_equal(query(database, "SELECT sequence FROM resources WHERE name = 'o1'"), "902"); // is named
    set_quota(database, "quota_runtime_bytes = 900000");
    assert_int_equal(apply_one(database, known, object(database, "prod", "Deployment", "gone", 903, NULL)),
                     REPORT_OVER_QUOTA); // was never there
    for (uint64_t i = 2; i <= 40; i++) {
        snprintf(name, sizeof name, "o%d", (int)i);
        assert_int_equal(apply_one(database, known, object(database, "prod", "Deployment", name, 910 + i, NULL)),
                         REPORT_APPLIED);
    }
    expect_true_count(database, "deletions at the quota");
    // What was deleted makes room when its manifests are swept.
    sweep(database);
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "o1", 999, manifest_of("g", 15000))),
        REPORT_APPLIED);
    expect_true_count(database, "recovery");
    manifest_known_destroy(known);
}

// What does not grow leaves what it replaced behind, for a while: a quarter of the quota, and no more.
static void what_does_not_grow_has_a_bound(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    texts_used = 0;
    set_quota(database, "quota_bytes = 200000");
    uint64_t sequence = 1;
    size_t applied = 0;
    for (; sequence < 100; sequence++)
        if (apply_one(database, known,
                      object(database, "prod", "Deployment", "a", sequence, manifest_of("x", 20000 - 10 * sequence))) ==
            REPORT_APPLIED)
            applied++;
    if (applied < 12 || applied > 40) fail_msg("%zu", applied);
    assert_true(used_bytes(database) > 200000 && used_bytes(database) <= 250000);
    assert_int_equal(apply_one(database, known, object(database, "prod", "Deployment", "a", sequence++, NULL)),
                     REPORT_APPLIED);
    sweep(database);
    assert_true(used_bytes(database) < 5000);
    manifest_known_destroy(known);
}

static void rows_have_a_quota(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES], names[30][16];
    struct report reports[30];
    database_make_runtime(database, "prod", id);
    texts_used = 0;
    set_quota(database, "quota_rows = 10");
    for (uint64_t i = 0; i < 30; i++) {
        snprintf(names[i], sizeof names[i], "o%d", (int)i);
        reports[i] = object(database, "prod", "Deployment", names[i], i + 1, manifest_of(names[i], 500));
    }
    struct answer answer = apply(database, known, reports, 30);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(answer.outcomes[i].result, i < 10 ? REPORT_APPLIED : REPORT_OVER_QUOTA);
    assert_non_null(strstr(answer.text, "and 0 of 10 rows are left"));
    assert_int_equal(apply_one(database, known, object(database, "prod", "Deployment", "o3", 100, NULL)),
                     REPORT_APPLIED);
    assert_int_equal(
        apply_one(database, known, object(database, "prod", "Deployment", "o29", 101, manifest_of("x", 500))),
        REPORT_APPLIED);
    expect_true_count(database, "ten rows");
    manifest_known_destroy(known);
}

// What people and pipelines write obeys it, too.
static void other_writers_are_refused(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    put_others(database, "{\"imageName\":\"nginx\",\"branch\":\"a-branch-with-a-name\"}");
    set_quota(database, "quota_bytes = 1");
    char before[1024];
    snprintf(before, sizeof before, "%s", query(database, usage_sql));
    struct answer answer;
    answer_init(&answer, database);
    image_store_put(database->pg, database->account, STR_EMPTY, STR("other"), STR("{\"imageName\":\"nginx\"}"),
                    answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_LIMITED);
    assert_non_null(strstr(answer.text, "storage quota of the account: "));
    answer_init(&answer, database);
    const struct cloud_event event = {.id = STR("2"), .source = STR("git"), .type = STR("push"), .json = STR("{}")};
    cloud_event_store_put(database->pg, database->account, STR("prod"), &event, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_LIMITED);
    answer_init(&answer, database);
    struct annotation annotation = {
        STR("image"),
        STR("id"),
        STR("issue"),
        STR("key"),
        STR_EMPTY,
        STR("{\"a\":\"much longer than what is there now, "
            "and so it stays out of this table\"}"),
        STR_EMPTY,
    };
    annotation_store_put(database->pg, database->account, &annotation, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_LIMITED);
    assert_string_equal(query(database, usage_sql), before);
    answer_init(&answer, database);
    annotation.value = STR("{}");
    annotation_store_put(database->pg, database->account, &annotation, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    // Another account goes on.
    char first[ID_ACCOUNT_BYTES];
    memcpy(first, database->account, sizeof first);
    database = database_of(state);
    database_make_runtime(database, "prod", id);
    put_others(database, "{\"imageName\":\"nginx\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_writer_counts),
        cmocka_unit_test(older_reports_count_nothing),
        cmocka_unit_test(a_quota_is_a_finding_of_its_runtime),
        cmocka_unit_test(what_grows_stops_at_the_quota),
        cmocka_unit_test(what_does_not_grow_has_a_bound),
        cmocka_unit_test(rows_have_a_quota),
        cmocka_unit_test(other_writers_are_refused),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
