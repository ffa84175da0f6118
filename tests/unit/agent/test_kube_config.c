#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/kube/kube_config.h"
#include "base/json/yaml_tree.h"
#include "base/mem.h"
#include "base/strbuf.h"

#define HEAD                                                                                                           \
    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"                                                            \
    "contexts:\n- name: other\n  context: {cluster: nope, user: nope}\n"                                               \
    "- name: here\n  context:\n    cluster: c\n    user: u\n    namespace: team\n"

static enum error_code parse(const char *text, struct kube_config *out, struct error *err)
{
    return kube_config_parse(str_c(text), "/etc/folder", out, err);
}

static void reads_inline_credentials(void **state)
{
    (void)state;
    struct kube_config config;
    struct error err;
    enum error_code code = parse(HEAD "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/\n"
                                      "    certificate-authority-data: Q0EgUEVN\n"
                                      "users:\n- name: u\n  user:\n    token: abc.def\n"
                                      "    client-certificate-data: Q0VSVA==\n    client-key-data: S0VZ\n",
                                 &config, &err);
    assert_int_equal(code, ERROR_NONE);
    assert_string_equal(config.server, "https://10.0.0.1:6443");
    assert_string_equal(config.ca_pem, "CA PEM");
    assert_string_equal(config.client_certificate_pem, "CERT");
    assert_string_equal(config.client_key_pem, "KEY");
    assert_string_equal(config.ns, "team");
    assert_true(str_eq(kube_config_token(&config, 1), STR("abc.def")));
    kube_config_finish(&config);
}

static void json_is_yaml_too(void **state)
{
    (void)state;
    struct kube_config config;
    struct error err;
    assert_int_equal(parse("{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":\"c\"}}],"
                           "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:80\"}}]}",
                           &config, &err),
                     ERROR_NONE);
    assert_string_equal(config.server, "http://127.0.0.1:80");
    assert_int_equal(kube_config_token(&config, 1).len, 0);
    kube_config_finish(&config);
}

static void refuses(void **state)
{
    (void)state;
#define SERVER "clusters:\n- name: c\n  cluster: {server: \"https://h:1\"}\n"
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "empty"},
        {"just text", "mapping"},
        {"a: [b", "line"},
        {"a: &x b\nc: *x\n", "alias"},
        {"a: b\na: c\n", "repeated"},
        {"? [a]\n: b\n", "key"},
        {"a: b\n---\nc: d\n", "one document"},
        {"current-context: x\n", "names a context that is not in the file"},
        {"a: b\n", "current-context"},
        {HEAD "clusters: []\n", "cluster"},
        {HEAD SERVER "users: []\n", "user"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"http://10.0.0.1\"}\nusers:\n- {name: u, user: {}}\n",
         "loopback"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"http://127.example.com\"}\nusers:\n- {name: u, user: {}}\n",
         "loopback"},
        {HEAD
         "clusters:\n- name: c\n  cluster: {server: \"http://127.0.0.1.evil:80\"}\nusers:\n- {name: u, user: {}}\n",
         "loopback"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"http://localhost.evil\"}\nusers:\n- {name: u, user: {}}\n",
         "loopback"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"ftp://h\"}\nusers:\n- {name: u, user: {}}\n", "https"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"https://a@h\"}\nusers:\n- {name: u, user: {}}\n", "plain"},
        {HEAD "clusters:\n- name: c\n  cluster: {server: \"https://h\", insecure-skip-tls-verify: true}\n"
              "users:\n- {name: u, user: {}}\n",
         "insecure"},
        {HEAD SERVER "users:\n- name: u\n  user: {exec: {command: rm}}\n", "exec.apiVersion"},
        {HEAD SERVER "users:\n- name: u\n  user: {auth-provider: {name: gcp}}\n", "auth-provider"},
        {HEAD SERVER "users:\n- name: u\n  user: {username: a, password: SECRET}\n", "password"},
        {HEAD SERVER "users:\n- name: u\n  user: {token: \"SECRET SECRET\"}\n", "token"},
        {HEAD SERVER "users:\n- name: u\n  user: {client-key-data: \"!SECRET\"}\n", "client-key-data"},
        {HEAD SERVER "users:\n- name: u\n  user: {client-key-data: S0VZ}\n", "together"},
        {HEAD SERVER "users:\n- name: u\n  user: {client-certificate: absent.pem, client-key-data: S0VZ}\n",
         "/etc/folder/absent.pem"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kube_config config;
        struct error err = {0};
        enum error_code code = parse(cases[i].text, &config, &err);
        if (code == ERROR_NONE) fail_msg("case %zu was accepted", i);
        if (!strstr(err.text, cases[i].word)) fail_msg("case %zu says: %s", i, err.text);
        assert_null(strstr(err.text, "SECRET"));
    }
}

