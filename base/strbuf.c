#include "base/strbuf.h"

#include <stdio.h>

#include "base/mem.h"

void strbuf_init(struct strbuf *b, size_t bytes_max)
{
    *b = (struct strbuf){.max = bytes_max};
}

void strbuf_finish(struct strbuf *b)
{
    mem_free(b->at);
    *b = (struct strbuf){.max = b->max};
}

void strbuf_clear(struct strbuf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->at) b->at[0] = '\0';
}

void strbuf_shrink(struct strbuf *b)
{
    if (b->len == 0) strbuf_finish(b);
}

char *strbuf_detach(struct strbuf *b)
{
    char *text = b->at ? b->at : mem_strdup("");
    *b = (struct strbuf){.max = b->max};
    return text;
}

char *strbuf_reserve(struct strbuf *b, size_t len)
{
    if (len > b->max || b->len > b->max - len) {
        b->overflow = true;
        return NULL;
    }
    size_t need = b->len + len + 1;
    if (need > b->cap) {
        size_t cap = b->cap < 64 ? 64 : b->cap + b->cap / 2;
        if (cap < need) cap = need;
        if (cap > b->max + 1) cap = b->max + 1;
        b->at = mem_realloc(b->at, cap);
        b->cap = cap;
    }
    return b->at + b->len;
}

void strbuf_commit(struct strbuf *b, size_t len)
{
    b->len += len;
    if (b->at) b->at[b->len] = '\0';
}

bool strbuf_add(struct strbuf *b, const void *at, size_t len)
{
    char *room = strbuf_reserve(b, len);
    if (!room) return false;
    if (len) memcpy(room, at, len);
    strbuf_commit(b, len);
    return true;
}

bool strbuf_add_str(struct strbuf *b, struct str s)
{
    return strbuf_add(b, s.at, s.len);
}

bool strbuf_add_c(struct strbuf *b, const char *text)
{
    return strbuf_add(b, text, strlen(text));
}

bool strbuf_add_byte(struct strbuf *b, char byte)
{
    return strbuf_add(b, &byte, 1);
}

bool strbuf_addv(struct strbuf *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    bool fits = false;
    if (n >= 0) {
        char *room = strbuf_reserve(b, (size_t)n);
        if (room) {
            vsnprintf(room, (size_t)n + 1, format, again);
            strbuf_commit(b, (size_t)n);
            fits = true;
        }
    }
    va_end(again);
    return fits;
}

bool strbuf_addf(struct strbuf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool fits = strbuf_addv(b, format, args);
    va_end(args);
    return fits;
}

// Length of the valid UTF-8 sequence at s, or 0; *out_point is its code point.
static size_t utf8_next(const unsigned char *s, size_t left, unsigned *out_point)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (len > left) return 0;
    if (len == 1) {
        *out_point = s[0];
        return 1;
    }
    // str_is_utf8 refuses NUL, which cannot be inside a multi-byte sequence anyway.
    if (!str_is_utf8(str_of((const char *)s, len))) return 0;
    unsigned point = s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        point = point << 6 | (s[i] & 0x3fu);
    *out_point = point;
    return len;
}

static void add_json_point(struct strbuf *b, unsigned point, const unsigned char *at, size_t len)
{
    switch (point) {
    case '"': strbuf_add_c(b, "\\\""); return;
    case '\\': strbuf_add_c(b, "\\\\"); return;
    case '\n': strbuf_add_c(b, "\\n"); return;
    case '\r': strbuf_add_c(b, "\\r"); return;
    case '\t': strbuf_add_c(b, "\\t"); return;
    default: break;
    }
    bool control = point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029;
    if (control)
        strbuf_addf(b, "\\u%04x", point);
    else
        strbuf_add(b, at, len);
}

bool strbuf_add_json(struct strbuf *b, struct str s)
{
    size_t before = b->len;
    bool was_over = b->overflow;
    b->overflow = false;
    const unsigned char *at = (const unsigned char *)s.at;
    strbuf_add_byte(b, '"');
    for (size_t i = 0; i < s.len && !b->overflow;) {
        size_t plain = i;
        while (plain < s.len && at[plain] >= 0x20 && at[plain] < 0x7f && at[plain] != '"' && at[plain] != '\\')
            plain++;
        if (plain > i) {
            strbuf_add(b, at + i, plain - i);
            i = plain;
            continue;
        }
        unsigned point = 0;
        size_t len = utf8_next(at + i, s.len - i, &point);
        if (len == 0) {
            strbuf_add_c(b, "\xef\xbf\xbd");
            i++;
            continue;
        }
        add_json_point(b, point, at + i, len);
        i += len;
    }
    strbuf_add_byte(b, '"');
    if (b->overflow) {
        b->len = before;
        if (b->at) b->at[before] = '\0';
        return false;
    }
    b->overflow = was_over;
    return true;
}

void strbuf_drop_front(struct strbuf *b, size_t len)
{
    if (len > b->len) len = b->len;
    if (len == 0) return;
    memmove(b->at, b->at + len, b->len - len);
    b->len -= len;
    b->at[b->len] = '\0';
}
