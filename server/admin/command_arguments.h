// command_arguments: the words of one command, sorted: what stands alone, and --name value pairs. A
// value; its texts are the command line's.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_ARGUMENTS_H
#define CULVERT_SERVER_ADMIN_COMMAND_ARGUMENTS_H

#include <stdbool.h>

enum { COMMAND_OPTIONS_MAX = 8, COMMAND_ARGUMENTS_MAX = 8 };

struct command_arguments {
    const char *plain[COMMAND_ARGUMENTS_MAX];
    int plain_count;
    struct {
        const char *name, *value; // name without its dashes; a switch has the value ""
    } options[COMMAND_OPTIONS_MAX];
    int option_count;
};

// False: there are too many, or an option has no value.
bool command_arguments_sort(int argc, const char **argv, struct command_arguments *out);
// NULL: it is not there.
const char *command_arguments_option(const struct command_arguments *words, const char *name);
// Are all options among these: "|account|json|"?
bool command_arguments_only(const struct command_arguments *words, const char *allowed);

#endif
