#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/reports/inventory.h"
#include "base/json/json.h"
#include "base/mem.h"

struct world {
    struct inventory *inventory;
    struct inventory_kind *applications, *deployments, *replica_sets, *pods;
    char told[4096];
};

static void tell(struct world *world, const char *what, const struct inventory_resource *resource)
{
    size_t used = strlen(world->told);
    snprintf(world->told + used, sizeof world->told - used, "%s %s:%.*s:%s ", what, resource->name,
             STR_ARG(inventory_application_name(resource)), resource->health_status ? resource->health_status : "");
}

static void on_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    json_object_clear(object); // the callee may do what it likes
    tell(arg, "+", resource);
}

static void on_gone(void *arg, const struct inventory_resource *resource)
{
    tell(arg, "-", resource);
}

static void on_stale(void *arg, struct inventory_resource *resource)
{
    tell(arg, "?", resource);
}

static void on_forget(void *arg, struct inventory_resource *resource)
{
    (void)arg;
    (void)resource;
}

static void on_elsewhere(void *arg, struct str ns, struct str name, struct str elsewhere, const json_t *entries)
{
    struct world *world = arg;
    size_t used = strlen(world->told);
    (void)ns;
    snprintf(world->told + used, sizeof world->told - used, "@%.*s=%.*s:%zu ", STR_ARG(name), STR_ARG(elsewhere),
             json_array_size(entries));
}

static const struct inventory_events events = {on_report, on_gone, on_stale, on_elsewhere, on_forget};

static struct world *world_open_with(size_t resources_max)
{
    struct world *world = mem_zalloc(sizeof *world);
    world->inventory = inventory_create(&events, world, resources_max, NULL);
    world->applications = inventory_kind_of(world->inventory, STR("argoproj.io"), STR("v1alpha1"), STR("Application"));
    world->applications->always = true;
    world->deployments = inventory_kind_of(world->inventory, STR("apps"), STR("v1"), STR("Deployment"));
    world->replica_sets = inventory_kind_of(world->inventory, STR("apps"), STR("v1"), STR("ReplicaSet"));
    world->pods = inventory_kind_of(world->inventory, STR(""), STR("v1"), STR("Pod"));
    return world;
}

static struct world *world_open(void)
{
    return world_open_with(0);
}

static void world_close(struct world *world)
{
    inventory_destroy(world->inventory);
    mem_free(world);
}

static void see(struct world *world, struct inventory_kind *kind, uint64_t generation, const char *name,
                const char *owner)
{
    json_t *object = json_pack("{s:{s:s, s:s, s:s, s:[{s:s, s:b}]}}", "metadata", "name", name, "namespace", "ns",
                               "uid", name, "ownerReferences", "uid", owner, "controller", 1);
    inventory_seen(world->inventory, kind, generation, object);
    json_decref(object);
}

// An application that names Deployments, each "name:health".
static void see_application(struct world *world, const char *name, const char *server, const char *const *names)
{
    json_t *resources = json_array();
    for (; *names; names++) {
        struct str rest = str_c(*names), first;
        str_cut(&rest, ':', &first);
        json_array_append_new(resources, json_pack("{s:s, s:s, s:s, s:s, s:s%, s:{s:s%}}", "group", "apps", "version",
                                                   "v1", "kind", "Deployment", "namespace", "ns", "name", first.at,
                                                   first.len, "health", "status", rest.at, rest.len));
    }
    json_t *object =
        json_pack("{s:{s:s, s:s, s:s}, s:{s:{s:s}}, s:{s:o}}", "metadata", "name", name, "namespace", "argocd", "uid",
                  name, "spec", "destination", "server", server, "status", "resources", resources);
    inventory_seen(world->inventory, world->applications, 1, object);
    json_decref(object);
}

#define LOCAL           "https://kubernetes.default.svc"
#define NAMES(...)      ((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT(w, text) (assert_string_equal((w)->told, (text)), (void)((w)->told[0] = 0))

