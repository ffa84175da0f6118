#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *at, size_t bytes)
{
    if (at) return at;
    fprintf(stderr, "out of memory: %zu bytes\n", bytes);
    abort();
}

void *mem_alloc(size_t bytes)
{
    return checked(malloc(bytes ? bytes : 1), bytes);
}

void *mem_zalloc(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1), bytes);
}

void *mem_realloc(void *old, size_t bytes)
{
    return checked(realloc(old, bytes ? bytes : 1), bytes);
}

void *mem_array(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1), count);
}

void *mem_dup(const void *at, size_t bytes)
{
    void *copy = mem_alloc(bytes);
    if (bytes) memcpy(copy, at, bytes);
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

char *mem_strndup(const char *at, size_t bytes)
{
    char *copy = mem_alloc(bytes + 1);
    if (bytes) memcpy(copy, at, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *mem_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) checked(NULL, 0);
    return text;
}

void mem_free(void *at)
{
    free(at);
}

void mem_free_secret(void *at, size_t bytes)
{
    if (!at) return;
    explicit_bzero(at, bytes);
    free(at);
}

void mem_auto_free(void *pointer_to_pointer)
{
    void *at;
    memcpy(&at, pointer_to_pointer, sizeof at);
    free(at);
}
