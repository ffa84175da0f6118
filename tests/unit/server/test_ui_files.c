// The pack of the web UI: what is in it is found by name, and no other bytes are taken for one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "server/ui/ui_files.h"

#define PAGE      "<base href=\"__CULVERT_BASE__\">"
#define PAGE_SIZE "30"
#define GOOD      "culvert-ui 1\nindex.html " PAGE_SIZE " 0 0\napp.1.js 4 3 2\na.css 1 0 0\n\n" PAGE "jsjsgzpbrc"

static struct ui_files *make(const char *pack, const char *base, struct error *err)
{
    return ui_files_create(str_c(pack), str_c(base), err);
}

static void test_files_are_found(void **state)
{
    (void)state;
    struct error err;
    struct ui_files *files = make(GOOD, "/", &err);
    assert_non_null(files);
    const struct ui_file *script = ui_files_find(files, STR("app.1.js"));
    assert_non_null(script);
    assert_string_equal(script->content_type, "text/javascript; charset=utf-8");
    assert_true(str_eq(script->forms[UI_PLAIN], STR("jsjs")));
    assert_true(str_eq(script->forms[UI_GZIP], STR("gzp")));
    assert_true(str_eq(script->forms[UI_BROTLI], STR("br")));
    assert_true(str_eq(ui_files_find(files, STR("a.css"))->forms[UI_PLAIN], STR("c")));
    static const char *const missing[] = {"", "app.1", "app.1.js.map", "../app.1.js", "APP.1.JS", "a.css\0"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing - 1; i++)
        assert_null(ui_files_find(files, str_c(missing[i])));
    assert_null(ui_files_find(files, str_of("a.css\0", 6)));
    ui_files_destroy(files);
}

static void test_base_path(void **state)
{
    (void)state;
    struct error err;
    struct ui_files *root = make(GOOD, "/", &err), *below = make(GOOD, "/x/y/", &err);
    assert_true(str_eq(ui_files_index(root), STR("<base href=\"/\">")));
    assert_true(str_eq(ui_files_index(below), STR("<base href=\"/x/y/\">")));
    assert_false(str_eq(ui_files_index_etag(root), ui_files_index_etag(below)));
    assert_int_equal(ui_files_index_etag(root).len, 34);
    ui_files_destroy(root);
    ui_files_destroy(below);
    static const char *const bad[] = {"",        "x/",      "/x",    "//",       "/x//y/", "/../",
                                      "/x/./y/", "/\"><b/", "/a b/", "/%2e%2e/", "/x?/",   "/x\n/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ui_base_path_is_valid(str_c(bad[i])));
        assert_null(make(GOOD, bad[i], &err));
    }
    char longest[UI_BASE_PATH_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[0] = longest[UI_BASE_PATH_BYTES_MAX - 1] = '/';
    assert_true(ui_base_path_is_valid(str_of(longest, UI_BASE_PATH_BYTES_MAX)));
    longest[UI_BASE_PATH_BYTES_MAX - 1] = 'a';
    longest[UI_BASE_PATH_BYTES_MAX] = '/';
    assert_false(ui_base_path_is_valid(str_of(longest, UI_BASE_PATH_BYTES_MAX + 1)));
}

static void test_other_packs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pack, *reason;
    } bad[] = {
        {"", "does not start"},
        {"culvert-ui 2\n\n", "does not start"},
        {"culvert-ui 1\n", "does not end"},
        {"culvert-ui 1\n\n", "no index.html"},
        {"culvert-ui 1\nindex.html 5 0 0\n\n<b>hi", "no __CULVERT_BASE__"},
        {"culvert-ui 1\nindex.html " PAGE_SIZE " 0 0\n\n" PAGE "x", "1 bytes too many"},
        {"culvert-ui 1\nindex.html " PAGE_SIZE " 0 1\n\n" PAGE, "ends within index.html"},
        {"culvert-ui 1\nindex.html 0 0 0\n\n", "three sizes"},
        {"culvert-ui 1\nindex.html 1 0\n\nx", "invalid size"},
        {"culvert-ui 1\nindex.html 1 0 0 0\n\nx", "three sizes"},
        {"culvert-ui 1\nindex.html -1 0 0\n\nx", "invalid size"},
        {"culvert-ui 1\nindex.html 99999999999999999999 0 0\n\nx", "invalid size"},
        {"culvert-ui 1\nindex.html 40000000 0 0\n\nx", "invalid size"},
        {"culvert-ui 1\n../etc/x.html 1 0 0\n\nx", "invalid file name"},
        {"culvert-ui 1\n.html 1 0 0\n\nx", "invalid file name"},
        {"culvert-ui 1\napp.exe 1 0 0\n\nx", "invalid file name"},
        {"culvert-ui 1\na.js 1 0 0\na.js 1 0 0\nindex.html " PAGE_SIZE " 0 0\n\nxx" PAGE, "listed twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = {0};
        assert_null(make(bad[i].pack, "/", &err));
        if (!strstr(err.text, bad[i].reason)) fail_msg("%zu: \"%s\" instead of \"%s\"", i, err.text, bad[i].reason);
    }
}

