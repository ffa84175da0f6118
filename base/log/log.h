// log: one JSON object a line on standard error: ts, level, msg (a constant event name), component,
// typed fields. The sink is process-wide and thread-safe. Library code returns errors; the entry
// point logs once. Secrets, bodies and header lists never become fields. Long values are cut,
// control characters escaped.
#ifndef CULVERT_BASE_LOG_LOG_H
#define CULVERT_BASE_LOG_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_field_type {
    LOG_FIELD_END = 0,
    LOG_FIELD_STR,
    LOG_FIELD_INT,
    LOG_FIELD_UINT,
    LOG_FIELD_BOOL,
    LOG_FIELD_DOUBLE
};

struct log_field {
    enum log_field_type type;
    const char *name; // snake_case, constant
    union {
        struct str str;
        int64_t i;
        uint64_t u;
        bool b;
        double d;
    } value;
};

void log_set_level(enum log_level level);
MUST_CHECK enum error_code log_parse_level(struct str s, enum log_level *out, struct error *err);
void log_set_fd(int fd); // default 2
bool log_wants(enum log_level level);

static inline struct log_field log_str(const char *name, struct str s)
{
    return (struct log_field){.type = LOG_FIELD_STR, .name = name, .value.str = s};
}
static inline struct log_field log_c(const char *name, const char *s)
{
    return (struct log_field){.type = LOG_FIELD_STR, .name = name, .value.str = str_c(s)};
}
static inline struct log_field log_int(const char *name, int64_t i)
{
    return (struct log_field){.type = LOG_FIELD_INT, .name = name, .value.i = i};
}
static inline struct log_field log_uint(const char *name, uint64_t u)
{
    return (struct log_field){.type = LOG_FIELD_UINT, .name = name, .value.u = u};
}
static inline struct log_field log_bool(const char *name, bool b)
{
    return (struct log_field){.type = LOG_FIELD_BOOL, .name = name, .value.b = b};
}
static inline struct log_field log_double(const char *name, double d)
{
    return (struct log_field){.type = LOG_FIELD_DOUBLE, .name = name, .value.d = d};
}
// The sentence of an error, as field "error".
static inline struct log_field log_err(const struct error *err)
{
    return (struct log_field){.type = LOG_FIELD_STR, .name = "error", .value.str = str_c(err->text)};
}

// For events that others can cause as often as they like: at most one line an event and key in
// LOG_LIMIT_MS, with the number of events that it stands for as the field "count". key: log_key()
// of what a reader needs to tell apart and of which there are few: never a peer's address or port.
// When more keys are in use than there is room for, the rest share one line an interval.
enum { LOG_LIMIT_MS = 10000 };
uint64_t log_key(const char *event, struct str a, struct str b);
// Whether a line may be written at now_ms (monotonic); *out_count: of how many events. Counts the
// others.
bool log_limit_take(uint64_t key, uint64_t now_ms, uint64_t *out_count);
bool log_limit_take_now(uint64_t key, uint64_t *out_count);

// fields ends with a LOG_FIELD_END entry.
void log_write(enum log_level level, const char *component, const char *event, const struct log_field *fields);

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.type = LOG_FIELD_END}})
// log_info("tunnel", "session_open", log_str("runtime", name), log_uint("epoch", epoch));
#define log_debug(component, event, ...)                                                                               \
    do {                                                                                                               \
        if (log_wants(LOG_DEBUG)) log_write(LOG_DEBUG, component, event, LOG_FIELDS(__VA_ARGS__));                     \
    } while (0)
#define log_info(component, event, ...)  log_write(LOG_INFO, component, event, LOG_FIELDS(__VA_ARGS__))
#define log_warn(component, event, ...)  log_write(LOG_WARN, component, event, LOG_FIELDS(__VA_ARGS__))
#define log_error(component, event, ...) log_write(LOG_ERROR, component, event, LOG_FIELDS(__VA_ARGS__))
// log_limited(LOG_INFO, "tunnel", "handshake_refused", str_c(reason), STR_EMPTY, log_int("status",
// status));
#define log_limited(level, component, event, a, b, ...)                                                                \
    do {                                                                                                               \
        uint64_t log_count_;                                                                                           \
        if (log_wants(level) && log_limit_take_now(log_key(event, a, b), &log_count_))                                 \
            log_write(level, component, event, LOG_FIELDS(__VA_ARGS__ __VA_OPT__(, ) log_uint("count", log_count_)));  \
    } while (0)

#endif
