#include "storage/redis/redis_guard.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/metrics/metrics.h"

enum { QUIET_MS = 60 * 1000, KEY_LOGGED_BYTES_MAX = 200 };

void redis_guard_init(struct redis_guard *guard, const char *what)
{
    *guard = (struct redis_guard){.what = what};
    guard->refused =
        metric_with(metrics_counter("culvert_redis_refused_total",
                                    "Values in Redis that were not signed by this deployment.", "what", NULL),
                    what);
}

void redis_guard_refuse(struct redis_guard *guard, struct str key)
{
    uint64_t now_ms = clock_mono_ms();
    metric_add(guard->refused, 1);
    guard->refusals++;
    if (now_ms < guard->quiet_until_ms) return;
    log_warn("redis", "value_refused", log_c("what", guard->what), log_str("key", str_first(key, KEY_LOGGED_BYTES_MAX)),
             log_uint("count", guard->refusals));
    guard->refusals = 0;
    guard->quiet_until_ms = now_ms + QUIET_MS;
}
