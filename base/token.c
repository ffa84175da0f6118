#include "base/token.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

enum { ID_HEX = 24, SECRET_HEX = 64 };

void token_generate(struct token *out, char text[TOKEN_TEXT_BYTES])
{
    uint8_t raw[ID_HEX / 2 + SECRET_HEX / 2];
    id_random(raw, sizeof raw);
    format_hex(raw, ID_HEX / 2, text);
    text[ID_HEX] = '.';
    format_hex(raw + ID_HEX / 2, SECRET_HEX / 2, text + ID_HEX + 1);
    memcpy(out->id, text, ID_HEX);
    out->id[ID_HEX] = '\0';
    id_sha256(text + ID_HEX + 1, SECRET_HEX, out->secret_sha256);
    explicit_bzero(raw, sizeof raw);
}

enum error_code token_parse(struct str text, struct token *out, struct error *err)
{
    if (text.len != ID_HEX + 1 + SECRET_HEX || text.at[ID_HEX] != '.')
        return error_set(err, ERROR_INVALID, "the token must have the form <24 hex digits>.<64 hex digits>");
    uint8_t scratch[SECRET_HEX / 2];
    struct str id = str_first(text, ID_HEX), secret = str_from(text, ID_HEX + 1);
    bool hex = parse_hex(id, scratch, ID_HEX / 2, NULL) == ERROR_NONE &&
               parse_hex(secret, scratch, SECRET_HEX / 2, NULL) == ERROR_NONE;
    explicit_bzero(scratch, sizeof scratch);
    if (!hex) return error_set(err, ERROR_INVALID, "the token must consist of hex digits");
    memcpy(out->id, id.at, ID_HEX);
    out->id[ID_HEX] = '\0';
    id_sha256(secret.at, secret.len, out->secret_sha256);
    return ERROR_NONE;
}

void token_for(struct token *token, struct str purpose)
{
    uint8_t bound[ID_SHA256_BYTES];
    id_hmac_sha256(purpose, token->secret_sha256, sizeof token->secret_sha256, bound);
    memcpy(token->secret_sha256, bound, sizeof bound);
}

struct str token_from_authorization(struct str value)
{
    value = str_trim(value);
    if (str_starts_nocase(value, STR("bearer "))) return str_trim(str_from(value, 7));
    return value;
}
