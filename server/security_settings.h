// security_settings: the deployment key (base/deployment_key.h). Owner: server/server.c.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_SECURITY_SETTINGS_H
#define CULVERT_SERVER_SECURITY_SETTINGS_H

#include "base/config/config.h"

struct security_settings {
    char *deployment_key_file;
    char *deployment_key_previous_file;
};

CONFIG_SECTION(security_settings);

#endif
