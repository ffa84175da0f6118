#include "storage/redis/redis.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "storage/redis/redis_link.h"

enum { WORDS_MAX = 32, COMMAND_BYTES_MAX = 1024 * 1024, TICK_MS = 50 };

struct command {
    struct command *next; // in the order sent
    struct redis *redis;
    uint64_t deadline_at_ms;
    struct error error; // of one that ends later
    redis_done on_done;
    void *arg;
};

struct subscription {
    struct subscription *next;
    struct redis *redis;
    char *channel; // or a pattern
    bool is_pattern;
    redis_message on_message;
    loop_fn on_gap;
    void *arg;
    bool was_live; // a gap follows a loss, not the start
};

struct redis {
    struct loop *loop;
    struct redis_address address;
    SSL_CTX *tls; // NULL: the address has none
    uint64_t timeout_ms;
    size_t pending_max, pending;
    bool is_configured, is_closing, has_failed;
    struct redis_link *commands, *subscriber; // the second one from the first redis_subscribe on
    struct command *first, *last;             // in flight
    struct command *ending, *ending_last;     // failed inside redis_command: told in the next turn
    struct subscription *subscriptions;
    uv_timer_t tick, kick;
    unsigned open_handles;
    loop_fn on_closed;
    void *closed_arg;
    struct metric *ready, *done, *failed;
};

static void on_tick(uv_timer_t *timer);
static void on_kick(uv_timer_t *timer);

// ---- commands ------------------------------------------------------------------------------------------------------

static void end_command(struct command *command, const struct error *err, struct str reply)
{
    metric_add(err ? command->redis->failed : command->redis->done, 1);
    if (command->on_done) command->on_done(command->arg, err, reply);
    mem_free(command);
}

static void end_later(struct redis *redis, struct command *command, enum error_code code, const char *text)
{
    error_set(&command->error, code, "%s", text);
    command->next = NULL;
    if (redis->ending_last)
        redis->ending_last->next = command;
    else
        redis->ending = command;
    redis->ending_last = command;
    uv_timer_start(&redis->kick, on_kick, 0, 0);
}

static void end_ending(struct redis *redis)
{
    struct command *command = redis->ending;
    redis->ending = redis->ending_last = NULL;
    while (command) {
        struct command *next = command->next;
        end_command(command, &command->error, STR_EMPTY);
        command = next;
    }
}

static struct str text_of(const redisReply *reply, char *number, size_t number_bytes)
{
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: return str_of(reply->str, (size_t)reply->len);
    case REDIS_REPLY_INTEGER: snprintf(number, number_bytes, "%lld", reply->integer); return str_c(number);
    default: return STR_EMPTY;
    }
}

static void on_reply(redisAsyncContext *context, void *answer, void *data)
{
    (void)context;
    struct command *command = data;
    struct redis *redis = command->redis;
    const redisReply *reply = answer;
    // Replies come in the order of the commands.
    assert(redis->first == command);
    redis->first = command->next;
    if (!redis->first) redis->last = NULL;
    redis->pending--;
    struct error err;
    char number[24];
    if (!reply)
        end_command(command,
                    (error_set(&err, redis->is_closing ? ERROR_CANCELLED : ERROR_UNAVAILABLE,
                               "the connection to Redis was lost"),
                     &err),
                    STR_EMPTY);
    else if (reply->type == REDIS_REPLY_ERROR)
        end_command(command, (error_set(&err, ERROR_INTERNAL, "Redis: %.200s", reply->str), &err), STR_EMPTY);
    else
        end_command(command, NULL, text_of(reply, number, sizeof number));
}

static const char *refusal(struct redis *redis, size_t count, size_t bytes)
{
    if (!redis->is_configured) return "Redis is not configured (redis.url)";
    if (redis->is_closing) return "the server is shutting down";
    if (!redis_link_context(redis->commands)) return "Redis cannot be reached";
    if (redis->pending >= redis->pending_max) return "too many commands wait for Redis";
    if (count == 0 || count > WORDS_MAX || bytes > COMMAND_BYTES_MAX) return "an empty or oversized command";
    return NULL;
}

