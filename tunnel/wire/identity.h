// identity: who makes a call, as the platform attests to the agent. The key is SHA-256 of the
// runtime token's secret, which only both ends have. It travels as the header `culvert-identity`
// inside the tunnel, in place of the caller's own credential, which ends at the platform.
//
// Bound to one call (WIRE_FEATURE_BOUND_IDENTITY, both ends of this version):
//   "2." base64url(JSON of the caller) "." expiry "." epoch "." number "." base64url(HMAC-SHA256)
// The signature covers what stands before it and the call's method, :protocol, authority and path.
// The epoch names the session and the number the call in it (1, 2, ...), so that nothing that was
// signed is good for a second call. Of a caller (ends that are a version older): base64url(JSON
// with the expiry) "." base64url(HMAC-SHA256). Pure; any thread.
#ifndef CULVERT_TUNNEL_WIRE_IDENTITY_H
#define CULVERT_TUNNEL_WIRE_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"

// The skew is what clocks may differ by where the ends did not compare them; where they did,
// WIRE_IDENTITY_DRIFT_MS is left for what happened since and for the time that the comparison took.
enum {
    WIRE_IDENTITY_BYTES_MAX = 2048,
    WIRE_IDENTITY_LIFE_MS = 60000,
    WIRE_IDENTITY_BOUND_LIFE_MS = 50000,
    WIRE_IDENTITY_DRIFT_MS = 10000,
    WIRE_IDENTITY_SKEW_MS = 300000,
};

struct wire_identity {
    char account_id[64];
    char runtime[128];
    char user_id[64]; // empty: anonymous (webhooks)
    char user_name[128];
    int64_t expires_at_ms;
    uint64_t epoch, number; // of a bound one
};

// What a bound identity is for; as in the request's pseudo-headers, protocol empty but for extended
// CONNECT.
struct wire_identity_call {
    struct str method, protocol, authority, path;
};

MUST_CHECK enum error_code wire_identity_sign(const struct wire_identity *identity, const uint8_t key[ID_SHA256_BYTES],
                                              struct strbuf *out, struct error *err);
MUST_CHECK enum error_code wire_identity_sign_call(const struct wire_identity *identity,
                                                   const struct wire_identity_call *call,
                                                   const uint8_t key[ID_SHA256_BYTES], struct strbuf *out,
                                                   struct error *err);
// Checks the signature, that it is for this call, and that it is for the session of this epoch and
// valid at now_ms (the platform's wall clock). ERROR_UNAUTHENTICATED, or ERROR_INVALID where it is
// no bound identity at all. Then `caller` views the part of the text with the caller, for
// wire_identity_read_caller(); the number is for the caller of this to look at: it must be new.
struct wire_identity_bound {
    struct str caller;
    int64_t expires_at_ms;
    uint64_t number;
};
MUST_CHECK enum error_code wire_identity_verify_call(struct str text, const struct wire_identity_call *call,
                                                     const uint8_t key[ID_SHA256_BYTES], uint64_t epoch, int64_t now_ms,
                                                     struct wire_identity_bound *out, struct error *err);
// Of a verified one. ERROR_FORBIDDEN: it is for another runtime.
MUST_CHECK enum error_code wire_identity_read_caller(struct str caller, struct str runtime, struct wire_identity *out,
                                                     struct error *err);
// Checks signature, runtime and expiry (with WIRE_IDENTITY_SKEW_MS for clocks that differ).
MUST_CHECK enum error_code wire_identity_verify(struct str text, const uint8_t key[ID_SHA256_BYTES],
                                                struct str account_id, struct str runtime, int64_t now_ms,
                                                struct wire_identity *out, struct error *err);

#endif
