#include "base/id.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"

void id_random(void *out, size_t len)
{
    if (len > 65536 || RAND_bytes(out, (int)len) != 1) {
        fprintf(stderr, "no randomness from the system\n");
        abort();
    }
}

uint64_t id_random_u64(void)
{
    uint64_t value;
    id_random(&value, sizeof value);
    return value;
}

uint64_t id_random_below(uint64_t bound)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value;
    do
        value = id_random_u64();
    while (value >= limit);
    return value % bound;
}

void id_uuid7(char out[ID_UUID_BYTES])
{
    uint8_t raw[16];
    id_random(raw, sizeof raw);
    uint64_t ms = (uint64_t)clock_wall_ms();
    for (int i = 0; i < 6; i++)
        raw[i] = (uint8_t)(ms >> (40 - 8 * i));
    raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
    raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
    char hex[33];
    format_hex(raw, sizeof raw, hex);
    snprintf(out, ID_UUID_BYTES, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

void id_account(char out[ID_ACCOUNT_BYTES])
{
    uint8_t raw[12];
    id_random(raw, sizeof raw);
    format_hex(raw, sizeof raw, out);
}

void id_sha256(const void *at, size_t len, uint8_t out[ID_SHA256_BYTES])
{
    if (EVP_Digest(at ? at : "", len, out, NULL, EVP_sha256(), NULL) != 1) abort();
}

void id_sha256_hex(const void *at, size_t len, char out[ID_SHA256_HEX_BYTES])
{
    uint8_t raw[ID_SHA256_BYTES];
    id_sha256(at, len, raw);
    format_hex(raw, sizeof raw, out);
}

void id_hmac_sha256(struct str key, const void *at, size_t len, uint8_t out[ID_SHA256_BYTES])
{
    if (key.len > 1024 || !HMAC(EVP_sha256(), key.at ? key.at : "", (int)key.len, at, len, out, NULL)) abort();
}
