#include "tunnel/session/id_map.h"

#include <assert.h>

#include "base/mem.h"

enum { ID_MAP_FIRST_CAP = 16 };

void id_map_init(struct id_map *map)
{
    *map = (struct id_map){0};
}

void id_map_finish(struct id_map *map)
{
    mem_free(map->slots);
    id_map_init(map);
}

// Ids are counters, with a node's number on top: the multiplication spreads them over the high
// bits.
static size_t id_map_home(const struct id_map *map, uint64_t id)
{
    return (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (map->cap - 1);
}

static void id_map_place(struct id_map *map, uint64_t id, void *value)
{
    size_t at = id_map_home(map, id);
    while (map->slots[at].id) {
        assert(map->slots[at].id != id);
        at = (at + 1) & (map->cap - 1);
    }
    map->slots[at] = (struct id_map_slot){.id = id, .value = value};
    map->count++;
}

static void id_map_grow(struct id_map *map)
{
    struct id_map old = *map;
    map->cap = old.cap ? old.cap * 2 : ID_MAP_FIRST_CAP;
    map->slots = mem_array(map->cap, sizeof(*map->slots));
    assert((map->cap & (map->cap - 1)) == 0);
    map->count = 0;
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].id) id_map_place(map, old.slots[i].id, old.slots[i].value);
    mem_free(old.slots);
}

void id_map_put(struct id_map *map, uint64_t id, void *value)
{
    assert(id != 0);
    if (map->count * 4 >= map->cap * 3) id_map_grow(map);
    id_map_place(map, id, value);
}

void *id_map_get(const struct id_map *map, uint64_t id)
{
    if (map->cap == 0 || id == 0) return NULL;
    for (size_t at = id_map_home(map, id); map->slots[at].id; at = (at + 1) & (map->cap - 1))
        if (map->slots[at].id == id) return map->slots[at].value;
    return NULL;
}

void id_map_remove(struct id_map *map, uint64_t id)
{
    if (map->cap == 0 || id == 0) return;
    size_t mask = map->cap - 1;
    size_t at = id_map_home(map, id);
    while (map->slots[at].id != id) {
        if (map->slots[at].id == 0) return;
        at = (at + 1) & mask;
    }
    // Moves later ones of the same run back, so that no marks of deleted entries pile up.
    for (size_t next = (at + 1) & mask; map->slots[next].id; next = (next + 1) & mask) {
        size_t home = id_map_home(map, map->slots[next].id);
        if (((next - home) & mask) < ((next - at) & mask)) continue;
        map->slots[at] = map->slots[next];
        at = next;
    }
    map->slots[at] = (struct id_map_slot){0};
    map->count--;
}
