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
#include "tunnel/wire/digest.h"

static const uint8_t some_hash[ID_SHA256_BYTES] = {1, 2, 3};

static struct digest_object object_of(const char *name)
{
    return (struct digest_object){.ref.group = STR("apps"),
                                  .ref.version = STR("v1"),
                                  .ref.kind = STR("Deployment"),
                                  .ref.ns = STR("shop"),
                                  .ref.name = str_c(name),
                                  .ref.uid = STR("uid-1"),
                                  .manifest_sha256 = some_hash};
}

// ---- entries -------------------------------------------------------------------------------------------------------

static void entry_names_the_object_in_front(void **state)
{
    (void)state;
    struct digest_object object = object_of("web");
    uint8_t first[DIGEST_ENTRY_BYTES], second[DIGEST_ENTRY_BYTES];
    digest_entry_make(&object, first);
    // Everything that can be said of it changes the rest, and only the rest.
    struct str *contents[] = {&object.ref.version,      &object.ref.uid,       &object.application_ns,
                              &object.application_name, &object.sync_status,   &object.health_status,
                              &object.health_message,   &object.health_source, &object.presence,
                              &object.resource,         &object.marks};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct str before = *contents[i];
        *contents[i] = STR("other");
        digest_entry_make(&object, second);
        assert_memory_equal(first, second, DIGEST_KEY_BYTES);
        assert_memory_not_equal(first + DIGEST_KEY_BYTES, second + DIGEST_KEY_BYTES, DIGEST_NODE_BYTES);
        *contents[i] = before;
    }
    uint8_t other_hash[ID_SHA256_BYTES] = {1, 2, 4};
    object.manifest_sha256 = other_hash;
    digest_entry_make(&object, second);
    assert_memory_equal(first, second, DIGEST_KEY_BYTES);
    assert_memory_not_equal(first + DIGEST_KEY_BYTES, second + DIGEST_KEY_BYTES, DIGEST_NODE_BYTES);
    object.manifest_sha256 = some_hash;
    struct str *keys[] = {&object.cluster, &object.ref.group, &object.ref.kind, &object.ref.ns, &object.ref.name};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct str before = *keys[i];
        *keys[i] = STR("other");
        digest_entry_make(&object, second);
        assert_memory_not_equal(first, second, DIGEST_KEY_BYTES);
        assert_memory_not_equal(first + DIGEST_KEY_BYTES, second + DIGEST_KEY_BYTES, DIGEST_NODE_BYTES);
        *keys[i] = before;
    }
}

// Both ends must make the same of it, whatever version they are: this value is the wire's.
static void entry_is_what_it_always_was(void **state)
{
    (void)state;
    struct digest_object object = object_of("web");
    uint8_t entry[DIGEST_ENTRY_BYTES], again[DIGEST_ENTRY_BYTES];
    digest_entry_make(&object, entry);
    char hex[2 * DIGEST_ENTRY_BYTES + 1];
    for (size_t i = 0; i < sizeof entry; i++)
        snprintf(hex + 2 * i, 3, "%02x", entry[i]);
    assert_string_equal(hex, "39ea996cb00b9ed4590f3c7f0bda63c852d34cfab8552dd759a3fca2e80fe5d0");
    object.cluster = STR("in-cluster"); // what none at all means
    digest_entry_make(&object, again);
    assert_memory_equal(entry, again, sizeof entry);
}

static void texts_do_not_run_together(void **state)
{
    (void)state;
    struct digest_object a = object_of("b"), b = object_of("ab");
    uint8_t first[DIGEST_ENTRY_BYTES], second[DIGEST_ENTRY_BYTES];
    a.ref.ns = STR("a");
    b.ref.ns = STR_EMPTY;
    digest_entry_make(&a, first);
    digest_entry_make(&b, second);
    assert_memory_not_equal(first, second, DIGEST_KEY_BYTES);
    char *huge = mem_alloc(5001);
    memset(huge, 'x', 5000);
    huge[5000] = 0;
    a.ref.name = str_c(huge);
    digest_entry_make(&a, first);
    huge[4999] = 'y';
    digest_entry_make(&a, second);
    assert_memory_not_equal(first, second, DIGEST_KEY_BYTES);
    mem_free(huge);
}

// ---- the tree ------------------------------------------------------------------------------------------------------

