// command_words: the words of one command, sorted: what stands alone, and --name value pairs. A
// value; its texts are the command line's.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_WORDS_H
#define CULVERT_SERVER_ADMIN_COMMAND_WORDS_H

#include <stdbool.h>

enum { COMMAND_OPTIONS_MAX = 8, COMMAND_WORDS_MAX = 8 };

struct command_words {
    const char *plain[COMMAND_WORDS_MAX];
    int plain_count;
    struct {
        const char *name, *value; // name without its dashes; a switch has the value ""
    } options[COMMAND_OPTIONS_MAX];
    int option_count;
};

// False: there are too many, or an option has no value.
bool command_words_sort(int argc, const char **argv, struct command_words *out);
// NULL: it is not there.
const char *command_words_option(const struct command_words *words, const char *name);
// Are all options among these: "|account|json|"?
bool command_words_only(const struct command_words *words, const char *allowed);

#endif
