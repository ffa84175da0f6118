// table and list: what is added is found, once removed it is not, while the table grows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/table.h"

enum { ITEMS = 1000 };

struct item {
    int before;
    struct table_node node;
    struct list entry;
    uint64_t key;
    unsigned seen;
};

static bool is_item(const struct table_node *node, const void *key)
{
    return TABLE_OWNER(node, struct item, node)->key == *(const uint64_t *)key;
}

// Few hashes, so that buckets and whole hashes are shared.
static uint64_t hash_of(const struct table *table, uint64_t key)
{
    return hash_end(table->seed ^ key % 300);
}

static struct item *find(const struct table *table, uint64_t key)
{
    struct table_node *node = table_find(table, hash_of(table, key), is_item, &key);
    return node ? TABLE_OWNER(node, struct item, node) : NULL;
}

static void test_table(void **state)
{
    (void)state;
    static struct item items[ITEMS];
    struct table table;
    table_init(&table);
    assert_null(find(&table, 1));
    assert_null(table_next(&table, NULL));
    for (uint64_t i = 0; i < ITEMS; i++) {
        items[i].key = i;
        table_add(&table, &items[i].node, hash_of(&table, i));
    }
    assert_int_equal(table.count, ITEMS);
    for (uint64_t i = 0; i < ITEMS; i++)
        assert_ptr_equal(find(&table, i), &items[i]);
    assert_null(find(&table, ITEMS));
    for (struct table_node *node = NULL; (node = table_next(&table, node));)
        TABLE_OWNER(node, struct item, node)->seen++;
    for (struct table_node *node = table_next(&table, NULL), *next; node; node = next) {
        struct item *item = TABLE_OWNER(node, struct item, node);
        next = table_next(&table, node);
        assert_int_equal(item->seen, 1);
        if (item->key % 3) table_remove(&table, node);
    }
    for (uint64_t i = 0; i < ITEMS; i++)
        assert_ptr_equal(find(&table, i), i % 3 ? NULL : &items[i]);
    for (uint64_t i = 0; i < ITEMS; i += 3)
        table_remove(&table, &items[i].node);
    assert_int_equal(table.count, 0);
    table_finish(&table);
}

static void test_list(void **state)
{
    (void)state;
    struct item items[3];
    struct list head;
    list_init(&head);
    assert_true(list_is_empty(&head));
    for (int i = 0; i < 3; i++) {
        list_init(&items[i].entry);
        list_add_last(&head, &items[i].entry);
    }
    list_remove(&items[1].entry);
    list_remove(&items[1].entry); // of no list: nothing
    assert_ptr_equal(LIST_OWNER(head.next, struct item, entry), &items[0]);
    assert_ptr_equal(LIST_OWNER(head.prev, struct item, entry), &items[2]);
    list_remove(&items[0].entry);
    list_add_last(&head, &items[0].entry);
    assert_ptr_equal(LIST_OWNER(head.next, struct item, entry), &items[2]);
    list_remove(&items[0].entry);
    list_remove(&items[2].entry);
    assert_true(list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
