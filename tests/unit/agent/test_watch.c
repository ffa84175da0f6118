#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/reports/json_splitter.h"
#include "agent/reports/watch.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "tests/unit/agent/fake_api.h"

// ---- the splitter --------------------------------------------------------------------------------------------

struct pieces {
    char text[4096];
    int count, stop_after;
};

static bool on_piece(void *arg, struct str text)
{
    struct pieces *pieces = arg;
    strncat(pieces->text, text.at, text.len);
    strcat(pieces->text, "|");
    return ++pieces->count != pieces->stop_after;
}

static enum error_code split(enum json_splitter_shape shape, const char *text, size_t step, struct pieces *out,
                             char *envelope)
{
    struct json_splitter splitter;
    json_splitter_init(&splitter, shape, on_piece, out);
    enum error_code code = ERROR_NONE;
    size_t len = strlen(text);
    for (size_t i = 0; i < len && code == ERROR_NONE; i += step)
        code = json_splitter_feed(&splitter, text + i, len - i < step ? len - i : step, NULL);
    struct str rest = json_splitter_envelope(&splitter);
    if (envelope) snprintf(envelope, 256, "%.*s", STR_ARG(rest));
    json_splitter_finish(&splitter);
    return code;
}

static void splitter_cuts_sequences_anywhere(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":\"}\\\"{\"}\n{\"b\":[{},[]]} \r\n{}{\"c\":1}\n";
    for (size_t step = 1; step < sizeof text; step++) {
        struct pieces pieces = {.count = 0};
        assert_int_equal(split(JSON_SPLITTER_SEQUENCE, text, step, &pieces, NULL), ERROR_NONE);
        assert_string_equal(pieces.text, "{\"a\":\"}\\\"{\"}|{\"b\":[{},[]]}|{}|{\"c\":1}|");
    }
}

static void splitter_cuts_lists_anywhere(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kind\":\"items\",\"metadata\":{\"items\":[1],\"continue\":\"x\"},\"items\": [{\"a\":1} ,\n"
        "{\"items\":[2]}],\"z\":\"\\\"]\"} ";
    for (size_t step = 1; step < sizeof text; step++) {
        struct pieces pieces = {.count = 0};
        char envelope[256];
        assert_int_equal(split(JSON_SPLITTER_LIST, text, step, &pieces, envelope), ERROR_NONE);
        assert_string_equal(pieces.text, "{\"a\":1}|{\"items\":[2]}|");
        assert_string_equal(envelope, "{\"kind\":\"items\",\"metadata\":{\"items\":[1],\"continue\":\"x\"},"
                                      "\"items\": [],\"z\":\"\\\"]\"}");
    }
}

