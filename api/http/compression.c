#include "api/http/compression.h"

#include <stdint.h>
#include <zlib.h>
#include <zstd.h>
#ifdef CULVERT_HAS_LIBDEFLATE
#include <libdeflate.h>
#endif

enum { LEVEL = 1 };

#ifdef CULVERT_HAS_LIBDEFLATE
static size_t gzip(struct str body, char *at, size_t room)
{
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(LEVEL);
    if (!compressor) return 0;
    size_t len = libdeflate_gzip_compress(compressor, body.at, body.len, at, room);
    libdeflate_free_compressor(compressor);
    return len;
}
#else
static size_t gzip(struct str body, char *at, size_t room)
{
    enum { GZIP_WINDOW_BITS = 15 + 16, MEMORY_LEVEL = 8 };
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)body.at,
                       .avail_in = (uInt)body.len,
                       .next_out = (Bytef *)at,
                       .avail_out = (uInt)room};
    if (body.len > UINT32_MAX ||
        deflateInit2(&stream, LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    int code = deflate(&stream, Z_FINISH);
    size_t len = (size_t)stream.total_out;
    deflateEnd(&stream);
    return code == Z_STREAM_END ? len : 0;
}
#endif

static size_t zstd(struct str body, char *at, size_t room)
{
    size_t len = ZSTD_compress(at, room, body.at, body.len, LEVEL);
    return ZSTD_isError(len) ? 0 : len;
}

bool compress_body(enum content_coding coding, struct str body, struct strbuf *out)
{
    if (coding == CODING_IDENTITY || body.len < 2) return false;
    // Room for less than the body: what does not fit is not worth it.
    char *at = strbuf_reserve(out, body.len - 1);
    if (!at) return false;
    size_t len = coding == CODING_GZIP ? gzip(body, at, body.len - 1) : zstd(body, at, body.len - 1);
    strbuf_commit(out, len);
    return len > 0;
}

const char *content_coding_name(enum content_coding coding)
{
    static const char *const names[] = {"identity", "gzip", "zstd"};
    return names[coding];
}
