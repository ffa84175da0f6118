// manifest_blob: a manifest as the database keeps it: named by the SHA-256 of its text, compressed
// with zstd when that makes it smaller. Pure; any thread.
#ifndef CULVERT_STORAGE_MANIFESTS_MANIFEST_BLOB_H
#define CULVERT_STORAGE_MANIFESTS_MANIFEST_BLOB_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/id.h"
#include "base/strbuf.h"

// The one word on how large a manifest may be, whichever way it comes.
enum { MANIFEST_BYTES_MAX = 10 * 1024 * 1024, MANIFEST_DEPTH_MAX = 64, MANIFEST_TOKENS_MAX = 500000 };
enum manifest_encoding { MANIFEST_PLAIN = 0, MANIFEST_ZSTD = 1 };

struct manifest_blob {
    uint8_t sha256[ID_SHA256_BYTES]; // of the plain text
    enum manifest_encoding encoding;
    size_t plain_bytes;
    struct str content;          // in the arena, or the text or the packed one itself
    struct str runtime, counter; // of a report: who counts it (storage/reports/report_plan.h)
};

// What packing needs, made once for many manifests. One thread at a time.
struct manifest_packer;
struct manifest_packer *manifest_packer_create(void);
void manifest_packer_destroy(struct manifest_packer *packer); // NULL is fine

// text: at most MANIFEST_BYTES_MAX (checked by the caller).
void manifest_blob_make(struct manifest_blob *out, struct str text, struct arena *arena);
// The same with what is there already: its digest; a zstd frame that was unpacked into this very
// text, or empty: it is packed here; what packing needs.
void manifest_blob_pack(struct manifest_blob *out, struct str text, const uint8_t sha256[ID_SHA256_BYTES],
                        struct str packed, struct manifest_packer *packer, struct arena *arena);
// Appends the plain text. ERROR_INTERNAL: the content is not what was stored.
MUST_CHECK enum error_code manifest_blob_open(enum manifest_encoding encoding, size_t plain_bytes, struct str content,
                                              struct strbuf *out, struct error *err);

#endif
