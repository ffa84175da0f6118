#include "agent/tunnel/tls_pin.h"

#include <string.h>

#include "base/parse.h"

static enum error_code parse_pin(struct str entry, uint8_t out[ID_SHA256_BYTES], struct error *err)
{
    uint8_t bytes[ID_SHA256_BYTES + 3];
    size_t len = 0;
    bool ok = str_starts(entry, STR("sha256/")) && str_from(entry, 7).len == (ID_SHA256_BYTES + 2) / 3 * 4 &&
              parse_base64(str_from(entry, 7), bytes, sizeof(bytes), &len, NULL) == ERROR_NONE &&
              len == ID_SHA256_BYTES;
    if (!ok)
        return error_set(err, ERROR_INVALID, "\"%.*s\" is not sha256/<base64 of 32 bytes>",
                         STR_ARG(str_first(entry, 80)));
    memcpy(out, bytes, ID_SHA256_BYTES);
    return ERROR_NONE;
}

enum error_code tls_pins_parse(struct str text, struct tls_pins *out, struct error *err)
{
    struct tls_pins pins = {.count = 0};
    struct str rest = text, entry;
    bool more = rest.len > 0;
    while (more) {
        more = str_cut(&rest, ',', &entry);
        entry = str_trim(entry);
        if (!entry.len) continue;
        if (pins.count == TLS_PINS_MAX) return error_set(err, ERROR_TOO_LARGE, "more than %d pins", TLS_PINS_MAX);
        enum error_code code = parse_pin(entry, pins.sha256[pins.count], err);
        if (code) return code;
        pins.count++;
    }
    *out = pins;
    return ERROR_NONE;
}

bool tls_pins_have(const struct tls_pins *pins, const uint8_t *spki, size_t len)
{
    uint8_t digest[ID_SHA256_BYTES];
    id_sha256(spki, len, digest);
    for (unsigned i = 0; i < pins->count; i++)
        if (memcmp(pins->sha256[i], digest, sizeof(digest)) == 0) return true;
    return false;
}
