// resync: whatever two inventories look like, an exchange ends with what the platform lacks and
// what it holds in vain, and costs what differs. The agent is played by the test; its words go
// through the codec, so that sizes are counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/mem.h"
#include "server/intake/digest_exchange.h"

struct object {
    char name[32];
    uint8_t agent[DIGEST_ENTRY_BYTES], platform[DIGEST_ENTRY_BYTES];
    bool at_agent, at_platform, is_wanted, is_gone;
};

struct world {
    struct object *objects;
    size_t count, bytes, words;
    size_t wanted, gone; // what must be found
};

static unsigned seed;

static void make_entry(const char *name, unsigned version, uint8_t out[DIGEST_ENTRY_BYTES])
{
    uint8_t sha256[ID_SHA256_BYTES] = {(uint8_t)version, (uint8_t)(version >> 8)};
    digest_entry_make(&(struct digest_object){.ref.group = STR("apps"),
                                              .ref.kind = STR("Deployment"),
                                              .ref.ns = STR("shop"),
                                              .ref.name = str_c(name),
                                              .manifest_sha256 = sha256},
                      out);
}

// Of count objects so many (of ten thousand each) changed, came and went.
static struct world *world_create(size_t count, int changed, int came, int went)
{
    struct world *world = mem_zalloc(sizeof *world);
    world->objects = mem_array(count + 1, sizeof *world->objects);
    world->count = count;
    for (size_t i = 0; i < count; i++) {
        struct object *object = &world->objects[i];
        snprintf(object->name, sizeof object->name, "object-%zu", i);
        int chance = rand_r(&seed) % 10000;
        object->at_agent = chance >= went;
        object->at_platform = chance < went || chance >= went + came;
        bool differs = object->at_agent && object->at_platform && chance < went + came + changed;
        make_entry(object->name, 1, object->platform);
        make_entry(object->name, differs ? 2 : 1, object->agent);
        world->wanted += differs || (object->at_agent && !object->at_platform);
        world->gone += !object->at_agent;
    }
    return world;
}

static void world_destroy(struct world *world)
{
    mem_free(world->objects);
    mem_free(world);
}

static void count_bytes(struct world *world, const struct digest *digest)
{
    struct strbuf text;
    strbuf_init(&text, DIGEST_BYTES_MAX);
    assert_int_equal(digest_encode(digest, &text, NULL), ERROR_NONE);
    struct digest back;
    assert_int_equal(digest_decode((const uint8_t *)text.at, text.len, &back, NULL), ERROR_NONE);
    world->bytes += text.len;
    world->words++;
    strbuf_finish(&text);
}

static struct digest_store_tree *platform_tree(const struct world *world)
{
    struct digest_tree *sums = mem_zalloc(sizeof *sums);
    struct digest_store_tree *tree = mem_zalloc(sizeof *tree);
    for (size_t i = 0; i < world->count; i++) {
        const struct object *object = &world->objects[i];
        if (!object->at_platform) continue;
        digest_tree_toggle(sums, object->platform);
        tree->leaf_rows[digest_entry_leaf(object->platform)]++;
        tree->rows++;
    }
    memcpy(tree->nodes, sums->leaves, sizeof tree->nodes);
    mem_free(sums);
    return tree;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_KEY_BYTES);
}

static void tell_leaves(struct world *world, struct digest_exchange *resync, const struct digest *ask)
{
    uint8_t(*entries)[DIGEST_ENTRY_BYTES] = mem_alloc(sizeof *entries * (world->count + 1));
    struct digest_store_row *rows = mem_array(world->count + 1, sizeof *rows);
    size_t entry_count = 0, row_count = 0;
    for (size_t i = 0; i < world->count; i++) {
        const struct object *object = &world->objects[i];
        if (!digest_leaf_set_has(&ask->leaves, digest_entry_leaf(object->agent))) continue;
        if (object->at_agent) memcpy(entries[entry_count++], object->agent, sizeof *entries);
        if (!object->at_platform) continue;
        struct digest_store_row *row = &rows[row_count++];
        memcpy(row->entry, object->platform, sizeof row->entry);
        row->ref.group = STR("apps");
        row->ref.kind = STR("Deployment");
        row->ref.ns = STR("shop");
        row->ref.name = str_c(object->name);
    }
    assert_true(entry_count <= DIGEST_LEAVES_ENTRIES_MAX);
    struct digest told = {.kind = DIGEST_LEAVES_SENT, .leaves = ask->leaves, .items = entries[0], .count = entry_count};
    count_bytes(world, &told);
    struct error err;
    assert_int_equal(digest_exchange_take_leaves(resync, &told, &err), ERROR_NONE);
    assert_int_equal(digest_exchange_take_leaves(resync, &told, &err), ERROR_PROTOCOL); // each leaf once
    struct digest_exchange_difference difference;
    digest_exchange_compare(entries, entry_count, rows, row_count, &difference);
    assert_false(difference.is_unsure);
    for (size_t i = 0; i < world->count; i++) {
        struct object *object = &world->objects[i];
        if (object->at_agent && difference.wanted_count &&
            bsearch(object->agent, difference.wanted, difference.wanted_count, DIGEST_KEY_BYTES, compare_keys))
            object->is_wanted = true;
    }
    for (size_t k = 0; k < difference.gone_count; k++) // a row's name is that of its object
        ((struct object *)(uintptr_t)(difference.gone[k]->ref.name.at - offsetof(struct object, name)))->is_gone = true;
    world->bytes += difference.wanted_count * DIGEST_KEY_BYTES;
    mem_free(difference.wanted);
    mem_free(difference.gone);
    mem_free(entries);
    mem_free(rows);
}

