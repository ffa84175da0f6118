// server_config: the defaults hold, the checks that span settings complain, secrets come from
// files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api_settings.h"
#include "base/mem.h"
#include "modules/modules.h"
#include "server/config/config.h"
#include "server/intake/report_settings.h"
#include "tunnel/tunnel_settings.h"

enum { PROBLEMS_MAX = 64 * 1024, FLAGS_MAX = 16 };

struct files {
    char pem[64];
    struct strbuf problems;
    struct server_config_table table;
    struct config *config;
};

static void write_file(char *path, const char *text, size_t len)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    close(fd);
}

// Loads with what is required, then the flags given.
static bool load(struct files *files, const char *const *flags)
{
    *files = (struct files){.pem = "/tmp/culvert-config.XXXXXX"};
    write_file(files->pem, "pem", 3);
    strbuf_init(&files->problems, PROBLEMS_MAX);
    char certificate[128], key[128], deployment_key[128];
    snprintf(certificate, sizeof certificate, "--tls.certificate_file=%s", files->pem);
    snprintf(key, sizeof key, "--tls.key_file=%s", files->pem);
    snprintf(deployment_key, sizeof deployment_key, "--security.deployment_key_file=%s", files->pem);
    char *argv[FLAGS_MAX] = {"culvertd", certificate, key, deployment_key};
    int argc = 4;
    for (; *flags; flags++)
        argv[argc++] = (char *)(uintptr_t)*flags;
    const char *words[FLAGS_MAX];
    int word_count = 0;
    server_config_table_init(&files->table);
    return config_load(&files->table.table, NULL, argc, argv, &files->config, &files->problems, words, &word_count) ==
           ERROR_NONE;
}

static void finish(struct files *files)
{
    config_destroy(files->config);
    strbuf_finish(&files->problems);
    unlink(files->pem);
}

static bool complains(const struct files *files, const char *word)
{
    return files->problems.at && strstr(files->problems.at, word);
}

static void defaults_are_fine(void **state)
{
    (void)state;
    struct files files;
    assert_true(load(&files, (const char *const[]){NULL}));
    const struct api_settings *api = api_settings_of(files.config);
    const struct report_settings *reports = report_settings_of(files.config);
    assert_int_equal(api->body_bytes_max, 1 << 20);
    assert_int_equal(api->events_bytes_max, 10 << 20);
    assert_int_equal(api->head_bytes_max, 32 << 10);
    assert_int_equal(reports->batch_delay_ms, 5);
    assert_int_equal(tunnel_settings_of(files.config)->streams_max, 1000);
    assert_true(reports->batch_bytes <= reports->queue_bytes_max);
    finish(&files);
}

// The sections of modules are in the table, in the place that the example file has.
static void modules_have_settings(void **state)
{
    (void)state;
    struct files files;
    assert_true(load(&files, (const char *const[]){"--sessions.link_life=2m", NULL}));
    assert_int_equal(config_number(files.config, "sessions.link_life"), 2 * 60 * 1000);
    size_t found = 0;
    for (const struct module *const *module = modules; *module; module++) {
        if (!(*module)->settings) continue;
        const struct config_section *section = (*module)->settings;
        assert_non_null(config_values(files.config, section));
        assert_int_equal(config_number(files.config, "sessions.per_user_max"), 20);
        found++;
    }
    assert_true(found >= 1);
    finish(&files);
}

static void nothing_secret_is_printed(void **state)
{
    (void)state;
    struct files files;
    assert_true(load(&files, (const char *const[]){NULL}));
    struct strbuf text;
    strbuf_init(&text, PROBLEMS_MAX);
    config_print(files.config, &text);
    assert_non_null(strstr(text.at, "api.listen"));
    assert_null(strstr(text.at, "hidden"));
    strbuf_finish(&text);
    finish(&files);
}

