// arena: memory that dies all at once, with the request or the frame it belongs to.
// Owned by one object on one thread; a hard cap bounds it (passing the cap aborts: limits come first).
#ifndef CULVERT_BASE_ARENA_H
#define CULVERT_BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena;

// bytes_max: the most it may ever hold; 0 means 64 MiB.
struct arena *arena_create(size_t bytes_max);
// The same, with room for first_bytes at once and none beside them: for what is small, is kept and has a known size.
struct arena *arena_create_sized(size_t first_bytes, size_t bytes_max);
void arena_destroy(struct arena *arena); // NULL is fine
void arena_reset(struct arena *arena);   // forgets the content, keeps the first block

// 16-byte aligned, zeroed. Never NULL.
void *arena_alloc(struct arena *arena, size_t bytes) __attribute__((returns_nonnull));
void *arena_array(struct arena *arena, size_t count, size_t size) __attribute__((returns_nonnull));
void *arena_dup(struct arena *arena, const void *at, size_t bytes) __attribute__((returns_nonnull));
// A copy with a NUL behind it (not counted in len).
struct str arena_str(struct arena *arena, struct str s);
char *arena_cstr(struct arena *arena, struct str s) __attribute__((returns_nonnull));
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3), returns_nonnull));
size_t arena_used(const struct arena *arena);

#endif
