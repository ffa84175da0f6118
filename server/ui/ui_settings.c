#include "server/ui/ui_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"
#include "server/ui/ui_files.h"

#define AT(field) offsetof(struct ui_settings, field)

static const struct config_entry entries[] = {
    {.name = "ui.enabled",
     .type = CONFIG_BOOL,
     .offset = AT(enabled),
     .def = "true",
     .help = "Serve the web UI below /ui/ on the API listener, if the program was built with it."},
    {.name = "ui.file",
     .type = CONFIG_STRING,
     .offset = AT(file),
     .def = "",
     .help = "Serve the web UI from this pack (ui/build writes ui.pack) instead of the one in the program. Read at "
             "start."},
    {.name = "ui.base_path",
     .type = CONFIG_STRING,
     .offset = AT(base_path),
     .def = "/",
     .help = "Path under which a proxy publishes the API listener, for example /culvert/. The listener answers with "
             "and without it, so the proxy may remove it or not."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct ui_settings *ui = ui_settings_of(config);
    if (!ui_base_path_is_valid(str_c(ui->base_path)))
        strbuf_addf(problems,
                    "ui.base_path: invalid path \"%.200s\", must be / or start and end with a slash, of a-z, A-Z, "
                    "0-9, -, ., _ and ~\n",
                    ui->base_path);
}

const struct config_section ui_settings_section = {
    .size = sizeof(struct ui_settings), .title = "Web UI", CONFIG_ENTRIES(entries), .check = check};