static void only_this_cluster_is_this_cluster(void **state)
{
    (void)state;
    static const struct {
        const char *server;
        bool is_own;
    } cases[] = {{LOCAL, true},
                 {LOCAL "/", true},
                 {LOCAL ":443", true},
                 {LOCAL ".cluster.local:443/", true},
                 {"https://kubernetes.default", true},
                 {LOCAL ".evil", false},
                 {LOCAL "x", false},
                 {LOCAL ":8443", false},
                 {LOCAL "/else", false},
                 {LOCAL ".cluster.local.evil", false},
                 {"http://kubernetes.default.svc", false},
                 {"https://elsewhere", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *world = world_open();
        see_application(world, "app", cases[i].server, NAMES("web:Healthy"));
        if (world->deployments->claims != cases[i].is_own) fail_msg("%s", cases[i].server);
        world_close(world);
    }
}

static void an_application_that_comes_home_is_read(void **state)
{
    (void)state;
    struct error err;
    const struct destinations_options options = {.server = "https://10.96.0.1"};
    struct destinations *destinations = destinations_create(&options, &err);
    struct world *world = mem_zalloc(sizeof *world);
    world->inventory = inventory_create(&events, world, 0, destinations);
    world->applications = inventory_kind_of(world->inventory, STR("argoproj.io"), STR("v1alpha1"), STR("Application"));
    world->deployments = inventory_kind_of(world->inventory, STR("apps"), STR("v1"), STR("Deployment"));
    static const struct {
        const char *server;
        size_t claims, findings;
    } steps[] = {{"https://east", 0, 1}, {"https://10.96.0.1:443", 1, 0}, {"https://west", 0, 1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        see_application(world, "app", steps[i].server, NAMES("web:Healthy"));
        json_t *findings = json_array();
        destinations_findings(destinations, findings);
        assert_int_equal(world->deployments->claims, steps[i].claims);
        assert_int_equal(json_array_size(findings), steps[i].findings);
        json_decref(findings);
    }
    world_close(world);
    json_t *findings = json_array();
    destinations_findings(destinations, findings);
    assert_int_equal(json_array_size(findings), 0);
    json_decref(findings);
    destinations_destroy(destinations);
}

// The other side of on_elsewhere: the inventory of the cluster where these objects are.
static void applications_of_another_cluster(void **state)
{
    (void)state;
    struct world *world = world_open();
    json_t *entries = json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "group", "apps", "version", "v1", "kind", "Deployment",
                                "namespace", "ns", "name", "web");
    inventory_application(world->inventory, STR("argocd"), STR("far"), entries);
    assert_true(inventory_has_application(world->inventory, STR("argocd"), STR("far")));
    see(world, world->deployments, 1, "web", "");
    see(world, world->replica_sets, 1, "web-1", "web");
    EXPECT(world, "+ web:far: + web-1:far: ");
    inventory_application(world->inventory, STR("argocd"), STR("far"), NULL);
    EXPECT(world, "- web:: - web-1:: ");
    assert_false(inventory_has_application(world->inventory, STR("argocd"), STR("far")));
    // All at once, as when the cluster is known no more.
    inventory_application(world->inventory, STR("argocd"), STR("far"), entries);
    inventory_application(world->inventory, STR("argocd"), STR("too"), entries);
    world->told[0] = 0;
    inventory_forget_applications(world->inventory);
    assert_non_null(strstr(world->told, "- web:"));
    assert_int_equal(inventory_application_count(world->inventory), 0);
    json_decref(entries);
    world_close(world);
}

// An Application of another Argo CD there, which has a name of the first one's.
static void application_objects_there_name_nothing(void **state)
{
    (void)state;
    struct world *world = world_open();
    inventory_ignore_applications(world->inventory);
    json_t *entries = json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "group", "apps", "version", "v1", "kind", "Deployment",
                                "namespace", "ns", "name", "web");
    inventory_application(world->inventory, STR("argocd"), STR("shop"), entries);
    see(world, world->deployments, 1, "web", "");
    see(world, world->deployments, 1, "own", "");
    EXPECT(world, "+ web:shop: ");
    see_application(world, "shop", LOCAL, NAMES("own:"));
    EXPECT(world, "+ shop:: ");
    inventory_sweep(world->inventory, world->applications, NULL, 2);
    EXPECT(world, "- shop:: ");
    see_application(world, "shop", LOCAL, NAMES("own:"));
    inventory_deleted(world->inventory, world->applications, STR("argocd"), STR("shop"));
    EXPECT(world, "+ shop:: - shop:: ");
    assert_true(inventory_has_application(world->inventory, STR("argocd"), STR("shop")));
    json_decref(entries);
    world_close(world);
}

