// Templates as kubectl takes them. Expected texts are what kubectl's documentation and its jsonpath
// package give for the same input.
#include "cmocka_cli.h"

#include "cli/print/jsonpath.h"

static const char document[] =
    "{\"kind\":\"List\",\"items\":[{\"kind\":\"None\",\"metadata\":{\"name\":\"127.0.0.1\",\"labels\":{\"kubernetes.io/"
    "hostname\":\"127.0.0.1\"}},"
    "\"status\":{\"capacity\":{\"cpu\":\"4\"},\"ready\":true,\"addresses\":[{\"type\":\"LegacyHostIP\",\"address\":"
    "\"127.0.0.1\"}]}},"
    "{\"kind\":\"None\",\"metadata\":{\"name\":\"127.0.0.2\"},\"status\":{\"capacity\":{\"cpu\":\"8\"},\"count\":7,"
    "\"addresses\":["
    "{\"type\":\"LegacyHostIP\",\"address\":\"127.0.0.2\"},{\"type\":\"another\",\"address\":\"127.0.0.3\"}]}}],"
    "\"users\":[{\"name\":\"myself\",\"user\":{}},{\"name\":\"e2e\",\"user\":{\"username\":\"admin\",\"password\":"
    "\"secret\"}}]}";

static enum error_code write(const char *template, struct strbuf *out, struct error *err)
{
    json_t *value = json_loads(document, 0, NULL);
    strbuf_init(out, 65536);
    enum error_code code = jsonpath_write(str_c(template), value, out, err);
    json_decref(value);
    return code;
}

static void templates_give_what_kubectl_gives(void **state)
{
    (void)state;
    static const struct {
        const char *template, *text;
    } cases[] = {
        {"kind is {.kind}", "kind is List"},
        {"{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"},
        {"{.items[0].metadata.name}", "127.0.0.1"},
        {"{.items[-1].metadata.name}", "127.0.0.2"},
        {"{.items[0:1].metadata.name}", "127.0.0.1"},
        {"{.items[*]['metadata'].name}", "127.0.0.1 127.0.0.2"},
        {"{.items[0].metadata.labels['kubernetes.io/hostname']}", "127.0.0.1"},
        {"{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"},
        {"{.users[?(@.name==\"e2e\")].user.password}", "secret"},
        {"{.users[?(@.name != 'e2e')].name}", "myself"},
        {"{.users[?(@.user.username)].name}", "e2e"},
        {"{.items[?(@.status.count>5)].metadata.name}", "127.0.0.2"},
        {"{.items[?(@.status.ready==true)].metadata.name}", "127.0.0.1"},
        {"{..address}", "127.0.0.1 127.0.0.2 127.0.0.3"},
        {"{range .items[*]}{.metadata.name}:{.status.capacity.cpu}{\"\\n\"}{end}", "127.0.0.1:4\n127.0.0.2:8\n"},
        {"{range .items[*]}{range .status.addresses[*]}{.type},{end};{end}", "LegacyHostIP,;LegacyHostIP,another,;"},
        {"{.items[0].status.capacity}", "{\"cpu\":\"4\"}"},
        {"{.nothing.at.all}", ""},
        {"{range .nothing[*]}x{end}y", "y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf out;
        struct error err;
        if (write(cases[i].template, &out, &err) != ERROR_NONE) fail_msg("%s: %s", cases[i].template, err.text);
        assert_string_equal(out.len ? out.at : "", cases[i].text);
        strbuf_finish(&out);
    }
}

static void mistakes_are_placed(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{.items", "{.items[}",         "{.items[x]}", "{.items[?(.a}", "{.items[?(@.a==)]}",
        "{end}",   "{range .items[*]}", "{.a b}",      "{.items['x}",   "{..}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf out;
        struct error err = {.text = ""};
        if (write(cases[i], &out, &err) != ERROR_INVALID) fail_msg("%s should be refused", cases[i]);
        assert_non_null(strstr(err.text, "jsonpath: "));
        strbuf_finish(&out);
    }
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    (void)state;
    json_t *value = json_pack("{s:s}", "name", "a\x1b]0;title\x07 b\xc2\x9b");
    struct strbuf out;
    strbuf_init(&out, 1000);
    assert_int_equal(jsonpath_write(STR("{.name}"), value, &out, NULL), ERROR_NONE);
    assert_string_equal(out.at, "a?]0;title? b?");
    strbuf_finish(&out);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(templates_give_what_kubectl_gives),
                                       cmocka_unit_test(mistakes_are_placed),
                                       cmocka_unit_test(control_characters_do_not_reach_the_terminal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
