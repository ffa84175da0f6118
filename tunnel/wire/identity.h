// identity: who makes a call, said by the platform to the agent: base64url(JSON) "." base64url(HMAC-SHA256). The
// key is SHA-256 of the runtime token's secret, which both ends hold and nobody else. It travels as the header
// `culvert-identity` inside the tunnel, in place of the caller's own credential, which ends at the platform.
// Pure; any thread.
#ifndef CULVERT_TUNNEL_WIRE_IDENTITY_H
#define CULVERT_TUNNEL_WIRE_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { WIRE_IDENTITY_BYTES_MAX = 2048, WIRE_IDENTITY_LIFE_MS = 60000, WIRE_IDENTITY_SKEW_MS = 300000 };

struct wire_identity {
    char account_id[64];
    char runtime[128];
    char user_id[64]; // empty: nobody (webhooks)
    char user_name[128];
    int64_t expires_at_ms;
};

MUST_CHECK enum error_code wire_identity_sign(const struct wire_identity *identity, const uint8_t key[ID_SHA256_BYTES],
                                              struct strbuf *out, struct error *err);
// Checks signature, runtime and expiry (with WIRE_IDENTITY_SKEW_MS for clocks that differ).
MUST_CHECK enum error_code wire_identity_verify(struct str text, const uint8_t key[ID_SHA256_BYTES],
                                                struct str account_id, struct str runtime, int64_t now_ms,
                                                struct wire_identity *out, struct error *err);

#endif
