#include "api/inflate.h"

#include <limits.h>
#include <stdint.h>
#include <zlib.h>

#include "base/mem.h"

enum { STEP_BYTES = 16 * 1024, GZIP_WINDOW_BITS = 15 + 16, GZIP_MAGIC_0 = 0x1f, GZIP_MAGIC_1 = 0x8b };

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
        return error_set(err, ERROR_INVALID, "gzip at byte %zu: a second member, one is allowed", body_offset);
    return error_set(err, ERROR_INVALID, "gzip at byte %zu: %zu bytes behind the end", body_offset, rest.len);
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
            return error_set(err, ERROR_INVALID, "gzip at byte %zu: ends in the middle", offset);
    }
}

enum error_code inflate_gzip(struct str body, size_t bytes_max, unsigned ratio_max, struct strbuf *out,
                             struct error *err)
{
    if (body.len > INT_MAX) return error_set(err, ERROR_TOO_LARGE, "gzip of %zu bytes", body.len);
    if (body.len == 0) return error_set(err, ERROR_INVALID, "gzip at byte 0: the body is empty");
    z_stream stream = {.zalloc = take_memory, .zfree = give_memory};
    if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK)
        return error_set(err, ERROR_INTERNAL, "zlib: %s", stream.msg ? stream.msg : "does not start");
    // zlib's input is not const for historical reasons only.
    stream.next_in = (Bytef *)(uintptr_t)body.at;
    stream.avail_in = (uInt)body.len;
    struct budget budget = {.body = body, .bytes_max = bytes_max, .ratio_max = ratio_max ? ratio_max : 1};
    size_t before = out->len;
    bool was_over = out->overflow;
    enum error_code code = pump(&stream, &budget, out, err);
    inflateEnd(&stream);
    if (code != ERROR_NONE) {
        out->len = before;
        out->overflow = was_over;
        if (out->at) out->at[before] = '\0';
    }
    return code;
}
