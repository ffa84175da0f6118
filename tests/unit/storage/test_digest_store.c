// digest_store: the tree and the rows that the platform compares with an agent's, and the fence in front of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "database.h"
#include "storage/reports/digest_store.h"

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
                            .ref.uid = STR("u"),
                            .cluster = STR("in-cluster"),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = str_c(manifest)};
    // Any 32 bytes do for an entry.
    AUTO_FREE char *text = mem_printf("%s %s", name, manifest);
    id_sha256(text, strlen(text), report.content_hash);
    return report;
}

static enum report_result say(struct database *database, const char *name, uint64_t epoch, uint64_t sequence,
                              const char *manifest)
{
    return database_apply(database, object_report(database, name, epoch, sequence, manifest));
}

struct told {
    bool is_done, holds_any;
    enum error_code code;
    struct digest_store_tree tree;
    char names[1024];
    uint8_t entries[64][DIGEST_STORE_ENTRY_BYTES];
    size_t count, unread;
};

static bool is_done(void *arg)
{
    return ((struct told *)arg)->is_done;
}

static void on_tree(void *arg, const struct error *err, const struct digest_store_tree *tree)
{
    struct told *told = arg;
    told->is_done = true;
    told->code = err ? err->code : ERROR_NONE;
    if (tree) told->tree = *tree;
}

static void on_rows(void *arg, const struct error *err, const struct digest_store_row *rows, size_t count)
{
    struct told *told = arg;
    told->is_done = true;
    told->code = err ? err->code : ERROR_NONE;
    told->count = count;
    for (size_t i = 0; i < count; i++) {
        memcpy(told->entries[i], rows[i].entry, sizeof told->entries[i]);
        told->unread += rows[i].is_unread;
        size_t len = strlen(told->names);
        snprintf(told->names + len, sizeof told->names - len, "%.*s/%.*s/%.*s/%.*s/%.*s;", STR_ARG(rows[i].cluster),
                 STR_ARG(rows[i].ref.group), STR_ARG(rows[i].ref.kind), STR_ARG(rows[i].ref.ns),
                 STR_ARG(rows[i].ref.name));
    }
}

static void on_any(void *arg, const struct error *err, bool holds_any)
{
    struct told *told = arg;
    told->is_done = true;
    told->code = err ? err->code : ERROR_NONE;
    told->holds_any = holds_any;
}

static struct told told;

static const struct digest_store_tree *tree_of(struct database *database, uint64_t epoch)
{
    memset(&told, 0, sizeof told);
    digest_store_tree(database->pg, database->account, STR("prod"), epoch, on_tree, &told);
    database_run_until(database, is_done, &told, 20);
    assert_int_equal(told.code, ERROR_NONE);
    return &told.tree;
}

static bool holds_any(struct database *database)
{
    memset(&told, 0, sizeof told);
    digest_store_holds_any(database->pg, database->account, STR("prod"), on_any, &told);
    database_run_until(database, is_done, &told, 20);
    assert_int_equal(told.code, ERROR_NONE);
    return told.holds_any;
}

static void add(struct digest_store_tree *tree, const struct report *report)
{
    unsigned leaf = (unsigned)report->content_hash[0] << 4 | report->content_hash[1] >> 4;
    for (size_t i = 0; i < DIGEST_STORE_NODE_BYTES; i++)
        tree->nodes[leaf][i] ^= report->content_hash[8 + i];
    tree->leaf_rows[leaf]++;
    tree->rows++;
}

static void tree_is_what_agents_said_last(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    assert_false(holds_any(database));
    assert_int_equal(tree_of(database, 1)->rows, 0);
    struct digest_store_tree *expected = mem_zalloc(sizeof *expected);
    char name[32];
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "object-%u", i);
        struct report report = object_report(database, name, 1, 10 + i, "{}");
        if (i % 4 == 0) {
            report.ref.group = STR("argoproj.io");
            report.ref.kind = STR("Application");
        }
        assert_int_equal(database_apply(database, report), REPORT_APPLIED);
        add(expected, &report);
    }
    // What HTTP alone reported, what is gone and what belongs to others is in no tree.
    struct report http = object_report(database, "by-http", 0, 0, "{}");
    http.source = REPORT_FROM_HTTP;
    assert_int_equal(database_apply(database, http), REPORT_APPLIED);
    say(database, "gone", 1, 90, "{}");
    struct report gone = object_report(database, "gone", 1, 91, "");
    gone.type = REPORT_DELETED;
    assert_int_equal(database_apply(database, gone), REPORT_APPLIED);
    const struct digest_store_tree *tree = tree_of(database, 1);
    assert_false(tree->is_fenced || tree->is_partial);
    assert_memory_equal(tree, expected, sizeof *tree);
    assert_true(holds_any(database));
    mem_free(expected);
}

static void rows_of_some_leaves(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct report one = object_report(database, "one", 1, 1, "{}"), two = object_report(database, "two", 1, 2, "{}");
    memset(one.content_hash, 0x01, 2); // leaf 0x010
    memset(two.content_hash, 0xff, 2); // leaf 0xfff
    two.ref.group = STR("argoproj.io");
    two.ref.kind = STR("Application");
    database_apply(database, one);
    database_apply(database, two);
    uint8_t leaves[DIGEST_STORE_LEAVES / 8] = {0};
    leaves[0x010 / 8] = 1;
    for (int round = 0; round < 2; round++) {
        memset(&told, 0, sizeof told);
        digest_store_rows(database->pg, database->account, STR("prod"), leaves, STR("argoproj.io/Application\n"),
                          on_rows, &told);
        database_run_until(database, is_done, &told, 20);
        assert_int_equal(told.code, ERROR_NONE);
        assert_int_equal(told.unread, round);
        assert_string_equal(told.names, round == 0 ? "in-cluster/apps/Deployment/shop/one;"
                                                   : "in-cluster/argoproj.io/Application/shop/two;");
        assert_memory_equal(told.entries[0], round == 0 ? one.content_hash : two.content_hash, sizeof told.entries[0]);
        memset(leaves, 0, sizeof leaves);
        leaves[0xfff / 8] = 0x80;
    }
}

