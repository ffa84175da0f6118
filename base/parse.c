#include "base/parse.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum error_code parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out, struct error *err)
{
    if (s.len == 0) return error_set(err, ERROR_INVALID, "number is missing");
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return error_set(err, ERROR_INVALID, "\"%.*s\" is not a whole number", STR_ARG(str_first(s, 40)));
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.at[i] - '0'), &value))
            return error_set(err, ERROR_INVALID, "\"%.*s\" is out of range", STR_ARG(str_first(s, 40)));
    }
    if (value < min || value > max)
        return error_set(err, ERROR_INVALID, "%llu is not between %llu and %llu", (unsigned long long)value,
                         (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return ERROR_NONE;
}

enum error_code parse_i64(struct str s, int64_t min, int64_t max, int64_t *out, struct error *err)
{
    bool negative = s.len && s.at[0] == '-';
    uint64_t magnitude = 0;
    uint64_t bound = (uint64_t)INT64_MAX + (negative ? 1u : 0u);
    enum error_code code = parse_u64(negative ? str_from(s, 1) : s, 0, bound, &magnitude, err);
    if (code != ERROR_NONE) return code;
    int64_t value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (value < min || value > max)
        return error_set(err, ERROR_INVALID, "%lld is not between %lld and %lld", (long long)value, (long long)min,
                         (long long)max);
    *out = value;
    return ERROR_NONE;
}

enum error_code parse_bool(struct str s, bool *out, struct error *err)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (str_eq_nocase(s, str_c(yes[i]))) {
            *out = true;
            return ERROR_NONE;
        }
        if (str_eq_nocase(s, str_c(no[i]))) {
            *out = false;
            return ERROR_NONE;
        }
    }
    return error_set(err, ERROR_INVALID, "\"%.*s\" must be true or false", STR_ARG(str_first(s, 40)));
}

struct unit {
    const char *name;
    uint64_t factor;
};

static enum error_code parse_with_unit(struct str s, const struct unit *units, size_t count, const char *example,
                                       uint64_t *out, struct error *err)
{
    size_t digits = 0;
    while (digits < s.len && s.at[digits] >= '0' && s.at[digits] <= '9')
        digits++;
    uint64_t number;
    enum error_code code = parse_u64(str_first(s, digits), 0, UINT64_MAX, &number, err);
    if (code != ERROR_NONE) return code;
    struct str name = str_from(s, digits);
    for (size_t i = 0; i < count; i++) {
        if (!str_eq(name, str_c(units[i].name))) continue;
        uint64_t value;
        if (__builtin_mul_overflow(number, units[i].factor, &value) || value > INT64_MAX)
            return error_set(err, ERROR_INVALID, "\"%.*s\" is too large", STR_ARG(str_first(s, 40)));
        *out = value;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID, "\"%.*s\" has no known unit (for example %s)", STR_ARG(str_first(s, 40)),
                     example);
}

enum error_code parse_bytes(struct str s, uint64_t *out, struct error *err)
{
    static const struct unit units[] = {
        {"", 1},         {"B", 1},           {"KiB", 1ull << 10},   {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
        {"kB", 1000ull}, {"MB", 1000000ull}, {"GB", 1000000000ull},
    };
    return parse_with_unit(s, units, sizeof units / sizeof *units, "64KiB, 1MiB, 2GiB", out, err);
}

enum error_code parse_duration_ms(struct str s, uint64_t *out, struct error *err)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
    };
    return parse_with_unit(s, units, sizeof units / sizeof *units, "250ms, 5s, 2m, 1h, 7d", out, err);
}

enum error_code parse_address(struct str s, struct str *out_host, uint16_t *out_port, struct error *err)
{
    const char *colon = s.len ? memrchr(s.at, ':', s.len) : NULL;
    if (!colon) return error_set(err, ERROR_INVALID, "\"%.*s\" is not host:port", STR_ARG(str_first(s, 80)));
    struct str host = str_first(s, (size_t)(colon - s.at));
    bool bracketed = host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
    if (bracketed)
        host = str_of(host.at + 1, host.len - 2);
    else if (str_has_byte(host, ':'))
        return error_set(err, ERROR_INVALID, "\"%.*s\": an IPv6 address must be in brackets",
                         STR_ARG(str_first(s, 80)));
    if (str_has_byte(host, '[') || str_has_byte(host, ']'))
        return error_set(err, ERROR_INVALID, "\"%.*s\": only an IPv6 address may be in brackets",
                         STR_ARG(str_first(s, 80)));
    uint64_t port;
    struct error inner;
    if (parse_u64(str_from(s, (size_t)(colon - s.at) + 1), 0, 65535, &port, &inner) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "\"%.*s\": the port: %s", STR_ARG(str_first(s, 80)), inner.text);
    *out_host = host;
    *out_port = (uint16_t)port;
    return ERROR_NONE;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

enum error_code parse_hex(struct str s, uint8_t *out, size_t out_len, struct error *err)
{
    if (s.len != out_len * 2) return error_set(err, ERROR_INVALID, "expected %zu hex digits", out_len * 2);
    for (size_t i = 0; i < s.len; i++)
        if (hex_digit(s.at[i]) < 0) return error_set(err, ERROR_INVALID, "invalid hex digit at offset %zu", i);
    for (size_t i = 0; i < out_len; i++)
        out[i] = (uint8_t)(hex_digit(s.at[2 * i]) << 4 | hex_digit(s.at[2 * i + 1]));
    return ERROR_NONE;
}

static int base64_value(char c, bool url)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == (url ? '-' : '+')) return 62;
    if (c == (url ? '_' : '/')) return 63;
    return -1;
}

