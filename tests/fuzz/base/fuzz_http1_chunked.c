// Chunked bodies: the same bytes give the same body, the same end and the same verdict however they are cut.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "base/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

struct outcome {
    bool bad, done;
    size_t used, data_bytes, trailers;
    uint64_t hash;
};

enum { TRAILERS_MAX = 32, TRAILER_BYTES_MAX = 16 * 1024 };

// Each is a field by the book, and says the same however the bytes were cut.
static void take_trailers(const struct strbuf *text, struct outcome *o)
{
    struct http1_header trailers[TRAILERS_MAX];
    assert(!text->overflow);
    o->trailers = http1_parse_trailers(strbuf_str(text), trailers, TRAILERS_MAX);
    assert(o->trailers <= TRAILERS_MAX);
    for (size_t i = 0; i < o->trailers; i++) {
        assert(http1_is_token(trailers[i].name) && http1_is_field_value(trailers[i].value));
        for (size_t k = 0; k < trailers[i].value.len; k++)
            o->hash = (o->hash ^ (uint8_t)trailers[i].value.at[k]) * 1099511628211u;
    }
}

static struct outcome decode(const char *at, size_t len, size_t step)
{
    struct outcome o = {.hash = 14695981039346656037u};
    struct http1_chunked chunked;
    struct strbuf text;
    strbuf_init(&text, TRAILER_BYTES_MAX);
    http1_chunked_init(&chunked);
    chunked.trailers = &text;
    while (o.used < len && !o.done && !o.bad) {
        size_t piece = len - o.used < step ? len - o.used : step, used = 0;
        struct str data = STR_EMPTY;
        o.bad = http1_chunked_feed(&chunked, at + o.used, piece, &used, &data, &o.done, NULL) != ERROR_NONE;
        if (o.bad) break;
        assert(used > 0 && used <= piece && data.len <= used);
        assert(data.len == 0 || (data.at >= at && data.at + data.len <= at + len));
        for (size_t i = 0; i < data.len; i++)
            o.hash = (o.hash ^ (uint8_t)data.at[i]) * 1099511628211u;
        o.data_bytes += data.len;
        o.used += used;
    }
    if (o.done) take_trailers(&text, &o);
    strbuf_finish(&text);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct outcome whole = decode((const char *)at, len, len ? len : 1);
    for (size_t step = 1; step <= 5; step += 2) {
        struct outcome pieces = decode((const char *)at, len, step);
        assert(pieces.bad == whole.bad && pieces.done == whole.done);
        if (whole.bad) continue;
        assert(pieces.used == whole.used && pieces.data_bytes == whole.data_bytes && pieces.hash == whole.hash);
        assert(pieces.trailers == whole.trailers);
    }
    return 0;
}
