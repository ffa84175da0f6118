// Settings from defaults, file, environment and flags: who wins, what is refused, and that nothing
// secret is shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config/config.h"

struct listener_settings {
    char *listen, *level, *certificate, *title;
};
struct limit_settings {
    char *password;
    bool enabled;
    int64_t loops, bytes, wait_ms;
};
CONFIG_SECTION(listener_settings);
CONFIG_SECTION(limit_settings);

#define AT(field) offsetof(struct listener_settings, field)

static const struct config_entry listener_entries[] = {
    {.name = "api.listen", .type = CONFIG_ADDRESS, .offset = AT(listen), .def = ":8443", .help = "Where to listen."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = AT(level),
     .def = "info",
     .choices = "debug|info|warn",
     .reloadable = true,
     .help = "The least level."},
    {.name = "tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(certificate),
     .def = "",
     .help = "A certificate."},
    {.name = "title", .type = CONFIG_STRING, .offset = AT(title), .def = NULL, .help = "Something that must be given."},
};
#undef AT
#define AT(field) offsetof(struct limit_settings, field)

static const struct config_entry limit_entries[] = {
    {.name = "database.url",
     .type = CONFIG_STRING,
     .offset = AT(password),
     .def = "",
     .secret = true,
     .help = "A connection string."},
    {.name = "enabled", .type = CONFIG_BOOL, .offset = AT(enabled), .def = "false", .help = "A switch."},
    {.name = "loops", .type = CONFIG_INT, .offset = AT(loops), .def = "1", .min = 1, .max = 16, .help = "Threads."},
    {.name = "body_max",
     .type = CONFIG_BYTES,
     .offset = AT(bytes),
     .def = "1MiB",
     .min = 1024,
     .max = 1 << 30,
     .help = "Bytes."},
    {.name = "api.wait",
     .type = CONFIG_DURATION,
     .offset = AT(wait_ms),
     .def = "90s",
     .max = 3600000,
     .help = "How long to wait."},
};

static void check_limits(const struct config *config, struct strbuf *problems)
{
    const struct limit_settings *own = limit_settings_of(config);
    if (own->loops > 8 && !own->enabled) strbuf_add_c(problems, "loops: more than 8 want enabled\n");
}

const struct config_section listener_settings_section = {
    .title = "Listeners", .size = sizeof(struct listener_settings), CONFIG_ENTRIES(listener_entries)};
const struct config_section limit_settings_section = {
    .title = "Limits", .size = sizeof(struct limit_settings), CONFIG_ENTRIES(limit_entries), .check = check_limits};
static const struct config_section *const sections[] = {&listener_settings_section, &limit_settings_section};
static const struct config_table table = {sections, 2, "sample", "SAMPLE_"};

struct fixture {
    char path[64];
    struct strbuf problems;
    struct config *config;
};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/test_config.XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    strbuf_init(&f->problems, 64 * 1024);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"SAMPLE_LOOPS", "SAMPLE_API_LISTEN", "SAMPLE_TITLE", "SAMPLE_DATABASE_URL"};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    config_destroy(f->config);
    f->config = NULL;
    strbuf_finish(&f->problems);
    unlink(f->path);
    test_free(f);
    return 0;
}

static void write_file(struct fixture *f, const char *text)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static enum error_code load(struct fixture *f, const char *file, const char **flags)
{
    char *argv[16] = {(char *)(uintptr_t) "sample"};
    int argc = 1;
    for (; flags && flags[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)flags[argc - 1];
    strbuf_clear(&f->problems);
    config_destroy(f->config);
    return config_load(&table, file, argc, argv, &f->config, &f->problems, NULL, NULL);
}

static void test_defaults(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, NULL, (const char *[]){"--title=x", NULL}), ERROR_NONE);
    assert_string_equal(listener_settings_of(f->config)->listen, ":8443");
    assert_string_equal(listener_settings_of(f->config)->level, "info");
    assert_string_equal(listener_settings_of(f->config)->certificate, "");
    assert_false(limit_settings_of(f->config)->enabled);
    assert_int_equal(limit_settings_of(f->config)->loops, 1);
    assert_int_equal(limit_settings_of(f->config)->bytes, 1 << 20);
    assert_int_equal(limit_settings_of(f->config)->wait_ms, 90000);
}

