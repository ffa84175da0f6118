// Any bytes as a gzip body: the budget holds, and a refused body leaves nothing behind.
#include <stdint.h>
#include <stdlib.h>

#include "api/http/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    enum { BYTES_MAX = 1024 * 1024 };
    struct error err = {0};
    struct strbuf out;
    strbuf_init(&out, 2 * BYTES_MAX);
    strbuf_add_c(&out, "kept");
    enum error_code code = inflate_gzip(str_of((const char *)at, len), BYTES_MAX, INFLATE_RATIO_MAX, &out, &err);
    size_t got = out.len - 4;
    if (code == ERROR_NONE) {
        if (got > BYTES_MAX || (got > INFLATE_FREE_BYTES && got > len * INFLATE_RATIO_MAX)) abort();
    } else if (got != 0 || out.overflow || err.code != code || !err.text[0]) {
        abort();
    }
    strbuf_finish(&out);
    return 0;
}
