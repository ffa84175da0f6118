// call_route: where a request goes, from Host and target alone, canonicalised once: one meaning or
// an error. Pure; any thread; fuzzed. What comes out only names a destination; whether the caller
// may go there is decided with the account of the credential, which must be the same.
#ifndef CULVERT_SERVER_CALL_ROUTE_H
#define CULVERT_SERVER_CALL_ROUTE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

enum {
    CALL_ACCOUNT_BYTES = 25, // 24 hex digits
    CALL_RUNTIME_BYTES = 128,
    CALL_TARGET_BYTES_MAX = 16 * 1024,
};

struct call_route {
    bool platform_host;                  // /runtimes/<runtime>/proxy/...: the account is that of the credential
    char account_id[CALL_ACCOUNT_BYTES]; // lower case; empty with platform_host
    char runtime[CALL_RUNTIME_BYTES];    // lower case when it comes from a host name
    struct str path;                     // view into target: path and query for the agent, starts with '/'
    struct str prefix;                   // view into target: what was cut off before path (platform_host), else empty
    bool webhook;                        // /webhooks/...: the event source checks its own signature
};

// host: a valid Host value (http1). tunnel_domain: lower case, no trailing dot. platform_host:
// lower case without port, or empty. ERROR_INVALID: the target has two meanings (400);
// ERROR_NOT_FOUND: nobody lives under this host or path.
MUST_CHECK enum error_code call_route_parse(struct str host, struct str target, struct str tunnel_domain,
                                            struct str platform_host, struct call_route *out, struct error *err);
// The part behind a host: "/runtimes/<runtime>/proxy[/...]" (for the API listener).
MUST_CHECK enum error_code call_route_parse_proxy(struct str target, struct call_route *out, struct error *err);
// ERROR_INVALID unless every server on the way reads this target as the same path: no encoded
// separators or NUL, no dot segments in any spelling, no empty segments, no backslash, complete
// percent escapes.
MUST_CHECK enum error_code call_route_check_target(struct str target, struct error *err);
// Is the path one for a TCP connection: "/tcp/<name>", a name of [a-z0-9.-] that the agent's own
// settings know?
bool call_route_is_tcp(struct str path);

#endif
