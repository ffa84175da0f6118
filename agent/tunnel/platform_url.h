// platform_url: where the platform is and how to get there: the pieces of
// wss://host[:port][/prefix], and the HTTP CONNECT proxy on the way, if any. A value with memory of
// its own; any thread.
#ifndef CULVERT_AGENT_PLATFORM_URL_H
#define CULVERT_AGENT_PLATFORM_URL_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct platform_url {
    char host[256]; // without brackets
    uint16_t port;
    char path[512];       // prefix and tunnel path
    char proxy_host[256]; // empty: direct
    uint16_t proxy_port;
    char proxy_credential[257]; // "user:password", a secret; empty: none
};

// url: wss only, for there is no tunnel without TLS. proxy: http://[user:password@]host:port or
// empty. exclude: as agent/tunnel/proxy_exclude.h reads it. Messages never repeat the proxy's
// credential.
MUST_CHECK enum error_code platform_url_parse(struct str url, struct str proxy, struct str exclude,
                                              struct platform_url *out, struct error *err);

#endif
