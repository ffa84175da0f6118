#include "tunnel/call/call_request.h"

#include <string.h>

#include "base/arena.h"
#include "tunnel/call/stream.h"

enum { CALL_REQUEST_BYTES_MAX = 2 * TUNNEL_HEADER_BYTES_MAX };

static size_t call_text_bytes(size_t len)
{
    return (len + 1 + 15) & ~(size_t)15; // as an arena lays it out
}

// Exactly what the copy below takes.
static size_t call_copy_bytes(const struct tunnel_request *from)
{
    const size_t lens[] = {from->account_id.len, from->runtime.len,   from->method.len,
                           from->path.len,       from->authority.len, from->protocol.len};
    size_t bytes = (from->header_count + 1) * sizeof(struct http_header);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
        bytes += call_text_bytes(lens[i]);
    if (from->user_id) bytes += call_text_bytes(strlen(from->user_id));
    if (from->user_name) bytes += call_text_bytes(strlen(from->user_name));
    for (size_t i = 0; i < from->header_count; i++)
        bytes += call_text_bytes(from->headers[i].name.len) + call_text_bytes(from->headers[i].value.len);
    return bytes;
}

static const char *call_copy_text(struct arena *arena, const char *text)
{
    return text ? arena_cstr(arena, str_c(text)) : NULL;
}

enum error_code call_request_copy(const struct tunnel_request *from, struct call_request *out, struct error *err)
{
    size_t bytes = from->account_id.len + from->runtime.len + from->method.len + from->path.len + from->authority.len +
                   from->protocol.len;
    if (from->header_count > TUNNEL_HEADERS_MAX)
        return error_set(err, ERROR_TOO_LARGE, "%zu request headers", from->header_count);
    for (size_t i = 0; i < from->header_count; i++)
        bytes += from->headers[i].name.len + from->headers[i].value.len;
    if (bytes > CALL_REQUEST_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "request head of %zu bytes", bytes);

    out->bytes = call_copy_bytes(from);
    struct arena *arena = arena_create_sized(out->bytes, 0);
    struct http_header *headers = arena_array(arena, from->header_count + 1, sizeof(*headers));
    for (size_t i = 0; i < from->header_count; i++)
        headers[i] = (struct http_header){.name = arena_str(arena, from->headers[i].name),
                                          .value = arena_str(arena, from->headers[i].value)};
    out->arena = arena;
    out->request = *from;
    out->request.account_id = arena_str(arena, from->account_id);
    out->request.runtime = arena_str(arena, from->runtime);
    out->request.method = arena_str(arena, from->method);
    out->request.path = arena_str(arena, from->path);
    out->request.authority = arena_str(arena, from->authority);
    out->request.protocol = arena_str(arena, from->protocol);
    out->request.user_id = call_copy_text(arena, from->user_id);
    out->request.user_name = call_copy_text(arena, from->user_name);
    out->request.headers = headers;
    return ERROR_NONE;
}

void call_request_finish(struct call_request *request)
{
    arena_destroy(request->arena);
    request->arena = NULL;
}
