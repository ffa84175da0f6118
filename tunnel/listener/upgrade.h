// upgrade: what an agent must send to get a 101 (RFC 6455 section 4.2.1 and our names in
// tunnel/wire/handshake.h), the 101, and the answer to everybody else. The only gate in front of a
// tunnel. Pure; any thread.
#ifndef CULVERT_TUNNEL_LISTENER_UPGRADE_H
#define CULVERT_TUNNEL_LISTENER_UPGRADE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tunnel/broker.h"

enum { UPGRADE_HEADER_BYTES_MAX = 256, UPGRADE_ANSWER_BYTES_MAX = 1024 };

// Values as sent, empty where the header was not there: views into the request.
struct tunnel_upgrade {
    bool is_known_method, is_get, http_1_1, has_body, has_origin, has_expect;
    bool connection_upgrade; // Connection names Upgrade
    bool too_long;           // a value is over UPGRADE_HEADER_BYTES_MAX
    bool repeated;           // one that we interpret came twice
    struct str path, query, host;
    struct str upgrade, websocket_version, websocket_key, subprotocols;
    struct str authorization;
    struct str instance_id, boot_id, agent_version, runtime, features, enrollment, enrollment_hash;
    const char *remote;
    const uint8_t *binding; // of the connection (tunnel/wire/proof.h); NULL: it has none
};

// at..len is what has arrived so far, head_bytes_max what a request may have. ERROR_AGAIN:
// incomplete; ERROR_TOO_LARGE: 431; ERROR_INVALID: 400, no single meaning (base/http1/http1.h), or
// bytes after a request that is not answered yet yet.
MUST_CHECK enum error_code tunnel_upgrade_parse(const char *at, size_t len, size_t head_bytes_max,
                                                struct tunnel_upgrade *out, struct error *err);
// 101 and the credential, or the status to answer with and *err for its body.
bool tunnel_upgrade_has_feature(const struct tunnel_upgrade *upgrade, struct str feature); // it may name any
int tunnel_upgrade_check(const struct tunnel_upgrade *upgrade, struct tunnel_credential *out, struct error *err);
// The 101 for this key. proof: that we know the agent's token, or empty.
void tunnel_upgrade_accept(struct str websocket_key, struct str proof, struct strbuf *out);
// The whole HTTP/1.1 answer, head and body; it always closes the connection. retry_after_s: with
// 503 and 429.
void tunnel_upgrade_answer(int status, unsigned retry_after_s, const struct error *err, struct strbuf *out);

#endif