// As many groups of four digits as there are before something else; how many bytes of the body that was.
static size_t decode_quads(struct str body, bool url, uint8_t *out)
{
    enum { SHORT = 64, NONE = 64 };
    uint8_t values[256];
    size_t i = 0;
    if (body.len < SHORT) return 0; // the table would cost more
    for (int c = 0; c < 256; c++) {
        int value = base64_value((char)c, url);
        values[c] = value < 0 ? NONE : (uint8_t)value;
    }
    for (; i + 4 <= body.len; i += 4, out += 3) {
        const uint8_t *in = (const uint8_t *)body.at + i;
        uint32_t a = values[in[0]], b = values[in[1]], c = values[in[2]], d = values[in[3]];
        if ((a | b | c | d) & NONE) break;
        uint32_t bits = a << 18 | b << 12 | c << 6 | d;
        out[0] = (uint8_t)(bits >> 16);
        out[1] = (uint8_t)(bits >> 8);
        out[2] = (uint8_t)bits;
    }
    return i;
}

// body: the text without padding.
static enum error_code decode_base64(struct str body, bool url, uint8_t *out, size_t out_cap, size_t *out_len,
                                     struct error *err)
{
    size_t tail = body.len % 4;
    if (tail == 1) return error_set(err, ERROR_INVALID, "invalid length of base64 (%zu)", body.len);
    size_t need = body.len / 4 * 3 + (tail ? tail - 1 : 0);
    if (need > out_cap) return error_set(err, ERROR_TOO_LARGE, "base64 of %zu bytes, the limit is %zu", need, out_cap);
    uint32_t bits = 0;
    unsigned have = 0;
    size_t first = decode_quads(body, url, out), at = first / 4 * 3;
    for (size_t i = first; i < body.len; i++) {
        int value = base64_value(body.at[i], url);
        if (value < 0) return error_set(err, ERROR_INVALID, "invalid base64 digit at offset %zu", i);
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[at++] = (uint8_t)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    if (bits != 0) return error_set(err, ERROR_INVALID, "base64 with unused bits set at its end");
    *out_len = at;
    return ERROR_NONE;
}

enum error_code parse_base64(struct str s, uint8_t *out, size_t out_cap, size_t *out_len, struct error *err)
{
    if (s.len % 4 != 0) return error_set(err, ERROR_INVALID, "length of base64 must be a multiple of 4 (%zu)", s.len);
    struct str body = s;
    for (int i = 0; i < 2 && body.len && body.at[body.len - 1] == '='; i++)
        body.len--;
    return decode_base64(body, false, out, out_cap, out_len, err);
}

enum error_code parse_base64url(struct str s, uint8_t *out, size_t out_cap, size_t *out_len, struct error *err)
{
    return decode_base64(s, true, out, out_cap, out_len, err);
}

size_t format_hex(const uint8_t *at, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[at[i] >> 4];
        out[2 * i + 1] = digits[at[i] & 15];
    }
    out[2 * len] = '\0';
    return 2 * len;
}

static size_t encode_base64(const uint8_t *at, size_t len, char *out, bool url)
{
    const char *alphabet = url ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                               : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t used = 0;
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)at[i] << 16;
        if (have > 1) bits |= (uint32_t)at[i + 1] << 8;
        if (have > 2) bits |= at[i + 2];
        for (size_t k = 0; k < 4; k++) {
            if (k <= have)
                out[used++] = alphabet[bits >> (18 - 6 * k) & 63];
            else if (!url)
                out[used++] = '=';
        }
    }
    out[used] = '\0';
    return used;
}

size_t format_base64(const uint8_t *at, size_t len, char *out)
{
    return encode_base64(at, len, out, false);
}

size_t format_base64url(const uint8_t *at, size_t len, char *out)
{
    return encode_base64(at, len, out, true);
}

bool parse_is_loopback(struct str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (str_eq(host, STR("localhost"))) return true;
    if (host.len >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", STR_ARG(host));
    if (strlen(text) != host.len) return false;
    if (inet_pton(AF_INET, text, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}
