#include "base/clock.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/parse.h"

// The simulated clock of the process. Atomic because a thread of a library may ask while a test
// advances it.
static struct {
    _Atomic uint64_t mono_us;      // 0: the system's clocks are read
    _Atomic int64_t wall_ahead_us; // of the monotonic one
} simulated;

void clock_simulate(uint64_t mono_us, int64_t wall_ms)
{
    assert(mono_us > 0);
    atomic_store(&simulated.wall_ahead_us, wall_ms * 1000 - (int64_t)mono_us);
    atomic_store(&simulated.mono_us, mono_us);
}

void clock_simulate_end(void)
{
    atomic_store(&simulated.mono_us, 0);
}

bool clock_is_simulated(void)
{
    return atomic_load_explicit(&simulated.mono_us, memory_order_relaxed) != 0;
}

void clock_advance_us(uint64_t us)
{
    assert(clock_is_simulated());
    atomic_fetch_add(&simulated.mono_us, us);
}

uint64_t clock_mono_us(void)
{
    uint64_t us = atomic_load_explicit(&simulated.mono_us, memory_order_relaxed);
    if (us) return us;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000u;
}

int64_t clock_wall_ms(void)
{
    int64_t us = (int64_t)atomic_load_explicit(&simulated.mono_us, memory_order_relaxed);
    if (us) return (us + atomic_load_explicit(&simulated.wall_ahead_us, memory_order_relaxed)) / 1000;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void put_digits(char *at, int value, int count)
{
    for (int i = count - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
}

void clock_format_rfc3339(int64_t wall_ms, char *out)
{
    int64_t seconds = wall_ms / 1000, ms = wall_ms % 1000;
    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    time_t t = (time_t)seconds;
    struct tm tm;
    gmtime_r(&t, &tm);
    int year = tm.tm_year + 1900;
    if (year < 0 || year > 9999) { // not in four digits
        size_t used = strftime(out, CLOCK_RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(out + used, CLOCK_RFC3339_BYTES - used, ".%03dZ", (int)ms);
        return;
    }
    memcpy(out, "0000-00-00T00:00:00.000Z", sizeof "0000-00-00T00:00:00.000Z");
    put_digits(out, year, 4);
    put_digits(out + 5, tm.tm_mon + 1, 2);
    put_digits(out + 8, tm.tm_mday, 2);
    put_digits(out + 11, tm.tm_hour, 2);
    put_digits(out + 14, tm.tm_min, 2);
    put_digits(out + 17, tm.tm_sec, 2);
    put_digits(out + 20, (int)ms, 3);
}

static bool digits(struct str s, size_t at, size_t len, int *out)
{
    uint64_t value;
    if (s.len < at + len || parse_u64(str_of(s.at + at, len), 0, 9999, &value, NULL) != ERROR_NONE) return false;
    *out = (int)value;
    return true;
}

static bool parse_zone(struct str zone, int64_t *out_offset_s)
{
    if (zone.len == 1 && (zone.at[0] == 'Z' || zone.at[0] == 'z')) {
        *out_offset_s = 0;
        return true;
    }
    int hours, minutes;
    if (zone.len != 6 || (zone.at[0] != '+' && zone.at[0] != '-') || zone.at[3] != ':') return false;
    if (!digits(zone, 1, 2, &hours) || !digits(zone, 4, 2, &minutes) || hours > 23 || minutes > 59) return false;
    *out_offset_s = (zone.at[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

enum error_code clock_parse_rfc3339(struct str s, int64_t *out_wall_ms, struct error *err)
{
    struct tm tm = {0};
    int year, month;
    bool ok = digits(s, 0, 4, &year) && digits(s, 5, 2, &month) && digits(s, 8, 2, &tm.tm_mday) &&
              digits(s, 11, 2, &tm.tm_hour) && digits(s, 14, 2, &tm.tm_min) && digits(s, 17, 2, &tm.tm_sec) &&
              s.len >= 20 && s.at[4] == '-' && s.at[7] == '-' && (s.at[10] == 'T' || s.at[10] == 't') &&
              s.at[13] == ':' && s.at[16] == ':';
    if (!ok || year < 1970 || month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60)
        return error_set(err, ERROR_INVALID, "\"%.*s\" is not an RFC 3339 time", STR_ARG(str_first(s, 40)));
    struct str rest = str_from(s, 19);
    int64_t ms = 0;
    if (rest.at[0] == '.') {
        size_t len = 1;
        for (int64_t unit = 100; len < rest.len && rest.at[len] >= '0' && rest.at[len] <= '9'; len++, unit /= 10)
            ms += unit * (rest.at[len] - '0');
        if (len == 1) return error_set(err, ERROR_INVALID, "time with an empty fraction");
        rest = str_from(rest, len);
    }
    int64_t offset_s;
    if (!parse_zone(rest, &offset_s)) return error_set(err, ERROR_INVALID, "time without a valid zone");
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    int day = tm.tm_mday;
    time_t t = timegm(&tm);
    if (tm.tm_mday != day) return error_set(err, ERROR_INVALID, "day is out of range for its month");
    *out_wall_ms = ((int64_t)t - offset_s) * 1000 + ms;
    return ERROR_NONE;
}
