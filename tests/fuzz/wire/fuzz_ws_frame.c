// The WebSocket frame decoder against any bytes, in any pieces: it never reads outside its input,
// never loops, gives only events inside its input, and gives the same for every way of cutting. The
// first byte chooses role and pieces.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "tunnel/wire/ws_frame.h"

struct outcome {
    enum error_code code;
    uint64_t data_bytes, events, hash;
};

static void count(struct outcome *o, const struct ws_frame_event *event)
{
    if (event->type == WS_FRAME_EVENT_DATA)
        o->data_bytes += event->len;
    else
        o->events++;
    for (size_t i = 0; i < event->len; i++)
        o->hash = (o->hash ^ event->at[i]) * 1099511628211u;
}

static struct outcome decode(const uint8_t *at, size_t len, bool expects_mask, size_t step)
{
    struct outcome o = {.hash = 14695981039346656037u};
    struct ws_frame_decoder d;
    uint8_t *copy = mem_alloc(len + 1);
    memcpy(copy, at, len);
    ws_frame_decoder_init(&d, expects_mask);
    for (size_t done = 0; done < len && !o.code;) {
        struct ws_frame_event event;
        size_t piece = len - done < step ? len - done : step, used = 0;
        o.code = ws_frame_decode(&d, copy + done, piece, &used, &event, NULL);
        if (o.code) break;
        assert(used <= piece && used > 0);
        if (event.type == WS_FRAME_EVENT_DATA) assert(event.at >= copy && event.at + event.len <= copy + len);
        if (event.type != WS_FRAME_EVENT_NONE) count(&o, &event);
        done += used;
    }
    mem_free(copy);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    if (!len) return 0;
    struct outcome whole = decode(at + 1, len - 1, at[0] & 1, len);
    struct outcome pieces = decode(at + 1, len - 1, at[0] & 1, 1 + (at[0] >> 1) % 7);
    assert(whole.code == pieces.code && whole.data_bytes == pieces.data_bytes && whole.events == pieces.events &&
           whole.hash == pieces.hash);
    return 0;
}
