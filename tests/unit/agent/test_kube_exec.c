// kube_exec: plugins of kubeconfigs, run as an API server and its clients see them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/kube/kube_client.h"
#include "agent/kube/kube_exec.h"
#include "base/clock.h"
#include "base/json/yaml_tree.h"
#include "base/log/log.h"
#include "tests/unit/agent/fake_api.h"

#define V1      "client.authentication.k8s.io/v1"
#define BETA    "client.authentication.k8s.io/v1beta1"
#define TOKEN_1 "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"t\"}}"

// ---- what is printed -------------------------------------------------------------------------------------------

static void reads_credentials(void **state)
{
    (void)state;
    static const struct {
        const char *version, *status;
        bool is_good;
    } cases[] = {
        {V1, "{\"token\":\"t\"}", true},
        {BETA, "{\"token\":\"t\",\"expirationTimestamp\":\"2999-01-01T00:00:00Z\"}", true},
        {V1, "{\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}", true},
        {V1, "{\"clientCertificateData\":\"c\"}", false},
        {V1, "{\"clientKeyData\":\"k\",\"token\":\"t\"}", false},
        {V1, "{}", false},
        {V1, "{\"token\":\"a\\nb\"}", false},
        {V1, "{\"token\":7}", false},
        {V1, "{\"token\":\"t\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\"}", false},
        {V1, "{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AUTO_FREE char *text = mem_printf("{\"kind\":\"ExecCredential\",\"apiVersion\":\"%s\",\"status\":%s}",
                                          cases[i].version, cases[i].status);
        struct kube_exec_credential credential;
        struct error err;
        enum error_code code = kube_exec_credential_read(str_c(text), cases[i].version, &credential, &err);
        if ((code == ERROR_NONE) != cases[i].is_good) fail_msg("%s", text);
        if (code == ERROR_NONE) kube_exec_credential_finish(&credential);
    }
    static const char *const others[] = {"",
                                         "[]",
                                         "{",
                                         "{\"kind\":\"Other\",\"apiVersion\":\"" V1 "\"}",
                                         "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" BETA
                                         "\",\"status\":{\"token\":\"t\"}}",
                                         "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":[]}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct kube_exec_credential credential;
        assert_int_equal(kube_exec_credential_read(str_c(others[i]), V1, &credential, NULL), ERROR_INVALID);
    }
}