// The whole exchange; returns the platform's last word.
static enum digest_kind exchange(struct world *world)
{
    struct digest_tree *tree = mem_zalloc(sizeof *tree);
    uint8_t nodes[DIGEST_BRANCHES][DIGEST_NODE_BYTES];
    for (size_t i = 0; i < world->count; i++)
        if (world->objects[i].at_agent) digest_tree_toggle(tree, world->objects[i].agent);
    for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++)
        digest_tree_branch(tree, branch, nodes[branch]);
    struct digest root = {.kind = DIGEST_ROOT, .nodes = nodes[0]}, answer;
    count_bytes(world, &root);
    struct digest_exchange *resync = digest_exchange_create(&root);
    struct digest_store_tree *held = platform_tree(world);
    digest_exchange_take_tree(resync, held, &answer);
    mem_free(held);
    count_bytes(world, &answer);
    if (answer.kind == DIGEST_ASK_BRANCHES) {
        struct digest told = {.kind = DIGEST_BRANCHES_SENT, .branches = answer.branches};
        uint8_t *leaves = mem_alloc(sizeof tree->leaves), *to = leaves;
        for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++) {
            if (!(told.branches >> branch & 1)) continue;
            memcpy(to, tree->leaves[branch * 64], (size_t)64 * DIGEST_NODE_BYTES);
            to += (size_t)64 * DIGEST_NODE_BYTES;
        }
        told.nodes = leaves;
        count_bytes(world, &told);
        struct error err;
        assert_int_equal(digest_exchange_take_branches(resync, &told, &answer, &err), ERROR_NONE);
        mem_free(leaves);
        count_bytes(world, &answer);
    }
    while (answer.kind == DIGEST_ASK_LEAVES) {
        tell_leaves(world, resync, &answer);
        assert_true(digest_exchange_next(resync, &answer));
        count_bytes(world, &answer);
    }
    digest_exchange_destroy(resync);
    mem_free(tree);
    return answer.kind;
}

static void check(struct world *world)
{
    for (size_t i = 0; i < world->count; i++) {
        const struct object *object = &world->objects[i];
        bool differs = !object->at_platform || memcmp(object->agent, object->platform, DIGEST_ENTRY_BYTES) != 0;
        if (object->is_wanted != (object->at_agent && differs)) fail_msg("seed %u: %s wanted", seed, object->name);
        if (object->is_gone != !object->at_agent) fail_msg("seed %u: %s gone", seed, object->name);
    }
}

static void any_two_inventories_are_told_apart(void **state)
{
    (void)state;
    static const int rates[][3] = {{0, 0, 0},     {1, 0, 0},     {0, 5, 0},      {0, 0, 5},     {10, 10, 10},
                                   {500, 300, 1}, {0, 5000, 10}, {0, 100, 9800}, {10000, 0, 0}, {3000, 3000, 3000}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct world *world = world_create((size_t)rand_r(&seed) % 3000 + 100, rates[i][0], rates[i][1], rates[i][2]);
        enum digest_kind kind = exchange(world);
        assert_int_equal(kind, world->wanted || world->gone ? DIGEST_DONE : DIGEST_MATCHED);
        check(world);
        world_destroy(world);
    }
}

static void an_unchanged_inventory_costs_next_to_nothing(void **state)
{
    (void)state;
    struct world *world = world_create(50000, 0, 0, 0);
    assert_int_equal(exchange(world), DIGEST_MATCHED);
    assert_int_equal(world->words, 2);
    assert_int_equal(world->bytes, 1 + 1024 + 1);
    world_destroy(world);
}

static void a_changed_one_costs_what_changed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *world = world_create(50000, i == 0, i == 1, i == 2); // some five objects
        size_t changes = world->wanted + world->gone;
        enum digest_kind kind = exchange(world);
        check(world);
        if (changes) assert_int_equal(kind, DIGEST_DONE);
        // Root, words and sets; for each change a branch and a leaf of 12 entries on average.
        assert_true(world->bytes < 3000 + changes * (1024 + 64 * DIGEST_ENTRY_BYTES));
        print_message("%zu changes among 50,000: %zu bytes in %zu words\n", changes, world->bytes, world->words);
        world_destroy(world);
    }
}

