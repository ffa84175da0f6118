// help, version: from the tables of commands, nouns and options.
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static void print_options(const char *title, const struct option_spec *options)
{
    if (!options || !options->name) return;
    printf("\n%s:\n", title);
    for (; options->name; options++) {
        char text[80];
        snprintf(text, sizeof text, "--%s%s%s", options->name, options->value ? " " : "",
                 options->value ? options->value : "");
        printf("  %c%c %-38s %s\n", options->letter ? '-' : ' ', options->letter ? options->letter : ' ', text,
               options->help);
    }
}

static void print_nouns(void)
{
    puts("\nTypes (with other names, and filters):");
    for (const struct noun *noun = nouns; noun->name; noun++) {
        printf("  %-16s", noun->name);
        for (const char *const *other = noun->others; *other; other++)
            printf("%s%s", other == noun->others ? "" : ", ", *other);
        const char *gap = "   ";
        for (const struct noun_filter *filter = noun->filters; filter->option; filter++) {
            if (*filter->option != '-') printf("%s--%s", gap, filter->option), gap = " ";
        }
        putchar('\n');
    }
}

static void print_all(void)
{
    puts(
        "culvert: what runs in your clusters, and the way into them.\n\nUsage: culvert COMMAND [OPTIONS]\n\nCommands:");
    for (const struct command *command = commands; command->name; command++) {
        if (!command->help || strcmp(command->name, "operate") == 0) continue;
        printf("  %-14s %s\n", command->name, command->help);
    }
    puts("\nCommands that change an object through its cluster's agent:");
    for (const struct operation_verb *verb = operation_verbs; verb->name; verb++)
        printf("  %-14s %s\n", verb->name, verb->nouns);
    print_nouns();
    print_options("Options of all commands", common_options);
    puts("\nExit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 not permitted,\n"
         "5 a wait ended before its condition, 6 the platform cannot be reached.\n\n"
         "culvert help COMMAND shows the options of a command. Names: [RUNTIME/][NAMESPACE/]NAME.");
}

int verb_help(struct invocation *invocation)
{
    struct error err;
    const char *name = invocation->word_count ? invocation->words[0] : NULL;
    if (!name) {
        print_all();
        return EXIT_DONE;
    }
    const struct operation_verb *verb = command_find_operation(name);
    const struct command *command = verb ? command_find("operate") : command_find(name);
    if (!command || !command->help) {
        error_set(&err, ERROR_INVALID, "unknown command \"%.60s\"; see: culvert help", name);
        return command_fail(&err);
    }
    if (verb) {
        printf("culvert %s NAME...   (of %s)\n\n%s.\n", verb->name, verb->nouns, command->help);
    } else {
        printf("culvert %s\n\n%s.\n", command->usage, command->help);
    }
    print_options("Options", command->options);
    if (strcmp(name, "get") == 0) print_nouns();
    print_options("Options of all commands", common_options);
    return EXIT_DONE;
}

int verb_version(struct invocation *invocation)
{
    (void)invocation;
    puts("culvert " CULVERT_VERSION);
    return EXIT_DONE;
}