static void named_objects_and_their_children(void **state)
{
    (void)state;
    struct world *world = world_open();
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    EXPECT(world, "+ app:: ");
    assert_int_equal(world->deployments->claims, 1);
    see(world, world->deployments, 1, "web", "");
    see(world, world->deployments, 1, "stranger", "");
    see(world, world->replica_sets, 1, "web-1", "web");
    see(world, world->pods, 1, "web-1-a", "web-1");
    see(world, world->pods, 1, "lonely", "nobody");
    EXPECT(world, "+ web:app:Healthy + web-1:app: + web-1-a:app: ");
    // An owner that shows up late makes what it owns interesting.
    see(world, world->pods, 1, "web-2-a", "web-2");
    EXPECT(world, "");
    see(world, world->replica_sets, 1, "web-2", "web");
    EXPECT(world, "+ web-2:app: ? web-2-a:app: ");
    // The application lets go: the whole branch goes.
    see_application(world, "app", LOCAL, (const char *const[]){NULL});
    EXPECT(world, "- web:: - web-2:: - web-2-a:: - web-1:: - web-1-a:: + app:: ");
    world_close(world);
}

static void changed_health_makes_stale(void **state)
{
    (void)state;
    struct world *world = world_open();
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    see(world, world->deployments, 1, "web", "");
    world->told[0] = 0;
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    EXPECT(world, "+ app:: ");
    see_application(world, "app", LOCAL, NAMES("web:Degraded"));
    EXPECT(world, "? web:app:Degraded + app:: ");
    world_close(world);
}

static void shared_objects_belong_to_the_first(void **state)
{
    (void)state;
    struct world *world = world_open();
    see_application(world, "one", LOCAL, NAMES("web:Healthy"));
    see_application(world, "two", LOCAL, NAMES("web:Degraded"));
    see(world, world->deployments, 1, "web", "");
    EXPECT(world, "+ one:: + two:: + web:one:Healthy ");
    inventory_deleted(world->inventory, world->applications, STR("argocd"), STR("one"));
    EXPECT(world, "? web:two:Healthy - one:: ");
    inventory_deleted(world->inventory, world->applications, STR("argocd"), STR("two"));
    EXPECT(world, "- web:: - two:: ");
    assert_int_equal(inventory_application_count(world->inventory), 0);
    world_close(world);
}

static void sweep_removes_what_was_not_listed(void **state)
{
    (void)state;
    struct world *world = world_open();
    see_application(world, "app", LOCAL, NAMES("a:", "b:"));
    see(world, world->deployments, 1, "a", "");
    see(world, world->deployments, 1, "b", "");
    see(world, world->deployments, 1, "c", "");
    see(world, world->pods, 1, "p", "a");
    world->told[0] = 0;
    see(world, world->deployments, 2, "b", "");
    inventory_sweep(world->inventory, world->deployments, "elsewhere", 2);
    EXPECT(world, "+ b:app: ");
    inventory_sweep(world->inventory, world->deployments, "ns", 2);
    EXPECT(world, "- a:app: - p:: ");
    // It comes back, and is still wanted.
    see(world, world->deployments, 2, "a", "");
    EXPECT(world, "+ a:app: ? p:app: ");
    world_close(world);
}

