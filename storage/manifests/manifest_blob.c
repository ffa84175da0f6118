#include "storage/manifests/manifest_blob.h"

#include <assert.h>
#include <zstd.h>

#include "base/mem.h"

enum { LEVEL = 1 }; // of what a manifest mostly is, 3 would make a hundredth less of it in a quarter more time

struct manifest_packer {
    ZSTD_CCtx *zstd; // made by the first that needs it
};

struct manifest_packer *manifest_packer_create(void)
{
    return mem_zalloc(sizeof(struct manifest_packer));
}

void manifest_packer_destroy(struct manifest_packer *packer)
{
    if (!packer) return;
    ZSTD_freeCCtx(packer->zstd);
    mem_free(packer);
}

void manifest_blob_pack(struct manifest_blob *out, struct str text, const uint8_t sha256[ID_SHA256_BYTES],
                        struct str packed, struct manifest_packer *packer, struct arena *arena)
{
    assert(text.len <= MANIFEST_BYTES_MAX);
    memcpy(out->sha256, sha256, sizeof out->sha256);
    out->plain_bytes = text.len;
    out->encoding = MANIFEST_PLAIN;
    out->content = text;
    if (!packed.len) {
        if (!packer->zstd) packer->zstd = ZSTD_createCCtx();
        size_t room = ZSTD_compressBound(text.len);
        char *to = arena_alloc(arena, room);
        size_t len = ZSTD_compressCCtx(packer->zstd, to, room, text.at, text.len, LEVEL);
        if (!ZSTD_isError(len)) packed = str_of(to, len);
    }
    if (!packed.len || packed.len >= text.len) return;
    out->encoding = MANIFEST_ZSTD;
    out->content = packed;
}

void manifest_blob_make(struct manifest_blob *out, struct str text, struct arena *arena)
{
    struct manifest_packer packer = {0};
    uint8_t sha256[ID_SHA256_BYTES];
    id_sha256(text.at, text.len, sha256);
    manifest_blob_pack(out, text, sha256, STR_EMPTY, &packer, arena);
    ZSTD_freeCCtx(packer.zstd);
}

enum error_code manifest_blob_open(enum manifest_encoding encoding, size_t plain_bytes, struct str content,
                                   struct strbuf *out, struct error *err)
{
    if (plain_bytes > MANIFEST_BYTES_MAX)
        return error_set(err, ERROR_INTERNAL, "stored manifest declares a size of %zu bytes", plain_bytes);
    char *to = strbuf_reserve(out, plain_bytes);
    if (!to) return error_set(err, ERROR_TOO_LARGE, "cannot decompress a manifest of %zu bytes", plain_bytes);
    size_t len = content.len;
    if (encoding == MANIFEST_ZSTD)
        len = ZSTD_decompress(to, plain_bytes, content.at, content.len);
    else if (len == plain_bytes && len)
        memcpy(to, content.at, len);
    if (ZSTD_isError(len) || len != plain_bytes)
        return error_set(err, ERROR_INTERNAL, "stored manifest cannot be decompressed");
    strbuf_commit(out, len);
    return ERROR_NONE;
}
