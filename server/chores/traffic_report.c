#include "server/chores/traffic_report.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "server/chores/traffic.h"
#include "storage/redis/redis_settings.h"

enum { POLL_MS = 10, PENDING_MAX = 8 };

struct report {
    struct loop *loop;
    struct redis *redis;
    struct timer timer; // until Redis is there
    uint64_t deadline_ms;
    unsigned minutes;
    struct error err;
};

static void on_redis_closed(void *arg)
{
    struct report *report = arg;
    loop_stop(report->loop);
}

static void end(void *arg)
{
    struct report *report = arg;
    timer_finish(&report->timer);
    redis_close(report->redis, on_redis_closed, report);
}

static void on_summed(void *arg, const struct error *err, struct str lines)
{
    struct report *report = arg;
    if (err)
        report->err = *err;
    else
        fwrite(lines.at, 1, lines.len, stdout);
    loop_post(report->loop, end, report);
}

static void on_timer(void *arg)
{
    struct report *report = arg;
    if (redis_is_ready(report->redis)) {
        timer_stop(&report->timer);
        traffic_tell(report->redis, report->minutes, on_summed, report);
    } else if (clock_mono_ms() >= report->deadline_ms) {
        timer_stop(&report->timer);
        error_set(&report->err, ERROR_UNAVAILABLE, "Redis does not answer");
        loop_post(report->loop, end, report);
    }
}

static enum error_code run(struct report *report, const struct config *config, char *url, struct error *err)
{
    const struct redis_settings *redis = redis_settings_of(config);
    report->loop = loop_create("command", 0);
    report->redis = redis_create(report->loop,
                                 &(struct redis_options){
                                     .url = url,
                                     .password_file = redis->password_file,
                                     .allow_plaintext = redis->allow_plaintext,
                                     .ca_file = redis->tls_ca_file,
                                     .certificate_file = redis->tls_certificate_file,
                                     .key_file = redis->tls_key_file,
                                     .timeout_ms = (uint64_t)redis->timeout_ms,
                                     .pending_max = PENDING_MAX,
                                 },
                                 err);
    if (!report->redis) {
        loop_destroy(report->loop);
        return err->code;
    }
    report->deadline_ms = clock_mono_ms() + 2 * (uint64_t)redis->timeout_ms;
    timer_init(&report->timer, loop_uv(report->loop), on_timer, report);
    timer_start(&report->timer, 0, POLL_MS);
    loop_run(report->loop);
    loop_destroy(report->loop);
    if (report->err.code != ERROR_NONE) *err = report->err;
    return report->err.code;
}

enum error_code traffic_report_print(const struct config *config, unsigned minutes, struct error *err)
{
    const struct redis_settings *redis = redis_settings_of(config);
    if (!redis->url[0]) return error_set(err, ERROR_UNAVAILABLE, "Redis is not configured (redis.url)");
    char *url;
    enum error_code code = config_secret(redis->url, &url, err);
    if (code != ERROR_NONE) return code;
    struct report report = {.minutes = minutes};
    code = run(&report, config, url, err);
    mem_free_secret(url, strlen(url));
    return code;
}