static void test_later_sources_win(void **state)
{
    struct fixture *f = *state;
    write_file(f,
               "# comment\n\n title = from file \nloops=2\r\napi.listen = 127.0.0.1:1\nbody_max = 2KiB\nenabled=yes");
    setenv("SAMPLE_LOOPS", "3", 1);
    setenv("SAMPLE_API_LISTEN", "127.0.0.1:2", 1);
    const char *flags[] = {"--loops", "4", "--enabled=false", "--log.level=warn", NULL};
    assert_int_equal(load(f, f->path, flags), ERROR_NONE);
    assert_string_equal(listener_settings_of(f->config)->title, "from file");
    assert_int_equal(limit_settings_of(f->config)->loops, 4);
    assert_string_equal(listener_settings_of(f->config)->listen, "127.0.0.1:2");
    assert_int_equal(limit_settings_of(f->config)->bytes, 2048);
    assert_false(limit_settings_of(f->config)->enabled);
    assert_string_equal(listener_settings_of(f->config)->level, "warn");
}

static void test_all_errors_at_once(void **state)
{
    struct fixture *f = *state;
    write_file(f, "titel = x\nloops = 1\nloops = 2\nno equals sign\nbody_max = 12 parsecs\n\xff = y\n");
    setenv("SAMPLE_API_LISTEN", "nonsense", 1);
    const char *flags[] = {"--log.level=loud", "--api.wait", "--loops=17", "--tls.certificate_file=/nowhere/x",
                           "--nope",           "word",       NULL};
    assert_int_equal(load(f, f->path, flags), ERROR_INVALID);
    static const char *const wanted[] = {
        ":1: unknown setting \"titel\"; did you mean title?",
        ":3: loops is set a second time",
        ":4: is not of the form",
        ":5: body_max: ",
        ":6: must be UTF-8",
        "SAMPLE_API_LISTEN: api.listen: ",
        "--log.level: log.level: \"loud\" is not one of debug|info|warn",
        "--api.wait: requires a value",
        "--loops: loops: 17 is not between 1 and 16",
        "/nowhere/x cannot be read",
        "--nope: unknown setting",
        "word: is not a flag",
        "title: is required (--title, SAMPLE_TITLE or the configuration file)",
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!strstr(f->problems.at, wanted[i])) print_error("missing: %s\nin:\n%s\n", wanted[i], f->problems.at);
        assert_non_null(strstr(f->problems.at, wanted[i]));
    }
    assert_null(f->config);
}

// Checks of a section see values that are right each by itself, and no others.
static void test_sections_are_checked(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, NULL, (const char *[]){"--title=x", "--loops=9", NULL}), ERROR_INVALID);
    assert_string_equal(f->problems.at, "loops: more than 8 want enabled\n");
    assert_null(f->config);
    assert_int_equal(load(f, NULL, (const char *[]){"--loops=9", NULL}), ERROR_INVALID);
    assert_null(strstr(f->problems.at, "want enabled"));
    assert_int_equal(load(f, NULL, (const char *[]){"--title=x", "--loops=9", "--enabled", NULL}), ERROR_NONE);
}

static void test_required_must_not_be_empty(void **state)
{
    struct fixture *f = *state;
    setenv("SAMPLE_TITLE", "", 1);
    assert_int_equal(load(f, NULL, NULL), ERROR_INVALID);
    assert_non_null(strstr(f->problems.at, "SAMPLE_TITLE: title: is required and must not be empty"));
    setenv("SAMPLE_TITLE", "a\nb", 1);
    assert_int_equal(load(f, NULL, NULL), ERROR_INVALID);
}

static void test_misspelt_variables_are_refused(void **state)
{
    static const struct {
        const char *name, *value;
        bool refused;
    } cases[] = {
        {"SAMPLE_DATABASE_ULR", "x", true},
        {"SAMPLE_DATABASE_PASSWORD", "x", true},
        {"SAMPLE_TITEL", "x", true},
        {"SAMPLE_API_SERVICE_HOST", "10.0.0.1", false},
        {"SAMPLE_API_PORT", "tcp://10.0.0.1", false},
        {"SAMPLE_API_PORT_443_TCP_PORT", "443", false},
        {"SAMPLE_API_KEY", "x", false},
        {"SAMPLE_BUILD_FOLDER", "x", false},
        {"SOMETHING_ELSE", "x", false},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        enum error_code code = load(f, NULL, (const char *[]){"--title=x", NULL});
        unsetenv(cases[i].name);
        if (cases[i].refused != (code == ERROR_INVALID)) print_error("%s\n", cases[i].name);
        assert_int_equal(code, cases[i].refused ? ERROR_INVALID : ERROR_NONE);
        config_destroy(f->config);
        f->config = NULL;
    }
}

