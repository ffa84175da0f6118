// tunnel: the connections of runtimes to the platform.
#include <string.h>

#include "cli/command.h"

int verb_tunnel(struct invocation *invocation)
{
    static const char *const words[] = {"tunnels"};
    struct error err;
    if (invocation->word_count == 1 && strcmp(invocation->words[0], "list") == 0) {
        struct invocation get = *invocation;
        get.words = words;
        get.word_count = 1;
        return verb_get(&get);
    }
    error_set(&err, ERROR_INVALID, "usage: culvert tunnel list");
    return command_fail(&err);
}
