// private_server: a PostgreSQL of the test's own (tests/support/postgres), to be broken at will.
#ifndef CULVERT_TESTS_UNIT_STORAGE_PRIVATE_SERVER_H
#define CULVERT_TESTS_UNIT_STORAGE_PRIVATE_SERVER_H

#include <stdbool.h>

struct private_server {
    char folder[64];
    char url[256], app_url[256], superuser_url[256];
};

// False, with a message, where tests against servers are not wanted (no CULVERT_TEST_DATABASE_URL).
bool private_server_start(struct private_server *server);
void private_server_again(struct private_server *server); // after kill
void private_server_kill(struct private_server *server);  // SIGKILL to all its processes
void private_server_destroy(struct private_server *server);

#endif
