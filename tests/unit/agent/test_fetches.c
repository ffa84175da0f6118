// fetches: a few at a time, each object once, and nobody is touched who has been forgotten meanwhile. Against a
// Kubernetes API that answers when the test says so.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/reports/fetches.h"
#include "base/log/log.h"
#include "fake_api.h"

enum { RESOURCES = 8 };

struct world {
    struct loop *loop;
    struct fake_api api;
    struct kube_config config;
    struct kube_client *client;
    struct fetches *fetches;
    struct inventory_kind kind;
    struct inventory_resource *resources[RESOURCES];
    char kubeconfig[64];
    int status; // of answers; 0: they wait
    struct fake_exchange *waiting[RESOURCES];
    unsigned requests, fetched[RESOURCES], failed;
    uint64_t ended_wanted;
};

static void answer(struct world *world, struct fake_exchange *exchange)
{
    fake_api_reply(exchange, world->status, world->status == 200 ? "{\"metadata\":{}}" : "{}");
}

static void on_get(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    if (world->status)
        answer(world, exchange);
    else
        world->waiting[world->requests] = exchange;
    world->requests++;
}

static char *path_of(void *arg, const struct inventory_resource *resource)
{
    (void)arg;
    return mem_printf("/%s", resource->name);
}

static void on_fetched(void *arg, struct inventory_resource *resource, json_t *object)
{
    struct world *world = arg;
    assert_true(json_is_object(object));
    for (unsigned i = 0; i < RESOURCES; i++)
        if (world->resources[i] == resource) world->fetched[i]++;
}

static void on_failed(void *arg, const struct inventory_resource *resource)
{
    assert_true(resource->kind == &((struct world *)arg)->kind);
    ((struct world *)arg)->failed++;
}

static struct world *world_open(int status)
{
    log_set_level(LOG_ERROR);
    struct world *world = mem_zalloc(sizeof *world);
    struct error err;
    world->status = status;
    world->loop = loop_create("test", 0);
    fake_api_open(&world->api, world->loop, on_get, world);
    snprintf(world->kubeconfig, sizeof world->kubeconfig, "/tmp/test-fetches-XXXXXX");
    int fd = mkstemp(world->kubeconfig);
    assert_true(fd >= 0);
    dprintf(fd,
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
            "{server: \"%s\"}}], users: [{name: u, user: {token: the-token}}]}",
            world->api.url);
    close(fd);
    assert_int_equal(kube_config_load(world->kubeconfig, &world->config, &err), ERROR_NONE);
    world->client = kube_client_create(world->loop, &world->config, &err);
    assert_non_null(world->client);
    world->fetches = fetches_create(&(struct fetches_options){
        .client = world->client, .path_of = path_of, .on_fetched = on_fetched, .on_failed = on_failed, .arg = world});
    for (unsigned i = 0; i < RESOURCES; i++) {
        world->resources[i] = mem_zalloc(sizeof *world->resources[i]);
        world->resources[i]->kind = &world->kind;
        world->resources[i]->name = mem_printf("object-%u", i);
        world->resources[i]->uid = mem_strdup("uid");
        world->resources[i]->reported = true;
    }
    return world;
}

static void forget(struct world *world, unsigned i)
{
    struct inventory_resource *resource = world->resources[i];
    if (!resource) return;
    fetches_forget(world->fetches, resource);
    world->resources[i] = NULL;
    mem_free(resource->name);
    mem_free(resource->uid);
    mem_free(resource);
}

static void world_close(struct world *world)
{
    for (unsigned i = 0; i < RESOURCES; i++)
        forget(world, i);
    fetches_destroy(world->fetches);
    kube_client_close(world->client);
    kube_config_finish(&world->config);
    fake_api_close(&world->api);
    loop_destroy(world->loop);
    unlink(world->kubeconfig);
    mem_free(world);
}

static bool four_are_asked_for(void *arg)
{
    return ((struct world *)arg)->requests == FETCHES_AT_ONCE;
}

static bool enough_have_ended(void *arg)
{
    struct world *world = arg;
    fetches_tick(world->fetches);
    return fetches_ended(world->fetches) >= world->ended_wanted;
}

static void wait_for(struct world *world, uint64_t ended)
{
    world->ended_wanted = ended;
    fake_wait(world->loop, enough_have_ended, world);
}

// All six are wanted, four are on their way. The content of the last two comes another way, then they are gone, while
// their places in the line are still there.
static void whoever_is_forgotten_is_not_touched(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    for (unsigned i = 0; i < 6; i++)
        fetches_add(world->fetches, world->resources[i]);
    fetches_tick(world->fetches);
    fake_wait(world->loop, four_are_asked_for, world);
    fetches_drop(world->fetches, world->resources[4]);
    forget(world, 4);
    forget(world, 5);
    // And one of those that are on their way.
    fetches_drop(world->fetches, world->resources[1]);
    forget(world, 1);
    world->status = 200;
    for (unsigned i = 0; i < FETCHES_AT_ONCE; i++)
        answer(world, world->waiting[i]);
    wait_for(world, 6);
    assert_int_equal(fetches_added(world->fetches), 6);
    assert_int_equal(world->requests, FETCHES_AT_ONCE);
    assert_true(world->fetched[0] == 1 && world->fetched[2] == 1 && world->fetched[3] == 1);
    assert_true(world->fetched[1] == 0 && world->fetched[4] == 0 && world->fetched[5] == 0);
    world_close(world);
}

static void each_is_asked_for_once(void **state)
{
    (void)state;
    struct world *world = world_open(200);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < RESOURCES; i++) {
            fetches_add(world->fetches, world->resources[i]);
            if (round < 2) fetches_drop(world->fetches, world->resources[i]);
        }
    }
    wait_for(world, RESOURCES);
    assert_int_equal(world->requests, RESOURCES);
    for (unsigned i = 0; i < RESOURCES; i++)
        assert_int_equal(world->fetched[i], 1);
    assert_int_equal(fetches_added(world->fetches), RESOURCES);
    world_close(world);
}

static void failures_are_told(void **state)
{
    (void)state;
    struct world *world = world_open(500);
    fetches_add(world->fetches, world->resources[0]);
    wait_for(world, 6);
    assert_int_equal(world->requests, 6);
    assert_int_equal(world->failed, 1);
    assert_int_equal(world->fetched[0], 0);
    assert_false(world->resources[0]->fetching);
    // Gone; or not to be got, but a list may tell.
    world->status = 404;
    fetches_add(world->fetches, world->resources[1]);
    wait_for(world, 7);
    assert_int_equal(world->failed, 1);
    world->status = 403;
    fetches_add(world->fetches, world->resources[1]);
    wait_for(world, 8);
    assert_int_equal(world->failed, 2);
    // It is possible again.
    world->status = 200;
    fetches_add(world->fetches, world->resources[0]);
    wait_for(world, 9);
    assert_int_equal(world->fetched[0], 1);
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_forgotten_is_not_touched),
        cmocka_unit_test(each_is_asked_for_once),
        cmocka_unit_test(failures_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