void redis_command(struct redis *redis, size_t count, const struct str *words, redis_done on_done, void *arg)
{
    struct command *command = mem_zalloc(sizeof *command);
    command->redis = redis;
    command->on_done = on_done;
    command->arg = arg;
    command->deadline_at_ms = clock_mono_ms() + redis->timeout_ms;
    const char *texts[WORDS_MAX];
    size_t lengths[WORDS_MAX], bytes = 0;
    for (size_t i = 0; i < count && i < WORDS_MAX; i++) {
        texts[i] = words[i].at ? words[i].at : "";
        lengths[i] = words[i].len;
        bytes += words[i].len;
    }
    const char *why = refusal(redis, count, bytes);
    if (!why && redisAsyncCommandArgv(redis_link_context(redis->commands), on_reply, command, (int)count, texts,
                                      lengths) != REDIS_OK)
        why = "the connection to Redis is closing";
    if (why) {
        end_later(redis, command, redis->is_closing ? ERROR_CANCELLED : ERROR_UNAVAILABLE, why);
        return;
    }
    redis->pending++;
    if (redis->last)
        redis->last->next = command;
    else
        redis->first = command;
    redis->last = command;
    if (!uv_is_active((uv_handle_t *)&redis->tick)) uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_tick(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    if (!redis->first) {
        uv_timer_stop(timer);
        return;
    }
    if (redis->first->deadline_at_ms > clock_mono_ms()) return;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "Redis did not answer in time");
    redis_link_drop(redis->commands, &err);
}

// ---- subscriptions -------------------------------------------------------------------------------------------------

static void on_push(redisAsyncContext *context, void *answer, void *data)
{
    (void)context;
    struct subscription *subscription = data;
    const redisReply *reply = answer;
    if (reply && reply->type == REDIS_REPLY_ERROR) { // for example by an ACL
        struct error err;
        error_set(&err, ERROR_UNAUTHENTICATED, "Redis refused a subscription: %.200s", reply->str);
        log_limited(LOG_WARN, "redis", "subscription_refused", str_c(subscription->channel), STR_EMPTY, log_err(&err));
        return;
    }
    // "pmessage" has the pattern in front of the channel.
    size_t parts = subscription->is_pattern ? 4 : 3;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || reply->elements > parts) return;
    const redisReply *kind = reply->element[0];
    const redisReply *channel = reply->element[reply->elements - 2], *message = reply->element[reply->elements - 1];
    if (kind->type != REDIS_REPLY_STRING || subscription->redis->is_closing) return;
    if (strcmp(kind->str, subscription->is_pattern ? "pmessage" : "message") == 0 &&
        channel->type == REDIS_REPLY_STRING && message->type == REDIS_REPLY_STRING) {
        subscription->on_message(subscription->arg, str_of(channel->str, (size_t)channel->len),
                                 str_of(message->str, (size_t)message->len));
    } else if (strcmp(kind->str, subscription->is_pattern ? "psubscribe" : "subscribe") == 0) {
        // From here on nothing is missed; what was said before is.
        if (subscription->was_live && subscription->on_gap) subscription->on_gap(subscription->arg);
        subscription->was_live = true;
    }
}

static void subscribe_now(struct subscription *subscription, redisAsyncContext *context)
{
    const char *words[] = {subscription->is_pattern ? "PSUBSCRIBE" : "SUBSCRIBE", subscription->channel};
    redisAsyncCommandArgv(context, on_push, subscription, 2, words, NULL);
}

// ---- links ---------------------------------------------------------------------------------------------------------

static void on_ready(void *ctx, struct redis_link *link)
{
    struct redis *redis = ctx;
    if (link == redis->commands) {
        metric_move(redis->ready, 1);
        log_info("redis", "connection_ready");
        redis->has_failed = false;
        return;
    }
    for (struct subscription *s = redis->subscriptions; s; s = s->next)
        subscribe_now(s, redis_link_context(link));
}

static void on_lost(void *ctx, struct redis_link *link, bool was_ready, const struct error *err)
{
    struct redis *redis = ctx;
    if (link != redis->commands) return;
    if (was_ready) metric_move(redis->ready, -1);
    // The log hears of a change, not of every try.
    if (!was_ready && redis->has_failed) return;
    redis->has_failed = true;
    log_warn("redis", was_ready ? "connection_lost" : "connection_failed", log_err(err));
}

static void on_handle_closed(void *ctx)
{
    struct redis *redis = ctx;
    if (--redis->open_handles > 0) return;
    while (redis->subscriptions) {
        struct subscription *s = redis->subscriptions;
        redis->subscriptions = s->next;
        mem_free(s->channel);
        mem_free(s);
    }
    loop_fn on_closed = redis->on_closed;
    void *arg = redis->closed_arg;
    redis_address_finish(&redis->address);
    SSL_CTX_free(redis->tls);
    mem_free(redis);
    if (on_closed) on_closed(arg);
}

