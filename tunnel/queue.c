#include "tunnel/queue.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { TUNNEL_QUEUE_FIRST_CAP = 4096 };

void tunnel_queue_init(struct tunnel_queue *q, size_t bytes_max)
{
    *q = (struct tunnel_queue){.bytes_max = bytes_max};
}

void tunnel_queue_finish(struct tunnel_queue *q)
{
    mem_free(q->at);
    tunnel_queue_init(q, q->bytes_max);
}

bool tunnel_queue_add(struct tunnel_queue *q, const void *at, size_t len)
{
    if (len > q->bytes_max - q->len) return false;
    if (len == 0) return true;
    if (q->cap - q->head - q->len < len && q->head > 0) {
        memmove(q->at, q->at + q->head, q->len);
        q->head = 0;
    }
    if (q->cap - q->len < len) {
        size_t cap = q->cap ? q->cap : TUNNEL_QUEUE_FIRST_CAP;
        while (cap < q->len + len)
            cap *= 2;
        q->at = mem_realloc(q->at, cap);
        q->cap = cap;
    }
    memcpy(q->at + q->head + q->len, at, len);
    q->len += len;
    return true;
}

void tunnel_queue_drop(struct tunnel_queue *q, size_t len)
{
    assert(len <= q->len);
    q->head += len;
    q->len -= len;
    if (q->len == 0) tunnel_queue_finish(q);
}
