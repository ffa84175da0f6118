#include "server/admin/command_arguments.h"

#include <stdio.h>
#include <string.h>

static bool is_switch(const char *word)
{
    return strcmp(word, "--admin") == 0 || strcmp(word, "--if-absent") == 0 || strcmp(word, "--json") == 0 ||
           strcmp(word, "--recount") == 0;
}

bool command_arguments_sort(int argc, const char **argv, struct command_arguments *out)
{
    *out = (struct command_arguments){0};
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (out->plain_count == COMMAND_ARGUMENTS_MAX) return false;
            out->plain[out->plain_count++] = argv[i];
            continue;
        }
        bool alone = is_switch(argv[i]);
        if (out->option_count == COMMAND_OPTIONS_MAX || (!alone && i + 1 == argc)) return false;
        out->options[out->option_count].name = argv[i] + 2;
        out->options[out->option_count++].value = alone ? "" : argv[++i];
    }
    return true;
}

const char *command_arguments_option(const struct command_arguments *words, const char *name)
{
    for (int i = 0; i < words->option_count; i++)
        if (strcmp(words->options[i].name, name) == 0) return words->options[i].value;
    return NULL;
}

bool command_arguments_only(const struct command_arguments *words, const char *allowed)
{
    for (int i = 0; i < words->option_count; i++) {
        char needle[64];
        snprintf(needle, sizeof needle, "|%s|", words->options[i].name);
        if (!strstr(allowed, needle)) return false;
    }
    return true;
}
