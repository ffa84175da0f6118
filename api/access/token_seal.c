#include "api/access/token_seal.h"

#include <string.h>

#include "base/parse.h"
#include "base/strbuf.h"

enum { CONTEXT_BYTES_MAX = 1024 };

// No part can have a NUL: none of these columns can.
static void context_of(const struct token_place *place, struct strbuf *out)
{
    strbuf_init(out, CONTEXT_BYTES_MAX);
    strbuf_add_str(out, place->account_id);
    strbuf_add_byte(out, '\0');
    strbuf_add_str(out, place->runtime);
    strbuf_add_byte(out, '\0');
    strbuf_add_str(out, place->token_id);
}

struct str token_seal(const struct purpose_key *key, const struct token_place *place,
                      const uint8_t sha256[ID_SHA256_BYTES], uint8_t out[TOKEN_SEAL_BYTES])
{
    struct str plain = str_of((const char *)sha256, ID_SHA256_BYTES);
    struct strbuf context;
    if (!key) return plain;
    context_of(place, &context);
    purpose_key_seal(key, strbuf_str(&context), plain, out);
    strbuf_finish(&context);
    return str_of((const char *)out, TOKEN_SEAL_BYTES);
}

bool token_unseal(const struct purpose_key *key, const struct token_place *place, struct str hex,
                  uint8_t out[ID_SHA256_BYTES], bool *out_current)
{
    uint8_t sealed[TOKEN_SEAL_BYTES];
    struct strbuf context;
    if (out_current) *out_current = false;
    if (hex.len == 2 * ID_SHA256_BYTES) return parse_hex(hex, out, ID_SHA256_BYTES, NULL) == ERROR_NONE;
    if (!key || hex.len != 2 * sizeof sealed || parse_hex(hex, sealed, sizeof sealed, NULL) != ERROR_NONE) return false;
    context_of(place, &context);
    bool opened = !context.overflow && purpose_key_open(key, strbuf_str(&context),
                                                        str_of((const char *)sealed, sizeof sealed), out, out_current);
    strbuf_finish(&context);
    return opened;
}
