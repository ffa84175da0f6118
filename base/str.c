#include "base/str.h"

#include <stdint.h>

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len) return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower((unsigned char)a.at[i]) != lower((unsigned char)b.at[i])) return false;
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq(str_first(s, prefix.len), prefix);
}

bool str_starts_nocase(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq_nocase(str_first(s, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_from(s, s.len - suffix.len), suffix);
}

int str_compare(struct str a, struct str b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared ? memcmp(a.at, b.at, shared) : 0;
    if (order != 0) return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool str_has_byte(struct str s, char byte)
{
    return s.len && memchr(s.at, byte, s.len) != NULL;
}

struct str str_trim(struct str s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t'))
        s = str_from(s, 1);
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

struct str str_from(struct str s, size_t offset)
{
    if (offset >= s.len) return s.len ? str_of(s.at + s.len, 0) : s;
    return str_of(s.at + offset, s.len - offset);
}

struct str str_first(struct str s, size_t len)
{
    return str_of(s.at, len < s.len ? len : s.len);
}

bool str_cut(struct str *rest, char separator, struct str *out_head)
{
    const char *found = rest->len ? memchr(rest->at, separator, rest->len) : NULL;
    if (!found) {
        *out_head = *rest;
        *rest = str_from(*rest, rest->len);
        return false;
    }
    size_t len = (size_t)(found - rest->at);
    *out_head = str_first(*rest, len);
    *rest = str_from(*rest, len + 1);
    return true;
}

bool str_eq_secret(struct str a, struct str b)
{
    if (a.len != b.len) return false;
    volatile unsigned char difference = 0;
    for (size_t i = 0; i < a.len; i++)
        difference = (unsigned char)(difference | ((unsigned char)a.at[i] ^ (unsigned char)b.at[i]));
    return difference == 0;
}

// How many bytes, in eights, are ASCII without NUL: nearly all text is nothing else.
static size_t plain_bytes(const unsigned char *at, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t eight;
        memcpy(&eight, at + i, sizeof eight);
        if (((eight - ones) | eight) & highs) break;
    }
    return i;
}

bool str_is_utf8(struct str s)
{
    const unsigned char *at = (const unsigned char *)s.at;
    for (size_t i = 0; i < s.len;) {
        i += plain_bytes(at + i, s.len - i);
        if (i == s.len) break;
        unsigned char c = at[i];
        if (c == 0) return false;
        if (c < 0x80) {
            i++;
            continue;
        }
        size_t more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || s.len - i <= more) return false;
        uint32_t point = c & (0x3fu >> more);
        for (size_t k = 1; k <= more; k++) {
            if ((at[i + k] & 0xc0) != 0x80) return false;
            point = point << 6 | (at[i + k] & 0x3fu);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
        i += more + 1;
    }
    return true;
}
