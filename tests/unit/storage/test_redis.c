#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "storage/redis/redis.h"
#include "storage/redis/redis_address.h"

struct reply {
    bool is_done;
    enum error_code code;
    char text[ERROR_TEXT_BYTES];
};

static struct loop *loop;

static void on_reply(void *arg, const struct error *err, struct str text)
{
    struct reply *reply = arg;
    assert_false(reply->is_done);
    reply->is_done = true;
    reply->code = err ? err->code : ERROR_NONE;
    if (err)
        snprintf(reply->text, sizeof reply->text, "%s", err->text);
    else
        snprintf(reply->text, sizeof reply->text, "%.*s", STR_ARG(text));
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void add_one(void *arg)
{
    ++*(int *)arg;
}

static void wake(uv_timer_t *timer)
{
    (void)timer;
}

#define run_until(condition)                                                                                           \
    do {                                                                                                               \
        uint64_t run_end = clock_mono_ms() + 20000;                                                                    \
        uv_timer_t timer;                                                                                              \
        uv_timer_init(loop_uv(loop), &timer);                                                                          \
        uv_timer_start(&timer, wake, 10, 10);                                                                          \
        while (!(condition) && clock_mono_ms() < run_end)                                                              \
            uv_run(loop_uv(loop), UV_RUN_ONCE);                                                                        \
        uv_close((uv_handle_t *)&timer, NULL);                                                                         \
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);                                                                          \
        assert_true(condition);                                                                                        \
    } while (0)

static bool over_tls;
static const char *ca_file; // with it

static struct redis *create(const char *url)
{
    struct redis_options options = {
        .url = url, .password_file = "", .timeout_ms = 1000, .pending_max = 100, .ca_file = over_tls ? ca_file : ""};
    struct error err;
    struct redis *redis = redis_create(loop, &options, &err);
    if (!redis) fail_msg("%s", err.text);
    return redis;
}

static void close_and_wait(struct redis *redis)
{
    bool is_closed = false;
    redis_close(redis, set_true, &is_closed);
    run_until(is_closed);
}

static enum error_code command(struct redis *redis, struct reply *reply, const char *a, const char *b, const char *c)
{
    struct str words[] = {str_c(a), str_c(b), str_c(c)};
    *reply = (struct reply){0};
    redis_command(redis, c ? 3 : b ? 2 : 1, words, on_reply, reply);
    assert_false(reply->is_done); // never inside the call
    run_until(reply->is_done);
    return reply->code;
}

static const char *server_url(void)
{
    const char *url = getenv(over_tls ? "CULVERT_TEST_REDIS_TLS_URL" : "CULVERT_TEST_REDIS_URL");
    ca_file = getenv("CULVERT_TEST_REDIS_CA_FILE");
    if (!url || !ca_file) {
        print_message("skipped: CULVERT_TEST_REDIS_URL is not set (tests/support/with_servers sets it)\n");
        skip();
    }
    return url;
}

static void commands_are_answered(void **state)
{
    (void)state;
    struct redis *redis = create(server_url());
    struct reply reply;
    assert_true(redis_is_configured(redis));
    run_until(redis_is_ready(redis));
    assert_int_equal(command(redis, &reply, "SET", "culvert-test", "a b %s \r\n"), ERROR_NONE);
    assert_int_equal(command(redis, &reply, "GET", "culvert-test", NULL), ERROR_NONE);
    assert_string_equal(reply.text, "a b %s \r\n");
    assert_int_equal(command(redis, &reply, "DEL", "culvert-test", NULL), ERROR_NONE);
    assert_string_equal(reply.text, "1");
    assert_int_equal(command(redis, &reply, "GET", "culvert-test", NULL), ERROR_NONE);
    assert_string_equal(reply.text, "");
    assert_int_equal(command(redis, &reply, "NONSENSE", NULL, NULL), ERROR_INTERNAL);
    close_and_wait(redis);
}

struct heard {
    int count, gaps;
    char text[64];
};

static void on_message(void *arg, struct str channel, struct str message)
{
    struct heard *heard = arg;
    assert_true(str_eq(channel, STR("culvert-channel")));
    heard->count++;
    snprintf(heard->text, sizeof heard->text, "%.*s", STR_ARG(message));
}

static void on_gap(void *arg)
{
    add_one(&((struct heard *)arg)->gaps);
}

static void messages_arrive_and_gaps_are_told(void **state)
{
    (void)state;
    struct redis *redis = create(server_url());
    struct heard heard = {0};
    struct reply reply;
    redis_subscribe(redis, STR("culvert-channel"), on_message, on_gap, &heard);
    run_until(redis_is_ready(redis));
    while (heard.count == 0)
        assert_int_equal(command(redis, &reply, "PUBLISH", "culvert-channel", "hello"), ERROR_NONE);
    assert_string_equal(heard.text, "hello");
    assert_int_equal(heard.gaps, 0);
    // Redis throws every subscriber out.
    struct str words[] = {STR("CLIENT"), STR("KILL"), STR("TYPE"), STR("pubsub")};
    reply = (struct reply){0};
    redis_command(redis, 4, words, on_reply, &reply);
    run_until(reply.is_done && heard.gaps == 1);
    heard.count = 0;
    while (heard.count == 0)
        assert_int_equal(command(redis, &reply, "PUBLISH", "culvert-channel", "again"), ERROR_NONE);
    close_and_wait(redis);
}

