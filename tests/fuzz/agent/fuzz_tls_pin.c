// Lists of pinned keys: what is taken has entries of 32 bytes and never more than there is room
// for.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tunnel/tls_pin.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct tls_pins pins = {.count = TLS_PINS_MAX + 1};
    struct error err = {0};
    if (tls_pins_parse(str_of((const char *)at, len), &pins, &err)) {
        if (pins.count != TLS_PINS_MAX + 1 || !err.text[0]) abort(); // outputs are written on success only
        return 0;
    }
    if (pins.count > TLS_PINS_MAX || pins.count * 51 > len) abort();
    if (pins.count == 0 && tls_pins_have(&pins, at, len)) abort();
    return 0;
}