static void large_differences_are_asked_for_in_portions(void **state)
{
    (void)state;
    struct world *world = world_create(20000, 10000, 0, 0);
    assert_int_equal(exchange(world), DIGEST_DONE);
    assert_true(world->words > 10);
    assert_int_equal(world->wanted, 20000);
    check(world);
    world_destroy(world);
}

static void nothing_or_a_part_of_it_means_a_snapshot(void **state)
{
    (void)state;
    struct world *world = world_create(500, 0, 10000, 0);
    assert_int_equal(exchange(world), DIGEST_SNAPSHOT);
    world_destroy(world);
    world = world_create(0, 0, 0, 0); // both have nothing: nothing to tell
    assert_int_equal(exchange(world), DIGEST_MATCHED);
    uint8_t nodes[DIGEST_BRANCHES][DIGEST_NODE_BYTES] = {{0}};
    struct digest_store_tree *tree = mem_zalloc(sizeof *tree);
    tree->is_partial = true;
    struct digest_exchange *resync = digest_exchange_create(&(struct digest){.kind = DIGEST_ROOT, .nodes = nodes[0]});
    struct digest answer;
    digest_exchange_take_tree(resync, tree, &answer);
    assert_int_equal(answer.kind, DIGEST_SNAPSHOT);
    digest_exchange_destroy(resync);
    mem_free(tree);
    world_destroy(world);
}

// Written by a binary that knew no entries, say: nothing may be deleted because of it.
static void a_foreign_entry_proves_nothing(void **state)
{
    (void)state;
    uint8_t entries[1][DIGEST_ENTRY_BYTES];
    make_entry("here", 1, entries[0]);
    struct digest_store_row rows[2] = {{.ref.name = STR("there"), .ref.kind = STR("Pod")}};
    id_random(rows[0].entry, sizeof rows[0].entry);
    struct digest_exchange_difference difference;
    digest_exchange_compare(entries, 1, rows, 1, &difference);
    assert_true(difference.is_unsure);
    mem_free(difference.wanted);
    mem_free(difference.gone);
}

static void what_was_not_asked_for_is_refused(void **state)
{
    (void)state;
    static const uint8_t zeros[DIGEST_LEAVES * DIGEST_NODE_BYTES];
    struct digest_store_tree *tree = mem_zalloc(sizeof *tree);
    tree->nodes[5][0] = 1; // of branch 0
    tree->rows = 1;
    struct digest_exchange *resync = digest_exchange_create(&(struct digest){.kind = DIGEST_ROOT, .nodes = zeros});
    struct digest answer;
    struct error err;
    struct digest leaves = {.kind = DIGEST_LEAVES_SENT};
    digest_leaf_set_add(&leaves.leaves, 5);
    assert_int_equal(digest_exchange_take_leaves(resync, &leaves, &err), ERROR_PROTOCOL);
    struct digest branches = {.kind = DIGEST_BRANCHES_SENT, .branches = 1, .nodes = zeros};
    assert_int_equal(digest_exchange_take_branches(resync, &branches, &answer, &err), ERROR_PROTOCOL);
    digest_exchange_take_tree(resync, tree, &answer);
    assert_int_equal(answer.kind, DIGEST_ASK_BRANCHES);
    assert_int_equal(answer.branches, 1);
    branches.branches = 3;
    assert_int_equal(digest_exchange_take_branches(resync, &branches, &answer, &err), ERROR_PROTOCOL);
    branches.branches = 1;
    assert_int_equal(digest_exchange_take_branches(resync, &branches, &answer, &err), ERROR_NONE);
    assert_int_equal(answer.kind, DIGEST_ASK_LEAVES);
    assert_int_equal(digest_leaf_set_count(&answer.leaves), 1);
    assert_int_equal(digest_exchange_take_branches(resync, &branches, &answer, &err), ERROR_PROTOCOL); // once
    digest_leaf_set_add(&leaves.leaves, 6);
    assert_int_equal(digest_exchange_take_leaves(resync, &leaves, &err), ERROR_PROTOCOL);
    assert_false(digest_exchange_next(resync, &answer));
    digest_exchange_destroy(resync);
    mem_free(tree);
}

int main(void)
{
    const char *text = getenv("CULVERT_TEST_SEED");
    seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)id_random_u64();
    print_message("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_two_inventories_are_told_apart),
        cmocka_unit_test(an_unchanged_inventory_costs_next_to_nothing),
        cmocka_unit_test(a_changed_one_costs_what_changed),
        cmocka_unit_test(large_differences_are_asked_for_in_portions),
        cmocka_unit_test(nothing_or_a_part_of_it_means_a_snapshot),
        cmocka_unit_test(a_foreign_entry_proves_nothing),
        cmocka_unit_test(what_was_not_asked_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
