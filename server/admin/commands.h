// commands: what culvertd does besides serving: `migrate` and `admin ...`. Results go to standard
// output as one JSON object a line, messages to standard error. Exit status: 0 done, 1 failed, 2
// wrong usage or configuration, 3 exists already or not found.
#ifndef CULVERT_SERVER_ADMIN_COMMANDS_H
#define CULVERT_SERVER_ADMIN_COMMANDS_H

#include <stdbool.h>

#include "server/admin/command_status.h"
#include "server/config/config.h"

// argv: the rest of the command line behind the settings' flags, without argv[0].
int commands_run(const struct config *config, int argc, const char **argv);
// Those that read no settings and so run on a host that has none: `migrate`, `admin
// create-deployment-key` and `admin print-roles`. False: it is another command; else *out_status is
// its exit status.
bool commands_run_without_settings(int argc, const char **argv, int *out_status);
void commands_print_usage(void);

#endif
