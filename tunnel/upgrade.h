// upgrade: what an agent must say to get a 101 (RFC 6455 section 4.2.1 and our names in tunnel/wire/handshake.h), and
// the answer to everybody else. Pure; any thread. libwebsockets upgrades nearly anything, so this is the only gate.
#ifndef CULVERT_TUNNEL_UPGRADE_H
#define CULVERT_TUNNEL_UPGRADE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { UPGRADE_HEADER_BYTES_MAX = 256, UPGRADE_ANSWER_BYTES_MAX = 1024 };

// Values as sent; empty: the header was not there. A value over UPGRADE_HEADER_BYTES_MAX sets too_long.
// repeated: one of them came twice.
struct tunnel_upgrade {
    bool is_get, http_1_1, has_body, has_origin, too_long, repeated;
    struct str path, query, host;
    struct str upgrade, connection, websocket_version, websocket_key, subprotocols;
    struct str authorization;
    struct str instance_id, boot_id, agent_version, runtime;
    const char *remote;
};

// 101 and the runtime token's text, or the status to answer with and *err for its body.
int tunnel_upgrade_check(const struct tunnel_upgrade *upgrade, struct str *out_token, struct error *err);
// The whole HTTP/1.1 answer, head and body; it always closes the connection. retry_after_s: with 503.
void tunnel_upgrade_answer(int status, unsigned retry_after_s, const struct error *err, struct strbuf *out);

#endif