static void on_timer_closed(uv_handle_t *timer)
{
    on_handle_closed(timer->data);
}

static struct redis_link *make_link(struct redis *redis)
{
    redis->open_handles++;
    return redis_link_create(&(struct redis_link_options){.uv = loop_uv(redis->loop),
                                                          .address = &redis->address,
                                                          .tls = redis->tls,
                                                          .timeout_ms = redis->timeout_ms,
                                                          .ctx = redis,
                                                          .on_ready = on_ready,
                                                          .on_lost = on_lost,
                                                          .on_closed = on_handle_closed});
}

static void add_subscription(struct redis *redis, struct str channel, bool is_pattern, redis_message on_message,
                             loop_fn on_gap, void *arg)
{
    struct subscription *s = mem_zalloc(sizeof *s);
    *s = (struct subscription){.next = redis->subscriptions,
                               .redis = redis,
                               .channel = mem_strndup(channel.at, channel.len),
                               .is_pattern = is_pattern,
                               .on_message = on_message,
                               .on_gap = on_gap,
                               .arg = arg};
    redis->subscriptions = s;
    if (!redis->is_configured || redis->is_closing) return;
    if (!redis->subscriber)
        redis->subscriber = make_link(redis);
    else if (redis_link_context(redis->subscriber))
        subscribe_now(s, redis_link_context(redis->subscriber));
}

void redis_subscribe(struct redis *redis, struct str channel, redis_message on_message, loop_fn on_gap, void *arg)
{
    add_subscription(redis, channel, false, on_message, on_gap, arg);
}

void redis_subscribe_pattern(struct redis *redis, struct str pattern, redis_message on_message, loop_fn on_gap,
                             void *arg)
{
    add_subscription(redis, pattern, true, on_message, on_gap, arg);
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct redis *redis_create(struct loop *loop, const struct redis_options *options, struct error *err)
{
    struct redis *redis = mem_zalloc(sizeof *redis);
    redis->loop = loop;
    redis->timeout_ms = options->timeout_ms;
    redis->pending_max = options->pending_max;
    redis->is_configured = options->url && *options->url;
    if (redis->is_configured && redis_address_init(&redis->address, options->url, options->password_file,
                                                   options->allow_plaintext, err) != ERROR_NONE) {
        mem_free(redis);
        return NULL;
    }
    if (redis->address.tls) {
        redis->tls = redis_tls_context(options->ca_file, options->certificate_file, options->key_file, err);
        if (!redis->tls) {
            redis_address_finish(&redis->address);
            mem_free(redis);
            return NULL;
        }
    }
    redis->ready =
        metric_with(metrics_gauge("culvert_redis_connections_ready", "Established connections to Redis.", NULL));
    struct metric_family *commands =
        metrics_counter("culvert_redis_commands_total", "Commands to Redis by result.", "result", NULL);
    redis->done = metric_with(commands, "answered");
    redis->failed = metric_with(commands, "failed");
    uv_timer_init(loop_uv(loop), &redis->tick);
    uv_timer_init(loop_uv(loop), &redis->kick);
    redis->tick.data = redis->kick.data = redis;
    redis->open_handles = 2;
    if (redis->is_configured) redis->commands = make_link(redis);
    return redis;
}

bool redis_is_configured(const struct redis *redis)
{
    return redis->is_configured;
}

bool redis_is_ready(const struct redis *redis)
{
    return redis->commands && redis_link_context(redis->commands) != NULL;
}

static void tear_down(struct redis *redis)
{
    if (redis_is_ready(redis)) metric_move(redis->ready, -1);
    if (redis->commands) redis_link_close(redis->commands);
    if (redis->subscriber) redis_link_close(redis->subscriber);
    end_ending(redis);
    uv_close((uv_handle_t *)&redis->tick, on_timer_closed);
    uv_close((uv_handle_t *)&redis->kick, on_timer_closed);
}

static void on_kick(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    end_ending(redis);
    if (redis->is_closing) tear_down(redis);
}

// Replies' callbacks may close it, so the work is left to the loop's next turn.
void redis_close(struct redis *redis, loop_fn on_closed, void *arg)
{
    assert(!redis->is_closing);
    redis->is_closing = true;
    redis->on_closed = on_closed;
    redis->closed_arg = arg;
    uv_timer_start(&redis->kick, on_kick, 0, 0);
}
