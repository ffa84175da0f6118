#include "base/id.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"

enum { SHA256_BLOCK_BYTES = 64 };

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

// Looked up once: finding it anew costs more than hashing a token. Never changes, never freed.
static EVP_MD *sha256;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!sha256) abort();
}

static const EVP_MD *get_sha256(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fetch_sha256);
    return sha256;
}

void id_sha256(const void *at, size_t len, uint8_t out[ID_SHA256_BYTES])
{
    if (EVP_Digest(at ? at : "", len, out, NULL, get_sha256(), NULL) != 1) abort();
}

void id_sha256_hex(const void *at, size_t len, char out[ID_SHA256_HEX_BYTES])
{
    uint8_t raw[ID_SHA256_BYTES];
    id_sha256(at, len, raw);
    format_hex(raw, sizeof raw, out);
}

static void hash_padded(EVP_MD_CTX *context, const uint8_t *key, uint8_t pad, const void *at, size_t len,
                        uint8_t out[ID_SHA256_BYTES])
{
    uint8_t block[SHA256_BLOCK_BYTES];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    bool ok = EVP_DigestInit_ex(context, get_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(context, block, sizeof block) == 1 && EVP_DigestUpdate(context, at, len) == 1 &&
              EVP_DigestFinal_ex(context, out, NULL) == 1;
    OPENSSL_cleanse(block, sizeof block);
    if (!ok) abort();
}

// RFC 2104, on the digest: OpenSSL's HMAC looks its parts up by name each time.
void id_hmac_sha256(struct str key, const void *at, size_t len, uint8_t out[ID_SHA256_BYTES])
{
    uint8_t padded[SHA256_BLOCK_BYTES] = {0}, inner[ID_SHA256_BYTES];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context) abort();
    if (key.len > sizeof padded)
        id_sha256(key.at, key.len, padded);
    else if (key.len)
        memcpy(padded, key.at, key.len);
    hash_padded(context, padded, 0x36, at ? at : "", len, inner);
    hash_padded(context, padded, 0x5c, inner, sizeof inner, out);
    OPENSSL_cleanse(padded, sizeof padded);
    OPENSSL_cleanse(inner, sizeof inner);
    EVP_MD_CTX_free(context);
}