static void reads_what_a_kubeconfig_says(void **state)
{
    (void)state;
    static const struct {
        const char *exec, *command; // NULL: refused
    } cases[] = {{"{apiVersion: " V1 ", command: aws, args: [eks, get-token], env: [{name: A, value: b}]}", "aws"},
                 {"{apiVersion: " BETA ", command: ./plugin, interactiveMode: Never}", "/folder/./plugin"},
                 {"{apiVersion: " V1 ", command: /bin/x, interactiveMode: IfAvailable}", "/bin/x"},
                 {"{apiVersion: client.authentication.k8s.io/v1alpha1, command: x}", NULL},
                 {"{apiVersion: " V1 "}", NULL},
                 {"{apiVersion: " V1 ", command: x, interactiveMode: Always}", NULL},
                 {"{apiVersion: " V1 ", command: x, args: [[y]]}", NULL},
                 {"{apiVersion: " V1 ", command: x, env: [{name: A=B, value: c}]}", NULL},
                 {"{apiVersion: " V1 ", command: x, env: [{value: c}]}", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *tree;
        struct kube_exec_spec spec;
        struct error err;
        assert_int_equal(yaml_tree_decode(str_c(cases[i].exec), 4096, &tree, &err), ERROR_NONE);
        enum error_code code = kube_exec_spec_read(tree, "/folder", &spec, &err);
        json_decref(tree);
        if ((code == ERROR_NONE) != (cases[i].command != NULL)) fail_msg("%s", cases[i].exec);
        if (code != ERROR_NONE) continue;
        assert_string_equal(spec.command, cases[i].command);
        kube_exec_spec_finish(&spec);
    }
}

// ---- runs ------------------------------------------------------------------------------------------------------

struct world {
    struct loop *loop;
    struct fake_api api;
    struct kube_config kube;
    struct kube_client *client;
    uv_timer_t pulse; // so that no turn of the loop takes long
    char folder[64], path[128];
    char *args[3];
    char *env[2];
    struct kube_exec_spec spec;
    const char *accepted; // the token; NULL: any
    char seen[256];       // the header of the last request
    int status, ended;
    struct error err;
};

static void on_get(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    snprintf(world->seen, sizeof world->seen, "%s", exchange->authorization);
    bool is_good = !world->accepted || strcmp(exchange->authorization, world->accepted) == 0;
    fake_api_reply(exchange, is_good ? 200 : 401, "{}");
}

static void write_plugin(struct world *world, const char *script)
{
    char next[140];
    snprintf(next, sizeof next, "%s.next", world->path);
    FILE *file = fopen(next, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(next, 0700), 0);
    assert_int_equal(rename(next, world->path), 0);
}

static void on_pulse(uv_timer_t *timer)
{
    (void)timer;
}

static struct world *open_world(const char *script, uint64_t timeout_ms)
{
    log_set_level(LOG_ERROR + 1);
    struct world *world = mem_zalloc(sizeof *world);
    snprintf(world->folder, sizeof world->folder, "/tmp/test-kube-exec-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    snprintf(world->path, sizeof world->path, "%s/plugin", world->folder);
    write_plugin(world, script);
    world->loop = loop_create("test", 0);
    uv_timer_init(loop_uv(world->loop), &world->pulse);
    uv_timer_start(&world->pulse, on_pulse, 0, 5);
    fake_api_open(&world->api, world->loop, on_get, world);
    world->kube.server = mem_strdup(world->api.url);
    world->args[0] = "one $(touch /tmp/never) ; two";
    world->env[0] = "PLUGIN_HINT=from the kubeconfig";
    world->spec = (struct kube_exec_spec){.api_version = V1,
                                          .command = world->path,
                                          .args = world->args,
                                          .arg_count = 1,
                                          .env = world->env,
                                          .env_count = 1,
                                          .wants_cluster = true};
    world->kube.exec = kube_exec_create(&(struct kube_exec_options){.loop = world->loop,
                                                                    .spec = &world->spec,
                                                                    .server = "https://there",
                                                                    .ca_pem = "PEM",
                                                                    .timeout_ms = timeout_ms,
                                                                    .retry_base_ms = 10,
                                                                    .retry_cap_ms = 20});
    world->client = kube_client_create(world->loop, &world->kube, &world->err);
    assert_non_null(world->client);
    return world;
}

static void close_world(struct world *world)
{
    kube_client_close(world->client);
    kube_exec_destroy(world->kube.exec);
    kube_config_finish(&world->kube);
    fake_api_close(&world->api);
    uv_close((uv_handle_t *)&world->pulse, NULL);
    loop_destroy(world->loop);
    AUTO_FREE char *command = mem_printf("rm -rf %s", world->folder);
    assert_int_equal(system(command), 0);
    mem_free(world);
}

static void on_done(void *arg, int status, const struct error *err)
{
    struct world *world = arg;
    world->ended++;
    world->status = status;
    world->err = err ? *err : (struct error){0};
}

static bool has_ended(void *arg)
{
    return ((struct world *)arg)->ended > 0;
}

// One request, and how it ends.
static int get(struct world *world)
{
    world->ended = 0;
    assert_non_null(kube_client_get(
        world->client,
        &(struct kube_request_options){.path = "/version", .timeout_ms = 5000, .arg = world, .on_done = on_done}));
    fake_wait(world->loop, has_ended, world);
    return world->status;
}

static void a_credential_is_kept_until_it_is_refused(void **state)
{
    (void)state;
    struct world *world = open_world("echo '" TOKEN_1 "'", 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(get(world), 200);
    assert_string_equal(world->seen, "Bearer t");
    assert_int_equal(kube_exec_runs(world->kube.exec), 1);
    // Another token is accepted from now on, which only another run gives.
    write_plugin(world, "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"u\"}}'");
    world->accepted = "Bearer u";
    assert_int_equal(get(world), 401);
    assert_int_equal(get(world), 200);
    assert_int_equal(kube_exec_runs(world->kube.exec), 2);
    // What was refused late was sent with the credential before.
    kube_exec_refused(world->kube.exec, kube_exec_generation(world->kube.exec) - 1);
    assert_int_equal(get(world), 200);
    assert_int_equal(kube_exec_runs(world->kube.exec), 2);
    close_world(world);
}

static void a_credential_that_expires_is_renewed(void **state)
{
    (void)state;
    struct world *world = open_world("date -u -d '+2 seconds' +'{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
                                     "\",\"status\":{\"token\":\"t\",\"expirationTimestamp\":\"%Y-%m-%dT%H:%M:%SZ\"}}'",
                                     0);
    while (kube_exec_runs(world->kube.exec) < 3)
        assert_int_equal(get(world), 200);
    close_world(world);
}

// Without a shell, with the kubeconfig's variables and the cluster, and without the agent's own.
static void a_plugin_gets_what_is_its_own(void **state)
{
    (void)state;
    assert_int_equal(setenv("CULVERT_PROXY_URL", "http://me:secret@proxy", 1), 0);
    struct world *world =
        open_world("{ echo \"$# $1\"; env; ls /proc/self/fd; } >$(dirname $0)/seen\necho '" TOKEN_1 "'", 0);
    assert_int_equal(get(world), 200);
    AUTO_FREE char *path = mem_printf("%s/seen", world->folder);
    static char text[64 * 1024];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_int_equal(strncmp(text, "1 one $(touch /tmp/never) ; two\n", 32), 0);
    assert_non_null(strstr(text, "PLUGIN_HINT=from the kubeconfig\n"));
    assert_non_null(strstr(text, "\"server\":\"https://there\""));
    assert_non_null(strstr(text, "\"certificate-authority-data\":\"UEVN\""));
    assert_non_null(strstr(text, "\"interactive\":false"));
    assert_null(strstr(text, "CULVERT_"));
    assert_non_null(strstr(text, "PATH="));
    close_world(world);
    unsetenv("CULVERT_PROXY_URL");
}

static void a_plugin_that_gives_nothing_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *script, *says;
    } cases[] = {{"exit 3", "status 3"},
                 {"echo no", "did not print JSON"},
                 {"kill -9 $$", "signal 9"},
                 {"sleep 60", "did not end in time"},
                 {"sleep 60 & exit 0", "did not end in time"}, // what it started holds the output
                 {"yes", "more than 256 KiB"},
                 {"echo '{}'", "did not print an ExecCredential"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *world = open_world(cases[i].script, i == 5 ? 20000 : 500);
        assert_int_equal(get(world), 0);
        assert_int_equal(world->err.code, ERROR_FORBIDDEN);
        if (!strstr(world->err.text, cases[i].says)) fail_msg("%s: %s", cases[i].script, world->err.text);
        // It is tried again, and then there is one.
        write_plugin(world, "echo '" TOKEN_1 "'");
        while (get(world) != 200)
            assert_int_equal(world->err.code, ERROR_FORBIDDEN);
        close_world(world);
    }
    struct world *world = open_world("exit 0", 0);
    unlink(world->path);
    assert_int_equal(get(world), 0);
    assert_non_null(strstr(world->err.text, "no such file"));
    close_world(world);
}

static void may_be_destroyed_while_it_runs(void **state)
{
    (void)state;
    struct world *world = open_world("sleep 60", 0);
    assert_non_null(kube_client_get(world->client, &(struct kube_request_options){.path = "/version", .arg = world}));
    while (!kube_exec_runs(world->kube.exec))
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_credentials),
        cmocka_unit_test(reads_what_a_kubeconfig_says),
        cmocka_unit_test(a_credential_is_kept_until_it_is_refused),
        cmocka_unit_test(a_credential_that_expires_is_renewed),
        cmocka_unit_test(a_plugin_gets_what_is_its_own),
        cmocka_unit_test(a_plugin_that_gives_nothing_is_an_error),
        cmocka_unit_test(may_be_destroyed_while_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
