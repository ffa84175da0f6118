#include "server/intake/zstd_frame.h"

#include "tunnel/wire/report.h"

enum error_code zstd_frame_size(struct str frame, size_t bytes_max, unsigned ratio_max, size_t *out_bytes,
                                struct error *err)
{
    unsigned long long size = ZSTD_getFrameContentSize(frame.at, frame.len);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
        return error_set(err, ERROR_INVALID, "zstd: %zu bytes that are not a frame, or do not state their size",
                         frame.len);
    if (size > bytes_max)
        return error_set(err, ERROR_TOO_LARGE, "zstd: %llu bytes unpacked, the limit is %zu", size, bytes_max);
    // Not size > len * ratio: the product may be more than a size_t holds.
    if (size > WIRE_REPORT_RATIO_FREE_BYTES && (size + ratio_max - 1) / ratio_max > frame.len)
        return error_set(err, ERROR_TOO_LARGE,
                         "zstd: %llu bytes unpacked, more than %u times the %zu bytes of the frame", size, ratio_max,
                         frame.len);
    size_t whole = ZSTD_findFrameCompressedSize(frame.at, frame.len);
    if (ZSTD_isError(whole) || whole != frame.len)
        return error_set(err, ERROR_INVALID, "zstd: damaged frame, or bytes after it");
    *out_bytes = (size_t)size;
    return ERROR_NONE;
}

enum error_code zstd_frame_unpack(ZSTD_DCtx *context, struct str frame, char *to, size_t bytes, struct error *err)
{
    size_t n = context ? ZSTD_decompressDCtx(context, to, bytes, frame.at, frame.len)
                       : ZSTD_decompress(to, bytes, frame.at, frame.len);
    if (ZSTD_isError(n)) return error_set(err, ERROR_INVALID, "zstd: %s", ZSTD_getErrorName(n));
    if (n != bytes) return error_set(err, ERROR_INVALID, "zstd: %zu bytes unpacked, the frame states %zu", n, bytes);
    return ERROR_NONE;
}
