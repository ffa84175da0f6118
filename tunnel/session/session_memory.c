#include "tunnel/session/session_memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

enum {
    SLAB_SLOTS = 64,
    // A slot: what is used lies in its first page, what is hardly ever touched in the others.
    STATE_BYTES = 3072, // nghttp2_session is 2.9 KiB
    FRAME_AT = STATE_BYTES,
    FRAME_BYTES = 16 * 1024 + 64, // NGHTTP2_FRAMEBUF_CHUNKLEN
    FRAME_BYTES_MIN = 16 * 1024,
    TABLE_BYTES = 1024, // HPACK's rings: never used, as tables have no room for entries
    TABLES = 2,
    TABLES_AT = FRAME_AT + FRAME_BYTES,
    SLOT_BYTES = 24 * 1024,
};

_Static_assert(TABLES_AT + TABLES * TABLE_BYTES <= SLOT_BYTES, "a slot holds its parts");

enum part { PART_STATE, PART_FRAME, PART_TABLE, PART_COUNT = PART_TABLE + TABLES };

struct session_memory_slab {
    struct session_memory_slab *next, **link;
    uint8_t *at;
    uint64_t free; // a bit a slot
};

struct session_memory {
    nghttp2_mem callbacks;
    struct session_memory_pool *pool;
    struct session_memory_slab *slab;
    uint8_t *slot;
    bool born; // the first allocation, nghttp2's own state, has been made
    bool used[PART_COUNT];
};

_Static_assert(SLAB_SLOTS == 64, "a bit a slot");

// ---- parts of a slot -----------------------------------------------------------------------------------------

static size_t part_at(unsigned part)
{
    if (part == PART_STATE) return 0;
    return part == PART_FRAME ? FRAME_AT : TABLES_AT + (part - PART_TABLE) * TABLE_BYTES;
}

static void *take(struct session_memory *memory, unsigned part)
{
    if (memory->used[part]) return NULL;
    memory->used[part] = true;
    return memory->slot + part_at(part);
}

// NULL: it has no place here.
static void *take_fitting(struct session_memory *memory, size_t size)
{
    if (!memory->born) {
        memory->born = true;
        if (size <= STATE_BYTES) return take(memory, PART_STATE);
    }
    if (size >= FRAME_BYTES_MIN && size <= FRAME_BYTES) return take(memory, PART_FRAME);
    if (size != TABLE_BYTES) return NULL;
    void *at = take(memory, PART_TABLE);
    return at ? at : take(memory, PART_TABLE + 1);
}

static bool is_ours(const struct session_memory *memory, const void *at)
{
    const uint8_t *byte = at;
    return byte >= memory->slot && byte < memory->slot + SLOT_BYTES;
}

static void give(struct session_memory *memory, const void *at)
{
    for (unsigned part = 0; part < PART_COUNT; part++) {
        if ((const uint8_t *)at != memory->slot + part_at(part)) continue;
        assert(memory->used[part]);
        memory->used[part] = false;
        return;
    }
    abort(); // a pointer into the middle of a slot: it was never handed out
}

// ---- nghttp2's callbacks -------------------------------------------------------------------------------------

static void *on_malloc(size_t size, void *arg)
{
    void *at = take_fitting(arg, size);
    return at ? at : mem_alloc(size);
}

static void *on_calloc(size_t count, size_t size, void *arg)
{
    if (size && count > SIZE_MAX / size) abort(); // nghttp2 multiplies sizes of its own structures only
    void *at = take_fitting(arg, count * size);
    return at ? memset(at, 0, count * size) : mem_zalloc(count * size);
}

static void on_free(void *at, void *arg)
{
    if (at && is_ours(arg, at))
        give(arg, at);
    else
        mem_free(at);
}

static size_t part_bytes(const struct session_memory *memory, const void *at)
{
    size_t offset = (size_t)((const uint8_t *)at - memory->slot);
    if (offset < FRAME_AT) return STATE_BYTES;
    return offset < TABLES_AT ? FRAME_BYTES : TABLE_BYTES;
}

