// command_status: exit statuses of culvertd's commands, and the messages that go with them.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_STATUS_H
#define CULVERT_SERVER_ADMIN_COMMAND_STATUS_H

#include "base/error.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STATE = 3 };

// How the command is written, or what of it is wrong. Returns EXIT_USAGE.
int command_usage(const char *text);
// EXIT_STATE: it exists already, or does not exist; else EXIT_FAILED.
int command_failed(const struct error *err);

#endif
