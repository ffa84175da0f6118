// ui_site: answers requests for the web UI from ui_files: `/ui/assets/<name>` from the table, every
// other path below `/ui/` with the index page, whose script shows what the path names. Adds the
// headers that keep a page to its own origin (docs/ui.md). Stateless; any loop.
#ifndef CULVERT_SERVER_UI_UI_SITE_H
#define CULVERT_SERVER_UI_UI_SITE_H

#include <stdbool.h>

#include "base/str.h"

struct listener_request;
struct ui_files;

// Takes off the base path under which a proxy publishes the listener, if the path has it.
struct str ui_site_local_path(const struct ui_files *files, struct str path);

// False: not a path of the UI, and the request is untouched. files NULL: there is no UI.
bool ui_site_take(const struct ui_files *files, struct listener_request *request, struct str local_path);

#endif
