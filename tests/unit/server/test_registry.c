// The rules of what a loop remembers, against a plain model with a fake clock: random operations,
// seed printed. And of the lease: however answers are late or lost, nobody believes in a lease
// longer than PostgreSQL does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "server/sessions/registry_lease.h"
#include "server/sessions/registry_line.h"
#include "server/sessions/registry_table.h"

enum { RUNTIMES = 12, ENTRIES_MAX = 8, PLACE_MS = 1000, NONE_MS = 100, STEPS = 200000 };

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % bound;
}

static void seed(void)
{
    const char *given = getenv("CULVERT_TEST_SEED");
    random_state = given ? strtoull(given, NULL, 10) : id_random_u64();
    print_message("seed %llu\n", (unsigned long long)random_state);
}

// ---- the table -----------------------------------------------------------------------------------------------------

// What the table says of a runtime; of one that is not in it, UNKNOWN.
struct model {
    bool is_in, is_place; // is_place: somebody holds it, or did when it came to be doubted
    enum registry_known known;
    uint64_t epoch, good_until_ms, used; // used: the order of use
};

static struct str name_of(size_t i, char *out)
{
    return str_of(out, (size_t)snprintf(out, 16, "r%zu", i));
}

// Puts it into the table: what was used longest ago makes room, those that nobody holds first.
// False: it does not get in, because it would take the room of a place.
static bool enter(struct model *models, size_t i, bool is_place)
{
    size_t count = 0;
    struct model *oldest = NULL;
    if (models[i].is_in) return true;
    for (size_t k = 0; k < RUNTIMES; k++) {
        struct model *other = &models[k];
        if (!other->is_in) continue;
        count++;
        if (!oldest || other->is_place < oldest->is_place ||
            (other->is_place == oldest->is_place && other->used < oldest->used))
            oldest = other;
    }
    if (count == ENTRIES_MAX) {
        if (!is_place && oldest->is_place) return false;
        oldest->is_in = false;
    }
    models[i] = (struct model){.is_in = true, .is_place = is_place};
    return true;
}

// However many names are made up, the places of real runtimes stay.
static void names_of_nobody_make_no_place_forgotten(void **state)
{
    (void)state;
    struct registry_table *table = registry_table_create(
        &(struct registry_table_options){.entries_max = ENTRIES_MAX, .place_ms = PLACE_MS, .none_ms = NONE_MS});
    struct registry_place place = {.epoch = 1}, out;
    char text[16];
    for (size_t i = 0; i < 100; i++) {
        if (i == 50) // in the midst of it
            for (size_t k = 1000; k < 1000 + ENTRIES_MAX; k++)
                assert_true(registry_table_held(table, &(struct runtime_key){STR("acc"), name_of(k, text)}, &place, 1));
        assert_true(registry_table_over(table, &(struct runtime_key){STR("acc"), name_of(i, text)}, 0, 1));
        assert_int_equal(registry_table_count(table), i < ENTRIES_MAX ? i + 1 : ENTRIES_MAX);
    }
    for (size_t k = 1000; k < 1000 + ENTRIES_MAX; k++)
        assert_int_equal(registry_table_find(table, &(struct runtime_key){STR("acc"), name_of(k, text)}, 1, &out),
                         REGISTRY_HELD);
    assert_int_equal(registry_table_find(table, &(struct runtime_key){STR("acc"), STR("r99")}, 1, &out),
                     REGISTRY_UNKNOWN);
    assert_true(registry_table_held(table, &(struct runtime_key){STR("acc"), STR("new")}, &place,
                                    1)); // places make room for each other
    assert_int_equal(registry_table_find(table, &(struct runtime_key){STR("acc"), STR("new")}, 1, &out), REGISTRY_HELD);
    registry_table_destroy(table);
}