static unsigned seed_of_run(void)
{
    const char *text = getenv("CULVERT_TEST_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)id_random_u64();
    print_message("seed %u\n", seed);
    return seed;
}

static void random_entry(unsigned *seed, uint8_t out[DIGEST_ENTRY_BYTES])
{
    for (size_t i = 0; i < DIGEST_ENTRY_BYTES; i++)
        out[i] = (uint8_t)rand_r(seed);
}

// Any order of coming, changing and going ends in the tree of what is there; and a tree differs
// exactly in the leaves where the inventories do.
static void tree_is_its_set(void **state)
{
    (void)state;
    enum { ROUNDS = 20, OBJECTS = 2000 };
    unsigned seed = seed_of_run();
    struct digest_tree *tree = mem_zalloc(sizeof *tree), *fresh = mem_zalloc(sizeof *fresh);
    uint8_t(*entries)[DIGEST_ENTRY_BYTES] = mem_alloc(sizeof(uint8_t[OBJECTS][DIGEST_ENTRY_BYTES]));
    bool there[OBJECTS] = {false};
    for (size_t i = 0; i < OBJECTS; i++)
        random_entry(&seed, entries[i]);
    for (int round = 0; round < ROUNDS; round++) {
        struct digest_tree before = *tree;
        struct digest_leaf_set touched = {0};
        int changes = rand_r(&seed) % 300;
        for (int c = 0; c < changes; c++) {
            size_t i = (size_t)rand_r(&seed) % OBJECTS;
            if (there[i]) digest_tree_toggle(tree, entries[i]);
            there[i] = rand_r(&seed) % 3 != 0;
            if (there[i]) {
                for (size_t b = DIGEST_KEY_BYTES; b < DIGEST_ENTRY_BYTES; b++)
                    entries[i][b] = (uint8_t)rand_r(&seed);
                digest_tree_toggle(tree, entries[i]);
            }
            digest_leaf_set_add(&touched, digest_entry_leaf(entries[i]));
        }
        memset(fresh, 0, sizeof *fresh);
        for (size_t i = OBJECTS; i-- > 0;)
            if (there[i]) digest_tree_toggle(fresh, entries[i]);
        assert_memory_equal(tree, fresh, sizeof *tree);
        for (unsigned leaf = 0; leaf < DIGEST_LEAVES; leaf++)
            if (memcmp(tree->leaves[leaf], before.leaves[leaf], DIGEST_NODE_BYTES) != 0)
                assert_true(digest_leaf_set_has(&touched, leaf));
        for (unsigned branch = 0; branch < DIGEST_BRANCHES; branch++) {
            uint8_t old[DIGEST_NODE_BYTES], now[DIGEST_NODE_BYTES];
            digest_tree_branch(&before, branch, old);
            digest_tree_branch(tree, branch, now);
            bool same_leaves =
                memcmp(before.leaves[branch * 64], tree->leaves[branch * 64], (size_t)64 * DIGEST_NODE_BYTES) == 0;
            assert_int_equal(memcmp(old, now, sizeof now) == 0, same_leaves);
        }
    }
    mem_free(tree);
    mem_free(fresh);
    mem_free(entries);
}

static void leaf_is_the_first_twelve_bits(void **state)
{
    (void)state;
    uint8_t entry[DIGEST_ENTRY_BYTES] = {0xab, 0xcd};
    assert_int_equal(digest_entry_leaf(entry), 0xabc);
    struct digest_leaf_set set = {0};
    digest_leaf_set_add(&set, 0);
    digest_leaf_set_add(&set, 4095);
    digest_leaf_set_add(&set, 4095);
    assert_int_equal(digest_leaf_set_count(&set), 2);
    digest_leaf_set_remove(&set, 0);
    assert_false(digest_leaf_set_has(&set, 0));
    assert_true(digest_leaf_set_has(&set, 4095));
}

// ---- the codec -----------------------------------------------------------------------------------------------------

static void round_trip(const struct digest *digest, size_t bytes)
{
    struct strbuf text;
    strbuf_init(&text, DIGEST_BYTES_MAX + 64);
    assert_int_equal(digest_encode(digest, &text, NULL), ERROR_NONE);
    assert_int_equal(text.len, bytes);
    struct digest back;
    assert_int_equal(digest_decode((const uint8_t *)text.at, text.len, &back, NULL), ERROR_NONE);
    assert_int_equal(back.kind, digest->kind);
    assert_int_equal(back.branches, digest->branches);
    assert_int_equal(back.count, digest->count);
    assert_memory_equal(&back.leaves, &digest->leaves, sizeof back.leaves);
    // No prefix of it is one too, and nothing may follow.
    for (size_t len = 0; len < text.len; len += 1 + text.len / 100) {
        struct digest cut;
        enum error_code code = digest_decode((const uint8_t *)text.at, len, &cut, NULL);
        if (code == ERROR_NONE) assert_true(cut.count < digest->count);
    }
    strbuf_add_byte(&text, 0);
    assert_int_equal(digest_decode((const uint8_t *)text.at, text.len, &back, NULL), ERROR_PROTOCOL);
    strbuf_finish(&text);
}

static void every_kind_comes_back(void **state)
{
    (void)state;
    static uint8_t nodes[DIGEST_LEAVES * DIGEST_NODE_BYTES];
    unsigned seed = seed_of_run();
    for (size_t i = 0; i < sizeof nodes; i++)
        nodes[i] = (uint8_t)rand_r(&seed);
    round_trip(&(struct digest){.kind = DIGEST_ROOT, .nodes = nodes}, 1 + 1024);
    round_trip(&(struct digest){.kind = DIGEST_BRANCHES_SENT, .branches = 1ull << 63 | 5, .nodes = nodes},
               1 + 8 + 3 * 1024);
    round_trip(&(struct digest){.kind = DIGEST_BRANCHES_SENT, .branches = UINT64_MAX, .nodes = nodes},
               1 + 8 + 64 * 1024);
    round_trip(&(struct digest){.kind = DIGEST_ASK_BRANCHES, .branches = 6}, 1 + 8);
    struct digest asked = {.kind = DIGEST_ASK_LEAVES};
    digest_leaf_set_add(&asked.leaves, 77);
    round_trip(&asked, 1 + 512);
    uint8_t entries[3][DIGEST_ENTRY_BYTES];
    struct digest told = {.kind = DIGEST_LEAVES_SENT, .items = entries[0], .count = 3};
    for (size_t i = 0; i < 3; i++) {
        random_entry(&seed, entries[i]);
        digest_leaf_set_add(&told.leaves, digest_entry_leaf(entries[i]));
    }
    digest_leaf_set_add(&told.leaves, 0); // may be empty
    round_trip(&told, 1 + 2 + 2 * digest_leaf_set_count(&told.leaves) + 3 * DIGEST_ENTRY_BYTES);
    round_trip(&(struct digest){.kind = DIGEST_WANTED, .items = entries[0], .count = 12}, 1 + 12 * DIGEST_KEY_BYTES);
    static const enum digest_kind words[] = {DIGEST_PROBE, DIGEST_MATCHED, DIGEST_DONE, DIGEST_SNAPSHOT, DIGEST_LATER};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        round_trip(&(struct digest){.kind = words[i]}, 1);
}

static void refuse(const void *at, size_t len)
{
    struct digest digest = {.kind = DIGEST_DONE};
    assert_int_equal(digest_decode(at, len, &digest, NULL), ERROR_PROTOCOL);
    assert_int_equal(digest.kind, DIGEST_DONE); // untouched
}

static void what_is_none_is_refused(void **state)
{
    (void)state;
    refuse("", 0);
    refuse("\x63", 1);
    refuse("\x11\0\0\0\0\0\0\0\0", 9); // asks for nothing
    refuse("\x03\0\0", 3);             // no leaf
    refuse("\x03\0\1\x10\0", 5);       // leaf 4096
    refuse("\x03\0\2\0\5\0\5", 7);     // twice
    refuse("\x03\0\1\0\5"
           "\0\x60                              ",
           37); // an entry of leaf 6
    refuse("\x13"
           "1234567",
           8);
    struct strbuf text;
    strbuf_init(&text, 64);
    assert_int_equal(
        digest_encode(&(struct digest){.kind = DIGEST_WANTED, .count = DIGEST_WANTED_MAX + 1}, &text, NULL),
        ERROR_INVALID);
    assert_int_equal(digest_encode(&(struct digest){.kind = DIGEST_ASK_BRANCHES}, &text, NULL), ERROR_INVALID);
    strbuf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_names_the_object_in_front), cmocka_unit_test(entry_is_what_it_always_was),
        cmocka_unit_test(texts_do_not_run_together),       cmocka_unit_test(tree_is_its_set),
        cmocka_unit_test(leaf_is_the_first_twelve_bits),   cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(what_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
