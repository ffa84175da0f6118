#include "tunnel/call/relay_letter.h"

#include <assert.h>

#include "base/mem.h"
#include "tunnel/call/stream.h"

struct relay_letter *relay_letter_create(unsigned caller, uint64_t key)
{
    struct relay_letter *letter = mem_zalloc(sizeof(*letter));
    letter->caller = caller;
    letter->key = key;
    byte_queue_init(&letter->data, TUNNEL_STREAM_QUEUE_BYTES_MAX);
    return letter;
}

void relay_letter_free(struct relay_letter *letter)
{
    if (letter->request) call_request_finish(letter->request);
    mem_free(letter->request);
    byte_queue_finish(&letter->data);
    header_block_finish(&letter->trailers);
    mem_free(letter);
}

bool relay_letter_append(struct relay_letter *to, const struct relay_letter *from, size_t skip_bytes)
{
    assert(skip_bytes <= from->data.len);
    size_t len = from->data.len - skip_bytes;
    if (len && !byte_queue_add(&to->data, byte_queue_front(&from->data) + skip_bytes, len)) return false;
    if (!from->end) return true;
    to->end = true;
    header_block_finish(&to->trailers);
    if (from->trailers.count) to->trailers = header_block_copy(from->trailers.at, from->trailers.count);
    return true;
}