static void table_against_model(void **state)
{
    (void)state;
    seed();
    struct registry_table *table = registry_table_create(
        &(struct registry_table_options){.entries_max = ENTRIES_MAX, .place_ms = PLACE_MS, .none_ms = NONE_MS});
    struct model models[RUNTIMES] = {0};
    uint64_t now_ms = 1, use = 0, found = 0;
    for (int step = 0; step < STEPS; step++) {
        char text[16];
        size_t i = random_below(RUNTIMES);
        struct str runtime = name_of(i, text), account = STR("acc");
        struct model *model = &models[i];
        bool known = model->is_in;
        uint64_t floor = known ? model->epoch : 0;
        struct registry_place place = {.epoch = 1 + floor + random_below(5) - random_below(floor < 4 ? floor + 1 : 4)};
        now_ms += random_below(60);
        switch (random_below(5)) {
        case 0:
            snprintf(place.replica, sizeof place.replica, "replica-%llu", (unsigned long long)place.epoch);
            bool taken = registry_table_held(table, &(struct runtime_key){account, runtime}, &place, now_ms);
            assert_int_equal(taken, place.epoch >= floor);
            (void)enter(models, i, true);
            if (taken) *model = (struct model){true, true, REGISTRY_HELD, place.epoch, now_ms + PLACE_MS, 0};
            model->used = ++use;
            break;
        case 1: {
            uint64_t epoch = random_below(3) ? place.epoch : 0;
            bool over = registry_table_over(table, &(struct runtime_key){account, runtime}, epoch, now_ms);
            assert_int_equal(over, epoch == 0 || epoch >= floor);
            if (!enter(models, i, false)) break;
            if (over) *model = (struct model){true, false, REGISTRY_NOBODY, epoch ? epoch : floor, now_ms + NONE_MS, 0};
            model->used = ++use;
            break;
        }
        case 2:
            registry_table_doubt(table, &(struct runtime_key){account, runtime}, place.epoch);
            if (known && model->epoch <= place.epoch) model->known = REGISTRY_UNKNOWN;
            break;
        default: {
            struct registry_place out = {0};
            enum registry_known says =
                registry_table_find(table, &(struct runtime_key){account, runtime}, now_ms, &out);
            bool good = known && model->known != REGISTRY_UNKNOWN && now_ms < model->good_until_ms;
            assert_int_equal(says, good ? model->known : REGISTRY_UNKNOWN);
            if (says == REGISTRY_HELD) {
                char replica[32];
                snprintf(replica, sizeof replica, "replica-%llu", (unsigned long long)model->epoch);
                assert_int_equal(out.epoch, model->epoch);
                assert_string_equal(out.replica, replica);
                found++;
            }
            if (good) model->used = ++use;
            break;
        }
        }
        assert_true(registry_table_count(table) <= ENTRIES_MAX);
    }
    assert_true(found > STEPS / 100);
    registry_table_destroy(table);
}

// ---- the lease -----------------------------------------------------------------------------------------------------

// PostgreSQL's side: a renewal that was sent at S is handled at some time between S and never, and
// the lease is then good for TTL from that moment. The replica hears of it later, or does not.
static void lease_is_never_believed_too_long(void **state)
{
    (void)state;
    enum { TTL_MS = 15000 };
    seed();
    struct registry_lease lease;
    registry_lease_init(&lease, TTL_MS);
    uint64_t now_ms = 1000, lease_ends_ms = 0, answer_at_ms = 0, handle_at_ms = 0, held = 0, lapsed = 0;
    bool granted = false, away = false;
    for (int step = 0; step < STEPS; step++) {
        now_ms += random_below(400);
        if (random_below(200) == 0) now_ms += random_below(60000); // the process was stopped
        if (random_below(400) == 0) away = !away;
        if (handle_at_ms && now_ms >= handle_at_ms) {
            lease_ends_ms = handle_at_ms + TTL_MS;
            handle_at_ms = 0;
        }
        if (lease.asking && now_ms >= answer_at_ms) {
            if (granted)
                registry_lease_granted(&lease);
            else
                registry_lease_refused(&lease);
        }
        // The one promise: whoever believes in his lease has it, by the clock of PostgreSQL.
        if (registry_lease_is_held(&lease, now_ms)) {
            assert_true(now_ms < lease_ends_ms);
            held++;
        } else if (lease_ends_ms) {
            lapsed++;
        }
        if (!registry_lease_is_due(&lease, now_ms)) continue;
        registry_lease_ask(&lease, now_ms);
        granted = !away && random_below(10) != 0;
        bool handled = granted || random_below(3) == 0; // committed, and the answer was lost
        uint64_t takes_ms = random_below(random_below(20) ? 200 : 8000);
        if (handled) handle_at_ms = now_ms + takes_ms;
        answer_at_ms = now_ms + takes_ms + random_below(100);
    }
    assert_true(held > STEPS / 10 && lapsed > STEPS / 100);
}

