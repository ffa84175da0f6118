// command_status: exit statuses of culvertd's commands.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_STATUS_H
#define CULVERT_SERVER_ADMIN_COMMAND_STATUS_H

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STATE = 3 };

#endif
