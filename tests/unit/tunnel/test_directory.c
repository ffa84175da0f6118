// tunnel/directory: newest epoch wins, and only the newest gets calls.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return tunnel_directory_find(directory, &(struct runtime_key){STR("acc"), str_c(runtime)}, 0, &ref) ? ref.id : 0;
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
    assert_true(tunnel_directory_was_here(directory, &(struct runtime_key){STR("acc"), STR("demo")}, 1000));
    assert_false(tunnel_directory_was_here(directory, &(struct runtime_key){STR("acc"), STR("nobody")}, 1000));
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
    tunnel_directory_match_older(directory, &(struct runtime_key){STR("acc"), STR("demo")}, 7, on_match, &found);
    assert_int_equal(found.count, 3);
    tunnel_directory_match_older(directory, &(struct runtime_key){STR("acc"), STR("demo")}, 8, on_match,
                                 &found); // 2 has no epoch yet
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

// Part by part everybody is met once.
static void check_parts(struct tunnel_directory *directory, unsigned many)
{
    enum { PART = 7 };
    struct tunnel_session_info part[PART];
    bool *seen = calloc(many + 1, sizeof(*seen));
    size_t at = 0, count;
    unsigned met = 0;
    assert_non_null(seen);
    do {
        at = tunnel_directory_part(directory, at, part, PART, &count);
        assert_in_range(count, 0, PART);
        for (size_t i = 0; i < count; i++) {
            assert_in_range(part[i].ref.id, 1, many);
            assert_false(seen[part[i].ref.id]);
            seen[part[i].ref.id] = true;
            met++;
        }
    } while (at);
    assert_int_equal(met, many);
    assert_int_equal(tunnel_directory_part(directory, SIZE_MAX, part, PART, &count), 0); // it shrank meanwhile
    assert_int_equal(count, 0);
    free(seen);
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
    check_parts(directory, MANY);
    for (unsigned i = 0; i < MANY; i++)
        tunnel_directory_remove(directory, entries[i]);
    tunnel_directory_destroy(directory);
}

// ---- random operations against a naive model, with a clock of its own ------------------------------------------

static uint64_t random_state, model_now_ms;

static unsigned random_below(unsigned limit) // splitmix64
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % limit);
}

