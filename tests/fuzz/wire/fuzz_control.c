// One control message.
#include <stdint.h>
#include <stdlib.h>

#include "tunnel/wire/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct wire_control first, second;
    if (wire_control_decode(at, len, &first, NULL)) return 0;
    struct strbuf text;
    strbuf_init(&text, WIRE_CONTROL_BYTES_MAX);
    enum error_code code = wire_control_encode(&first, &text, NULL);
    // An empty token is read, and is not written.
    if (!code && wire_control_decode((const uint8_t *)text.at, text.len, &second, NULL) == ERROR_NONE)
        if (first.epoch != second.epoch || !str_eq(first.reason, second.reason) || first.time_ms != second.time_ms ||
            first.attempt != second.attempt || !str_eq(first.operation, second.operation) ||
            !str_eq(first.document, second.document) || !str_eq(first.code, second.code))
            abort();
    strbuf_finish(&text);
    return 0;
}
