#include "api/http/inflate.h"

#include <limits.h>
#include <stdint.h>
#include <zlib.h>
#ifdef CULVERT_HAS_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "base/mem.h"

enum {
    STEP_BYTES = 16 * 1024,
    GZIP_WINDOW_BITS = 15 + 16,
    GZIP_MAGIC_0 = 0x1f,
    GZIP_MAGIC_1 = 0x8b,
    TRAILER_BYTES = 8
};

static voidpf take_memory(voidpf opaque, uInt count, uInt size)
{
    (void)opaque;
    return mem_array(count, size);
}

static void give_memory(voidpf opaque, voidpf at)
{
    (void)opaque;
    mem_free(at);
}

static void start(z_stream *stream, struct str body)
{
    // zlib's input is not const for historical reasons only.
    stream->next_in = (Bytef *)(uintptr_t)body.at;
    stream->avail_in = (uInt)body.len;
}

struct budget {
    struct str body;
    size_t bytes_max;
    unsigned ratio_max;
    size_t used;
};

static enum error_code spend(struct budget *budget, size_t bytes, size_t body_offset, struct error *err)
{
    if (bytes > budget->bytes_max - budget->used)
        return error_set(err, ERROR_TOO_LARGE, "gzip at byte %zu: inflates to more than the limit of %zu bytes",
                         body_offset, budget->bytes_max);
    budget->used += bytes;
    if (budget->used > INFLATE_FREE_BYTES && budget->used / budget->ratio_max >= budget->body.len &&
        budget->used > budget->body.len * budget->ratio_max)
        return error_set(err, ERROR_TOO_LARGE, "gzip at byte %zu: inflates to more than %u times its %zu bytes",
                         body_offset, budget->ratio_max, budget->body.len);
    return ERROR_NONE;
}

static enum error_code check_end(struct str rest, size_t body_offset, struct error *err)
{
    if (rest.len == 0) return ERROR_NONE;
    bool is_member =
        rest.len > 1 && (unsigned char)rest.at[0] == GZIP_MAGIC_0 && (unsigned char)rest.at[1] == GZIP_MAGIC_1;
    if (is_member)
        return error_set(err, ERROR_INVALID, "gzip at byte %zu: a second member, only one is accepted", body_offset);
    return error_set(err, ERROR_INVALID, "gzip at byte %zu: %zu bytes after the end", body_offset, rest.len);
}

// What the body says of its own size (RFC 1952, 2.3.1: ISIZE), where it may be so much; 0: not
// worth a try.
static size_t stated_size(const struct budget *budget, const struct strbuf *out)
{
    struct str body = budget->body;
    if (body.len < TRAILER_BYTES) return 0;
    const unsigned char *at = (const unsigned char *)body.at + body.len - 4;
    size_t stated = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    size_t most = budget->bytes_max < out->max - out->len ? budget->bytes_max : out->max - out->len;
    if (stated > INFLATE_FREE_BYTES && stated / budget->ratio_max >= body.len) return 0;
    return stated <= most ? stated : 0;
}

#ifdef CULVERT_HAS_LIBDEFLATE
// Bodies that are whole and say how long they become are what it is made for: it takes a third of
// zlib's time.
static bool inflate_whole(struct str body, char *to, size_t stated)
{
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    size_t used = 0, made = 0;
    if (!decompressor) return false;
    enum libdeflate_result result =
        libdeflate_gzip_decompress_ex(decompressor, body.at, body.len, to, stated, &used, &made);
    libdeflate_free_decompressor(decompressor);
    return result == LIBDEFLATE_SUCCESS && used == body.len && made == stated;
}
#else
// In one go zlib needs no window.
static bool inflate_whole(struct str body, char *to, size_t stated)
{
    z_stream stream = {.zalloc = take_memory, .zfree = give_memory};
    if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK) return false;
    start(&stream, body);
    stream.next_out = (Bytef *)to;
    stream.avail_out = (uInt)stated;
    bool is_good = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
    inflateEnd(&stream);
    return is_good;
}
#endif

// Into the place where it stays. False, and nothing is changed, when the body is not what it says;
// the slower way finds out what is wrong with it.
static bool inflate_at_once(const struct budget *budget, struct strbuf *out)
{
    size_t stated = stated_size(budget, out);
    if (!stated || !inflate_whole(budget->body, strbuf_reserve(out, stated), stated)) return false;
    strbuf_commit(out, stated);
    return true;
}

static enum error_code pump(z_stream *stream, struct budget *budget, struct strbuf *out, struct error *err)
{
    unsigned char step[STEP_BYTES];
    for (;;) {
        stream->next_out = step;
        stream->avail_out = sizeof step;
        int result = inflate(stream, Z_NO_FLUSH);
        size_t offset = budget->body.len - stream->avail_in, got = sizeof step - stream->avail_out;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return error_set(err, ERROR_INVALID, "gzip at byte %zu: %s", offset,
                             stream->msg ? stream->msg : "is not gzip");
        enum error_code code = spend(budget, got, offset, err);
        if (code != ERROR_NONE) return code;
        if (!strbuf_add(out, step, got))
            return error_set(err, ERROR_TOO_LARGE, "gzip at byte %zu: inflates to more than the limit of %zu bytes",
                             offset, out->max);
        if (result == Z_STREAM_END) return check_end(str_from(budget->body, offset), offset, err);
        if (stream->avail_in == 0 && stream->avail_out > 0)
            return error_set(err, ERROR_INVALID, "gzip at byte %zu: truncated", offset);
    }
}

static enum error_code inflate_in_steps(struct budget *budget, struct strbuf *out, struct error *err)
{
    z_stream stream = {.zalloc = take_memory, .zfree = give_memory};
    if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK)
        return error_set(err, ERROR_INTERNAL, "zlib: %s", stream.msg ? stream.msg : "does not start");
    start(&stream, budget->body);
    enum error_code code = pump(&stream, budget, out, err);
    inflateEnd(&stream);
    return code;
}

enum error_code inflate_gzip(struct str body, size_t bytes_max, unsigned ratio_max, struct strbuf *out,
                             struct error *err)
{
    if (body.len > INT_MAX) return error_set(err, ERROR_TOO_LARGE, "gzip of %zu bytes", body.len);
    if (body.len == 0) return error_set(err, ERROR_INVALID, "gzip at byte 0: the body is empty");
    struct budget budget = {.body = body, .bytes_max = bytes_max, .ratio_max = ratio_max ? ratio_max : 1};
    size_t before = out->len;
    bool was_over = out->overflow;
    if (inflate_at_once(&budget, out)) return ERROR_NONE;
    enum error_code code = inflate_in_steps(&budget, out, err);
    if (code != ERROR_NONE) {
        out->len = before;
        out->overflow = was_over;
        if (out->at) out->at[before] = '\0';
    }
    return code;
}
