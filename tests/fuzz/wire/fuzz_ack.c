// A stream of acknowledgements.
#include <stdint.h>
#include <stdlib.h>

#include "tunnel/wire/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    while (len) {
        struct wire_ack ack;
        size_t used = 0;
        if (wire_ack_decode(at, len, &ack, &used, NULL)) return 0;
        struct strbuf text;
        strbuf_init(&text, 4096);
        if (used == 0 || used > len || wire_ack_encode(&ack, &text, NULL)) abort();
        if (text.len != used || memcmp(text.at, at, used)) abort(); // there is one way to write it
        strbuf_finish(&text);
        at += used;
        len -= used;
    }
    return 0;
}
