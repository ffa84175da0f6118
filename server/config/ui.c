// Settings: the web UI.
#include "server/config/sections.h"
#include "server/ui/ui_files.h"

static const struct config_entry entries[] = {
    {.name = "ui.enabled",
     .type = CONFIG_BOOL,
     .offset = AT(ui_enabled),
     .def = "true",
     .help = "Serve the web UI below /ui/ on the API listener, if the program was built with it."},
    {.name = "ui.file",
     .type = CONFIG_STRING,
     .offset = AT(ui_file),
     .def = "",
     .help = "Serve the web UI from this pack (ui/build writes ui.pack) instead of the one in the program. Read at "
             "start."},
    {.name = "ui.base_path",
     .type = CONFIG_STRING,
     .offset = AT(ui_base_path),
     .def = "/",
     .help = "Path under which a proxy publishes the API listener, for example /culvert/. The listener answers with "
             "and without it, so the proxy may remove it or not."},
};

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (!ui_base_path_is_valid(str_c(config->ui_base_path)))
        strbuf_addf(problems,
                    "ui.base_path: invalid path \"%.200s\", must be / or start and end with a slash, of a-z, A-Z, "
                    "0-9, -, ., _ and ~\n",
                    config->ui_base_path);
}

const struct config_section server_config_ui = {.title = "Web UI", CONFIG_ENTRIES(entries), .check = check};
