// arguments: the words and options of one command line, in any order (as GNU getopt_long permutes
// them); "--" ends the options. Values are views into argv. One thread.
#ifndef CULVERT_CLI_ARGUMENTS_H
#define CULVERT_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { ARGUMENT_WORDS_MAX = 256, ARGUMENT_OPTIONS_MAX = 128 };

struct option_spec {
    const char *name;  // without the dashes; NULL: the end of the table
    char letter;       // 0: none
    const char *value; // what it takes, for the help; NULL: a flag
    const char *help;
};

struct arguments {
    const char *words[ARGUMENT_WORDS_MAX];
    size_t word_count;
    struct {
        const char *name, *value; // value NULL: a flag
    } options[ARGUMENT_OPTIONS_MAX];
    size_t option_count;
};

// tables: all options that there are, ends with NULL. argv without the program's name.
// --name=value, --name value, -n value, -nvalue, --flag, and short flags joined (-Aw).
MUST_CHECK enum error_code arguments_parse(struct arguments *out, size_t argc, char *const *argv,
                                           const struct option_spec *const *tables, struct error *err);

// The last value; NULL: not given, or a flag.
const char *arguments_get(const struct arguments *arguments, const char *name);
bool arguments_has(const struct arguments *arguments, const char *name);

#endif
