// command_enrollment: `culvertd admin create-enrollment-token | list-enrollment-tokens |
// revoke-enrollment-token`. Each gives the process's exit status.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_ENROLLMENT_H
#define CULVERT_SERVER_ADMIN_COMMAND_ENROLLMENT_H

#include "server/admin/command_arguments.h"
#include "server/config/config.h"

int command_create_enrollment_token(const struct config *config, const struct command_arguments *words);
int command_list_enrollment_tokens(const struct config *config, const struct command_arguments *words);
int command_revoke_enrollment_token(const struct config *config, const struct command_arguments *words);

#endif