// ---- lines in Redis ------------------------------------------------------------------------------------------------

static void lines_come_back(void **state)
{
    (void)state;
    char text[REGISTRY_LINE_BYTES];
    struct registry_place place = {.epoch = 7, .replica = "replica-1", .address = "10.0.0.1:8447"}, out;
    struct registry_line line;
    assert_true(registry_line_parse_place(registry_line_place(&place, text), &out));
    assert_int_equal(out.epoch, 7);
    assert_string_equal(out.replica, place.replica);
    assert_string_equal(out.address, place.address);
    assert_true(
        registry_line_parse(registry_line_open(&(struct runtime_key){STR("acc"), STR("demo")}, &place, text), &line));
    assert_int_equal(line.kind, REGISTRY_LINE_OPEN);
    assert_true(str_eq(line.account_id, STR("acc")) && str_eq(line.runtime, STR("demo")));
    assert_string_equal(line.place.address, place.address);
    assert_true(
        registry_line_parse(registry_line_over(&(struct runtime_key){STR("acc"), STR("demo")}, 9, text), &line));
    assert_int_equal(line.kind, REGISTRY_LINE_OVER);
    assert_int_equal(line.place.epoch, 9);
    place.address[0] = '\0';
    assert_true(registry_line_parse_place(registry_line_place(&place, text), &out));
    assert_string_equal(out.address, "");
}

static void lines_of_others_are_none(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "",
        "open",
        "open a r",
        "open a r 1",
        "open a r 1 x",
        "open a r 0 x y:1",
        "open a r -1 x y:1",
        "open a r 1 x y:1 z",
        "open  r 1 x y:1",
        "over a r",
        "over a r x",
        "over a r 1 ",
        "gone a r 1",
        "open a r 99999999999999999999 x y:1",
        "over a\tb r 1",
        "open a r 1 x ",
    };
    struct registry_line line;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        if (registry_line_parse(str_c(messages[i]), &line)) fail_msg("taken: \"%s\"", messages[i]);
    struct registry_place place;
    assert_false(registry_line_parse_place(STR("5 replica"), &place)); // the form before peers had addresses
    assert_false(registry_line_parse_place(str_of("5 a\0b c", 7), &place));
}

static const struct purpose_key key_a = {.bytes = {{1}}, .count = 1}, key_b = {.bytes = {{2}}, .count = 1};

static void lines_count_with_their_signature_alone(void **state)
{
    (void)state;
    char line_text[REGISTRY_LINE_BYTES], text[REGISTRY_SIGNED_BYTES];
    struct registry_place place = {.epoch = UINT64_C(9223372036854775807)};
    struct str at = STR("culvert:2:tunnel:acc:demo"), line;
    memset(place.replica, 'r', sizeof place.replica - 1);
    memset(place.address, 'a', sizeof place.address - 1);
    struct str longest = registry_line_place(&place, line_text);
    struct str sealed = registry_line_sign(&key_a, at, longest, 1000, text);
    assert_true(registry_line_verify(&key_a, at, sealed, 1000, &line));
    assert_true(str_eq(line, longest));
    assert_false(registry_line_verify(&key_a, at, sealed, 1001, &line)); // expired
    assert_false(registry_line_verify(&key_b, at, sealed, 1, &line));
    assert_false(registry_line_verify(&key_a, STR("culvert:2:tunnel:acc:other"), sealed, 1, &line));
    assert_false(registry_line_verify(&key_a, at, longest, 1, &line)); // not signed at all
    assert_false(registry_line_verify(&key_a, at, STR_EMPTY, 1, &line));
    for (size_t i = 0; i < sealed.len; i++) {
        char was = text[i];
        text[i] = was == '7' ? '8' : '7';
        assert_false(registry_line_verify(&key_a, at, sealed, 1, &line));
        text[i] = was;
        assert_false(registry_line_verify(&key_a, at, str_first(sealed, i), 1, &line));
    }
    assert_true(registry_line_verify(&key_a, at, sealed, 1, &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_against_model),
        cmocka_unit_test(names_of_nobody_make_no_place_forgotten),
        cmocka_unit_test(lease_is_never_believed_too_long),
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(lines_of_others_are_none),
        cmocka_unit_test(lines_count_with_their_signature_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