static void test_secrets_are_not_shown(void **state)
{
    struct fixture *f = *state;
    const char *flags[] = {"--title=x", "--database.url=hunter2", NULL};
    assert_int_equal(load(f, NULL, flags), ERROR_INVALID);
    assert_non_null(strstr(f->problems.at, "not accepted on the command line"));
    assert_null(strstr(f->problems.at, "hunter2"));
    setenv("SAMPLE_DATABASE_URL", "hunter2\x01", 1);
    assert_int_equal(load(f, NULL, (const char *[]){"--title=x", NULL}), ERROR_INVALID);
    assert_null(strstr(f->problems.at, "hunter2"));
    setenv("SAMPLE_DATABASE_URL", "hunter2", 1);
    assert_int_equal(load(f, NULL, (const char *[]){"--title=x", NULL}), ERROR_NONE);
    assert_string_equal(limit_settings_of(f->config)->password, "hunter2");
    struct strbuf out;
    strbuf_init(&out, 64 * 1024);
    config_print(f->config, &out);
    assert_null(strstr(out.at, "hunter2"));
    strbuf_finish(&out);
}

static void test_words(void **state)
{
    struct fixture *f = *state;
    char *argv[] = {(char *)(uintptr_t) "sample", (char *)(uintptr_t) "migrate", (char *)(uintptr_t) "--title=x",
                    (char *)(uintptr_t) "--", (char *)(uintptr_t) "--loops"};
    const char *words[5];
    int count = 0;
    assert_int_equal(config_load(&table, NULL, 5, argv, &f->config, &f->problems, words, &count), ERROR_NONE);
    assert_int_equal(count, 2);
    assert_string_equal(words[0], "migrate");
    assert_string_equal(words[1], "--loops");
}

// What --print-config and the example say can be read back.
static void test_printed_forms_are_files(void **state)
{
    struct fixture *f = *state;
    const char *flags[] = {"--title=x", "--api.wait=1500ms", "--body_max=3MiB", "--loops=7", "--enabled", NULL};
    assert_int_equal(load(f, NULL, flags), ERROR_NONE);
    struct strbuf out;
    strbuf_init(&out, 64 * 1024);
    config_print(f->config, &out);
    assert_non_null(strstr(out.at, "api.wait = 1500ms\n"));
    assert_non_null(strstr(out.at, "body_max = 3MiB\n"));
    write_file(f, out.at);
    config_destroy(f->config);
    f->config = NULL;
    assert_int_equal(load(f, f->path, NULL), ERROR_NONE);
    assert_int_equal(limit_settings_of(f->config)->wait_ms, 1500);
    assert_int_equal(limit_settings_of(f->config)->loops, 7);
    assert_true(limit_settings_of(f->config)->enabled);
    config_destroy(f->config);
    f->config = NULL;
    strbuf_clear(&out);
    config_print_example(&table, &out);
    assert_non_null(strstr(out.at, "\ntitle =\n"));
    assert_non_null(strstr(out.at, "\n#api.wait = 90s\n"));
    write_file(f, out.at);
    assert_int_equal(load(f, f->path, (const char *[]){"--title=x", NULL}), ERROR_NONE);
    strbuf_clear(&out);
    config_print_help(&table, &out);
    assert_non_null(strstr(out.at, "--loops=<number>  (default 1)"));
    assert_non_null(strstr(out.at, "SAMPLE_LOOPS; 1 to 16"));
    strbuf_finish(&out);
}

static void test_unreadable_files(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, "/nowhere/sample.conf", (const char *[]){"--title=x", NULL}), ERROR_INVALID);
    assert_non_null(strstr(f->problems.at, "/nowhere/sample.conf: cannot be read"));
    assert_int_equal(load(f, "/tmp", (const char *[]){"--title=x", NULL}), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_later_sources_win, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_errors_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sections_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_required_must_not_be_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_misspelt_variables_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_secrets_are_not_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_printed_forms_are_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unreadable_files, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
