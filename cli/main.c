// culvert: the command line of the platform. Verbs and nouns are tables: cli/command.c and
// modules/*/*.cli.
#include <curl/curl.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/filter_options.h"

enum { REQUEST_TIMEOUT_MS = 30000 };

static enum error_code open_platform(struct invocation *invocation, struct error *err)
{
    uint64_t timeout_ms;
    enum error_code code = command_duration(invocation, "request-timeout", REQUEST_TIMEOUT_MS, &timeout_ms, err);
    if (code == ERROR_NONE)
        code = context_file_choose(&invocation->file, arguments_get(invocation->arguments, "context"),
                                   &invocation->context, err);
    if (code == ERROR_NONE) code = client_create(&invocation->context, (unsigned)timeout_ms, &invocation->client, err);
    return code;
}

static int run(const struct command *command, struct invocation *invocation)
{
    struct error err;
    enum error_code code = context_file_read(&invocation->file, &err);
    if (code == ERROR_NONE && command->needs_platform) code = open_platform(invocation, &err);
    int status = code == ERROR_NONE ? command->run(invocation) : command_fail(&err);
    client_destroy(invocation->client);
    context_file_finish(&invocation->file);
    // A closed pipe (| head) ends the program by SIGPIPE; a full disk is seen here.
    if (fflush(stdout) != 0 && status == EXIT_DONE) {
        fprintf(stderr, "error: stdout: %s\n", strerror(errno));
        status = EXIT_FAILED;
    }
    return status;
}

static int dispatch(const struct arguments *arguments)
{
    struct error err;
    struct invocation invocation = {.arguments = arguments};
    if (arguments->word_count) {
        invocation.words = arguments->words + 1;
        invocation.word_count = arguments->word_count - 1;
    }
    const char *verb = arguments->word_count ? arguments->words[0] : "help";
    if (arguments_has(arguments, "version")) verb = "version";
    if (arguments_has(arguments, "help")) {
        invocation.words = arguments->words;
        invocation.word_count = arguments->word_count ? 1 : 0;
        verb = "help";
    }
    const struct command *command = command_find(verb);
    if (!command && (invocation.operation = command_find_operation(verb))) command = command_find("operate");
    if (command) return run(command, &invocation);
    error_set(&err, ERROR_INVALID, "unknown command \"%.60s\"; see: culvert help", verb);
    return command_fail(&err);
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return EXIT_FAILED;
    static struct arguments arguments;
    struct error err;
    const struct option_spec *tables[] = {
        common_options,  filter_options(),       logs_options,  get_options,        wait_options,
        operate_options, runtime_options,        login_options, logout_options,     port_forward_options,
        auth_options,    support_bundle_options, rule_options,  enrollment_options, NULL};
    // The words behind "__complete" are another command line, and may be unfinished.
    bool is_completion = argc > 1 && strcmp(argv[1], "__complete") == 0;
    int status;
    if (is_completion) {
        for (int i = 1; i < argc && arguments.word_count < ARGUMENT_WORDS_MAX; i++)
            arguments.words[arguments.word_count++] = argv[i];
        status = dispatch(&arguments);
    } else if (arguments_parse(&arguments, (size_t)argc - 1, argv + 1, tables, &err) != ERROR_NONE) {
        status = command_fail(&err);
    } else {
        status = dispatch(&arguments);
    }
    curl_global_cleanup();
    return status;
}