static void remote_and_odd_entries_are_passed_over(void **state)
{
    (void)state;
    struct world *world = world_open();
    see_application(world, "far", "https://other.example.com", NAMES("web:Healthy"));
    assert_int_equal(world->deployments->claims, 0);
    see_application(world, "odd", LOCAL, NAMES("../x:", "a/b:", "a?b:", "..:", ":"));
    assert_int_equal(world->deployments->claims, 0);
    json_t *object =
        json_pack("{s:{s:s, s:s}, s:{s:i}}", "metadata", "name", "x", "uid", "x", "status", "resources", 3);
    inventory_seen(world->inventory, world->applications, 1, object);
    json_decref(object);
    object = json_pack("{s:[]}", "metadata");
    inventory_seen(world->inventory, world->applications, 1, object);
    json_decref(object);
    // Owners in a circle end.
    see(world, world->pods, 1, "self", "self");
    see(world, world->pods, 1, "left", "right");
    see(world, world->pods, 1, "right", "left");
    inventory_sweep(world->inventory, world->pods, NULL, 2);
    world_close(world);
}

// Owners that go round in circles, or further than anybody follows them, when the application that
// named one is gone.
static void owners_without_end(void **state)
{
    enum { DEPTH = 14 };
    (void)state;
    struct world *world = world_open();
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    see(world, world->deployments, 1, "web", "loop");
    see(world, world->pods, 1, "loop", "web");
    char names[DEPTH][16];
    for (int i = 0; i < DEPTH; i++) {
        snprintf(names[i], sizeof names[i], "deep-%d", i);
        see(world, world->pods, 1, names[i], i ? names[i - 1] : "web");
    }
    inventory_deleted(world->inventory, world->applications, STR("argocd"), STR("app"));
    world->told[0] = '\0';
    see(world, world->pods, 1, "loop", "web");
    see(world, world->deployments, 1, "web", "loop");
    for (int i = DEPTH - 1; i >= 0; i--)
        see(world, world->pods, 1, names[i], i ? names[i - 1] : "web");
    // The application comes back, and is another one.
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    world->told[0] = '\0';
    see(world, world->deployments, 1, "web", "");
    assert_non_null(strstr(world->told, "web:app:Healthy"));
    world_close(world);
}

static void what_finds_no_room_is_counted(void **state)
{
    (void)state;
    struct world *world = world_open_with(2);
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    assert_int_equal(inventory_left_out(world->inventory), 0);
    see(world, world->pods, 1, "pod", "");
    assert_int_equal(inventory_left_out(world->inventory), 1);
    assert_int_equal(inventory_count(world->inventory), 2);
    char kind[16];
    for (int i = 0; i < INVENTORY_KINDS_MAX - 4; i++) {
        snprintf(kind, sizeof kind, "Kind%d", i);
        assert_non_null(inventory_kind_of(world->inventory, STR("x"), STR("v1"), str_c(kind)));
    }
    assert_null(inventory_kind_of(world->inventory, STR("y"), STR("v1"), STR("One")));
    see_application(world, "app", LOCAL, NAMES("web:Healthy"));
    assert_int_equal(inventory_left_out(world->inventory), 1);
    json_t *object =
        json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:s, s:s, s:s}]}}", "metadata", "name", "app", "namespace", "argocd",
                  "uid", "app", "status", "resources", "group", "y", "version", "v1", "kind", "One", "name", "one");
    inventory_seen(world->inventory, world->applications, 1, object);
    json_decref(object);
    assert_int_equal(inventory_left_out(world->inventory), 2);
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_without_end),
        cmocka_unit_test(what_finds_no_room_is_counted),
        cmocka_unit_test(only_this_cluster_is_this_cluster),
        cmocka_unit_test(an_application_that_comes_home_is_read),
        cmocka_unit_test(applications_of_another_cluster),
        cmocka_unit_test(application_objects_there_name_nothing),
        cmocka_unit_test(named_objects_and_their_children),
        cmocka_unit_test(changed_health_makes_stale),
        cmocka_unit_test(shared_objects_belong_to_the_first),
        cmocka_unit_test(sweep_removes_what_was_not_listed),
        cmocka_unit_test(remote_and_odd_entries_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
