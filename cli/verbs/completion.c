// completion: scripts for shells, which ask this program for the words ("__complete"); names of
// objects are the platform's, for at most two seconds.
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/filter_options.h"
#include "cli/query.h"
#include "cli/row.h"
#include "cli/target.h"

enum { COMPLETE_TIMEOUT_MS = 2000, COMPLETE_ROWS = 200 };

static const char bash[] = "_culvert() {\n"
                           "    local IFS=$'\\n'\n"
                           "    COMPREPLY=($(culvert __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
                           "}\n"
                           "complete -o default -F _culvert culvert\n";
static const char zsh[] = "#compdef culvert\n"
                          "_culvert() {\n"
                          "    local -a found\n"
                          "    found=(\"${(@f)$(culvert __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
                          "    compadd -a found\n"
                          "}\n"
                          "compdef _culvert culvert\n";
static const char fish[] =
    "complete -c culvert -f -a '(culvert __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'\n";

int verb_completion(struct invocation *invocation)
{
    static const struct {
        const char *shell, *script;
    } scripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct error err;
    for (size_t i = 0; invocation->word_count == 1 && i < sizeof scripts / sizeof *scripts; i++) {
        if (strcmp(invocation->words[0], scripts[i].shell) != 0) continue;
        fputs(scripts[i].script, stdout);
        return EXIT_DONE;
    }
    error_set(&err, ERROR_INVALID, "usage: culvert completion bash|zsh|fish");
    return command_fail(&err);
}

static void offer(const char *word, const char *start)
{
    if (strncmp(word, start, strlen(start)) == 0) puts(word);
}

static void offer_commands(const char *start)
{
    for (const struct command *command = commands; command->name; command++)
        if (command->help && strcmp(command->name, "operate") != 0) offer(command->name, start);
    for (const struct operation_verb *verb = operation_verbs; verb->name; verb++)
        offer(verb->name, start);
}

static void offer_types(const char *start)
{
    for (const struct noun *noun = nouns; noun->name; noun++)
        offer(noun->others[0] ? noun->others[0] : noun->name, start);
}

static void offer_options(const struct option_spec *options, const char *start)
{
    for (; options && options->name; options++) {
        char text[80];
        snprintf(text, sizeof text, "--%s", options->name);
        offer(text, start);
    }
}

// Names that begin so; none where the platform does not answer. prefix: the type with its slash.
static void offer_names(struct invocation *invocation, const struct noun *noun, const char *prefix, const char *start)
{
    struct strbuf selection, name;
    struct query query;
    json_t *rows = NULL, *row;
    size_t i;
    strbuf_init(&selection, SELECTION_BYTES_MAX);
    strbuf_init(&name, 64 * 1024);
    const char *paths[] = {noun->name_path, NULL};
    noun_select_paths(paths, &selection);
    query_init(&query, noun, selection.at);
    query.limit = COMPLETE_ROWS;
    if (context_file_choose(&invocation->file, NULL, &invocation->context, NULL) == ERROR_NONE &&
        client_create(&invocation->context, COMPLETE_TIMEOUT_MS, &invocation->client, NULL) == ERROR_NONE &&
        query_next(&query, invocation->client, &rows, NULL) == ERROR_NONE) {
        json_array_foreach(rows, i, row)
        {
            strbuf_clear(&name);
            strbuf_add_c(&name, prefix);
            row_write(row_at(row, noun->name_path), &name);
            offer(name.at, start);
        }
    }
    json_decref(rows);
    query_finish(&query);
    strbuf_finish(&selection);
    strbuf_finish(&name);
}

static void complete_object(struct invocation *invocation, const char *verb, const char *type, const char *start)
{
    const struct operation_verb *operation = command_find_operation(verb);
    const char *slash = strchr(start, '/');
    char name[64];
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - start) : 0, start);
    const struct noun *noun = slash ? noun_find(name) : type ? noun_find(type) : NULL;
    char prefix[80];
    snprintf(prefix, sizeof prefix, "%s%s", slash ? name : "", slash ? "/" : "");
    if (operation && !noun) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(operation->nouns, ","), operation->nouns);
        noun = noun_find(name);
    }
    bool is_application = strcmp(verb, "tree") == 0 || strcmp(verb, "history") == 0 || strcmp(verb, "wait") == 0;
    if (!noun && is_application) noun = noun_find("application");
    if (noun) {
        offer_names(invocation, noun, prefix, start);
    } else if (command_find(verb) && command_find(verb)->needs_platform) {
        offer_types(start);
    }
}

int verb_complete(struct invocation *invocation)
{
    const char *const *words = invocation->words;
    size_t count = invocation->word_count;
    const char *start = count ? words[count - 1] : "", *verb = count ? words[0] : "";
    if (count <= 1) {
        offer_commands(start);
        return EXIT_DONE;
    }
    const struct command *command = command_find_operation(verb) ? command_find("operate") : command_find(verb);
    if (start[0] == '-') {
        offer_options(command ? command->options : NULL, start);
        offer_options(common_options, start);
        if (command && strcmp(command->name, "get") == 0) offer_options(filter_options(), start);
        return EXIT_DONE;
    }
    if (strcmp(verb, "help") == 0) {
        offer_commands(start);
    } else if (strcmp(verb, "completion") == 0) {
        offer("bash", start), offer("zsh", start), offer("fish", start);
    } else {
        complete_object(invocation, verb, count > 2 ? words[1] : NULL, start);
    }
    return EXIT_DONE;
}
