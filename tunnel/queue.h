// queue: bytes in at the back, out at the front; holds no memory while empty. Owned by one object on one thread,
// which bounds it: the queue itself only refuses to pass bytes_max.
#ifndef CULVERT_TUNNEL_QUEUE_H
#define CULVERT_TUNNEL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tunnel_queue {
    uint8_t *at;
    size_t head; // first byte
    size_t len;  // from head
    size_t cap;
    size_t bytes_max;
};

void tunnel_queue_init(struct tunnel_queue *q, size_t bytes_max);
void tunnel_queue_finish(struct tunnel_queue *q);
bool tunnel_queue_add(struct tunnel_queue *q, const void *at, size_t len); // false: over bytes_max, nothing added
void tunnel_queue_drop(struct tunnel_queue *q, size_t len);

static inline const uint8_t *tunnel_queue_front(const struct tunnel_queue *q)
{
    return q->at + q->head;
}

#endif