static void *on_realloc(void *old, size_t size, void *arg)
{
    struct session_memory *memory = arg;
    if (!old) return on_malloc(size, arg); // that is how nghttp2 gets its frame buffer
    if (!is_ours(memory, old)) return mem_realloc(old, size);
    size_t keep = part_bytes(memory, old);
    if (size <= keep) return old;
    void *at = mem_alloc(size);
    memcpy(at, old, keep);
    give(memory, old);
    return at;
}

// ---- slots ---------------------------------------------------------------------------------------------------

static struct session_memory_slab *slab_create(struct session_memory_pool *pool)
{
    struct session_memory_slab *slab = mem_zalloc(sizeof(*slab));
    slab->at = mmap(NULL, (size_t)SLAB_SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab->at == MAP_FAILED) abort(); // out of memory
    // A huge page would make memory of all that is never touched.
    (void)madvise(slab->at, (size_t)SLAB_SLOTS * SLOT_BYTES, MADV_NOHUGEPAGE);
    slab->free = UINT64_MAX;
    slab->next = pool->slabs;
    slab->link = &pool->slabs;
    if (slab->next) slab->next->link = &slab->next;
    pool->slabs = slab;
    return slab;
}

static void slab_destroy(struct session_memory_slab *slab)
{
    *slab->link = slab->next;
    if (slab->next) slab->next->link = slab->link;
    munmap(slab->at, (size_t)SLAB_SLOTS * SLOT_BYTES);
    mem_free(slab);
}

// To the front, where the next session looks first.
static void slab_to_front(struct session_memory_pool *pool, struct session_memory_slab *slab)
{
    *slab->link = slab->next;
    if (slab->next) slab->next->link = slab->link;
    slab->next = pool->slabs;
    slab->link = &pool->slabs;
    if (slab->next) slab->next->link = &slab->next;
    pool->slabs = slab;
}

void session_memory_pool_init(struct session_memory_pool *pool)
{
    *pool = (struct session_memory_pool){0};
}

void session_memory_pool_finish(struct session_memory_pool *pool)
{
    assert(pool->slots_used == 0);
    while (pool->slabs)
        slab_destroy(pool->slabs);
}

struct session_memory *session_memory_create(struct session_memory_pool *pool)
{
    struct session_memory_slab *slab = pool->slabs;
    while (slab && !slab->free)
        slab = slab->next;
    if (!slab) slab = slab_create(pool);
    unsigned slot = (unsigned)__builtin_ctzll(slab->free);
    struct session_memory *memory = mem_zalloc(sizeof(*memory));
    slab->free &= ~(1ULL << slot);
    pool->slots_used++;
    memory->pool = pool;
    memory->slab = slab;
    memory->slot = slab->at + (size_t)slot * SLOT_BYTES;
    memory->callbacks = (nghttp2_mem){memory, on_malloc, on_free, on_calloc, on_realloc};
    return memory;
}

nghttp2_mem *session_memory_callbacks(struct session_memory *memory)
{
    return &memory->callbacks;
}

void session_memory_destroy(struct session_memory *memory)
{
    if (!memory) return;
    struct session_memory_pool *pool = memory->pool;
    struct session_memory_slab *slab = memory->slab;
    for (unsigned part = 0; part < PART_COUNT; part++)
        assert(!memory->used[part]);
    // What it wrote must not stay, and not be seen by the next one.
    (void)madvise(memory->slot, SLOT_BYTES, MADV_DONTNEED);
    slab->free |= 1ULL << ((size_t)(memory->slot - slab->at) / SLOT_BYTES);
    pool->slots_used--;
    mem_free(memory);
    if (slab->free == UINT64_MAX && (slab->next || pool->slabs != slab))
        slab_destroy(slab); // the last one is kept
    else
        slab_to_front(pool, slab);
}
