// token: the text of an API key or a runtime token: "<id>.<secret>", 24 hex digits, a dot, 64 hex digits
// (256 bits). Two dot-separated hex parts is the form that Codefresh's clients expect. Only SHA-256 of the
// secret is stored. A value; any thread.
#ifndef CULVERT_BASE_TOKEN_H
#define CULVERT_BASE_TOKEN_H

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

enum { TOKEN_ID_BYTES = 25, TOKEN_TEXT_BYTES = 24 + 1 + 64 + 1 };

struct token {
    char id[TOKEN_ID_BYTES];
    uint8_t secret_sha256[ID_SHA256_BYTES];
};

// Makes a new one; text is the only copy of the secret (shown once, then explicit_bzero by the caller).
void token_generate(struct token *out, char text[TOKEN_TEXT_BYTES]);
// Splits and hashes. ERROR_INVALID says what is wrong without repeating the text.
MUST_CHECK enum error_code token_parse(struct str text, struct token *out, struct error *err);
// Makes the hash one of this purpose alone, so that the secret is no other kind of credential.
// purpose: constant text.
void token_for(struct token *token, struct str purpose);
// The credential in an Authorization value: raw, or behind "Bearer " (any case). Empty when there is none.
struct str token_from_authorization(struct str value);

#endif
