// tunnel/directory: newest epoch wins, and only the newest gets calls.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tunnel/directory.h"

struct matches {
    unsigned count;
    uint64_t ids[16];
};

static void on_match(void *arg, struct tunnel_session_ref ref)
{
    struct matches *matches = arg;
    matches->ids[matches->count++ % 16] = ref.id;
}

static struct tunnel_entry *add(struct tunnel_directory *directory, const char *runtime, uint64_t id, const char *token)
{
    struct tunnel_session_info info = {.ref = {.node = 1, .id = id}};
    snprintf(info.identity.account_id, sizeof(info.identity.account_id), "acc");
    snprintf(info.identity.runtime, sizeof(info.identity.runtime), "%s", runtime);
    snprintf(info.identity.token_id, sizeof(info.identity.token_id), "%s", token);
    return tunnel_directory_add(directory, &info);
}

static uint64_t find(struct tunnel_directory *directory, const char *runtime)
{
    struct tunnel_session_ref ref;
    return tunnel_directory_find(directory, STR("acc"), str_c(runtime), 0, &ref) ? ref.id : 0;
}

static void test_newest_epoch_wins(void **state)
{
    (void)state;
    struct tunnel_directory *directory = tunnel_directory_create(clock_mono_ms);
    struct matches older = {0};
    uint64_t newer = 0;
    struct tunnel_entry *one = add(directory, "demo", 1, "t1");
    struct tunnel_entry *two = add(directory, "demo", 2, "t2");
    struct tunnel_entry *three = add(directory, "demo", 3, "t2");
    struct tunnel_entry *other = add(directory, "other", 4, "t1");
    assert_int_equal(find(directory, "demo"), 0); // nobody has an epoch yet
    assert_int_equal(tunnel_directory_open(directory, one, 5, on_match, &older, &newer), ERROR_NONE);
    assert_int_equal(older.count, 0);
    assert_int_equal(find(directory, "demo"), 1);
    assert_int_equal(tunnel_directory_open(directory, two, 5, on_match, &older, &newer), ERROR_CONFLICT);
    assert_int_equal(tunnel_directory_open(directory, two, 4, on_match, &older, &newer), ERROR_CONFLICT);
    assert_int_equal(newer, 5);
    assert_int_equal(find(directory, "demo"), 1);
    assert_int_equal(tunnel_directory_open(directory, three, 6, on_match, &older, &newer), ERROR_NONE);
    assert_int_equal(older.count, 1); // two has no epoch: it waits for its own answer
    assert_int_equal(older.ids[0], 1);
    assert_int_equal(find(directory, "demo"), 3);
    assert_int_equal(tunnel_directory_open(directory, other, 1, on_match, &older, &newer), ERROR_NONE);
    assert_int_equal(older.count, 1);

    tunnel_directory_remove(directory, one); // an old one that goes takes nothing along
    assert_int_equal(find(directory, "demo"), 3);
    tunnel_directory_retire(directory, three);
    assert_int_equal(find(directory, "demo"), 0);
    assert_true(tunnel_directory_was_here(directory, STR("acc"), STR("demo"), 1000));
    assert_false(tunnel_directory_was_here(directory, STR("acc"), STR("nobody"), 1000));
    tunnel_directory_remove(directory, two);
    tunnel_directory_remove(directory, three);
    tunnel_directory_remove(directory, other);
    assert_int_equal(find(directory, "other"), 0);
    tunnel_directory_destroy(directory);
}

static void test_matching(void **state)
{
    (void)state;
    struct tunnel_directory *directory = tunnel_directory_create(clock_mono_ms);
    struct tunnel_entry *entries[3] = {add(directory, "demo", 1, "t1"), add(directory, "demo", 2, "t2"),
                                       add(directory, "other", 3, "t1")};
    struct matches ignored = {0}, found = {0};
    uint64_t newer;
    assert_int_equal(tunnel_directory_open(directory, entries[0], 7, on_match, &ignored, &newer), ERROR_NONE);
    tunnel_directory_match(directory, "acc", "demo", "t1", on_match, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.ids[0], 1);
    tunnel_directory_match(directory, "acc", "demo", NULL, on_match, &found);
    assert_int_equal(found.count, 3);
    tunnel_directory_match(directory, "other", "demo", NULL, on_match, &found); // another account
    assert_int_equal(found.count, 3);
    tunnel_directory_match_older(directory, STR("acc"), STR("demo"), 7, on_match, &found);
    assert_int_equal(found.count, 3);
    tunnel_directory_match_older(directory, STR("acc"), STR("demo"), 8, on_match, &found); // 2 has no epoch yet
    assert_int_equal(found.count, 4);
    for (int i = 0; i < 3; i++)
        tunnel_directory_remove(directory, entries[i]);
    tunnel_directory_destroy(directory);
}

static void count_each(void *arg, const struct tunnel_session_info *session)
{
    (void)session;
    (*(unsigned *)arg)++;
}

static void test_thousands(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static struct tunnel_entry *entries[MANY];
    struct tunnel_directory *directory = tunnel_directory_create(clock_mono_ms);
    struct matches ignored = {0};
    uint64_t newer;
    char name[32];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "runtime-%u", i);
        entries[i] = add(directory, name, i + 1, "t");
        assert_int_equal(tunnel_directory_open(directory, entries[i], 1, on_match, &ignored, &newer), ERROR_NONE);
    }
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "runtime-%u", i);
        assert_int_equal(find(directory, name), i + 1);
    }
    unsigned count = 0;
    tunnel_directory_each(directory, count_each, &count);
    assert_int_equal(count, MANY);
    for (unsigned i = 0; i < MANY; i++)
        tunnel_directory_remove(directory, entries[i]);
    tunnel_directory_destroy(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest_epoch_wins), cmocka_unit_test(test_matching),
                                       cmocka_unit_test(test_thousands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
