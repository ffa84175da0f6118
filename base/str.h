// str: a view of bytes, (address, length), not NUL-terminated and owned by somebody else. A value; any thread.
#ifndef CULVERT_BASE_STR_H
#define CULVERT_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *at; // may be NULL when len is 0
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_EMPTY    ((struct str){NULL, 0})
// For printf: "%.*s", STR_ARG(s)
#define STR_ARG(s) (int)((s).len > 2147483647 ? 2147483647 : (s).len), ((s).at ? (s).at : "")

static inline struct str str_of(const char *at, size_t len)
{
    return (struct str){at, len};
}
// NULL gives the empty string.
static inline struct str str_c(const char *text)
{
    return (struct str){text, text ? strlen(text) : 0};
}

bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); // ASCII
bool str_starts(struct str s, struct str prefix);
bool str_starts_nocase(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_compare(struct str a, struct str b); // byte order, shorter first
bool str_has_byte(struct str s, char byte);
struct str str_trim(struct str s);                // spaces and tabs
struct str str_from(struct str s, size_t offset); // the rest behind offset (clamped)
struct str str_first(struct str s, size_t len);   // at most len bytes
// Cuts at the first separator: *out_head before it, *rest behind it. False (and head = all) when there is none.
bool str_cut(struct str *rest, char separator, struct str *out_head);
// Constant time in the content; unequal lengths are unequal at once.
bool str_eq_secret(struct str a, struct str b);
// RFC 3629, no surrogates, no NUL.
bool str_is_utf8(struct str s);

#endif
