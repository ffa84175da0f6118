// json_region: trees within begin and end need no allocation of their own, what does not fit is
// allocated as ever, and the piece is used again from its beginning.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/json/json_region.h"
#include "base/mem.h"

static json_t *read_text(const char *text)
{
    json_t *value = NULL;
    struct error err;
    assert_int_equal(json_decode(str_c(text), NULL, &value, &err), ERROR_NONE);
    return value;
}

static void test_same_place_again(void **state)
{
    (void)state;
    const void *before = NULL;
    for (int i = 0; i < 3; i++) {
        json_region_begin();
        json_t *value = read_text("{\"a\":[1,2.5,\"text\",{\"b\":null}]}");
        size_t len;
        char *text = json_canonical(value, &len);
        assert_string_equal(text, "{\"a\":[1,2.5,\"text\",{\"b\":null}]}");
        mem_free(text);
        if (before) assert_ptr_equal(before, value);
        before = value;
        json_decref(value);
        json_region_end();
    }
}

static void test_nested(void **state)
{
    (void)state;
    json_region_begin();
    json_t *outer = read_text("{\"name\":\"outer\"}");
    json_region_begin();
    json_decref(read_text("{\"name\":\"inner\"}"));
    json_region_end();
    json_decref(read_text("{\"name\":\"another\"}"));
    assert_true(str_eq(json_get_str(outer, "name"), STR("outer")));
    json_decref(outer);
    json_region_end();
}

static void test_outside_is_as_ever(void **state)
{
    (void)state;
    json_t *kept = read_text("{\"name\":\"kept\"}");
    json_region_begin();
    json_t *inside = read_text("{\"name\":\"inside\"}");
    json_object_set_new(kept, "more", json_integer(1)); // taken from the region, and gone before it ends
    json_object_del(kept, "more");
    json_decref(inside);
    json_region_end();
    assert_true(str_eq(json_get_str(kept, "name"), STR("kept")));
    char *text = json_dumps(kept, JSON_COMPACT);
    assert_non_null(strstr(text, "kept"));
    free(text);
    json_decref(kept);
}

static void test_more_than_fits(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    for (int round = 0; round < 2; round++) {
        json_region_begin();
        json_t *array = json_array();
        for (int i = 0; i < COUNT; i++)
            json_array_append_new(array, json_integer(i));
        assert_int_equal(json_integer_value(json_array_get(array, COUNT - 1)), COUNT - 1);
        json_decref(array);
        json_region_end();
    }
}

static void *use_region(void *arg)
{
    for (int i = 0; i < 200; i++) {
        json_region_begin();
        json_t *value = read_text("{\"list\":[1,2,3]}");
        *(size_t *)arg += json_array_size(json_get_array(value, "list"));
        json_decref(value);
        json_region_end();
    }
    return NULL;
}

static void test_each_thread_its_own(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    size_t sums[THREADS] = {0};
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_region, &sums[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(sums[i], 600);
    }
}

int main(void)
{
    json_region_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_place_again),    cmocka_unit_test(test_nested),
        cmocka_unit_test(test_outside_is_as_ever),  cmocka_unit_test(test_more_than_fits),
        cmocka_unit_test(test_each_thread_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