static void test_number_of_files_is_limited(void **state)
{
    (void)state;
    struct strbuf pack;
    struct error err;
    strbuf_init(&pack, 1024 * 1024);
    strbuf_add_c(&pack, "culvert-ui 1\nindex.html " PAGE_SIZE " 0 0\n");
    for (int i = 0; i < UI_FILES_MAX; i++)
        strbuf_addf(&pack, "f%d.js 1 0 0\n", i);
    strbuf_add_c(&pack, "\n");
    assert_null(ui_files_create(strbuf_str(&pack), STR("/"), &err));
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    strbuf_finish(&pack);
}

static void test_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum ui_encoding all, gzip_only;
    } cases[] = {
        {"", UI_PLAIN, UI_PLAIN},
        {"gzip, deflate, br, zstd", UI_BROTLI, UI_GZIP},
        {"gzip, deflate", UI_GZIP, UI_GZIP},
        {"BR;q=0.1, GZIP;q=1", UI_BROTLI, UI_GZIP},
        {"br;q=0, gzip", UI_GZIP, UI_GZIP},
        {"br; q=0.000 , gzip;q=0", UI_PLAIN, UI_PLAIN},
        {"*", UI_BROTLI, UI_GZIP},
        {"*;q=0, gzip", UI_GZIP, UI_GZIP},
        {"br;q=0, *", UI_GZIP, UI_GZIP},
        {"identity", UI_PLAIN, UI_PLAIN},
        {"brotli, gzipped, x-gzip", UI_PLAIN, UI_PLAIN},
        {",;,;q=0;,", UI_PLAIN, UI_PLAIN},
    };
    const struct ui_file all = {.forms = {STR("b"), STR("g"), STR("p")}};
    const struct ui_file gzip_only = {.forms = {STR_EMPTY, STR("g"), STR("p")}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ui_file_choose(&all, str_c(cases[i].accept)), cases[i].all);
        assert_int_equal(ui_file_choose(&gzip_only, str_c(cases[i].accept)), cases[i].gzip_only);
    }
}

static void test_files_on_disk(void **state)
{
    (void)state;
    struct error err;
    char name[] = "/tmp/culvert-ui-pack.XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_null(ui_files_open(name, STR("/"), &err)); // empty
    assert_int_equal(write(fd, GOOD, sizeof GOOD - 1), sizeof GOOD - 1);
    close(fd);
    struct ui_files *files = ui_files_open(name, STR("/"), &err);
    assert_non_null(files);
    assert_non_null(ui_files_find(files, STR("a.css")));
    ui_files_destroy(files);
    unlink(name);
    assert_null(ui_files_open(name, STR("/"), &err));
    assert_non_null(strstr(err.text, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_found),
        cmocka_unit_test(test_base_path),
        cmocka_unit_test(test_other_packs_are_refused),
        cmocka_unit_test(test_number_of_files_is_limited),
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_files_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
