// A signed identity: as it comes, and with a valid signature put behind it, so that the JSON behind
// it is reached.
#include <stdint.h>
#include <stdlib.h>

#include "base/parse.h"
#include "tunnel/wire/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static const uint8_t key[ID_SHA256_BYTES] = {7};
    struct wire_identity out;
    struct str account = STR("acc"), runtime = STR("demo");
    (void)!wire_identity_verify(str_of((const char *)at, len), key, account, runtime, 0, &out, NULL);
    const struct wire_identity_call call = {STR("GET"), STR(""), STR("runtime"), STR("/")};
    struct wire_identity_bound bound;
    (void)!wire_identity_verify_call(str_of((const char *)at, len), &call, key, 1, 0, &bound, NULL);
    if (wire_identity_read_caller(str_of((const char *)at, len), runtime, &out, NULL) == ERROR_NONE &&
        !str_eq(str_c(out.runtime), runtime))
        abort();
    if (len > 1200) return 0;
    char text[WIRE_IDENTITY_BYTES_MAX];
    uint8_t mac[ID_SHA256_BYTES];
    size_t body = format_base64url(at, len, text);
    id_hmac_sha256(str_of((const char *)key, sizeof(key)), text, body, mac);
    text[body] = '.';
    size_t all = body + 1 + format_base64url(mac, sizeof(mac), text + body + 1);
    if (wire_identity_verify(str_of(text, all), key, account, runtime, 0, &out, NULL) == ERROR_NONE &&
        !str_eq(str_c(out.account_id), account))
        abort();
    return 0;
}
