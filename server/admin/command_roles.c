#include "server/admin/command_roles.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 63 };

static bool is_name(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= NAME_BYTES_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == len &&
           !strchr("0123456789", text[0]);
}

static void print_role(const char *name, const char *attributes)
{
    printf("SELECT 'CREATE ROLE %s' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%s') \\gexec\n", name,
           name);
    printf("ALTER ROLE %s %s NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;\n", name, attributes);
}

bool command_roles_print(const struct command_roles *roles)
{
    const char *owner = roles->owner, *login = roles->login, *database = roles->database;
    if (!is_name(owner) || !is_name(login) || !is_name(database) || strcmp(owner, login) == 0) return false;
    puts("-- Roles of Culvert and its database, for psql as a superuser. Safe to repeat. Made by `culvertd admin "
         "print-roles`.\n"
         "\\set ON_ERROR_STOP on\n"
         "-- What the server may do; the server's login is a member.");
    print_role(COMMAND_ROLES_PREFIX "app", "NOLOGIN");
    puts("-- Owns the functions that read across accounts. No login is a member of it for longer than a migration "
         "takes.");
    print_role(COMMAND_ROLES_PREFIX "lookup", "NOLOGIN");
    puts("-- May grant culvert_lookup, and has none of its privileges: with it the owner migrates without CREATEROLE.");
    print_role(COMMAND_ROLES_PREFIX "roles", "NOLOGIN NOINHERIT");
    puts("GRANT culvert_lookup TO culvert_roles WITH ADMIN OPTION;\n"
         "-- Owns the database's objects; only `culvertd migrate` uses its credential.");
    print_role(owner, "LOGIN INHERIT");
    printf("GRANT culvert_roles TO %s;\n"
           "-- What culvertd logs in as (database.url). It is refused at start with more than this.\n",
           owner);
    print_role(login, "LOGIN INHERIT");
    printf("GRANT culvert_app TO %s;\n", login);
    printf("SELECT 'CREATE DATABASE %s OWNER %s' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '%s') "
           "\\gexec\n",
           database, owner, database);
    printf("-- Passwords are not in this script; in psql:  \\password %s   and   \\password %s\n", owner, login);
    return true;
}
