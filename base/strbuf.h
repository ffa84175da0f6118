// strbuf: bytes that grow, born with a maximum. Owned by one object on one thread.
// Passing the maximum sets `overflow` and drops the addition whole; the owner checks once, at the end.
#ifndef CULVERT_BASE_STRBUF_H
#define CULVERT_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct strbuf {
    char *at; // NULL while empty; always NUL-terminated otherwise
    size_t len;
    size_t cap;
    size_t max;
    bool overflow;
};

void strbuf_init(struct strbuf *b, size_t bytes_max);
void strbuf_finish(struct strbuf *b);  // frees; may be used again after strbuf_init
void strbuf_clear(struct strbuf *b);   // len = 0, memory kept
void strbuf_shrink(struct strbuf *b);  // gives the memory back when empty
char *strbuf_detach(struct strbuf *b); // the caller owns the text (mem_free); b is empty afterwards

// All return false when the maximum was passed.
bool strbuf_add(struct strbuf *b, const void *at, size_t len);
bool strbuf_add_str(struct strbuf *b, struct str s);
bool strbuf_add_c(struct strbuf *b, const char *text);
bool strbuf_add_byte(struct strbuf *b, char byte);
bool strbuf_addf(struct strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool strbuf_addv(struct strbuf *b, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
// A JSON string with its quotes; C0, DEL, C1, U+2028/9 are escaped, invalid UTF-8 becomes U+FFFD.
bool strbuf_add_json(struct strbuf *b, struct str s);
// Room for len more bytes, to be written by the caller and counted with strbuf_commit; NULL past the maximum.
char *strbuf_reserve(struct strbuf *b, size_t len);
void strbuf_commit(struct strbuf *b, size_t len);
// Drops len bytes from the front (moves the rest).
void strbuf_drop_front(struct strbuf *b, size_t len);

static inline struct str strbuf_str(const struct strbuf *b)
{
    return (struct str){b->at, b->len};
}

#endif
