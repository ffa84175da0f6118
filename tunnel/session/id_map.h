// id_map: numbers to objects, for what is named across asynchronous gaps by an id in place of a
// pointer. Owned by one node, on its thread. Open addressing; ids are never 0 and never used twice.
#ifndef CULVERT_TUNNEL_SESSION_ID_MAP_H
#define CULVERT_TUNNEL_SESSION_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct id_map {
    struct id_map_slot {
        uint64_t id; // 0: free
        void *value;
    } * slots;
    size_t cap; // a power of two, or 0
    size_t count;
};

void id_map_init(struct id_map *map);
void id_map_finish(struct id_map *map);
void id_map_put(struct id_map *map, uint64_t id, void *value); // the id must be new
void *id_map_get(const struct id_map *map, uint64_t id);       // NULL when not found
void id_map_remove(struct id_map *map, uint64_t id);           // no such id: nothing happens

#endif
