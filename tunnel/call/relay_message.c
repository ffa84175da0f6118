#include "tunnel/call/relay_message.h"

#include <assert.h>

#include "base/mem.h"
#include "tunnel/call/stream.h"

struct relay_message *relay_message_create(unsigned caller, uint64_t key)
{
    struct relay_message *message = mem_zalloc(sizeof(*message));
    message->caller = caller;
    message->key = key;
    byte_queue_init(&message->data, TUNNEL_STREAM_QUEUE_BYTES_MAX);
    return message;
}

void relay_message_free(struct relay_message *message)
{
    if (message->request) call_request_finish(message->request);
    mem_free(message->request);
    byte_queue_finish(&message->data);
    header_block_finish(&message->trailers);
    mem_free(message);
}

bool relay_message_append(struct relay_message *to, const struct relay_message *from, size_t skip_bytes)
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
