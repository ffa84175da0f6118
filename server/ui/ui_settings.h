// ui_settings: the web UI. Owner: server/ui.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_UI_UI_SETTINGS_H
#define CULVERT_SERVER_UI_UI_SETTINGS_H

#include "base/config/config.h"

struct ui_settings {
    bool enabled;
    char *file;
    char *base_path;
};

CONFIG_SECTION(ui_settings);

#endif
