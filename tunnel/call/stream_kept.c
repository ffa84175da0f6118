#include "tunnel/call/stream_kept.h"

#include <assert.h>

#include "base/mem.h"

static void kept_account(const struct tunnel_stream *stream, const struct call_request *request, int sign)
{
    struct tunnel_node *node = stream->session->node;
    int64_t bytes = sign * (int64_t)request->bytes;
    assert(sign > 0 || node->kept_bytes >= request->bytes);
    node->kept_bytes = (uint64_t)((int64_t)node->kept_bytes + bytes);
    metric_move(node->broker->meter.kept_bytes, bytes);
}

void stream_kept_take(struct tunnel_stream *stream, struct call_request *request)
{
    const struct tunnel_node *node = stream->session->node;
    if (node->kept_bytes + request->bytes > node->broker->options.node_buffered_bytes_max) {
        call_request_finish(request);
        mem_free(request);
        return;
    }
    assert(!stream->kept);
    stream->kept = request;
    kept_account(stream, request, 1);
}

static struct call_request *kept_leave(struct tunnel_stream *stream)
{
    struct call_request *request = stream->kept;
    stream->kept = NULL;
    if (request) kept_account(stream, request, -1);
    return request;
}

void stream_kept_drop(struct tunnel_stream *stream)
{
    struct call_request *request = kept_leave(stream);
    if (!request) return;
    call_request_finish(request);
    mem_free(request);
}

struct relay_message *stream_kept_give_back(struct tunnel_stream *stream)
{
    struct call_request *request = kept_leave(stream);
    if (!request) return NULL;
    struct relay_message *back = relay_message_create(0, 0);
    back->request = request;
    back->end = stream->request != TUNNEL_STREAM_REQUEST_OPEN && !request->request.end_stream;
    back->data = stream->queue;
    back->trailers = stream->trailers;
    byte_queue_init(&stream->queue, TUNNEL_STREAM_QUEUE_BYTES_MAX);
    stream->trailers = (struct header_block){0};
    return back;
}
