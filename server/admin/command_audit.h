// command_audit: commands of `culvertd admin` for the audit log. Each returns the exit status.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_AUDIT_H
#define CULVERT_SERVER_ADMIN_COMMAND_AUDIT_H

#include "server/admin/command_arguments.h"
#include "server/config/config.h"

int command_verify_audit(const struct config *config, const struct command_arguments *words);
int command_export_audit(const struct config *config, const struct command_arguments *words);

#endif
