// byte_queue: bytes that wait for a slower taker, first in, first out, in one block that grows by doubling and is
// given back when it runs empty. The owner bounds it: it asks for byte_queue_len() before it adds. One thread.
#ifndef CULVERT_AGENT_BYTE_QUEUE_H
#define CULVERT_AGENT_BYTE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct byte_queue {
    uint8_t *at;
    size_t start, len, cap;
};

void byte_queue_finish(struct byte_queue *q); // frees; a zeroed or finished queue is empty and ready
void byte_queue_add(struct byte_queue *q, const void *at, size_t len);
void byte_queue_drop(struct byte_queue *q, size_t len); // from the front; len <= byte_queue_len()

static inline size_t byte_queue_len(const struct byte_queue *q)
{
    return q->len;
}
// The oldest byte; all byte_queue_len() of them lie in a row until the next call that changes the queue.
static inline const uint8_t *byte_queue_front(const struct byte_queue *q)
{
    return q->at + q->start;
}

#endif
