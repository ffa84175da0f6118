// proof: how the two ends of a tunnel show each other that they know the runtime's token. The agent
// sends it sealed, by the hash that the platform keeps of it and by what this one TLS connection
// agreed on, so that no third party can read it or replay it; the platform answers with a proof
// that it knows that hash. An attacker with the platform's name learns nothing and proves nothing;
// an attacker with the platform's tables cannot compute the token. Something between the two that
// ends TLS makes either fail. Sources: RFC 8446 section 7.5 and RFC 5705 (exporters), RFC 7627 (TLS
// 1.2). Pure; any thread.
#ifndef CULVERT_TUNNEL_WIRE_PROOF_H
#define CULVERT_TUNNEL_WIRE_PROOF_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/token.h"

enum { WIRE_BINDING_BYTES = 32, WIRE_PROOF_BYTES = ID_SHA256_HEX_BYTES };

// What both ends of this connection know and no third party does. After the handshake. False: TLS
// 1.2 without the extended master secret.
bool wire_proof_bind(SSL *ssl, uint8_t out[WIRE_BINDING_BYTES]);
// A token's text, sealed: "<id>.<64 hex digits>", too. ERROR_INVALID: malformed.
MUST_CHECK enum error_code wire_proof_seal(struct str token, const uint8_t binding[WIRE_BINDING_BYTES],
                                           char out[TOKEN_TEXT_BYTES], struct error *err);
// The token that was sealed, for `key`, the hash that is kept of it; another token if it was sealed
// for another key or connection. ERROR_INVALID: not of that form.
MUST_CHECK enum error_code wire_proof_unseal(struct str sealed, const uint8_t key[ID_SHA256_BYTES],
                                             const uint8_t binding[WIRE_BINDING_BYTES], struct token *out,
                                             struct error *err);
// The platform's proof, in hex.
void wire_proof_make(const uint8_t key[ID_SHA256_BYTES], const uint8_t binding[WIRE_BINDING_BYTES],
                     char out[WIRE_PROOF_BYTES]);
bool wire_proof_is_good(struct str proof, const uint8_t key[ID_SHA256_BYTES],
                        const uint8_t binding[WIRE_BINDING_BYTES]);

// Masks the hash of a runtime token that is to be enrolled, for `key`, the hash of the enrollment
// token; the same again unmasks it.
void wire_proof_cover(uint8_t hash[ID_SHA256_BYTES], const uint8_t key[ID_SHA256_BYTES],
                      const uint8_t binding[WIRE_BINDING_BYTES]);

#endif
