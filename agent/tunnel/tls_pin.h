// tls_pin: keys that the platform's certificate chain must contain, besides being trusted:
// "sha256/<base64>" of a SubjectPublicKeyInfo, as RFC 7469 section 2.4 writes them; several, so
// that a key can be changed while agents run. A value; any thread.
#ifndef CULVERT_AGENT_TLS_PIN_H
#define CULVERT_AGENT_TLS_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

enum { TLS_PINS_MAX = 8 };

struct tls_pins {
    uint8_t sha256[TLS_PINS_MAX][ID_SHA256_BYTES];
    unsigned count; // 0: no key is asked for
};

// Comma-separated; empty gives none. ERROR_INVALID names the entry.
MUST_CHECK enum error_code tls_pins_parse(struct str text, struct tls_pins *out, struct error *err);
// Is the key among them? spki: the DER of its SubjectPublicKeyInfo.
bool tls_pins_have(const struct tls_pins *pins, const uint8_t *spki, size_t len);

#endif
