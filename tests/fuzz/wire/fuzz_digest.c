// The payload of one exchange of digests: either end's.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tunnel/wire/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct digest digest;
    if (len > DIGEST_BYTES_MAX || digest_decode(at, len, &digest, NULL)) return 0;
    for (size_t i = 0; digest.kind == DIGEST_LEAVES_SENT && i < digest.count; i++)
        if (!digest_leaf_set_has(&digest.leaves, digest_entry_leaf(digest.items + i * DIGEST_ENTRY_BYTES))) abort();
    struct strbuf text;
    strbuf_init(&text, DIGEST_BYTES_MAX + 64);
    if (digest_encode(&digest, &text, NULL)) abort();
    if (text.len != len || memcmp(text.at, at, len)) abort(); // there is one way to write it
    strbuf_finish(&text);
    return 0;
}
