// A stream of report records: whatever decodes must encode to something that decodes to the same.
#include <stdint.h>
#include <stdlib.h>

#include "tunnel/wire/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    while (len) {
        struct wire_report first, second;
        size_t used = 0, again = 0;
        if (wire_report_decode(at, len, &first, &used, NULL)) return 0;
        if (used == 0 || used > len) abort();
        struct strbuf text;
        strbuf_init(&text, WIRE_REPORT_RECORD_BYTES_MAX + 4);
        if (wire_report_encode(&first, &text, NULL)) abort();
        if (wire_report_decode((const uint8_t *)text.at, text.len, &second, &again, NULL) || again != text.len) abort();
        if (first.sequence != second.sequence || !str_eq(first.manifest, second.manifest) ||
            !str_eq(first.ref.name, second.ref.name) || memcmp(first.hash, second.hash, sizeof(first.hash)))
            abort();
        strbuf_finish(&text);
        at += used;
        len -= used;
    }
    return 0;
}
