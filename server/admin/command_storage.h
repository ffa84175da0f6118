// command_storage: commands of `culvertd admin` for what is kept of an account, and how long. Each
// returns the exit status.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_STORAGE_H
#define CULVERT_SERVER_ADMIN_COMMAND_STORAGE_H

#include "server/admin/command_arguments.h"
#include "server/config/config.h"

int command_set_retention(const struct config *config, const struct command_arguments *words);
int command_set_quota(const struct config *config, const struct command_arguments *words);
int command_show_usage(const struct config *config, const struct command_arguments *words);

#endif