static void bounds_hold(void **state)
{
    (void)state;
    struct strbuf deep;
    strbuf_init(&deep, 1 << 20);
    for (int i = 0; i < 5000; i++)
        strbuf_add_byte(&deep, '[');
    json_t *tree;
    assert_int_not_equal(yaml_tree_decode(strbuf_str(&deep), 1 << 20, &tree, NULL), ERROR_NONE);
    strbuf_clear(&deep);
    for (int i = 0; i < YAML_TREE_NODES_MAX + 10; i++)
        strbuf_add_c(&deep, "- a\n");
    assert_int_equal(yaml_tree_decode(strbuf_str(&deep), 1 << 20, &tree, NULL), ERROR_TOO_LARGE);
    assert_int_equal(yaml_tree_decode(strbuf_str(&deep), 1000, &tree, NULL), ERROR_TOO_LARGE);
    strbuf_finish(&deep);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void pod_credentials_are_read_again(void **state)
{
    (void)state;
    char folder[] = "/tmp/kube-config-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct kube_config config;
    struct error err;
    assert_int_not_equal(kube_config_in_cluster(folder, NULL, NULL, &config, &err), ERROR_NONE);
    assert_int_not_equal(kube_config_in_cluster(folder, "10.0.0.1", "443", &config, &err), ERROR_NONE);
    write_file(folder, "ca.crt", "PEM");
    write_file(folder, "token", "one\n");
    write_file(folder, "namespace", "culvert");
    assert_int_equal(kube_config_in_cluster(folder, "fd00::1", "443", &config, &err), ERROR_NONE);
    assert_string_equal(config.server, "https://[fd00::1]:443");
    assert_string_equal(config.ns, "culvert");
    assert_true(str_eq(kube_config_token(&config, 1000), STR("one")));
    write_file(folder, "token", "two\n");
    assert_true(str_eq(kube_config_token(&config, 2000), STR("one")));
    assert_true(str_eq(kube_config_token(&config, 62000), STR("two")));
    write_file(folder, "token", "three");
    kube_config_token_refused(&config, 0);
    assert_true(str_eq(kube_config_token(&config, 200000), STR("three")));
    AUTO_FREE char *token = mem_printf("%s/token", folder);
    unlink(token);
    assert_true(str_eq(kube_config_token(&config, 300000), STR("three")));
    kube_config_finish(&config);
    AUTO_FREE char *command = mem_printf("%s/ca.crt", folder);
    AUTO_FREE char *ns = mem_printf("%s/namespace", folder);
    unlink(command);
    unlink(ns);
    rmdir(folder);
}

static void takes_what_a_cluster_secret_has(void **state)
{
    (void)state;
    struct kube_config config;
    struct error err;
    static const char good[] =
        "{\"bearerToken\":\"abc\",\"tlsClientConfig\":{\"insecure\":false,\"caData\":\"Q0EgUEVN\"}}";
    assert_int_equal(kube_config_of_secret(STR("https://east:6443/"), str_c(good), &config, &err), ERROR_NONE);
    assert_string_equal(config.server, "https://east:6443");
    assert_string_equal(config.ca_pem, "CA PEM");
    assert_true(str_eq(kube_config_token(&config, 1), STR("abc")));
    kube_config_finish(&config);
    static const struct {
        const char *server, *config, *reason;
    } bad[] = {
        {"http://east", "{}", "loopback"},
        {"https://u:p@east", "{}", "plain address"},
        {"https://east", "[", "must be a JSON object"},
        {"https://east", "{\"tlsClientConfig\":{\"insecure\":true}}", "insecure"},
        {"https://east", "{\"tlsClientConfig\":{\"caData\":\"*\"}}", "caData"},
        {"https://east", "{\"tlsClientConfig\":{\"certData\":\"Q0VSVA==\"}}", "set together"},
        {"https://east", "{\"execProviderConfig\":{\"command\":\"x\"}}", "config.execProviderConfig is not supported"},
        {"https://east", "{\"username\":\"u\"}", "config.username is not supported"},
        {"https://east", "{\"bearerToken\":\"a b\"}", "plain text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(kube_config_of_secret(str_c(bad[i].server), str_c(bad[i].config), &config, &err),
                             ERROR_NONE);
        if (!strstr(err.text, bad[i].reason)) fail_msg("%zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_inline_credentials),
        cmocka_unit_test(json_is_yaml_too),
        cmocka_unit_test(takes_what_a_cluster_secret_has),
        cmocka_unit_test(refuses),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(pod_credentials_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
