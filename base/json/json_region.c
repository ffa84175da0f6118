#include "base/json/json_region.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define HIDE(at, bytes) __asan_poison_memory_region(at, bytes)
#define SHOW(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define HIDE(at, bytes) ((void)(at), (void)(bytes))
#define SHOW(at, bytes) ((void)(at), (void)(bytes))
#endif

// As much as a manifest of a few hundred KiB becomes; the system gives pages only for what was used
// once.
enum { PIECE_BYTES = 1024 * 1024, ALIGN = 16 };

// jansson calls back without any context, so that a thread's piece can only be found by the thread.
struct piece {
    unsigned depth; // of begins
    size_t used;
    _Alignas(ALIGN) unsigned char bytes[PIECE_BYTES];
};
static __thread struct piece *piece;

// For the end of a thread only.
static pthread_key_t key;
static bool is_installed;

static void free_piece(void *at)
{
    struct piece *gone = at;
    SHOW(gone->bytes, sizeof gone->bytes);
    piece = NULL;
    mem_free(gone);
}

static void *take(size_t bytes)
{
    size_t size = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!piece || !piece->depth || size < bytes || size > sizeof piece->bytes - piece->used) return malloc(bytes);
    void *at = piece->bytes + piece->used;
    piece->used += size;
    SHOW(at, bytes);
    return at;
}

static void give_back(void *at)
{
    uintptr_t offset = piece ? (uintptr_t)at - (uintptr_t)piece->bytes : UINTPTR_MAX;
    if (offset >= PIECE_BYTES) free(at);
}

void json_region_install(void)
{
    if (is_installed || pthread_key_create(&key, free_piece) != 0) return;
    is_installed = true;
    json_set_alloc_funcs(take, give_back);
}

void json_region_begin(void)
{
    if (!is_installed) return;
    if (!piece) {
        piece = mem_alloc(sizeof *piece);
        piece->depth = 0;
        piece->used = 0;
        HIDE(piece->bytes, sizeof piece->bytes);
        pthread_setspecific(key, piece);
    }
    piece->depth++;
}

void json_region_end(void)
{
    if (!piece || --piece->depth > 0) return;
    HIDE(piece->bytes, piece->used);
    piece->used = 0;
}