static void each_fault_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *word;
    } faults[] = {
        {"--node.name=", "node.name"},
        {"--loops=17", "loops"},
        {"--loops=-1", "loops"},
        {"--log.level=loud", "log.level"},
        {"--platform.url=http://x", "platform.url"},
        {"--platform.url=https://", "platform.url"},
        {"--tunnel.domain=Upper.example", "tunnel.domain"},
        {"--tunnel.domain=.example", "tunnel.domain"},
        {"--database.url=host=x password=hidden", "database.url"}, // a secret where everybody can read it
        {"--security.deployment_key_file=", "security.deployment_key_file"},
        {"--security.deployment_key_file=/nowhere", "security.deployment_key_file"},
        {"--security.deployment_key_previous_file=/nowhere", "security.deployment_key_previous_file"},
        {"--database.connections=0", "database.connections"},
        {"--api.body_max=33MiB", "api.body_max"},
        {"--api.body_max=32MiB", "api.body_max"},
        {"--reports.batch_bytes=32MiB", "reports.batch_bytes"},
        {"--reports.batch_count=257", "reports.batch_count"},
        {"--tls.key_file=/nonexistent/key", "tls.key_file"},
        {"--api.listen=nonsense", "api.listen"},
        {"--no.such.setting=1", "no.such.setting"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct files files;
        print_message("%s\n", faults[i].flag);
        bool fine = load(&files, (const char *const[]){faults[i].flag, "--reports.queue_max=16MiB", NULL});
        assert_false(fine);
        assert_true(complains(&files, faults[i].word));
        assert_false(complains(&files, "hidden"));
        finish(&files);
    }
}

static void pairs_of_certificates(void **state)
{
    (void)state;
    struct files files;
    assert_false(load(&files, (const char *const[]){"--tunnel.tls.certificate_file=/etc/hostname",
                                                    "--ingress.tls.key_file=/etc/hostname", NULL}));
    assert_true(complains(&files, "tunnel.tls"));
    assert_true(complains(&files, "ingress.tls"));
    finish(&files);
}

static void check_secret(const char *content, size_t len, const char *expected)
{
    char path[] = "/tmp/culvert-secret.XXXXXX", value[64];
    write_file(path, content, len);
    snprintf(value, sizeof value, "file:%s", path);
    char *out = NULL;
    struct error err;
    enum error_code code = config_secret(value, &out, &err);
    unlink(path);
    if (expected) {
        assert_int_equal(code, ERROR_NONE);
        assert_string_equal(out, expected);
        mem_free(out);
    } else {
        assert_int_equal(code, ERROR_INVALID);
        assert_null(out);
        assert_null(strstr(err.text, "aaaa"));
    }
}

static void secrets(void **state)
{
    (void)state;
    char *out = NULL;
    assert_int_equal(config_secret("host=x", &out, NULL), ERROR_NONE);
    assert_string_equal(out, "host=x");
    mem_free(out);
    out = NULL;
    assert_int_equal(config_secret("file:/nonexistent/x", &out, NULL), ERROR_INVALID);
    assert_null(out);
    assert_int_equal(config_secret("file:/tmp", &out, NULL), ERROR_INVALID);
    check_secret("abc", 3, "abc");
    check_secret("abc\r\n\n", 6, "abc");
    check_secret("\n", 1, NULL);
    check_secret("", 0, NULL);
    check_secret("aaaa\0b", 6, NULL);
    char large[5000];
    memset(large, 'a', sizeof large);
    check_secret(large, sizeof large, NULL);
    check_secret(large, 4097, NULL);
    large[4096] = '\0';
    check_secret(large, 4096, large);
    large[4096] = '\n';
    large[4095] = 'b';
    large[4094] = '\0';
    check_secret(large, 4097, NULL);
}

int main(void)
{
    setenv("CULVERT_DATABASE_URL", "host=x password=hidden", 1);
    setenv("CULVERT_REDIS_URL", "redis://:hidden@x:1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_fine),         cmocka_unit_test(modules_have_settings),
        cmocka_unit_test(nothing_secret_is_printed), cmocka_unit_test(each_fault_is_named),
        cmocka_unit_test(pairs_of_certificates),     cmocka_unit_test(secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
