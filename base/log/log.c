#include "base/log/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/strbuf.h"

enum { LINE_BYTES_MAX = 16 * 1024, VALUE_BYTES_MAX = 2048 };

static atomic_int sink_level = LOG_INFO;
static atomic_int sink_fd = STDERR_FILENO;
static pthread_mutex_t sink_mutex = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set_level(enum log_level level)
{
    atomic_store(&sink_level, (int)level);
}

enum error_code log_parse_level(struct str s, enum log_level *out, struct error *err)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        if (!str_eq(s, str_c(level_names[i]))) continue;
        *out = (enum log_level)i;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID, "invalid log level \"%.*s\", must be debug, info, warn or error",
                     STR_ARG(str_first(s, 40)));
}

void log_set_fd(int fd)
{
    atomic_store(&sink_fd, fd);
}

bool log_wants(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&sink_level, memory_order_relaxed);
}

static void add_field(struct strbuf *line, const struct log_field *field)
{
    strbuf_addf(line, ",\"%s\":", field->name);
    switch (field->type) {
    case LOG_FIELD_STR: strbuf_add_json(line, str_first(field->value.str, VALUE_BYTES_MAX)); break;
    case LOG_FIELD_INT: strbuf_addf(line, "%lld", (long long)field->value.i); break;
    case LOG_FIELD_UINT: strbuf_addf(line, "%llu", (unsigned long long)field->value.u); break;
    case LOG_FIELD_BOOL: strbuf_add_c(line, field->value.b ? "true" : "false"); break;
    case LOG_FIELD_DOUBLE: strbuf_addf(line, "%.9g", field->value.d); break;
    case LOG_FIELD_END: break;
    }
}

static void write_line(const struct strbuf *line)
{
    pthread_mutex_lock(&sink_mutex);
    int fd = atomic_load(&sink_fd);
    for (size_t at = 0; at < line->len;) {
        ssize_t n = write(fd, line->at + at, line->len - at);
        if (n <= 0) break; // nobody is left to be told
        at += (size_t)n;
    }
    pthread_mutex_unlock(&sink_mutex);
}

// ---- limits --------------------------------------------------------------------------------------------------------

enum { LIMITS = 256, LIMIT_LOOKS = 8 };

struct limit {
    uint64_t key, line_ms; // when the last line was written; 0: free
    uint64_t unwritten;    // events since then
};

static struct limit limits[LIMITS + 1]; // the last one is of all keys that find no place
static pthread_mutex_t limits_mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t log_key(const char *event, struct str a, struct str b)
{
    static atomic_uint_fast64_t seed;
    uint64_t begin = atomic_load_explicit(&seed, memory_order_relaxed);
    // Peers choose the texts: they shall not know which keys meet.
    if (begin == 0) {
        uint64_t fresh = id_random_u64() | 1;
        begin = atomic_compare_exchange_strong(&seed, &begin, fresh) ? fresh : begin;
    }
    return hash_end(hash_part(hash_part(hash_part(begin, str_c(event)), a), b)) | 1;
}

// The key's own place, or one whose interval is over and that stands for nothing unwritten, or the
// shared one.
static struct limit *find_limit(uint64_t key, uint64_t now_ms)
{
    struct limit *free_one = NULL;
    for (size_t i = 0; i < LIMIT_LOOKS; i++) {
        struct limit *limit = &limits[(key + i) % LIMITS];
        if (limit->key == key) return limit;
        bool over = limit->key == 0 || now_ms - limit->line_ms >= 2 * (uint64_t)LOG_LIMIT_MS;
        if (over && !free_one) free_one = limit;
    }
    if (!free_one) return &limits[LIMITS];
    *free_one = (struct limit){.key = key};
    return free_one;
}

bool log_limit_take(uint64_t key, uint64_t now_ms, uint64_t *out_count)
{
    pthread_mutex_lock(&limits_mutex);
    struct limit *limit = find_limit(key, now_ms);
    bool may = limit->line_ms == 0 || now_ms - limit->line_ms >= LOG_LIMIT_MS;
    if (may) {
        *out_count = limit->unwritten + 1;
        limit->unwritten = 0;
        limit->line_ms = now_ms ? now_ms : 1;
    } else {
        limit->unwritten++;
    }
    pthread_mutex_unlock(&limits_mutex);
    return may;
}

bool log_limit_take_now(uint64_t key, uint64_t *out_count)
{
    return log_limit_take(key, clock_mono_ms(), out_count);
}

void log_write(enum log_level level, const char *component, const char *event, const struct log_field *fields)
{
    if (!log_wants(level)) return;
    struct strbuf line;
    strbuf_init(&line, LINE_BYTES_MAX);
    char now[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(clock_wall_ms(), now);
    strbuf_addf(&line, "{\"ts\":\"%s\",\"level\":\"%s\",\"component\":\"%s\",\"msg\":\"%s\"", now, level_names[level],
                component, event);
    for (const struct log_field *field = fields; field->type != LOG_FIELD_END; field++) {
        // A field that does not fit is left out whole, so that the line stays one JSON object.
        size_t before = line.len;
        if (line.len > LINE_BYTES_MAX - 64) break;
        add_field(&line, field);
        if (line.overflow || line.len > LINE_BYTES_MAX - 16) {
            line.len = before;
            line.overflow = false;
            line.at[before] = '\0';
        }
    }
    strbuf_add_c(&line, "}\n");
    write_line(&line);
    strbuf_finish(&line);
}