static void a_row_without_an_entry_makes_the_tree_a_part(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], ignored[64];
    database_make_runtime(database, "prod", id);
    say(database, "web", 1, 1, "{}");
    assert_false(tree_of(database, 1)->is_partial);
    database_query(database->account, "UPDATE resources SET content_hash = NULL RETURNING 1", ignored, sizeof ignored);
    assert_true(tree_of(database, 1)->is_partial);
}

static void what_was_refused_counts_as_said(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], text[64];
    database_make_runtime(database, "prod", id);
    struct digest_store_tree *expected = mem_zalloc(sizeof *expected);
    say(database, "web", 1, 1, "{}");
    struct report worse = object_report(database, "web", 1, 2, "broken"),
                  never = object_report(database, "x", 1, 3, "[]");
    assert_int_equal(database_apply(database, worse), REPORT_REFUSED);
    assert_int_equal(database_apply(database, never), REPORT_REFUSED);
    struct report kept_out = object_report(database, "huge", 1, 4, "");
    kept_out.type = REPORT_KEPT_OUT; // it never came whole
    kept_out.errors = STR("too large");
    assert_int_equal(database_apply(database, kept_out), REPORT_REFUSED);
    add(expected, &worse);
    add(expected, &never);
    add(expected, &kept_out);
    assert_memory_equal(tree_of(database, 1), expected, sizeof *expected);
    database_query(database->account, "SELECT string_agg(name, ' ') FROM resources WHERE NOT is_deleted", text,
                   sizeof text);
    assert_string_equal(text, "web"); // as it was, and nothing of the other
    // Its agent deletes it: it is said no more.
    never.type = REPORT_DELETED;
    never.sequence = 5;
    database_apply(database, never);
    memset(expected, 0, sizeof *expected);
    add(expected, &worse);
    add(expected, &kept_out);
    assert_memory_equal(tree_of(database, 1), expected, sizeof *expected);
    mem_free(expected);
}

// What a former session still has on its way comes after the comparison, and must not change what was compared.
static void the_fence_keeps_former_sessions_out(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], text[64];
    database_make_runtime(database, "prod", id);
    say(database, "web", 5, 1, "{}");
    assert_true(tree_of(database, 5)->rows == 1);
    assert_false(tree_of(database, 6)->is_fenced);
    assert_int_equal(say(database, "web", 5, 2, "{\"a\":1}"), REPORT_UNCHANGED);
    assert_int_equal(say(database, "ghost", 5, 3, "{}"), REPORT_UNCHANGED);
    struct report gone = object_report(database, "web", 5, 4, "");
    gone.type = REPORT_DELETED;
    assert_int_equal(database_apply(database, gone), REPORT_UNCHANGED);
    assert_int_equal(say(database, "bad", 5, 5, "broken"), REPORT_REFUSED);
    assert_int_equal(tree_of(database, 6)->rows, 1);
    database_query(database->account, "SELECT string_agg(name || is_deleted || sequence, ' ') FROM resources", text,
                   sizeof text);
    assert_string_equal(text, "webfalse1");
    // The session itself and HTTP get through; an older one that asks is told that it is too late.
    assert_int_equal(say(database, "web", 6, 1, "{\"a\":1}"), REPORT_APPLIED);
    struct report http = object_report(database, "by-http", 0, 0, "{}");
    http.source = REPORT_FROM_HTTP;
    assert_int_equal(database_apply(database, http), REPORT_APPLIED);
    assert_true(tree_of(database, 5)->is_fenced);
    // A snapshot fences, too.
    struct report begin = {.type = REPORT_SNAPSHOT_BEGIN,
                           .source = REPORT_FROM_TUNNEL,
                           .account_id = str_c(database->account),
                           .runtime = STR("prod"),
                           .epoch = 8,
                           .sequence = 1};
    database_apply(database, begin);
    assert_int_equal(say(database, "late", 7, 1, "{}"), REPORT_UNCHANGED);
}

static void an_unknown_runtime_is_fenced(void **state)
{
    struct database *database = database_of(state);
    assert_true(tree_of(database, 1)->is_fenced);
}

// An epoch must be above all that was ever reported, even if the table of epochs came from an older backup.
static void epochs_stay_above_what_was_reported(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    uint64_t epoch = database_open_session(database, "prod", id, "replica");
    say(database, "web", epoch + 40, 1, "{}");
    assert_int_equal(database_open_session(database, "prod", id, "replica"), epoch + 41);
    tree_of(database, epoch + 60);
    assert_int_equal(database_open_session(database, "prod", id, "replica"), epoch + 61);
    assert_int_equal(database_open_session(database, "prod", id, "replica"), epoch + 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_is_what_agents_said_last),
        cmocka_unit_test(rows_of_some_leaves),
        cmocka_unit_test(a_row_without_an_entry_makes_the_tree_a_part),
        cmocka_unit_test(what_was_refused_counts_as_said),
        cmocka_unit_test(the_fence_keeps_former_sessions_out),
        cmocka_unit_test(an_unknown_runtime_is_fenced),
        cmocka_unit_test(epochs_stay_above_what_was_reported),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