static void a_silent_server_is_given_up(void **state)
{
    (void)state;
    const char *url = server_url();
    struct redis *redis = create(url), *other = create(url);
    struct reply reply, pause;
    run_until(redis_is_ready(redis) && redis_is_ready(other));
    assert_int_equal(command(other, &pause, "CLIENT", "PAUSE", "2500"), ERROR_NONE);
    uint64_t start = clock_mono_ms();
    assert_int_equal(command(redis, &reply, "SET", "culvert-test", "x"), ERROR_UNAVAILABLE);
    uint64_t took = clock_mono_ms() - start;
    assert_true(took >= 900 && took < 2400);
    // Away: at once. Then it comes back by itself.
    assert_int_equal(command(redis, &reply, "GET", "x", NULL), ERROR_UNAVAILABLE);
    assert_true(clock_mono_ms() - start - took < 200);
    run_until(redis_is_ready(redis));
    assert_int_equal(command(redis, &reply, "DEL", "culvert-test", NULL), ERROR_NONE);
    close_and_wait(redis);
    close_and_wait(other);
}

static void without_redis_commands_fail_at_once(void **state)
{
    (void)state;
    struct reply reply;
    struct redis *none = create("");
    assert_false(redis_is_configured(none));
    assert_int_equal(command(none, &reply, "PING", NULL, NULL), ERROR_UNAVAILABLE);
    redis_subscribe(none, STR("c"), on_message, NULL, NULL);
    close_and_wait(none);
    struct redis *away = create("redis://127.0.0.1:1/0");
    redis_subscribe(away, STR("c"), on_message, NULL, NULL);
    assert_int_equal(command(away, &reply, "PING", NULL, NULL), ERROR_UNAVAILABLE);
    redis_command(away, 1, (struct str[]){STR("PING")}, NULL, NULL);
    close_and_wait(away);
}

static void a_wrong_password_never_gets_ready(void **state)
{
    (void)state;
    const char *url = server_url(), *at = strchr(url, '@');
    AUTO_FREE char *wrong = mem_printf("redis://:wrong@%s", at + 1);
    struct redis *redis = create(wrong);
    struct reply reply;
    uint64_t until = clock_mono_ms() + 300;
    run_until(clock_mono_ms() > until);
    assert_false(redis_is_ready(redis));
    assert_int_equal(command(redis, &reply, "PING", NULL, NULL), ERROR_UNAVAILABLE);
    close_and_wait(redis);
}

// ---- over TLS, as a user of Redis' ACL ------------------------------------------------------------------------------

static void large_values_pass(void **state)
{
    (void)state;
    enum { BYTES = 1000 * 1000, ROUNDS = 4 };
    struct redis *redis = create(server_url());
    struct reply replies[ROUNDS][2] = {0}, length;
    char *value = mem_alloc(BYTES);
    run_until(redis_is_ready(redis));
    for (int i = 0; i < ROUNDS; i++) { // all at once: more than any buffer between here and there holds
        memset(value, 'a' + i, BYTES);
        char key[] = {'c', 'u', 'l', 'v', 'e', 'r', 't', '-', (char)('0' + i), '\0'};
        redis_command(redis, 3, (struct str[]){STR("SET"), str_c(key), str_of(value, BYTES)}, on_reply, &replies[i][0]);
        redis_command(redis, 2, (struct str[]){STR("GET"), str_c(key)}, on_reply, &replies[i][1]);
    }
    run_until(replies[ROUNDS - 1][1].is_done);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(replies[i][0].code, ERROR_NONE);
        assert_int_equal(replies[i][1].code, ERROR_NONE);
        assert_int_equal(replies[i][1].text[0], 'a' + i);
    }
    assert_int_equal(command(redis, &length, "STRLEN", "culvert-0", NULL), ERROR_NONE);
    assert_string_equal(length.text, "1000000");
    for (int i = 0; i < ROUNDS; i++) {
        char key[] = {'c', 'u', 'l', 'v', 'e', 'r', 't', '-', (char)('0' + i), '\0'};
        assert_int_equal(command(redis, &length, "DEL", key, NULL), ERROR_NONE);
    }
    mem_free(value);
    close_and_wait(redis);
}

static void never_ready(const char *url)
{
    struct redis *redis = create(url);
    struct reply reply;
    uint64_t until = clock_mono_ms() + 500;
    run_until(clock_mono_ms() > until);
    assert_false(redis_is_ready(redis));
    assert_int_equal(command(redis, &reply, "PING", NULL, NULL), ERROR_UNAVAILABLE);
    close_and_wait(redis);
}

static void all_of_it_holds_over_tls(void **state)
{
    over_tls = true;
    commands_are_answered(state);
    messages_arrive_and_gaps_are_told(state);
    a_silent_server_is_given_up(state);
    large_values_pass(state);
    over_tls = false;
}