static int seed(void **state)
{
    (void)state;
    const char *text = getenv("CULVERT_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 10) : clock_mono_us();
    printf("CULVERT_TEST_SEED=%llu\n", (unsigned long long)random_state);
    return 0;
}

static uint64_t model_clock(void)
{
    return model_now_ms;
}

enum { RUNTIMES = 3, SLOTS = 16 };

struct model {
    struct {
        struct tunnel_entry *entry; // NULL: free
        uint64_t id, epoch;
        unsigned runtime, instance;
        bool standby;
    } sessions[SLOTS];
    struct {
        uint64_t serving; // a session's id
        uint64_t gone_ms;
    } runtimes[RUNTIMES];
    uint64_t last_id, last_epoch, route_until_ms;
};

static const char *model_runtime(unsigned i)
{
    static const char *const names[RUNTIMES] = {"one", "two", "three"};
    return names[i];
}

static int model_slot(const struct model *m, uint64_t id)
{
    for (int i = 0; i < SLOTS; i++)
        if (m->sessions[i].entry && m->sessions[i].id == id) return i;
    return -1;
}

static void model_unroute(struct model *m, int slot)
{
    unsigned r = m->sessions[slot].runtime;
    if (m->runtimes[r].serving != m->sessions[slot].id) return;
    m->runtimes[r].serving = 0;
    m->runtimes[r].gone_ms = model_now_ms;
}

static void model_add(struct model *m, struct tunnel_directory *directory, int slot)
{
    unsigned r = random_below(RUNTIMES), instance = random_below(3);
    struct tunnel_session_info info = {.ref = {.node = 1, .id = ++m->last_id}};
    snprintf(info.identity.account_id, sizeof(info.identity.account_id), "acc");
    snprintf(info.identity.runtime, sizeof(info.identity.runtime), "%s", model_runtime(r));
    snprintf(info.instance_id, sizeof(info.instance_id), "pod-%u", instance);
    m->sessions[slot].entry = tunnel_directory_add(directory, &info);
    m->sessions[slot].id = m->last_id;
    m->sessions[slot].epoch = 0;
    m->sessions[slot].runtime = r;
    m->sessions[slot].instance = instance;
    m->sessions[slot].standby = random_below(4) == 0;
    tunnel_directory_stand_by(directory, m->sessions[slot].entry, m->sessions[slot].standby);
}

static void model_open(struct model *m, struct tunnel_directory *directory, int slot)
{
    unsigned r = m->sessions[slot].runtime, older = 0;
    uint64_t epoch = random_below(4) ? ++m->last_epoch : 1 + random_below((unsigned)m->last_epoch + 1), newest = 0;
    struct matches matches = {0};
    uint64_t newer = 0;
    if (m->sessions[slot].standby || m->sessions[slot].epoch) return;
    for (int i = 0; i < SLOTS; i++) {
        if (!m->sessions[i].entry || i == slot || m->sessions[i].runtime != r) continue;
        older += m->sessions[i].epoch != 0;
        if (m->sessions[i].epoch > newest) newest = m->sessions[i].epoch;
    }
    enum error_code code = tunnel_directory_open(directory, m->sessions[slot].entry, epoch, on_match, &matches, &newer);
    assert_int_equal(code, newest >= epoch ? ERROR_CONFLICT : ERROR_NONE);
    assert_int_equal(matches.count, code ? 0 : older);
    if (code) return;
    int before = model_slot(m, m->runtimes[r].serving);
    bool took_over = m->runtimes[r].serving && m->sessions[before].instance != m->sessions[slot].instance;
    assert_int_equal(m->sessions[slot].entry->took_over, took_over);
    m->sessions[slot].epoch = epoch;
    m->runtimes[r].serving = m->sessions[slot].id;
}

// Retires it and, mostly, takes it out.
static void model_leave(struct model *m, struct tunnel_directory *directory, int slot)
{
    unsigned r = m->sessions[slot].runtime;
    bool served = m->runtimes[r].serving == m->sessions[slot].id;
    model_unroute(m, slot);
    assert_int_equal(tunnel_directory_retire(directory, m->sessions[slot].entry), served);
    if (random_below(4) == 0) return;
    tunnel_directory_remove(directory, m->sessions[slot].entry);
    m->sessions[slot].entry = NULL;
}

static void model_check(const struct model *m, struct tunnel_directory *directory)
{
    bool routes = m->route_until_ms == UINT64_MAX || model_now_ms < m->route_until_ms;
    for (unsigned r = 0; r < RUNTIMES; r++) {
        uint64_t serving = m->runtimes[r].serving, epoch = 0;
        if (serving) epoch = m->sessions[model_slot(m, serving)].epoch;
        struct tunnel_session_ref ref;
        assert_int_equal(find(directory, model_runtime(r)), routes ? serving : 0);
        if (epoch)
            assert_int_equal(tunnel_directory_find(
                                 directory, &(struct runtime_key){STR("acc"), str_c(model_runtime(r))}, epoch, &ref),
                             routes);
        assert_false(tunnel_directory_find(directory, &(struct runtime_key){STR("acc"), str_c(model_runtime(r))},
                                           epoch + 1, &ref));
        bool was = serving || (m->runtimes[r].gone_ms && model_now_ms - m->runtimes[r].gone_ms <= 3000);
        assert_int_equal(
            tunnel_directory_was_here(directory, &(struct runtime_key){STR("acc"), str_c(model_runtime(r))}, 3000),
            was);
        struct matches older = {0};
        unsigned expected = 0;
        for (int i = 0; i < SLOTS; i++)
            expected += m->sessions[i].entry && m->sessions[i].runtime == r && m->sessions[i].epoch &&
                        m->sessions[i].epoch < m->last_epoch;
        tunnel_directory_match_older(directory, &(struct runtime_key){STR("acc"), str_c(model_runtime(r))},
                                     m->last_epoch, on_match, &older);
        assert_int_equal(older.count, expected);
        struct matches standbys = {0};
        expected = 0;
        for (int i = 0; i < SLOTS; i++)
            expected += m->sessions[i].entry && m->sessions[i].runtime == r && m->sessions[i].standby;
        tunnel_directory_match_standbys(directory, &(struct runtime_key){STR("acc"), str_c(model_runtime(r))}, on_match,
                                        &standbys);
        assert_int_equal(standbys.count, expected);
    }
}

static void test_against_the_model(void **state)
{
    (void)state;
    static struct model m;
    for (unsigned run = 0; run < 100; run++) {
        memset(&m, 0, sizeof(m));
        m.route_until_ms = UINT64_MAX;
        model_now_ms = 1000000;
        struct tunnel_directory *directory = tunnel_directory_create(model_clock);
        for (unsigned step = 0; step < 1000; step++) {
            int slot = (int)random_below(SLOTS);
            model_now_ms += random_below(10) ? random_below(3000) : random_below(100000);
            if (random_below(50) == 0) {
                m.route_until_ms = random_below(2) ? UINT64_MAX : model_now_ms + random_below(5000);
                tunnel_directory_route_until(directory, m.route_until_ms);
            }
            if (!m.sessions[slot].entry)
                model_add(&m, directory, slot);
            else if (random_below(3))
                model_open(&m, directory, slot);
            else
                model_leave(&m, directory, slot);
            model_check(&m, directory);
        }
        for (int i = 0; i < SLOTS; i++)
            if (m.sessions[i].entry) tunnel_directory_remove(directory, m.sessions[i].entry);
        tunnel_directory_destroy(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest_epoch_wins), cmocka_unit_test(test_matching),
                                       cmocka_unit_test(test_thousands), cmocka_unit_test(test_against_the_model)};
    return cmocka_run_group_tests(tests, seed, NULL);
}
