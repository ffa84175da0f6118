#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK_BYTES = 8 * 1024, ALIGN = 16 };
static const size_t default_bytes_max = 64u * 1024 * 1024;

struct block {
    struct block *next;
    size_t used, cap;
    _Alignas(ALIGN) unsigned char bytes[];
};

struct arena {
    struct block *newest; // the block that is filled now
    size_t used, max;
};

static struct block *block_create(size_t cap, struct block *next)
{
    struct block *block = mem_alloc(sizeof *block + cap);
    block->next = next;
    block->used = 0;
    block->cap = cap;
    return block;
}

struct arena *arena_create_sized(size_t first_bytes, size_t bytes_max)
{
    struct arena *arena = mem_zalloc(sizeof *arena);
    arena->max = bytes_max ? bytes_max : default_bytes_max;
    arena->newest = block_create(first_bytes, NULL);
    return arena;
}

struct arena *arena_create(size_t bytes_max)
{
    return arena_create_sized(BLOCK_BYTES, bytes_max);
}

void arena_destroy(struct arena *arena)
{
    if (!arena) return;
    for (struct block *block = arena->newest, *next; block; block = next) {
        next = block->next;
        mem_free(block);
    }
    mem_free(arena);
}

void arena_reset(struct arena *arena)
{
    struct block *block = arena->newest;
    while (block->next) {
        struct block *next = block->next;
        mem_free(block);
        block = next;
    }
    block->used = 0;
    arena->newest = block;
    arena->used = 0;
}

// Not zeroed.
static void *take(struct arena *arena, size_t bytes)
{
    if (bytes > arena->max || arena->used > arena->max - bytes) {
        fprintf(stderr, "arena: %zu bytes over its maximum of %zu\n", bytes, arena->max);
        abort();
    }
    size_t size = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct block *block = arena->newest;
    if (block->cap - block->used < size) {
        size_t cap = block->cap < 512u * 1024 ? block->cap * 2 : block->cap;
        block = arena->newest = block_create(size > cap ? size : cap, block);
    }
    void *at = block->bytes + block->used;
    block->used += size;
    arena->used += size;
    return at;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    void *at = take(arena, bytes);
    memset(at, 0, bytes);
    return at;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) abort();
    return arena_alloc(arena, bytes);
}

void *arena_dup(struct arena *arena, const void *at, size_t bytes)
{
    void *copy = take(arena, bytes);
    if (bytes) memcpy(copy, at, bytes);
    return copy;
}

char *arena_cstr(struct arena *arena, struct str s)
{
    char *copy = take(arena, s.len + 1);
    if (s.len) memcpy(copy, s.at, s.len);
    copy[s.len] = '\0';
    return copy;
}

struct str arena_str(struct arena *arena, struct str s)
{
    return str_of(arena_cstr(arena, s), s.len);
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    if (!format) abort();
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) abort();
    char *text = arena_alloc(arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