static void an_unverified_server_gets_no_password(void **state)
{
    (void)state;
    over_tls = true;
    const char *url = server_url(), *at = strchr(url, '@');
    AUTO_FREE char *other_name = mem_printf("%.*s@127.0.0.2%s", (int)(at - url), url, strrchr(url, ':'));
    never_ready(other_name); // the certificate is of localhost and 127.0.0.1
    struct redis_options options = {
        .url = url, .password_file = "", .timeout_ms = 1000, .pending_max = 10, .ca_file = "/nowhere/ca.crt"};
    struct error err;
    assert_null(redis_create(loop, &options, &err));
    assert_non_null(strstr(err.text, "/nowhere/ca.crt"));
    // By the system's CAs.
    struct redis_options system = {.url = url, .password_file = "", .timeout_ms = 1000, .pending_max = 10};
    struct redis *redis = redis_create(loop, &system, &err);
    assert_non_null(redis);
    uint64_t until = clock_mono_ms() + 500;
    run_until(clock_mono_ms() > until);
    assert_false(redis_is_ready(redis));
    close_and_wait(redis);
    over_tls = false;
    // A server without TLS behind the name.
    const char *plain = server_url(), *authority = strchr(plain, '@');
    AUTO_FREE char *not_tls = mem_printf("rediss://:x%s", authority);
    never_ready(not_tls);
}

static void urls_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *url, *path, *host, *password;
        int port;
        unsigned database;
        bool plaintext;
        const char *user;
    } good[] = {
        {"redis://localhost", NULL, "localhost", NULL, 6379, 0, false, NULL},
        {"redis://127.0.0.1:6380/3", NULL, "127.0.0.1", NULL, 6380, 3, false, NULL},
        {"redis://:pa%40ss@host:1/0", NULL, "host", "pa@ss", 1, 0, true, NULL},
        {"rediss://:p@ss@host", NULL, "host", "p@ss", 6379, 0, false, NULL},
        {"rediss://me%3a:p:@host", NULL, "host", "p:", 6379, 0, false, "me:"},
        {"redis://[::1]:7", NULL, "::1", NULL, 7, 0, false, NULL},
        {"redis://[::1]", NULL, "::1", NULL, 6379, 0, false, NULL},
        {"unix:///run/redis.sock", "/run/redis.sock", NULL, NULL, 0, 0, false, NULL},
        {"unix:///run/redis.sock?db=2", "/run/redis.sock", NULL, NULL, 0, 2, false, NULL},
    };
    static const char *const bad[] = {"localhost",
                                      "redis://host",
                                      "rediss://",
                                      "rediss://host:x",
                                      "rediss://host/x",
                                      "rediss://u@host",
                                      "rediss://:%zz@host",
                                      "rediss://:%00@host",
                                      "unix://relative",
                                      "unix:///a?x=1",
                                      "rediss://host:0x1",
                                      "rediss://host/99999",
                                      "redis://127.example.com",
                                      "redis://localhost.example",
                                      "redis://[::2]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct redis_address address;
        struct error err;
        if (redis_address_init(&address, good[i].url, "", good[i].plaintext, &err) != ERROR_NONE)
            fail_msg("%s: %s", good[i].url, err.text);
        assert_true(str_eq(str_c(address.path), str_c(good[i].path)));
        assert_true(str_eq(str_c(address.host), str_c(good[i].host)));
        assert_true(str_eq(str_c(address.password), str_c(good[i].password)));
        assert_true(str_eq(str_c(address.user), str_c(good[i].user)));
        assert_int_equal(address.tls, strncmp(good[i].url, "rediss", 6) == 0);
        assert_int_equal(address.port, good[i].port);
        assert_int_equal(address.database, good[i].database);
        redis_address_finish(&address);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct redis_address address;
        struct error err;
        if (redis_address_init(&address, bad[i], "", false, &err) == ERROR_NONE) fail_msg("%s was taken", bad[i]);
    }
}

static void a_password_comes_from_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/culvert-password-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "from file\n", 10) == 10);
    close(fd);
    struct redis_address address;
    struct error err;
    assert_int_equal(redis_address_init(&address, "rediss://:other@host", path, false, &err), ERROR_NONE);
    assert_string_equal(address.password, "from file");
    redis_address_finish(&address);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(redis_address_init(&address, "rediss://host", path, false, &err), ERROR_INVALID);
    unlink(path);
    assert_int_equal(redis_address_init(&address, "rediss://host", path, false, &err), ERROR_IO);
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    signal(SIGPIPE, SIG_IGN); // as culvertd
    loop = loop_create("test", 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(a_password_comes_from_a_file),
        cmocka_unit_test(without_redis_commands_fail_at_once),
        cmocka_unit_test(commands_are_answered),
        cmocka_unit_test(messages_arrive_and_gaps_are_told),
        cmocka_unit_test(a_silent_server_is_given_up),
        cmocka_unit_test(a_wrong_password_never_gets_ready),
        cmocka_unit_test(all_of_it_holds_over_tls),
        cmocka_unit_test(an_unverified_server_gets_no_password),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
