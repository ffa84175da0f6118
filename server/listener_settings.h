// listener_settings: where the listeners are, and how others reach them. Owner: server/server.c.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_LISTENER_SETTINGS_H
#define CULVERT_SERVER_LISTENER_SETTINGS_H

#include "base/config/config.h"

struct listener_settings {
    char *platform_url; // as users reach the API listener
    char *api;
    char *admin;
    char *tunnel;
    char *ingress;
    char *tunnel_domain;
    bool shared;
    char *peer;
    char *peer_address;
};

CONFIG_SECTION(listener_settings);

#endif
