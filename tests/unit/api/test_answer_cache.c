// The cache alone: PostgreSQL's versions and Redis are this file's own, answered when a test says so.
#include "api/answer_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storage/answer_store.h"

// ---- the doubles ---------------------------------------------------------------------------------------------------

static struct {
    bool redis_ready;
    store_node_done on_version;
    void *version_arg;
    unsigned versions;
    redis_done on_get;
    void *get_arg;
    char name[300];
    unsigned gets, sets;
    char set_name[300], set_answer[64], set_ttl[16];
} world;

void answer_store_version(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    (void)pg;
    assert_string_equal(account_id, "account");
    assert_null(world.on_version);
    world.on_version = on_done;
    world.version_arg = arg;
    world.versions++;
}

void answer_store_shape(uint8_t out[ID_SHA256_BYTES])
{
    memset(out, 7, ID_SHA256_BYTES);
}

bool redis_is_ready(const struct redis *redis)
{
    (void)redis;
    return world.redis_ready;
}

void redis_command(struct redis *redis, size_t count, const struct str *words, redis_done on_done, void *arg)
{
    (void)redis;
    if (str_eq(words[0], STR("GET"))) {
        assert_int_equal(count, 2);
        snprintf(world.name, sizeof world.name, "%.*s", STR_ARG(words[1]));
        world.on_get = on_done;
        world.get_arg = arg;
        world.gets++;
        return;
    }
    assert_int_equal(count, 5);
    snprintf(world.set_name, sizeof world.set_name, "%.*s", STR_ARG(words[1]));
    snprintf(world.set_answer, sizeof world.set_answer, "%.*s", STR_ARG(words[2]));
    snprintf(world.set_ttl, sizeof world.set_ttl, "%.*s", STR_ARG(words[4]));
    world.sets++;
}

static void version_is(const char *version)
{
    store_node_done on_done = world.on_version;
    assert_non_null(on_done);
    world.on_version = NULL;
    struct error err;
    if (!version) error_set(&err, ERROR_UNAVAILABLE, "the database is away");
    on_done(world.version_arg, version ? NULL : &err, version ? str_c(version) : STR_EMPTY);
}

static void redis_has(const char *answer)
{
    redis_done on_done = world.on_get;
    assert_non_null(on_done);
    world.on_get = NULL;
    struct error err;
    if (!answer) error_set(&err, ERROR_UNAVAILABLE, "the connection to Redis was lost");
    on_done(world.get_arg, answer ? NULL : &err, answer ? str_c(answer) : STR_EMPTY);
}

// ---- a query -------------------------------------------------------------------------------------------------------

struct asking {
    struct loop *loop;
    struct answer_cache *cache;
    unsigned looked;
    struct answer_ticket *ticket;
    char answer[64];
};

static void on_looked(void *arg, struct str answer, struct answer_ticket *ticket)
{
    struct asking *a = arg;
    a->looked++;
    a->ticket = ticket;
    snprintf(a->answer, sizeof a->answer, "%.*s", STR_ARG(answer));
}

static void begin(struct asking *a)
{
    memset(&world, 0, sizeof world);
    world.redis_ready = true;
    *a = (struct asking){.loop = loop_create("test", 0)};
    a->cache = answer_cache_create(&(struct answer_cache_options){.loop = a->loop,
                                                                  .redis = (struct redis *)a, // never looked into
                                                                  .answer_bytes_max = 20,
                                                                  .slower_than_us = 1,
                                                                  .ttl_ms = 60000,
                                                                  .patience_ms = 20});
}

static void end(struct asking *a)
{
    answer_cache_destroy(a->cache);
    loop_destroy(a->loop);
}

static void look(struct asking *a, uint8_t query)
{
    uint8_t key[ID_SHA256_BYTES];
    memset(key, query, sizeof key);
    a->looked = 0;
    a->ticket = NULL;
    a->answer[0] = '\0';
    answer_cache_look(a->cache, "account", key, on_looked, a);
}

static void pass(void)
{
    uv_sleep(2); // longer than slower_than
}

// Runs once without the cache, so that it is known to be worth it.
static void learn(struct asking *a, uint8_t query)
{
    look(a, query);
    assert_int_equal(a->looked, 1);
    assert_non_null(a->ticket);
    assert_int_equal(world.versions, 0);
    pass();
    answer_cache_keep(a->ticket, STR("answer"), true);
    assert_int_equal(world.versions, 0);
    assert_int_equal(world.sets, 0);
}

