// byte_queue: bytes that wait for a slower taker, first in, first out, in one block that grows by doubling; holds no
// memory while empty. Owned by one object on one thread. A zeroed queue is empty and ready, and its owner bounds it;
// byte_queue_init() gives it a bound of its own.
#ifndef CULVERT_BASE_LOOP_BYTE_QUEUE_H
#define CULVERT_BASE_LOOP_BYTE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_queue {
    uint8_t *at;
    size_t head; // first byte
    size_t len;  // from head
    size_t cap;
    size_t bytes_max; // 0: the owner looks at byte_queue_len() before it adds
};

void byte_queue_init(struct byte_queue *q, size_t bytes_max);
void byte_queue_finish(struct byte_queue *q);                          // frees; empty and ready again, bound as before
bool byte_queue_add(struct byte_queue *q, const void *at, size_t len); // false: over bytes_max, nothing added
void byte_queue_reserve(struct byte_queue *q, size_t len);             // memory for that many more bytes
void byte_queue_drop(struct byte_queue *q, size_t len);                // from the front; len <= byte_queue_len()
void byte_queue_clear(struct byte_queue *q);                           // empty, but keeps its memory for the next bytes

static inline size_t byte_queue_len(const struct byte_queue *q)
{
    return q->len;
}
// The oldest byte; all byte_queue_len() of them lie in a row until the next call that changes the queue.
static inline const uint8_t *byte_queue_front(const struct byte_queue *q)
{
    return q->len ? q->at + q->head : NULL;
}

#endif
