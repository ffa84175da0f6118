#include "agent/tunnel/runtime_settings.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(struct runtime_settings, field)

static const struct config_entry entries[] = {
    {.name = "runtime.name",
     .type = CONFIG_STRING,
     .offset = AT(name),
     .help = "Name of this runtime; must be the one that the token was issued for."},
    {.name = "runtime.token_file",
     .type = CONFIG_STRING,
     .offset = AT(token_file),
     .reloadable = true,
     .help = "File that contains the runtime token and nothing else. With enrollment.token_file the agent makes it, if "
             "it is not there."},
    {.name = "enrollment.token_file",
     .type = CONFIG_STRING,
     .offset = AT(enrollment_token_file),
     .def = "",
     .reloadable = true,
     .help = "File that contains an enrollment token and nothing else: the platform creates the runtime if it does not "
             "have the runtime token yet. Need not be there once the runtime token is. Empty: the runtime was created "
             "before."},
    {.name = "instance.id",
     .type = CONFIG_STRING,
     .offset = AT(instance_id),
     .def = "",
     .help = "Distinguishes agents of one runtime and stays the same over restarts; empty: the host name."},
};

// The runtime token's file need not be there where the agent can make it.
static void check(const struct config *config, struct strbuf *problems)
{
    const struct runtime_settings *runtime = runtime_settings_of(config);
    bool enrolls = runtime->enrollment_token_file[0] && access(runtime->enrollment_token_file, R_OK) == 0;
    if (enrolls && access(runtime->token_file, F_OK) != 0) return;
    if (access(runtime->token_file, R_OK) == 0) return;
    strbuf_addf(problems, "runtime.token_file: %s cannot be read: %s\n", runtime->token_file, strerror(errno));
    if (runtime->enrollment_token_file[0] && !enrolls)
        strbuf_addf(problems, "enrollment.token_file: %s cannot be read\n", runtime->enrollment_token_file);
}

const struct config_section runtime_settings_section = {
    .title = "runtime", .size = sizeof(struct runtime_settings), CONFIG_ENTRIES(entries), .check = check};
