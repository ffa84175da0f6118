// command_people: commands of `culvertd admin` for accounts, users, API keys and browser sessions.
// Each returns the exit status.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_PEOPLE_H
#define CULVERT_SERVER_ADMIN_COMMAND_PEOPLE_H

#include "server/admin/command_arguments.h"
#include "server/config/config.h"

int command_create_account(const struct config *config, const struct command_arguments *words);
int command_create_user(const struct config *config, const struct command_arguments *words);
int command_create_key(const struct config *config, const struct command_arguments *words);
int command_revoke_key(const struct config *config, const struct command_arguments *words);
int command_sign_in_link(const struct config *config, const struct command_arguments *words);
int command_end_sessions(const struct config *config, const struct command_arguments *words);

#endif
