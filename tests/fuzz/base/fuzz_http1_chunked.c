// Chunked bodies: the same bytes give the same body, the same end and the same verdict however they are cut, and a body
// is whole exactly when a plain reading of the grammar (RFC 9112 section 7.1) over all of the bytes says so.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "base/http1/http1.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

enum { CUT_BYTES_MAX = 512, MODEL_BYTES_MAX = 4096, SIZE_DIGITS_MAX = 15, EXTENSION_BYTES_MAX = 256 };
enum { TRAILERS_MAX = 32, TRAILER_BYTES_MAX = 16 * 1024 };

struct outcome {
    bool bad, done;
    size_t used, data_bytes, trailers;
    uint64_t hash, trailer_hash;
};

static void add_data(struct outcome *o, struct str data)
{
    for (size_t i = 0; i < data.len; i++)
        o->hash = (o->hash ^ (uint8_t)data.at[i]) * 1099511628211u;
    o->data_bytes += data.len;
}

// Each is a field by the book, and says the same however the bytes were cut.
static void take_trailers(const struct strbuf *text, struct outcome *o)
{
    struct http_header trailers[TRAILERS_MAX];
    assert(!text->overflow);
    o->trailers = http1_parse_trailers(strbuf_str(text), trailers, TRAILERS_MAX);
    assert(o->trailers <= TRAILERS_MAX);
    for (size_t i = 0; i < o->trailers; i++) {
        assert(http1_is_token(trailers[i].name) && http1_is_field_value(trailers[i].value));
        for (size_t k = 0; k < trailers[i].value.len; k++)
            o->trailer_hash = (o->trailer_hash ^ (uint8_t)trailers[i].value.at[k]) * 1099511628211u;
    }
}

// Feeds at..end, in pieces of at most step bytes, to a decoder that goes on.
static void decode(struct http1_chunked *chunked, struct outcome *o, const char *at, size_t end, size_t step)
{
    while (o->used < end && !o->done && !o->bad) {
        size_t piece = end - o->used < step ? end - o->used : step, used = 0;
        struct str data = STR_EMPTY;
        o->bad = http1_chunked_feed(chunked, at + o->used, piece, &used, &data, &o->done, NULL) != ERROR_NONE;
        if (o->bad) break;
        assert(used > 0 && used <= piece && data.len <= used);
        assert(data.len == 0 || (data.at >= at && data.at + data.len <= at + end));
        add_data(o, data);
        o->used += used;
    }
}

static struct outcome decode_cut(const char *at, size_t len, size_t cut, size_t step)
{
    struct outcome o = {.hash = 14695981039346656037u};
    struct http1_chunked chunked;
    struct strbuf text;
    strbuf_init(&text, TRAILER_BYTES_MAX);
    http1_chunked_init(&chunked);
    chunked.trailers = &text;
    decode(&chunked, &o, at, cut, step);
    decode(&chunked, &o, at, len, step);
    if (o.done) take_trailers(&text, &o);
    strbuf_finish(&text);
    return o;
}

// ---- the grammar, read plainly --------------------------------------------------------------------------------------

// A line with its CR LF. False: there is no whole one, or it has another control byte.
static bool take_line(struct str *rest, struct str *out)
{
    const char *end = rest->len ? memmem(rest->at, rest->len, "\r\n", 2) : NULL;
    if (!end) return false;
    *out = str_first(*rest, (size_t)(end - rest->at));
    *rest = str_from(*rest, out->len + 2);
    return http1_is_field_value(*out);
}

static bool read_size(struct str line, uint64_t *out)
{
    struct str digits;
    bool extended = str_cut(&line, ';', &digits);
    if (digits.len == 0 || digits.len > SIZE_DIGITS_MAX) return false;
    if (extended && (line.len > EXTENSION_BYTES_MAX || !http1_is_token(str_first(line, 1)))) return false;
    *out = 0;
    for (size_t i = 0; i < digits.len; i++) {
        const char *all = "0123456789abcdef0123456789ABCDEF", *digit = memchr(all, digits.at[i], 32);
        if (!digit) return false;
        *out = *out * 16 + (uint64_t)(digit - all) % 16;
    }
    return true;
}

// True: the body is whole and ends behind out->used bytes.
static bool read_plainly(const char *at, size_t len, struct outcome *out)
{
    struct str rest = str_of(at, len), line, name;
    uint64_t size = 0;
    *out = (struct outcome){.hash = 14695981039346656037u, .done = true};
    do {
        if (!take_line(&rest, &line) || !read_size(line, &size)) return false;
        if (size == 0) break;
        if (rest.len < size + 2 || memcmp(rest.at + size, "\r\n", 2) != 0) return false;
        add_data(out, str_first(rest, (size_t)size));
        rest = str_from(rest, (size_t)size + 2);
    } while (true);
    do {
        if (!take_line(&rest, &line)) return false;
        if (line.len == 0) break;
        if (!str_cut(&line, ':', &name) || !http1_is_token(name)) return false;
    } while (true);
    out->used = len - rest.len;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    const char *text = (const char *)at;
    struct outcome whole = decode_cut(text, len, 0, len ? len : 1), model;
    size_t cuts = len < CUT_BYTES_MAX ? len : CUT_BYTES_MAX;
    for (size_t cut = 0; cut <= cuts; cut++) {
        // At each position; and in small steps, a different one each time.
        struct outcome pieces = decode_cut(text, len, cut, cut % 8 ? len : 1 + cut / 8 % 7);
        assert(pieces.bad == whole.bad && pieces.done == whole.done);
        if (whole.bad) continue;
        assert(pieces.used == whole.used && pieces.data_bytes == whole.data_bytes && pieces.hash == whole.hash);
        assert(pieces.trailers == whole.trailers && pieces.trailer_hash == whole.trailer_hash);
    }
    if (len > MODEL_BYTES_MAX) return 0;
    bool complete = read_plainly(text, len, &model);
    assert(complete == (whole.done && !whole.bad));
    if (complete) assert(model.used == whole.used && model.data_bytes == whole.data_bytes && model.hash == whole.hash);
    return 0;
}