static void what_is_asked_again_is_kept_and_found(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    learn(&a, 1);
    look(&a, 1);
    assert_int_equal(a.looked, 0);
    version_is("v1");
    redis_has("");
    assert_int_equal(a.looked, 1);
    assert_non_null(a.ticket);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    version_is("v1");
    assert_int_equal(world.sets, 1);
    assert_string_equal(world.set_name, world.name);
    assert_string_equal(world.set_answer, "answer");
    assert_string_equal(world.set_ttl, "60000");
    assert_non_null(strstr(world.name, ":account:0101010101"));
    assert_non_null(strstr(world.name, ":v1"));

    look(&a, 1);
    version_is("v1");
    redis_has("answer");
    assert_int_equal(a.looked, 1);
    assert_null(a.ticket);
    assert_string_equal(a.answer, "answer");

    // Another version is another name.
    look(&a, 1);
    version_is("v2");
    assert_non_null(strstr(world.name, ":v2"));
    redis_has("");
    answer_cache_keep(a.ticket, STR("answer"), false); // an error this time
    assert_int_equal(world.sets, 1);
    end(&a);
}

static void what_changed_meanwhile_is_not_kept(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    static const char *const after[] = {"v2", "", NULL};
    for (uint8_t i = 0; i < 3; i++) {
        world.versions = 0;
        learn(&a, (uint8_t)(10 + i));
        look(&a, (uint8_t)(10 + i));
        version_is("v1");
        redis_has("");
        pass();
        answer_cache_keep(a.ticket, STR("answer"), true);
        version_is(after[i]);
        assert_int_equal(world.sets, 0);
    }
    end(&a);
}

static void what_is_not_worth_it_is_not_tried(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    look(&a, 1); // too large
    pass();
    answer_cache_keep(a.ticket, STR("an answer of more than twenty bytes"), true);
    look(&a, 1);
    assert_int_equal(a.looked, 1);
    answer_cache_keep(a.ticket, STR("answer"), false);
    learn(&a, 2);
    world.redis_ready = false;
    look(&a, 2);
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    world.redis_ready = true;
    look(&a, 2);
    version_is(NULL); // PostgreSQL's version does not come: the query is asked all the same
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    assert_int_equal(world.gets, 0);
    // The account changes each time: after a few misses it is left alone.
    unsigned tried = 0;
    for (int i = 0; i < 10; i++) {
        look(&a, 2);
        if (!a.looked) {
            tried++;
            version_is("v");
            redis_has("");
        }
        assert_int_equal(a.looked, 1);
        pass();
        answer_cache_keep(a.ticket, STR("answer"), true);
        if (world.on_version) version_is("w");
    }
    assert_int_equal(tried, 4);
    end(&a);
}

static void redis_that_hangs_or_breaks_only_costs_time(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    learn(&a, 1);
    look(&a, 1);
    version_is("v1");
    while (!a.looked)
        uv_run(loop_uv(a.loop), UV_RUN_ONCE);
    assert_non_null(a.ticket);
    redis_has("answer"); // now it comes
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    assert_null(world.on_version); // made without a version: not kept
    look(&a, 1);
    version_is("v1");
    redis_has(NULL);
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    assert_int_equal(world.sets, 0);
    end(&a);
}

static void its_end_is_told(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    learn(&a, 1);
    look(&a, 1); // is being run when the cache ends
    version_is("v1");
    redis_has("");
    struct answer_ticket *running = a.ticket;
    look(&a, 1); // waits for Redis
    version_is("v1");
    end(&a);
    assert_int_equal(a.looked, 1);
    assert_null(a.ticket);
    assert_string_equal(a.answer, "");
    redis_has(NULL);
    answer_cache_keep(running, STR("answer"), true);
    assert_int_equal(a.looked, 1);
    assert_null(world.on_version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_again_is_kept_and_found),
        cmocka_unit_test(what_changed_meanwhile_is_not_kept),
        cmocka_unit_test(what_is_not_worth_it_is_not_tried),
        cmocka_unit_test(redis_that_hangs_or_breaks_only_costs_time),
        cmocka_unit_test(its_end_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
