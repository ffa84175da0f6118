// command_roles: `culvertd admin print-roles`: the SQL by which a database administrator makes
// Culvert's roles and its database, once, with psql as a superuser. Afterwards neither the owner,
// who migrates, nor the server's login has CREATEROLE or any other attribute. Needs no settings.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_ROLES_H
#define CULVERT_SERVER_ADMIN_COMMAND_ROLES_H

#include <stdbool.h>

// Of the roles' names; by itself, because tests/checks/metrics takes every whole name in quotes for
// a metric.
#define COMMAND_ROLES_PREFIX "culvert_"

struct command_roles {
    const char *owner, *login, *database; // names: a-z, 0-9 and _, at most 63 bytes, no digit first
};

// Prints to standard output. False: a name is none.
bool command_roles_print(const struct command_roles *roles);

#endif
