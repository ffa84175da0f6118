// Head fields of a hop, a line each: whatever another replica sends, what is taken has one meaning and can be sent on.
#include <stdlib.h>

#include "server/peer/peer_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_header fields[PEER_WIRE_FIELDS_MAX], again[PEER_WIRE_FIELDS_MAX];
    struct str rest = str_of((const char *)data, size), line;
    struct tunnel_request request, same;
    struct arena *arena = arena_create(0);
    size_t count = 0;
    while (rest.len && count < PEER_WIRE_FIELDS_MAX && rest.len <= PEER_WIRE_HEAD_BYTES_MAX) {
        struct str name;
        str_cut(&rest, '\n', &line);
        struct str value = line;
        if (!str_cut(&value, '=', &name)) value = STR_EMPTY;
        fields[count++] = (struct http_header){name, value};
    }
    struct str detail;
    (void)peer_wire_fail_decode(fields, count, &detail);
    if (peer_wire_request_decode(fields, count, arena, &request, NULL) == ERROR_NONE) {
        size_t again_count = 0;
        if (request.epoch == 0 || !request.account_id.len || !request.runtime.len || request.path.at[0] != '/') abort();
        for (size_t i = 0; i < request.header_count; i++)
            if (peer_wire_is_ours(request.headers[i].name)) abort();
        if (peer_wire_request_encode(&request, request.epoch, arena, again, &again_count, NULL) == ERROR_NONE) {
            if (peer_wire_request_decode(again, again_count, arena, &same, NULL) != ERROR_NONE) abort();
            if (!str_eq(same.path, request.path) || !str_eq(same.method, request.method) ||
                !str_eq(same.runtime, request.runtime) || same.epoch != request.epoch)
                abort();
        }
    }
    arena_destroy(arena);
    return 0;
}
