// session_memory: what one nghttp2 session takes its memory from (nghttp2_mem). At birth a session
// asks for a frame buffer of 16 KiB and two tables of 1 KiB, of which it uses the first few hundred
// bytes or nothing at all; from the heap they would be pages that others had dirtied. Here they
// come from address space of which only what is touched becomes memory: one page a session, which
// also holds nghttp2's own state. Everything else comes from the heap.
//
// One pool a loop, on its thread. A session's memory is given back as a whole when nghttp2 has
// freed all of it.
#ifndef CULVERT_TUNNEL_SESSION_SESSION_MEMORY_H
#define CULVERT_TUNNEL_SESSION_SESSION_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stdint.h>

struct session_memory; // one session's
struct session_memory_slab;

struct session_memory_pool {
    struct session_memory_slab *slabs;
    unsigned slots_used;
};

void session_memory_pool_init(struct session_memory_pool *pool);
void session_memory_pool_finish(struct session_memory_pool *pool); // after the last session_memory_destroy()

struct session_memory *session_memory_create(struct session_memory_pool *pool);
nghttp2_mem *session_memory_callbacks(struct session_memory *memory); // valid until destroy
// After nghttp2_session_del().
void session_memory_destroy(struct session_memory *memory);

#endif
