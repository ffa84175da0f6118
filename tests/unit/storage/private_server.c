#include "private_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// Runs tests/support/postgres and reads its NAME=VALUE lines.
static void run(struct private_server *server, const char *word)
{
    char command[512], line[512];
    snprintf(command, sizeof command, CULVERT_SOURCE_DIR "/tests/support/postgres %s %s", word, server->folder);
    FILE *output = popen(command, "re");
    if (!output) fail_msg("%s does not run", command);
    while (fgets(line, sizeof line, output)) {
        line[strcspn(line, "\n")] = '\0';
        const struct {
            const char *name;
            char *value;
        } table[] = {{"url=", server->url}, {"app_url=", server->app_url}, {"superuser_url=", server->superuser_url}};
        for (size_t i = 0; i < 3; i++)
            if (strncmp(line, table[i].name, strlen(table[i].name)) == 0)
                snprintf(table[i].value, 256, "%s", line + strlen(table[i].name));
    }
    if (pclose(output) != 0) fail_msg("%s failed", command);
}

bool private_server_start(struct private_server *server)
{
    if (!getenv("CULVERT_TEST_DATABASE_URL")) {
        print_message("skipped: run by tests/support/with_servers\n");
        return false;
    }
    snprintf(server->folder, sizeof server->folder, "/tmp/culvert-private-XXXXXX");
    if (!mkdtemp(server->folder)) fail_msg("no folder in /tmp");
    chmod(server->folder, 0755);
    run(server, "start");
    return true;
}

void private_server_again(struct private_server *server)
{
    run(server, "start");
}

void private_server_kill(struct private_server *server)
{
    run(server, "kill");
}

void private_server_destroy(struct private_server *server)
{
    char command[128];
    run(server, "stop");
    snprintf(command, sizeof command, "rm -rf %s", server->folder);
    if (system(command) != 0) print_error("%s is left behind\n", server->folder);
}
