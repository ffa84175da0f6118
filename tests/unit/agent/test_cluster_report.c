// cluster_report: what is told of clusters, and that the own one brings the names of all managed ones, but only when
// they were read to the end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/reports/cluster_report.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "fake_api.h"

struct world {
    struct loop *loop;
    struct fake_api api;
    struct kube_config kube;
    struct kube_client *client;
    struct kube_probe *probe;
    struct cluster_report *report;
    const char *secrets; // the answer; NULL: refused
    uint64_t now_ms;
    unsigned versions, lists; // asked for
    char own[2048];           // told last of the own cluster
    unsigned managed;         // told of others
};

static void on_get(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    if (strncmp(exchange->path, "/version", 8) == 0) {
        world->versions++;
        fake_api_reply(exchange, 200, "{\"major\":\"1\",\"minor\":\"29\"}");
    } else {
        world->lists++;
        fake_api_reply(exchange, world->secrets ? 200 : 403, world->secrets ? world->secrets : "{}");
    }
}

static void on_cluster(void *arg, struct str manifest)
{
    struct world *world = arg;
    json_t *value = NULL;
    assert_int_equal(json_decode(manifest, NULL, &value, NULL), ERROR_NONE);
    if (str_eq(json_get_str(value, "name"), STR("in-cluster")))
        snprintf(world->own, sizeof world->own, "%.*s", STR_ARG(manifest));
    else
        world->managed++;
    json_decref(value);
}

static void counts(void *arg, size_t *out_applications, size_t *out_resources, size_t *out_kinds)
{
    (void)arg;
    *out_applications = *out_resources = *out_kinds = 1;
}

static struct world *open_world(const char *secrets)
{
    log_set_level(LOG_ERROR);
    struct world *world = mem_zalloc(sizeof *world);
    struct error err;
    world->secrets = secrets;
    world->now_ms = 1;
    world->loop = loop_create("test", 0);
    fake_api_open(&world->api, world->loop, on_get, world);
    world->kube.server = mem_strndup(world->api.url, strlen(world->api.url));
    world->client = kube_client_create(world->loop, &world->kube, &err);
    assert_non_null(world->client);
    world->probe = kube_probe_create(
        &(struct kube_probe_options){.loop = world->loop, .config = &world->kube, .interval_ms = 1}, &err);
    world->report = cluster_report_create(&(struct cluster_report_options){.client = world->client,
                                                                           .probe = world->probe,
                                                                           .cluster_name = "in-cluster",
                                                                           .managed = true,
                                                                           .arg = world,
                                                                           .on_cluster = on_cluster,
                                                                           .counts = counts});
    return world;
}

static void close_world(struct world *world)
{
    cluster_report_destroy(world->report);
    kube_probe_destroy(world->probe);
    kube_client_close(world->client);
    fake_api_close(&world->api);
    loop_destroy(world->loop);
    kube_config_finish(&world->kube);
    mem_free(world);
}

// Ticks on until what is told says so.
static bool says(struct world *world, const char *text)
{
    world->now_ms += 70000;
    kube_probe_tick(world->probe, world->now_ms);
    cluster_report_tick(world->report, world->now_ms);
    return text ? strstr(world->own, text) != NULL : world->own[0] && !strstr(world->own, "\"clusters\"");
}

static bool says_both(void *arg)
{
    return says(arg, "\"clusters\":[\"east\",\"west\"]");
}

static bool says_one(void *arg)
{
    return says(arg, "\"clusters\":[\"west\"]");
}

static bool asked_twice(void *arg)
{
    struct world *world = arg;
    return says(world, NULL) && world->lists > 2 && world->versions > 2;
}

#define SECRET(name, server) "{\"data\":{\"name\":\"" name "\",\"server\":\"" server "\"}}"
#define EAST                 SECRET("ZWFzdA==", "aHR0cHM6Ly9lYXN0")
#define WEST                 SECRET("d2VzdA==", "aHR0cHM6Ly93ZXN0")

static void the_own_cluster_brings_the_names(void **state)
{
    (void)state;
    struct world *world = open_world("{\"metadata\":{},\"items\":[" EAST "," WEST "]}");
    fake_wait(world->loop, says_both, world);
    assert_int_equal(world->managed, 2);
    world->secrets = "{\"metadata\":{},\"items\":[" WEST "]}";
    fake_wait(world->loop, says_one, world);
    close_world(world);
}

static void a_part_of_them_says_nothing_about_the_rest(void **state)
{
    (void)state;
    static const char *const answers[] = {"{\"metadata\":{\"continue\":\"more\"},\"items\":[" EAST "]}", NULL, "{}"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct world *world = open_world(answers[i]);
        fake_wait(world->loop, asked_twice, world);
        close_world(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_cluster_brings_the_names),
        cmocka_unit_test(a_part_of_them_says_nothing_about_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
