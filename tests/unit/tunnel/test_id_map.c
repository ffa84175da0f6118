// id_map: numbers of streams and sessions to objects, through growth and removal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tunnel/session/id_map.h"

static void test_id_map(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct id_map map;
    static int values[MANY + 1];
    id_map_init(&map);
    assert_null(id_map_get(&map, 1));
    id_map_remove(&map, 1);
    for (uint64_t i = 1; i <= MANY; i++)
        id_map_put(&map, i % 2 ? i : i | UINT64_C(3) << 48, &values[i]);
    for (uint64_t i = 1; i <= MANY; i += 3)
        id_map_remove(&map, i % 2 ? i : i | UINT64_C(3) << 48);
    for (uint64_t i = 1; i <= MANY; i++) {
        void *found = id_map_get(&map, i % 2 ? i : i | UINT64_C(3) << 48);
        assert_ptr_equal(found, i % 3 == 1 ? NULL : &values[i]);
    }
    assert_int_equal(map.count, MANY - MANY / 3);
    id_map_finish(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
