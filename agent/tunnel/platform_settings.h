// platform_settings: the connection to the platform. Owner: agent/tunnel.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_TUNNEL_PLATFORM_SETTINGS_H
#define CULVERT_AGENT_TUNNEL_PLATFORM_SETTINGS_H

#include "base/config/config.h"

struct platform_settings {
    char *url;           // wss://host[:port][/prefix]
    char *ca_file;       // empty: the system's CAs
    char *pin;           // sha256/<base64> of keys, comma-separated; empty: none
    bool sealed_token;   // the token is said so that the platform alone can read it
    char *proxy_url;     // http://[user:password@]host:port of an HTTP CONNECT proxy; empty: HTTPS_PROXY
    char *proxy_exclude; // hosts reached directly; empty: NO_PROXY
};

CONFIG_SECTION(platform_settings);

#endif
