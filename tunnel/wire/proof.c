#include "tunnel/wire/proof.h"

#include <string.h>

#include "base/parse.h"

enum { ID_CHARS = TOKEN_ID_BYTES - 1, SECRET_BYTES = ID_SHA256_BYTES, SECRET_CHARS = 2 * SECRET_BYTES };

bool wire_proof_bind(SSL *ssl, uint8_t out[WIRE_BINDING_BYTES])
{
    static const char label[] = "EXPORTER-culvert-tunnel-1";
    if (SSL_version(ssl) < TLS1_3_VERSION && SSL_get_extms_support(ssl) != 1) return false;
    return SSL_export_keying_material(ssl, out, WIRE_BINDING_BYTES, label, sizeof label - 1, NULL, 0, 0) == 1;
}

// One value for each purpose, key and connection.
static void derive(const char *purpose, const uint8_t key[ID_SHA256_BYTES], const uint8_t binding[WIRE_BINDING_BYTES],
                   uint8_t out[ID_SHA256_BYTES])
{
    uint8_t message[16 + WIRE_BINDING_BYTES] = {0};
    memcpy(message, purpose, strlen(purpose));
    memcpy(message + 16, binding, WIRE_BINDING_BYTES);
    id_hmac_sha256(str_of((const char *)key, ID_SHA256_BYTES), message, sizeof message, out);
}

static void mask(const char *purpose, uint8_t secret[SECRET_BYTES], const uint8_t key[ID_SHA256_BYTES],
                 const uint8_t binding[WIRE_BINDING_BYTES])
{
    uint8_t pad[SECRET_BYTES];
    derive(purpose, key, binding, pad);
    for (size_t i = 0; i < SECRET_BYTES; i++)
        secret[i] ^= pad[i];
    explicit_bzero(pad, sizeof pad);
}

// The id and the secret's bytes; *out_token as written in the text.
static enum error_code take_apart(struct str text, uint8_t secret[SECRET_BYTES], struct token *out_token,
                                  struct error *err)
{
    enum error_code code = token_parse(text, out_token, err);
    if (code != ERROR_NONE) return code;
    return parse_hex(str_from(text, ID_CHARS + 1), secret, SECRET_BYTES, err);
}

static void put_together(const char *id, const uint8_t secret[SECRET_BYTES], char out[TOKEN_TEXT_BYTES])
{
    memcpy(out, id, ID_CHARS);
    out[ID_CHARS] = '.';
    format_hex(secret, SECRET_BYTES, out + ID_CHARS + 1);
}

enum error_code wire_proof_seal(struct str token, const uint8_t binding[WIRE_BINDING_BYTES], char out[TOKEN_TEXT_BYTES],
                                struct error *err)
{
    uint8_t secret[SECRET_BYTES];
    struct token said;
    enum error_code code = take_apart(token, secret, &said, err);
    if (code != ERROR_NONE) return code;
    mask("token", secret, said.secret_sha256, binding);
    put_together(said.id, secret, out);
    explicit_bzero(secret, sizeof secret);
    return ERROR_NONE;
}

enum error_code wire_proof_unseal(struct str sealed, const uint8_t key[ID_SHA256_BYTES],
                                  const uint8_t binding[WIRE_BINDING_BYTES], struct token *out, struct error *err)
{
    uint8_t secret[SECRET_BYTES];
    char text[TOKEN_TEXT_BYTES];
    enum error_code code = take_apart(sealed, secret, out, err);
    if (code != ERROR_NONE) return code;
    mask("token", secret, key, binding);
    put_together(out->id, secret, text);
    code = token_parse(str_c(text), out, err);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(text, sizeof text);
    return code;
}

void wire_proof_make(const uint8_t key[ID_SHA256_BYTES], const uint8_t binding[WIRE_BINDING_BYTES],
                     char out[WIRE_PROOF_BYTES])
{
    uint8_t proof[ID_SHA256_BYTES];
    derive("platform", key, binding, proof);
    format_hex(proof, sizeof proof, out);
}

bool wire_proof_is_good(struct str proof, const uint8_t key[ID_SHA256_BYTES], const uint8_t binding[WIRE_BINDING_BYTES])
{
    char wanted[WIRE_PROOF_BYTES];
    wire_proof_make(key, binding, wanted);
    return str_eq_secret(str_c(wanted), proof);
}

void wire_proof_cover(uint8_t hash[ID_SHA256_BYTES], const uint8_t key[ID_SHA256_BYTES],
                      const uint8_t binding[WIRE_BINDING_BYTES])
{
    mask("enrollment", hash, key, binding);
}
