#include "agent/byte_queue.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_BYTES = 2048, KEEP_BYTES = 128 * 1024 };

void byte_queue_finish(struct byte_queue *q)
{
    mem_free(q->at);
    memset(q, 0, sizeof(*q));
}

void byte_queue_add(struct byte_queue *q, const void *at, size_t len)
{
    if (!len) return;
    if (q->cap - q->start - q->len < len) {
        if (q->cap >= q->len + len && q->start >= q->len) { // half or more is free: moving is cheap
            memcpy(q->at, q->at + q->start, q->len);
            q->start = 0;
        } else {
            size_t cap = q->cap ? q->cap : FIRST_BYTES;
            while (cap < q->len + len)
                cap *= 2;
            uint8_t *grown = mem_alloc(cap);
            if (q->len) memcpy(grown, q->at + q->start, q->len);
            mem_free(q->at);
            q->at = grown;
            q->cap = cap;
            q->start = 0;
        }
    }
    memcpy(q->at + q->start + q->len, at, len);
    q->len += len;
}

void byte_queue_drop(struct byte_queue *q, size_t len)
{
    assert(len <= q->len);
    q->start += len;
    q->len -= len;
    if (q->len) return;
    q->start = 0;
    if (q->cap > KEEP_BYTES) byte_queue_finish(q);
}
