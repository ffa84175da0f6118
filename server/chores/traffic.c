#include "server/chores/traffic.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "base/strbuf.h"

enum {
    SLOTS = 1024, // a power of two
    PROBES = 16,
    FIELD_BYTES_MAX = 112, // an account's id, a runtime's name and what they are counted for
    FLUSH_MS = 1000,
    KEEP_SECONDS = (TRAFFIC_MINUTES_MAX + 1) * 60,
    LINES_BYTES_MAX = 16 * 1024 * 1024,
    MINUTE_MAX = INT32_MAX, // some time in the year 6053
};

struct slot {
    char field[FIELD_BYTES_MAX]; // "r:<account>/<runtime>", "c:<account>"; empty: free
    uint64_t count;
};

struct traffic {
    struct redis *redis;
    struct timer timer;
    struct slot slots[SLOTS];
    size_t used;
    struct metric *dropped;
};

static void flush(void *arg);

struct traffic *traffic_create(struct loop *loop, struct redis *redis)
{
    struct traffic *traffic = mem_zalloc(sizeof *traffic);
    traffic->redis = redis;
    traffic->dropped = metric_with(metrics_counter(
        "culvert_traffic_dropped_total", "Uncounted events: too many names, or Redis is not available.", NULL));
    timer_init(&traffic->timer, loop_uv(loop), flush, traffic);
    timer_start(&traffic->timer, FLUSH_MS, FLUSH_MS);
    return traffic;
}

void traffic_destroy(struct traffic *traffic)
{
    if (!traffic) return;
    flush(traffic);
    timer_finish(&traffic->timer);
    mem_free(traffic);
}

// ---- counting ------------------------------------------------------------------------------------------------------

static void count(struct traffic *traffic, const char *field, uint64_t n)
{
    uint64_t at = hash_end(hash_text(HASH_BEGIN, str_c(field)));
    for (uint32_t i = 0; i < PROBES; i++) {
        struct slot *slot = &traffic->slots[(at + i) % SLOTS];
        if (slot->field[0] && strcmp(slot->field, field) != 0) continue;
        if (!slot->field[0]) {
            snprintf(slot->field, sizeof slot->field, "%s", field);
            traffic->used++;
        }
        slot->count += n;
        return;
    }
    metric_add(traffic->dropped, n);
}

void traffic_count_reports(struct traffic *traffic, const struct runtime_key *key, unsigned n)
{
    char field[FIELD_BYTES_MAX];
    int len = snprintf(field, sizeof field, "r:%.*s/%.*s", STR_ARG(key->account_id), STR_ARG(key->runtime));
    if (len > 0 && len < FIELD_BYTES_MAX) count(traffic, field, n);
}

void traffic_count_call(struct traffic *traffic, struct str account_id)
{
    char field[FIELD_BYTES_MAX];
    int len = snprintf(field, sizeof field, "c:%.*s", STR_ARG(account_id));
    if (len > 0 && len < FIELD_BYTES_MAX) count(traffic, field, 1);
}

// ---- Redis ---------------------------------------------------------------------------------------------------------

static int64_t this_minute(void)
{
    return clock_wall_ms() / 60000;
}

static struct str key_of(int64_t minute, char out[64])
{
    int len = snprintf(out, 64, "culvert:traffic:%lld", (long long)minute);
    return str_of(out, (size_t)len);
}

static void flush(void *arg)
{
    struct traffic *traffic = arg;
    if (!traffic->used) return;
    bool ready = traffic->redis && redis_is_ready(traffic->redis);
    char key_text[64], number[24];
    struct str key = key_of(this_minute(), key_text);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &traffic->slots[i];
        if (!slot->field[0]) continue;
        snprintf(number, sizeof number, "%llu", (unsigned long long)slot->count);
        const struct str words[] = {STR("HINCRBY"), key, str_c(slot->field), str_c(number)};
        if (ready)
            redis_command(traffic->redis, 4, words, NULL, NULL);
        else
            metric_add(traffic->dropped, slot->count);
    }
    snprintf(number, sizeof number, "%d", KEEP_SECONDS);
    if (ready) redis_command(traffic->redis, 3, (struct str[]){STR("EXPIRE"), key, str_c(number)}, NULL, NULL);
    memset(traffic->slots, 0, sizeof traffic->slots);
    traffic->used = 0;
}

// ---- looking -------------------------------------------------------------------------------------------------------

// Redis answers one text: [[minute, [field, count, ...]], ...].
static const char script[] = "local out = {} "
                             "for i, minute in ipairs(ARGV) do "
                             "out[i] = {minute, redis.call('HGETALL', 'culvert:traffic:' .. minute)} end "
                             "return cjson.encode(out)";

struct tell_call {
    traffic_summed on_summed;
    void *arg;
};

static int64_t number_of(const json_t *text)
{
    int64_t number = 0;
    if (parse_i64(json_str(text), 0, INT64_MAX / 60, &number, NULL) != ERROR_NONE) return 0;
    return number;
}

static void add_line(struct strbuf *out, const json_t *entry)
{
    int64_t minute = number_of(json_array_get(entry, 0));
    json_t *reports = json_object(), *calls = json_object();
    const json_t *fields = json_array_get(entry, 1);
    for (size_t i = 0; i + 1 < json_array_size(fields); i += 2) {
        const char *field = json_string_value(json_array_get(fields, i));
        if (!field || strlen(field) < 2) continue;
        json_t *value = json_integer(number_of(json_array_get(fields, i + 1)));
        json_object_set_new(field[0] == 'r' ? reports : calls, field + 2, value);
    }
    char at[32];
    if (minute > MINUTE_MAX) minute = 0; // Redis may return anything
    time_t seconds = (time_t)(minute * 60);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:00Z", &utc);
    json_t *line = json_pack("{s:s, s:o, s:o}", "minute", at, "reports", reports, "calls", calls);
    char *dump = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS);
    if (dump) strbuf_add_c(out, dump);
    strbuf_add_byte(out, '\n');
    mem_free(dump);
    json_decref(line);
}

static void on_read(void *arg, const struct error *err, struct str reply)
{
    struct tell_call *call = arg;
    struct error bad;
    json_t *entries = NULL;
    const struct json_limits limits = {.bytes_max = LINES_BYTES_MAX};
    if (!err && json_decode(reply, &limits, &entries, &bad) != ERROR_NONE) err = &bad;
    struct strbuf lines;
    strbuf_init(&lines, LINES_BYTES_MAX);
    for (size_t i = 0; !err && i < json_array_size(entries); i++)
        add_line(&lines, json_array_get(entries, i));
    call->on_summed(call->arg, err, strbuf_str(&lines));
    strbuf_finish(&lines);
    json_decref(entries);
    mem_free(call);
}

void traffic_tell(struct redis *redis, unsigned minutes, traffic_summed on_summed, void *arg)
{
    enum { WORDS = 32 };
    struct tell_call *call = mem_alloc(sizeof *call);
    *call = (struct tell_call){on_summed, arg};
    struct str words[WORDS] = {STR("EVAL"), str_c(script), STR("0")};
    char texts[WORDS][24];
    size_t used = 3;
    int64_t now = this_minute();
    for (unsigned i = minutes < WORDS - 3 ? minutes : WORDS - 3; i > 0; i--) {
        snprintf(texts[used], sizeof texts[used], "%lld", (long long)(now - i + 1));
        words[used] = str_c(texts[used]);
        used++;
    }
    redis_command(redis, used, words, on_read, call);
}
