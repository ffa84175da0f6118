// What is written as YAML means the same when it is read back.
#include "cmocka_cli.h"

#include "base/json/yaml_tree.h"
#include "cli/print/yaml.h"

static void values_come_back(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{\"a\":\"b\",\"n\":1,\"t\":true,\"z\":null,\"e\":\"\",\"l\":[],\"o\":{}}",
        "{\"a\":[\"x\",\"y: z\",\"- w\",\"#c\",\"a "
        "#b\",\"true\",\"No\",\"~\",\"1e3\",\"0x1f\",\"2026-01-01\",\"a:\",\" x\",\"x \"]}",
        "[[1,[2,[3]],{\"a\":[{\"b\":[]}]}],\"x\"]",
        "{\"text\":\"line one\\nline: two\\n  indented\\n\",\"more\":\"a\\n\\n\",\"none\":\"a\\nb\"}",
        "{\"odd key: x\":1,\"- k\":{\"\":\"empty\"}}",
        "{\"control\":\"a\\u001b[31m\\u0085\\u2028\",\"quote\":\"\\\"'\\\\\",\"utf\":\"grüße 日本\"}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *value = json_loads(cases[i], 0, NULL), *again = NULL;
        struct strbuf text;
        struct error err;
        strbuf_init(&text, 65536);
        yaml_write(value, 0, false, &text);
        if (yaml_tree_decode_typed(strbuf_str(&text), 65536, &again, &err) != ERROR_NONE)
            fail_msg("%s\n%s", text.at, err.text);
        if (!json_equal(value, again)) fail_msg("%s\nbecame\n%s", cases[i], text.at);
        json_decref(again);
        json_decref(value);
        strbuf_finish(&text);
    }
}

static void what_has_no_value_is_left_out_of_descriptions(void **state)
{
    (void)state;
    json_t *value = json_loads("{\"a\":null,\"b\":\"\",\"c\":[],\"d\":{\"e\":1}}", 0, NULL);
    struct strbuf text;
    strbuf_init(&text, 1000);
    yaml_write(value, 0, true, &text);
    assert_string_equal(text.at, "d:\n  e: 1\n");
    strbuf_finish(&text);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_come_back),
                                       cmocka_unit_test(what_has_no_value_is_left_out_of_descriptions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
