// The cache alone: PostgreSQL's versions and Redis are this file's own, answered when a test says
// so.
#include "api/cache/answer_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/cache/answer_store.h"
#include "base/mem.h"

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
    char set_name[300], set_ttl[16];
    char kept[128]; // the value that was set last
    size_t kept_len;
} world;

static void version(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    (void)pg;
    assert_string_equal(account_id, "account");
    assert_null(world.on_version);
    world.on_version = on_done;
    world.version_arg = arg;
    world.versions++;
}

static void shape(uint8_t out[ID_SHA256_BYTES])
{
    memset(out, 7, ID_SHA256_BYTES);
}

static bool is_ready(const struct redis *redis)
{
    (void)redis;
    return world.redis_ready;
}

static void command(struct redis *redis, size_t count, const struct str *words, redis_done on_done, void *arg)
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
    assert_true(words[2].len <= sizeof world.kept);
    memcpy(world.kept, words[2].at, words[2].len);
    world.kept_len = words[2].len;
    snprintf(world.set_ttl, sizeof world.set_ttl, "%.*s", STR_ARG(words[4]));
    world.sets++;
}

static const struct answer_cache_peers doubles = {version, shape, is_ready, command};

static void version_is(const char *version)
{
    store_node_done on_done = world.on_version;
    assert_non_null(on_done);
    world.on_version = NULL;
    struct error err;
    if (!version) error_set(&err, ERROR_UNAVAILABLE, "the database is away");
    on_done(world.version_arg, version ? NULL : &err, version ? str_c(version) : STR_EMPTY);
}

static void redis_says(struct str value)
{
    redis_done on_done = world.on_get;
    assert_non_null(on_done);
    world.on_get = NULL;
    on_done(world.get_arg, NULL, value);
}

static void redis_has_nothing(void)
{
    redis_says(STR_EMPTY);
}

static void redis_has_what_was_kept(void)
{
    redis_says(str_of(world.kept, world.kept_len));
}

static void redis_is_lost(void)
{
    redis_done on_done = world.on_get;
    struct error err;
    assert_non_null(on_done);
    world.on_get = NULL;
    error_set(&err, ERROR_UNAVAILABLE, "the connection to Redis was lost");
    on_done(world.get_arg, &err, STR_EMPTY);
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
    a->cache = answer_cache_create(&(struct answer_cache_options){.peers = &doubles,
                                                                  .loop = a->loop,
                                                                  .redis = (struct redis *)a, // never looked into
                                                                  .key = {.bytes = {{7}}, .count = 1},
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
    redis_has_nothing();
    assert_int_equal(a.looked, 1);
    assert_non_null(a.ticket);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    version_is("v1");
    assert_int_equal(world.sets, 1);
    assert_string_equal(world.set_name, world.name);
    for (size_t i = 0; i + 6 <= world.kept_len; i++)
        assert_memory_not_equal(world.kept + i, "answer", 6); // encrypted
    assert_string_equal(world.set_ttl, "60000");
    assert_non_null(strstr(world.name, ":account:0101010101"));
    assert_non_null(strstr(world.name, ":v1"));

    look(&a, 1);
    version_is("v1");
    redis_has_what_was_kept();
    assert_int_equal(a.looked, 1);
    assert_null(a.ticket);
    assert_string_equal(a.answer, "answer");

    // Another version is another name.
    look(&a, 1);
    version_is("v2");
    assert_non_null(strstr(world.name, ":v2"));
    redis_has_nothing();
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
        redis_has_nothing();
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
            redis_has_nothing();
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
    redis_says(STR("answer")); // now it comes
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    assert_null(world.on_version); // made without a version: not kept
    look(&a, 1);
    version_is("v1");
    redis_is_lost();
    assert_int_equal(a.looked, 1);
    pass();
    answer_cache_keep(a.ticket, STR("answer"), true);
    assert_int_equal(world.sets, 0);
    end(&a);
}

// Keeps an answer of query under v1; world.kept and world.set_name have it.
static void keep(struct asking *a, uint8_t query)
{
    world.versions = 0;
    world.sets = 0;
    learn(a, query);
    look(a, query);
    version_is("v1");
    redis_has_nothing();
    pass();
    answer_cache_keep(a->ticket, STR("answer"), true);
    version_is("v1");
    assert_int_equal(world.sets, 1);
}

static void assert_not_given(struct asking *a, uint8_t query, const char *version, struct str value)
{
    look(a, query);
    version_is(version);
    redis_says(value);
    assert_int_equal(a->looked, 1);
    assert_string_equal(a->answer, "");
    assert_non_null(a->ticket);                        // the query runs
    answer_cache_keep(a->ticket, STR("other"), false); // forgets the misses
    world.versions = world.sets = 0;
    learn(a, query);
}

static void what_redis_made_up_is_not_given(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    keep(&a, 3);
    char kept[sizeof world.kept];
    size_t len = world.kept_len;
    memcpy(kept, world.kept, len);
    world.versions = world.sets = 0;
    learn(&a, 4);
    assert_not_given(&a, 3, "v1", STR("answer"));         // in the clear
    assert_not_given(&a, 4, "v1", str_of(kept, len));     // of another query
    assert_not_given(&a, 3, "v2", str_of(kept, len));     // of an older version
    assert_not_given(&a, 3, "v1", str_of(kept, len - 1)); // cut short
    for (size_t i = 0; i < len; i++) {                    // altered anywhere, the expiry too
        kept[i] ^= 1;
        assert_not_given(&a, 3, "v1", str_of(kept, len));
        kept[i] ^= 1;
    }
    look(&a, 3); // what was kept is given all the while
    version_is("v1");
    redis_has_what_was_kept();
    assert_string_equal(a.answer, "answer");
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
    redis_has_nothing();
    struct answer_ticket *running = a.ticket;
    look(&a, 1); // waits for Redis
    version_is("v1");
    end(&a);
    assert_int_equal(a.looked, 1);
    assert_null(a.ticket);
    assert_string_equal(a.answer, "");
    redis_is_lost();
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
        cmocka_unit_test(what_redis_made_up_is_not_given),
        cmocka_unit_test(its_end_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
