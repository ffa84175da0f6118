// database_check: `culvertd admin check-database`: whether this server can use the database that
// its settings name, such as a restored copy, before it is started on it. Looked at are the version
// of the schema, whether the deployment key opens the runtime tokens, and the audit log of each
// account. Changes nothing; needs no Redis and no broker.
#ifndef CULVERT_SERVER_ADMIN_DATABASE_CHECK_H
#define CULVERT_SERVER_ADMIN_DATABASE_CHECK_H

#include <stdbool.h>

#include "server/config/config.h"

// Prints an object with what was found and the list of problems. False: there are some.
bool database_check_run(const struct config *config);

#endif
