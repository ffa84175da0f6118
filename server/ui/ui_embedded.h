// ui_embedded: the pack of the web UI that is part of the program (CMake option CULVERT_UI).
#ifndef CULVERT_SERVER_UI_UI_EMBEDDED_H
#define CULVERT_SERVER_UI_UI_EMBEDDED_H

#include "base/str.h"

// Empty: the program was built without the web UI.
struct str ui_embedded_pack(void);

#endif
