#include "base/loop/byte_queue.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { BYTE_QUEUE_FIRST_CAP = 4096 };

void byte_queue_init(struct byte_queue *q, size_t bytes_max)
{
    *q = (struct byte_queue){.bytes_max = bytes_max};
}

void byte_queue_finish(struct byte_queue *q)
{
    mem_free(q->at);
    byte_queue_init(q, q->bytes_max);
}

void byte_queue_reserve(struct byte_queue *q, size_t len)
{
    if (q->cap - q->head - q->len < len && q->head > 0) {
        memmove(q->at, q->at + q->head, q->len);
        q->head = 0;
    }
    if (q->cap - q->len >= len) return;
    size_t cap = q->cap ? q->cap : BYTE_QUEUE_FIRST_CAP;
    while (cap < q->len + len)
        cap *= 2;
    q->at = mem_realloc(q->at, cap);
    q->cap = cap;
}

bool byte_queue_add(struct byte_queue *q, const void *at, size_t len)
{
    if (q->bytes_max && len > q->bytes_max - q->len) return false;
    if (len == 0) return true;
    byte_queue_reserve(q, len);
    assert(q->head + q->len + len <= q->cap);
    memcpy(q->at + q->head + q->len, at, len);
    q->len += len;
    return true;
}

void byte_queue_drop(struct byte_queue *q, size_t len)
{
    assert(len <= q->len);
    q->head += len;
    q->len -= len;
    if (q->len == 0) byte_queue_finish(q);
}

void byte_queue_clear(struct byte_queue *q)
{
    q->head = 0;
    q->len = 0;
}
