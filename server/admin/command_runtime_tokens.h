// command_runtime_tokens: commands of `culvertd admin` for runtime tokens. Each returns the exit
// status.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_RUNTIME_TOKENS_H
#define CULVERT_SERVER_ADMIN_COMMAND_RUNTIME_TOKENS_H

#include "server/admin/command_arguments.h"
#include "server/config/config.h"

int command_create_runtime_token(const struct config *config, const struct command_arguments *words);
int command_list_runtime_tokens(const struct config *config, const struct command_arguments *words);
int command_revoke_runtime_token(const struct config *config, const struct command_arguments *words);
int command_encrypt_tokens(const struct config *config, const struct command_arguments *words);

#endif
