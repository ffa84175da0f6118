// Kubernetes Events that wait: one entry an Event, of objects that the platform was sent, bounded
// in number, of one object and in rate; Normal ones are dropped first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/reports/kubernetes_event_queue.h"
#include "agent/reports/outbox.h"

struct world {
    struct outbox *outbox;
    struct kubernetes_event_queue *queue;
    uint64_t sequence;
};

static struct object_ref pod(const char *name)
{
    return (struct object_ref){.version = STR("v1"), .kind = STR("Pod"), .ns = STR("s"), .name = str_c(name)};
}

// The platform is sent the object.
static void report(struct world *world, const char *name)
{
    struct outbox_object object = {.ref = pod(name), .manifest = STR("{}")};
    uint64_t wait_ms;
    outbox_put(world->outbox, &object, 1);
    struct outbox_slot *slot = outbox_next(world->outbox, 1, &wait_ms);
    assert_non_null(slot);
    outbox_written(world->outbox, slot, ++world->sequence);
}

static struct world begin(size_t count_max, unsigned per_second)
{
    struct world world = {.outbox = outbox_create(NULL)};
    world.queue = kubernetes_event_queue_create(&(struct kubernetes_event_queue_options){
        .outbox = world.outbox, .count_max = count_max, .per_second = per_second});
    return world;
}

static void end(struct world *world)
{
    kubernetes_event_queue_destroy(world->queue);
    outbox_destroy(world->outbox);
}

static void put(struct world *world, const char *name, const char *uid, bool is_warning, uint64_t now_ms)
{
    const struct kubernetes_event event = {pod(name), str_c(uid), str_c(uid), is_warning};
    kubernetes_event_queue_put(world->queue, &event, now_ms);
}

// The uid of the next Event, which is written; "" none is due.
static const char *next(struct world *world, uint64_t now_ms)
{
    static char uid[64];
    struct kubernetes_event event;
    uint64_t wait_ms;
    uid[0] = '\0';
    if (!kubernetes_event_queue_next(world->queue, now_ms, &event, &wait_ms)) return uid;
    snprintf(uid, sizeof uid, "%.*s", STR_ARG(event.uid));
    kubernetes_event_queue_written(world->queue, ++world->sequence);
    return uid;
}

static void warnings_go_first(void **state)
{
    (void)state;
    struct world world = begin(0, 0);
    report(&world, "a");
    put(&world, "a", "normal", false, 1);
    put(&world, "a", "warning", true, 1);
    put(&world, "a", "warning", true, 1);
    assert_int_equal(kubernetes_event_queue_count(world.queue), 2);
    assert_string_equal(next(&world, 1), "warning");
    assert_string_equal(next(&world, 1), "normal");
    assert_string_equal(next(&world, 1), "");
    // On their way until they are acknowledged; a lost stream sends them again.
    kubernetes_event_queue_acknowledge(world.queue, world.sequence - 1);
    assert_int_equal(kubernetes_event_queue_count(world.queue), 1);
    kubernetes_event_queue_pause(world.queue);
    assert_string_equal(next(&world, 1), "normal");
    // It happens again meanwhile: what was written is not all.
    put(&world, "a", "normal", false, 1);
    kubernetes_event_queue_acknowledge(world.queue, world.sequence);
    assert_string_equal(next(&world, 1), "normal");
    kubernetes_event_queue_acknowledge(world.queue, world.sequence);
    assert_int_equal(kubernetes_event_queue_count(world.queue), 0);
    end(&world);
}

static void an_object_comes_before_its_events(void **state)
{
    (void)state;
    struct world world = begin(0, 0);
    put(&world, "a", "early", true, 1);
    put(&world, "b", "foreign", true, 1);
    assert_string_equal(next(&world, 1), "");
    // In the outbox, and not written yet.
    struct outbox_object object = {.ref = pod("a"), .manifest = STR("{}")};
    uint64_t wait_ms;
    outbox_put(world.outbox, &object, 1);
    assert_string_equal(next(&world, 1000), "");
    outbox_written(world.outbox, outbox_next(world.outbox, 1, &wait_ms), ++world.sequence);
    assert_string_equal(next(&world, 2000), "early");
    // The other one is of an object that is not reported.
    assert_int_equal(kubernetes_event_queue_count(world.queue), 2);
    assert_string_equal(next(&world, 15001), "");
    assert_int_equal(kubernetes_event_queue_count(world.queue), 1);
    end(&world);
}

static void a_predecessor_is_another_object(void **state)
{
    (void)state;
    struct world world = begin(0, 0);
    struct outbox_object object = {.ref = pod("a"), .manifest = STR("{}")};
    uint64_t wait_ms;
    object.ref.uid = STR("new");
    outbox_put(world.outbox, &object, 1);
    outbox_written(world.outbox, outbox_next(world.outbox, 1, &wait_ms), ++world.sequence);
    struct kubernetes_event event = {pod("a"), STR("e"), STR("{}"), true};
    event.ref.uid = STR("old");
    kubernetes_event_queue_put(world.queue, &event, 1);
    assert_string_equal(next(&world, 1), "");
    event.uid = STR("f");
    event.ref.uid = STR("new");
    kubernetes_event_queue_put(world.queue, &event, 1);
    assert_string_equal(next(&world, 1), "f");
    end(&world);
}

static void a_flood_is_bounded(void **state)
{
    (void)state;
    struct world world = begin(100, 1000);
    char name[16], uid[16];
    report(&world, "quiet");
    put(&world, "quiet", "precious", true, 1);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "p%d", i);
        report(&world, name);
    }
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "p%d", i % 10);
        snprintf(uid, sizeof uid, "e%d", i);
        put(&world, i % 2 ? name : "foreign", uid, false, 1);
        assert_true(kubernetes_event_queue_count(world.queue) <= 100);
    }
    assert_string_equal(next(&world, 1), "precious");
    size_t written = 0;
    for (const char *last; *(last = next(&world, 1)); written++)
        snprintf(uid, sizeof uid, "%s", last);
    assert_true(written > 70 && written < 100);
    assert_string_equal(uid, "e9999"); // the newest
    end(&world);
}

static void one_object_does_not_fill_it(void **state)
{
    (void)state;
    struct world world = begin(0, 1000);
    char uid[16];
    report(&world, "loud");
    for (int i = 0; i < 100; i++) {
        snprintf(uid, sizeof uid, "e%d", i);
        put(&world, "loud", uid, true, 1);
    }
    assert_int_equal(kubernetes_event_queue_count(world.queue), 20);
    assert_string_equal(next(&world, 1), "e80");
    end(&world);
}

static void so_many_a_second(void **state)
{
    (void)state;
    struct world world = begin(0, 2);
    report(&world, "a");
    for (const char *uid = "abcd"; *uid; uid++)
        put(&world, "a", uid, true, 1);
    assert_string_equal(next(&world, 1000), "abcd");
    assert_string_equal(next(&world, 1000), "bcd");
    assert_string_equal(next(&world, 1000), "");
    assert_string_equal(next(&world, 1499), "");
    assert_string_equal(next(&world, 1500), "cd");
    assert_string_equal(next(&world, 1500), "");
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warnings_go_first),
        cmocka_unit_test(an_object_comes_before_its_events),
        cmocka_unit_test(a_predecessor_is_another_object),
        cmocka_unit_test(a_flood_is_bounded),
        cmocka_unit_test(one_object_does_not_fill_it),
        cmocka_unit_test(so_many_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
