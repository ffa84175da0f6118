// id: identifiers, secrets and digests. Randomness and SHA-256 come from OpenSSL. Any thread.
#ifndef CULVERT_BASE_ID_H
#define CULVERT_BASE_ID_H

#include <stdint.h>

#include "base/str.h"

enum {
    ID_UUID_BYTES = 37,    // text with its NUL
    ID_ACCOUNT_BYTES = 25, // 24 hex digits and NUL (Codefresh's account ids have this form)
    ID_SHA256_BYTES = 32,
    ID_SHA256_HEX_BYTES = 65,
};

void id_random(void *out, size_t len); // aborts if the system has no randomness
uint64_t id_random_u64(void);
uint64_t id_random_below(uint64_t bound); // unbiased; bound > 0
void id_uuid7(char out[ID_UUID_BYTES]);   // RFC 9562 section 5.7, lower case
void id_account(char out[ID_ACCOUNT_BYTES]);
void id_sha256(const void *at, size_t len, uint8_t out[ID_SHA256_BYTES]);
void id_sha256_hex(const void *at, size_t len, char out[ID_SHA256_HEX_BYTES]);
void id_hmac_sha256(struct str key, const void *at, size_t len, uint8_t out[ID_SHA256_BYTES]);

#endif
