// purpose_key: what deployment_key_derive() makes for one purpose: signs texts and encrypts them, with the current key,
// and accepts what the current or the previous key made. A value; any thread; the holder overwrites it with
// purpose_key_finish().
#ifndef CULVERT_BASE_PURPOSE_KEY_H
#define CULVERT_BASE_PURPOSE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum {
    PURPOSE_KEY_BYTES = 32,
    PURPOSE_KEY_MAC_BYTES = 32,
    PURPOSE_KEY_SEAL_BYTES = 16 + 12 + 16, // that encryption adds: salt, nonce, tag
};

struct purpose_key {
    uint8_t bytes[2][PURPOSE_KEY_BYTES]; // current, previous
    unsigned count;                      // 1 or 2
};

void purpose_key_finish(struct purpose_key *key);

// HMAC-SHA256 over the parts, each by its own length, so that no other division into parts has the same signature.
void purpose_key_sign(const struct purpose_key *key, const struct str *parts, size_t count,
                      uint8_t out[PURPOSE_KEY_MAC_BYTES]);
// In constant time. mac: as purpose_key_sign() made it; another length is false.
bool purpose_key_verify(const struct purpose_key *key, const struct str *parts, size_t count, struct str mac);

// AES-256-GCM with a key of its own for each text (derived by a random salt, so that the number of texts has no
// practical bound). context: what the text belongs to, authenticated but not contained: a sealed text opens in its own
// place only. out has plain.len + PURPOSE_KEY_SEAL_BYTES.
void purpose_key_seal(const struct purpose_key *key, struct str context, struct str plain, uint8_t *out);
// out has sealed.len - PURPOSE_KEY_SEAL_BYTES (the length of the plain text). False: altered, of another place, by
// another key, or too short; then out holds nothing of use. out_current: the current key made it; may be NULL.
bool purpose_key_open(const struct purpose_key *key, struct str context, struct str sealed, uint8_t *out,
                      bool *out_current);

#endif
