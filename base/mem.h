// mem: heap allocation that cannot fail. Out of memory ends the process; so every size that comes
// from outside is checked against its limit before it reaches these. Any thread.
#ifndef CULVERT_BASE_MEM_H
#define CULVERT_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t bytes) __attribute__((malloc, returns_nonnull)); // zeroed
void *mem_realloc(void *old, size_t bytes) __attribute__((returns_nonnull));
void *mem_array(size_t count, size_t size) __attribute__((malloc, returns_nonnull)); // zeroed, overflow-checked
void *mem_dup(const void *at, size_t bytes) __attribute__((malloc, returns_nonnull));
char *mem_strdup(const char *text) __attribute__((malloc, returns_nonnull));
char *mem_strndup(const char *at, size_t bytes) __attribute__((malloc, returns_nonnull)); // adds the NUL
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2), malloc, returns_nonnull));
void mem_free(void *at); // NULL is fine

// Overwrites before freeing: for credentials.
void mem_free_secret(void *at, size_t bytes);

// char *x AUTO_FREE = ...; is freed when the scope ends.
void mem_auto_free(void *pointer_to_pointer);
#define AUTO_FREE __attribute__((cleanup(mem_auto_free)))

#endif
