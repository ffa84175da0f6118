#include "base/purpose_key.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"

enum { SALT_BYTES = 16, NONCE_BYTES = 12, TAG_BYTES = 16, PARTS_MAX = 16 };

void purpose_key_finish(struct purpose_key *key)
{
    OPENSSL_cleanse(key, sizeof *key);
}

// ---- signatures ----------------------------------------------------------------------------------------------------

// Each part counts by its digest, which has one length: nothing has to be copied together.
static void sign(const uint8_t *key, const struct str *parts, size_t count, uint8_t *out)
{
    uint8_t digests[PARTS_MAX][ID_SHA256_BYTES];
    if (count > PARTS_MAX) abort();
    for (size_t i = 0; i < count; i++)
        id_sha256(parts[i].at, parts[i].len, digests[i]);
    id_hmac_sha256(str_of((const char *)key, PURPOSE_KEY_BYTES), digests, count * ID_SHA256_BYTES, out);
}

void purpose_key_sign(const struct purpose_key *key, const struct str *parts, size_t count,
                      uint8_t out[PURPOSE_KEY_MAC_BYTES])
{
    sign(key->bytes[0], parts, count, out);
}

bool purpose_key_verify(const struct purpose_key *key, const struct str *parts, size_t count, struct str mac)
{
    bool fits = false;
    if (mac.len != PURPOSE_KEY_MAC_BYTES) return false;
    for (unsigned i = 0; i < key->count && !fits; i++) {
        uint8_t expected[PURPOSE_KEY_MAC_BYTES];
        sign(key->bytes[i], parts, count, expected);
        fits = CRYPTO_memcmp(expected, mac.at, sizeof expected) == 0;
    }
    return fits;
}

// ---- encryption (NIST SP 800-38D) ----------------------------------------------------------------------------------

static void derive(const uint8_t *key, const uint8_t *salt, uint8_t out[ID_SHA256_BYTES])
{
    id_hmac_sha256(str_of((const char *)key, PURPOSE_KEY_BYTES), salt, SALT_BYTES, out);
}

static int length_of(struct str text)
{
    if (text.len > INT_MAX) abort(); // callers bound what they seal
    return (int)text.len;
}

static const uint8_t *bytes_of(struct str text)
{
    return (const uint8_t *)(text.at ? text.at : "");
}

void purpose_key_seal(const struct purpose_key *key, struct str context, struct str plain, uint8_t *out)
{
    uint8_t once[ID_SHA256_BYTES], *text = out + SALT_BYTES + NONCE_BYTES;
    id_random(out, SALT_BYTES + NONCE_BYTES);
    derive(key->bytes[0], out, once);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    int len = 0;
    bool ok = cipher && EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, once, out + SALT_BYTES) == 1 &&
              EVP_EncryptUpdate(cipher, NULL, &len, bytes_of(context), length_of(context)) == 1 &&
              (!plain.len || EVP_EncryptUpdate(cipher, text, &len, bytes_of(plain), length_of(plain)) == 1) &&
              EVP_EncryptFinal_ex(cipher, text + plain.len, &len) == 1 &&
              EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, text + plain.len) == 1;
    EVP_CIPHER_CTX_free(cipher);
    OPENSSL_cleanse(once, sizeof once);
    if (!ok) abort();
}

static bool open_with(const uint8_t *key, struct str context, struct str sealed, uint8_t *out)
{
    uint8_t once[ID_SHA256_BYTES], tag[TAG_BYTES], rest[TAG_BYTES];
    const uint8_t *salt = bytes_of(sealed), *nonce = salt + SALT_BYTES;
    struct str text = str_of((const char *)nonce + NONCE_BYTES, sealed.len - PURPOSE_KEY_SEAL_BYTES);
    memcpy(tag, bytes_of(text) + text.len, sizeof tag);
    derive(key, salt, once);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    int len = 0;
    if (!cipher) abort();
    bool ok = EVP_DecryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, once, nonce) == 1 &&
              EVP_DecryptUpdate(cipher, NULL, &len, bytes_of(context), length_of(context)) == 1 &&
              (!text.len || EVP_DecryptUpdate(cipher, out, &len, bytes_of(text), length_of(text)) == 1) &&
              EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
              EVP_DecryptFinal_ex(cipher, rest, &len) == 1;
    EVP_CIPHER_CTX_free(cipher);
    OPENSSL_cleanse(once, sizeof once);
    if (!ok && text.len) OPENSSL_cleanse(out, text.len);
    return ok;
}

bool purpose_key_open(const struct purpose_key *key, struct str context, struct str sealed, uint8_t *out,
                      bool *out_current)
{
    if (sealed.len < PURPOSE_KEY_SEAL_BYTES) return false;
    length_of(sealed);
    for (unsigned i = 0; i < key->count; i++) {
        if (!open_with(key->bytes[i], context, sealed, out)) continue;
        if (out_current) *out_current = i == 0;
        return true;
    }
    return false;
}