static void splitter_refuses(void **state)
{
    (void)state;
    static const struct {
        enum json_splitter_shape shape;
        const char *text;
    } cases[] = {{JSON_SPLITTER_SEQUENCE, "[1]"},
                 {JSON_SPLITTER_SEQUENCE, "{}x"},
                 {JSON_SPLITTER_SEQUENCE, "}"},
                 {JSON_SPLITTER_LIST, "[{}]"},
                 {JSON_SPLITTER_LIST, "{}{"},
                 {JSON_SPLITTER_LIST, "{\"items\":[1]}"},
                 {JSON_SPLITTER_LIST, "{\"items\":[[]]}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pieces pieces = {.count = 0};
        assert_int_equal(split(cases[i].shape, cases[i].text, 1, &pieces, NULL), ERROR_INVALID);
    }
    struct pieces pieces = {.stop_after = 1};
    assert_int_equal(split(JSON_SPLITTER_SEQUENCE, "{}{}", 4, &pieces, NULL), ERROR_CANCELLED);
    assert_int_equal(pieces.count, 1);
}

static void splitter_skips_what_is_too_large(void **state)
{
    (void)state;
    struct pieces pieces = {.count = 0};
    struct json_splitter splitter;
    json_splitter_init(&splitter, JSON_SPLITTER_SEQUENCE, on_piece, &pieces);
    char *chunk = mem_alloc(1024 * 1024);
    memset(chunk, 'x', 1024 * 1024);
    assert_int_equal(json_splitter_feed(&splitter, "{\"a\":\"", 6, NULL), ERROR_NONE);
    for (int i = 0; i < 12; i++)
        assert_int_equal(json_splitter_feed(&splitter, chunk, 1024 * 1024, NULL), ERROR_NONE);
    assert_int_equal(json_splitter_feed(&splitter, "\"}{\"b\":1}", 9, NULL), ERROR_NONE);
    assert_string_equal(pieces.text, "{\"b\":1}|");
    assert_int_equal(splitter.skipped, 1);
    json_splitter_finish(&splitter);
    mem_free(chunk);
}

// ---- the watch -----------------------------------------------------------------------------------------------

struct world {
    struct loop *loop;
    struct fake_api api;
    struct kube_config kube;
    struct kube_client *client;
    struct watch *watch;
    uv_timer_t timer;
    struct watch_options options;
    // What the API does.
    int list_status, watch_status;
    bool silent, paging, holding;
    unsigned lists, watches;
    char last_list[4096], last_watch[4096];
    // What was told.
    char told[4096];
    int listings, listed, listed_status;
    bool may_read, destroy_on_object;
    const char *awaited;
};

static void on_get(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    if (strstr(exchange->path, "watch=true")) {
        world->watches++;
        snprintf(world->last_watch, sizeof world->last_watch, "%s", exchange->path);
        if (world->watch_status != 200)
            fake_api_reply(exchange, world->watch_status, "{}");
        else
            fake_api_stream(exchange);
        return;
    }
    world->lists++;
    snprintf(world->last_list, sizeof world->last_list, "%s", exchange->path);
    if (world->silent) return;
    if (world->holding) world->may_read = false;
    if (world->list_status != 200)
        fake_api_reply(exchange, world->list_status, "{\"kind\":\"Status\",\"message\":\"secret\"}");
    else if (world->paging && !strstr(exchange->path, "continue="))
        fake_api_reply(
            exchange, 200,
            "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"a+/b\"},\"items\":["
            "{\"metadata\":{\"name\":\"p1\"}}]}");
    else
        fake_api_reply(exchange, 200,
                       "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":["
                       "{\"metadata\":{\"name\":\"p2\"}}]}");
}

static void on_object(void *arg, struct watch *watch, enum watch_event event, json_t *object)
{
    struct world *world = arg;
    static const char *const names[] = {"listed", "changed", "deleted"};
    size_t used = strlen(world->told);
    struct str name = json_str(json_path(object, "metadata", "name", NULL));
    assert_true(str_eq(json_get_str(object, "kind"), STR("Pod")));
    assert_true(str_eq(json_get_str(object, "apiVersion"), STR("v1")));
    snprintf(world->told + used, sizeof world->told - used, "%s %.*s,", names[event], STR_ARG(name));
    if (world->destroy_on_object) {
        watch_destroy(watch);
        world->watch = NULL;
    }
}

static void on_listing(void *arg, struct watch *watch)
{
    (void)watch;
    ((struct world *)arg)->listings++;
}

static void on_listed(void *arg, struct watch *watch, int status)
{
    struct world *world = arg;
    assert_true(watch_is_listed(watch));
    world->listed++;
    world->listed_status = status;
}

static bool may_read(void *arg)
{
    return ((struct world *)arg)->may_read;
}

static const struct watch_events events = {on_object, on_listing, on_listed, may_read};

static void on_tick(uv_timer_t *timer)
{
    struct world *world = timer->data;
    if (world->watch) watch_tick(world->watch, clock_mono_ms());
}

static struct world *world_open(void)
{
    log_set_level(LOG_ERROR);
    struct world *world = mem_zalloc(sizeof *world);
    world->loop = loop_create("test", 0);
    fake_api_open(&world->api, world->loop, on_get, world);
    world->kube.server = mem_strdup(world->api.url);
    struct error err;
    world->client = kube_client_create(world->loop, &world->kube, &err);
    assert_non_null(world->client);
    uv_timer_init(loop_uv(world->loop), &world->timer);
    world->timer.data = world;
    world->list_status = world->watch_status = 200;
    world->may_read = true;
    world->options = (struct watch_options){.client = world->client,
                                            .group = "",
                                            .version = "v1",
                                            .plural = "pods",
                                            .kind = "Pod",
                                            .retry_base_ms = 10,
                                            .retry_cap_ms = 40,
                                            .absent_retry_ms = 40,
                                            .silence_ms = 10000,
                                            .events = &events,
                                            .arg = world};
    return world;
}

static void world_start(struct world *world)
{
    world->watch = watch_create(&world->options);
    uv_timer_start(&world->timer, on_tick, 0, 5);
}

static void world_close(struct world *world)
{
    watch_destroy(world->watch);
    kube_client_close(world->client);
    kube_config_finish(&world->kube);
    fake_api_close(&world->api);
    uv_close((uv_handle_t *)&world->timer, NULL);
    loop_destroy(world->loop);
    mem_free(world);
}

static bool is_watching(void *arg)
{
    struct world *world = arg;
    return fake_api_streaming(&world->api, "/api/v1/") != NULL;
}

static bool was_told(void *arg)
{
    struct world *world = arg;
    return strstr(world->told, world->awaited) != NULL;
}

static void await(struct world *world, const char *told)
{
    world->awaited = told;
    fake_wait(world->loop, was_told, world);
}

static void push(struct world *world, const char *text)
{
    fake_wait(world->loop, is_watching, world);
    fake_api_push(fake_api_streaming(&world->api, "/api/v1/"), text);
}

static void lists_pages_then_watches(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->paging = true;
    world->options.ns = "team";
    world->options.label_selector = "a=b";
    world->options.page_limit = 1;
    world_start(world);
    fake_wait(world->loop, is_watching, world);
    assert_string_equal(world->told, "listed p1,listed p2,");
    assert_int_equal(world->listings, 1);
    assert_int_equal(world->listed, 1);
    assert_string_equal(world->last_list, "/api/v1/namespaces/team/pods?limit=1&labelSelector=a%3Db&continue=a%2B%2Fb");
    assert_non_null(strstr(world->last_watch, "&resourceVersion=7"));
    assert_non_null(strstr(world->last_watch, "allowWatchBookmarks=true&timeoutSeconds=3"));
    // Events cut across chunks.
    push(world, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p3\",\"resour");
    push(world, "ceVersion\":\"8\"}}}\n{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"p1\"}}}\n");
    await(world, "changed p3,deleted p1,");
    world_close(world);
}

static bool has_new_watch(void *arg)
{
    struct world *world = arg;
    return world->watches >= 2 && is_watching(world);
}

static void goes_on_from_the_bookmark(void **state)
{
    (void)state;
    struct world *world = world_open();
    world_start(world);
    push(world, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\"}}}\n"
                "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"mark\",\"resourceVersion\":\"100\"}}}\n");
    await(world, "changed mark");
    fake_api_end(fake_api_streaming(&world->api, "/api/v1/"));
    fake_wait(world->loop, has_new_watch, world);
    assert_non_null(strstr(world->last_watch, "&resourceVersion=100"));
    assert_int_equal(world->lists, 1);
    // A connection that breaks goes on, too.
    fake_api_cut(fake_api_streaming(&world->api, "/api/v1/"));
    world->watches = 1;
    fake_wait(world->loop, has_new_watch, world);
    assert_int_equal(world->lists, 1);
    world_close(world);
}

static bool was_listed_twice(void *arg)
{
    struct world *world = arg;
    return world->listed >= 2 && is_watching(world);
}

static void lists_again_after_gone(void **state)
{
    (void)state;
    struct world *world = world_open();
    world_start(world);
    push(world, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    fake_wait(world->loop, was_listed_twice, world);
    assert_int_equal(world->lists, 2);
    // The same as a status of the watch itself.
    world->watch_status = 410;
    fake_api_cut(fake_api_streaming(&world->api, "/api/v1/"));
    world->watches = 0;
    while (world->watches == 0)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    world->watch_status = 200;
    world->listed = 1;
    fake_wait(world->loop, was_listed_twice, world);
    assert_true(world->lists >= 3);
    world_close(world);
}

static bool was_listed(void *arg)
{
    return ((struct world *)arg)->listed >= 1;
}

static void absent_kinds_count_as_empty_and_come_back(void **state)
{
    (void)state;
    static const int statuses[] = {403, 404};
    for (int i = 0; i < 2; i++) {
        struct world *world = world_open();
        world->list_status = statuses[i];
        world_start(world);
        fake_wait(world->loop, was_listed, world);
        assert_int_equal(world->listed_status, statuses[i]);
        assert_int_equal(watch_is_absent(world->watch), statuses[i] == 404);
        assert_int_equal(watch_is_forbidden(world->watch), statuses[i] == 403);
        assert_int_equal(watch_blind_since_ms(world->watch), 0);
        world->list_status = 200;
        fake_wait(world->loop, was_listed_twice, world);
        assert_int_equal(world->listed_status, 200);
        assert_false(watch_is_absent(world->watch) || watch_is_forbidden(world->watch));
        assert_string_equal(world->told, "listed p2,");
        world_close(world);
    }
}

static bool asked_often(void *arg)
{
    return ((struct world *)arg)->lists >= 4;
}

static void errors_are_retried(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->list_status = 500;
    world_start(world);
    fake_wait(world->loop, asked_often, world);
    assert_int_equal(world->listed, 0);
    assert_true(watch_restarts(world->watch) >= 3);
    world->list_status = 200;
    fake_wait(world->loop, was_listed, world);
    world_close(world);
}

static bool restarted(void *arg)
{
    return watch_restarts(((struct world *)arg)->watch) >= 1;
}

static bool watched_often(void *arg)
{
    return ((struct world *)arg)->watches >= 4;
}

static bool sees(void *arg)
{
    return watch_blind_since_ms(((struct world *)arg)->watch) == 0;
}

static void trouble_makes_it_blind_until_it_watches_again(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->watch_status = 500;
    world_start(world);
    assert_true(sees(world));
    fake_wait(world->loop, restarted, world);
    uint64_t since = watch_blind_since_ms(world->watch);
    assert_true(since > 0 && since <= clock_mono_ms());
    fake_wait(world->loop, watched_often, world);
    assert_int_equal(watch_blind_since_ms(world->watch), since); // trying again is not seeing
    world->watch_status = 200;
    fake_wait(world->loop, is_watching, world);
    fake_wait(world->loop, sees, world);
    world_close(world);

    world = world_open();
    world->list_status = 404; // there is nothing to see
    world_start(world);
    fake_wait(world->loop, was_listed, world);
    assert_true(sees(world));
    world_close(world);
}

static bool is_forbidden(void *arg)
{
    return watch_is_forbidden(((struct world *)arg)->watch);
}

static void a_right_that_is_lost_makes_it_blind(void **state)
{
    (void)state;
    struct world *world = world_open();
    world_start(world);
    fake_wait(world->loop, is_watching, world);
    world->list_status = 403;
    watch_relist(world->watch);
    fake_wait(world->loop, is_forbidden, world);
    assert_false(sees(world));
    world->list_status = 200;
    fake_wait(world->loop, sees, world);
    assert_false(is_forbidden(world));
    world_close(world);

    world = world_open();
    world->options.needed = true;
    world->list_status = 403;
    world_start(world);
    fake_wait(world->loop, is_forbidden, world);
    assert_false(sees(world));
    world_close(world);
}

static bool asked_once(void *arg)
{
    return ((struct world *)arg)->lists >= 1;
}

static bool is_blind(void *arg)
{
    return watch_state(((struct world *)arg)->watch) == WATCH_BLIND;
}

static bool asked_again(void *arg)
{
    return ((struct world *)arg)->lists >= 6;
}

// A kind that may not be read, or is not served, has nothing to miss: however often the API server goes and comes.
static void an_outage_does_not_blind_what_is_not_read(void **state)
{
    (void)state;
    static const int statuses[] = {403, 404}, outages[] = {500, 429, 401};
    for (size_t i = 0; i < 6; i++) {
        struct world *world = world_open();
        world->list_status = statuses[i % 2];
        world_start(world);
        fake_wait(world->loop, was_listed, world);
        world->list_status = outages[i / 2];
        world->lists = 0;
        fake_wait(world->loop, asked_again, world);
        assert_true(sees(world));
        world->list_status = statuses[i % 2];
        world->lists = 0;
        fake_wait(world->loop, asked_again, world);
        assert_true(sees(world));
        world_close(world);
    }
}

// The outage came before the first 403.
static void a_refusal_ends_the_blindness_of_an_outage(void **state)
{
    (void)state;
    static const int statuses[] = {403, 404};
    for (int i = 0; i < 2; i++) {
        struct world *world = world_open();
        world->list_status = 500;
        world_start(world);
        fake_wait(world->loop, is_blind, world);
        world->list_status = statuses[i];
        fake_wait(world->loop, was_listed, world);
        assert_true(sees(world));
        assert_int_equal(watch_state(world->watch), statuses[i] == 403 ? WATCH_FORBIDDEN : WATCH_NOT_SERVED);
        world_close(world);
    }
}

// An API server that starts answers 403 until it has loaded its rules.
static void a_refusal_after_an_outage_is_questioned_soon(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->options.absent_retry_ms = 3600000;
    world_start(world);
    fake_wait(world->loop, is_watching, world);
    world->list_status = world->watch_status = 403;
    fake_api_cut(fake_api_streaming(&world->api, "/api/v1/"));
    fake_wait(world->loop, is_forbidden, world);
    assert_int_equal(watch_state(world->watch), WATCH_DENIED);
    uint64_t since = watch_blind_since_ms(world->watch);
    assert_true(since > 0);
    world->lists = 0;
    fake_wait(world->loop, asked_once, world); // still refused
    assert_int_equal(watch_blind_since_ms(world->watch), since);
    world->list_status = world->watch_status = 200;
    fake_wait(world->loop, sees, world);
    assert_int_equal(watch_state(world->watch), WATCH_FOLLOWED);
    world_close(world);
}

// Bookmarks come in a rhythm; a watch that falls silent beyond it is not believed, long before its own time-out.
static void a_watch_without_its_bookmarks_is_started_again(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->options.silence_ms = 300;
    world->options.watch_seconds = 3000;
    world_start(world);
    for (int i = 0; i < 3; i++) {
        push(world, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n");
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    }
    fake_wait(world->loop, has_new_watch, world);
    assert_int_equal(watch_restarts(world->watch), 1);
    world_close(world);
}

static void silence_is_noticed(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->silent = true;
    world->options.silence_ms = 50;
    world_start(world);
    fake_wait(world->loop, restarted, world);
    world->silent = false;
    fake_wait(world->loop, was_listed, world);
    world_close(world);
}

static void back_pressure_holds_bytes_back(void **state)
{
    (void)state;
    struct world *world = world_open();
    world->holding = true;
    world_start(world);
    fake_wait(world->loop, asked_once, world);
    world->holding = false;
    for (int turn = 0; turn < 20; turn++)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_string_equal(world->told, "");
    world->may_read = true;
    watch_resume(world->watch);
    fake_wait(world->loop, was_listed, world);
    push(world, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n");
    await(world, "changed a,");
    world->may_read = false;
    push(world, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"b\"}}}\n");
    for (int turn = 0; turn < 20; turn++)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_null(strstr(world->told, "changed b"));
    world->may_read = true;
    watch_resume(world->watch);
    await(world, "changed b,");
    world_close(world);
}

static void relist_and_garbage(void **state)
{
    (void)state;
    struct world *world = world_open();
    world_start(world);
    fake_wait(world->loop, is_watching, world);
    watch_relist(world->watch);
    assert_false(watch_is_listed(world->watch));
    fake_wait(world->loop, was_listed_twice, world);
    // What is no event ends this watch; the next goes on.
    world->watches = 1;
    push(world, "[]\n");
    fake_wait(world->loop, has_new_watch, world);
    // What is an unreadable or unknown event is passed over.
    push(world, "{\"type\":\"ADDED\",\"object\":{\"a\":}}\n{\"type\":\"NEWS\",\"object\":{}}\n{\"type\":\"ADDED\"}\n"
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"after\"}}}\n");
    await(world, "changed after,");
    world_close(world);
}

static bool is_gone(void *arg)
{
    return !((struct world *)arg)->watch;
}

static void may_be_destroyed_inside_a_callback(void **state)
{
    (void)state;
    for (int in_list = 0; in_list < 2; in_list++) {
        struct world *world = world_open();
        world->destroy_on_object = in_list;
        world_start(world);
        if (!in_list) {
            fake_wait(world->loop, is_watching, world);
            world->destroy_on_object = true;
            push(world,
                 "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}{\"type\":\"ADDED\",\"object\":{}}");
        }
        fake_wait(world->loop, is_gone, world);
        world_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitter_cuts_sequences_anywhere),
        cmocka_unit_test(splitter_cuts_lists_anywhere),
        cmocka_unit_test(splitter_refuses),
        cmocka_unit_test(splitter_skips_what_is_too_large),
        cmocka_unit_test(lists_pages_then_watches),
        cmocka_unit_test(goes_on_from_the_bookmark),
        cmocka_unit_test(lists_again_after_gone),
        cmocka_unit_test(absent_kinds_count_as_empty_and_come_back),
        cmocka_unit_test(errors_are_retried),
        cmocka_unit_test(trouble_makes_it_blind_until_it_watches_again),
        cmocka_unit_test(a_right_that_is_lost_makes_it_blind),
        cmocka_unit_test(an_outage_does_not_blind_what_is_not_read),
        cmocka_unit_test(a_refusal_ends_the_blindness_of_an_outage),
        cmocka_unit_test(a_refusal_after_an_outage_is_questioned_soon),
        cmocka_unit_test(a_watch_without_its_bookmarks_is_started_again),
        cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(back_pressure_holds_bytes_back),
        cmocka_unit_test(relist_and_garbage),
        cmocka_unit_test(may_be_destroyed_inside_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
