// culvertd: the platform's process. Settings first, then either a command or the server until it is told to end.
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "server/commands.h"
#include "server/config.h"
#include "server/server.h"
#include "server/signals.h"

enum { WORDS_MAX = 64, PROBLEMS_BYTES_MAX = 64 * 1024 };

struct arguments {
    const char *file;
    bool check, print, example, help, version;
    char *settings[WORDS_MAX]; // what the configuration shall see, argv[0] first
    int setting_count;
    const char **command; // `migrate` or `admin` and all that follows
    int command_count;
};

struct process {
    struct server_config *config;
    struct arguments arguments;
    struct loop *loop;
    struct server *server;
};

static int usage_error(const char *text, const char *word)
{
    fprintf(stderr, "culvertd: %s%s\nculvertd --help says more\n", text, word);
    return EXIT_USAGE;
}

// A command begins at its word, unless that word is the value of the flag before it.
static bool starts_command(int i, char **argv)
{
    bool is_value = i > 1 && strncmp(argv[i - 1], "--", 2) == 0 && !strchr(argv[i - 1], '=');
    return i > 0 && !is_value && (strcmp(argv[i], "migrate") == 0 || strcmp(argv[i], "admin") == 0);
}

static int read_arguments(int argc, char **argv, struct arguments *out)
{
    const struct {
        const char *name;
        bool *set;
    } switches[] = {
        {"--check-config", &out->check},
        {"--print-config", &out->print},
        {"--print-example", &out->example},
        {"--help", &out->help},
        {"-h", &out->help},
        {"--version", &out->version},
    };
    for (int i = 0; i < argc; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof switches / sizeof *switches; k++) {
            if (i == 0 || strcmp(argv[i], switches[k].name) != 0) continue;
            *switches[k].set = known = true;
        }
        if (known) continue;
        if (starts_command(i, argv)) {
            out->command = (const char **)argv + i;
            out->command_count = argc - i;
            return EXIT_DONE;
        }
        if (strcmp(argv[i], "--config") == 0) {
            if (++i == argc) return usage_error("--config needs a file", "");
            out->file = argv[i];
        } else if (strncmp(argv[i], "--config=", 9) == 0) {
            out->file = argv[i] + 9;
        } else if (out->setting_count == WORDS_MAX) {
            return usage_error("too many words: ", argv[i]);
        } else {
            out->settings[out->setting_count++] = argv[i];
        }
    }
    return EXIT_DONE;
}

static void print_table(void (*print)(const struct config_table *, struct strbuf *))
{
    struct strbuf text;
    strbuf_init(&text, PROBLEMS_BYTES_MAX);
    print(&server_config_table, &text);
    fwrite(text.at, 1, text.len, stdout);
    strbuf_finish(&text);
}

static int print_help(void)
{
    commands_print_usage();
    print_table(config_print_help);
    return EXIT_DONE;
}

// All problems at once, on standard error.
static bool load(struct process *process)
{
    struct strbuf problems;
    strbuf_init(&problems, PROBLEMS_BYTES_MAX);
    struct arguments *arguments = &process->arguments;
    const char *words[WORDS_MAX];
    int word_count = 0;
    bool fine = config_load(&server_config_table, arguments->file, arguments->setting_count, arguments->settings,
                            process->config, &problems, words, &word_count) == ERROR_NONE;
    for (int i = 0; i < word_count; i++)
        strbuf_addf(&problems, "%s: is neither a setting nor a command\n", words[i]);
    if (word_count) fine = false;
    if (fine) fine = server_config_check(process->config, &problems);
    if (!fine) fprintf(stderr, "culvertd: the configuration is refused:\n%s", problems.at ? problems.at : "");
    strbuf_finish(&problems);
    return fine;
}

static int print_config(const struct process *process)
{
    struct strbuf text;
    strbuf_init(&text, PROBLEMS_BYTES_MAX);
    config_print(&server_config_table, process->config, &text);
    fwrite(text.at, 1, text.len, stdout);
    strbuf_finish(&text);
    return EXIT_DONE;
}

static void on_terminate(void *arg)
{
    struct process *process = arg;
    loop_stop(process->loop);
}

// What SIGHUP changes besides certificates: the settings are read again, and of them the log level is taken.
static void reload_log_level(struct process *process)
{
    struct server_config *again = mem_zalloc(sizeof *again);
    struct process copy = {.config = again, .arguments = process->arguments};
    enum log_level level;
    if (!load(&copy))
        log_error("main", "settings_refused_the_old_ones_stay");
    else if (log_parse_level(str_c(again->log_level), &level, NULL) == ERROR_NONE)
        log_set_level(level);
    config_release(&server_config_table, again);
    mem_free(again);
}

// The settings as they are now; those that may change while serving are taken over. Names of settings never hold
// secrets, so that the complaints can be logged.
static enum error_code reload_settings(struct process *process, struct error *err)
{
    struct server_config *config = mem_zalloc(sizeof *config);
    struct arguments *arguments = &process->arguments;
    struct strbuf problems;
    strbuf_init(&problems, PROBLEMS_BYTES_MAX);
    const char *words[WORDS_MAX];
    int word_count = 0;
    enum error_code code = config_load(&server_config_table, arguments->file, arguments->setting_count,
                                       arguments->settings, config, &problems, words, &word_count);
    if (code == ERROR_NONE && !server_config_check(config, &problems)) code = ERROR_INVALID;
    enum log_level level;
    if (code != ERROR_NONE)
        (void)error_set(err, code, "%s", problems.at ? problems.at : "the configuration is refused");
    else if ((code = log_parse_level(str_c(config->log_level), &level, err)) == ERROR_NONE)
        log_set_level(level);
    strbuf_finish(&problems);
    config_release(&server_config_table, config);
    mem_free(config);
    return code;
}

static void on_reload(void *arg)
{
    struct process *process = arg;
    struct error err;
    if (reload_settings(process, &err) != ERROR_NONE) {
        log_error("main", "reload_refused", log_err(&err));
        return;
    }
    reload_log_level(process);
    if (server_reload(process->server, &err) != ERROR_NONE)
        log_error("main", "reload_refused", log_err(&err));
    else
        log_info("main", "reloaded");
}

static int serve(struct process *process)
{
    struct error err;
    process->loop = loop_create("main", SERVER_WORKERS_MAX);
    struct signals *signals = signals_create(process->loop, on_terminate, on_reload, process);
    process->server = server_create(process->config, &err);
    if (process->server) {
        log_info("main", "serving", log_c("version", CULVERT_VERSION), log_c("node", process->config->node_name),
                 log_uint("loops", process->server->worker_count));
        loop_run(process->loop);
        log_info("main", "draining");
        server_drain(process->server);
        server_destroy(process->server);
        log_info("main", "stopped");
    } else {
        log_error("main", "start_failed", log_err(&err));
    }
    signals_destroy(signals);
    loop_destroy(process->loop);
    return process->server ? EXIT_DONE : EXIT_FAILED;
}

static int run(struct process *process)
{
    const struct arguments *arguments = &process->arguments;
    if (arguments->help) return print_help();
    if (arguments->version) return puts("culvertd " CULVERT_VERSION) < 0;
    if (arguments->example) return print_table(config_print_example), EXIT_DONE;
    if (!load(process)) return EXIT_USAGE;
    enum log_level level;
    if (log_parse_level(str_c(process->config->log_level), &level, NULL) == ERROR_NONE) log_set_level(level);
    if (arguments->print) return print_config(process);
    if (arguments->check) return puts("the configuration is fine") < 0;
    if (arguments->command) return commands_run(process->config, arguments->command_count, arguments->command);
    return serve(process);
}

int main(int argc, char **argv)
{
#ifndef __SANITIZE_ADDRESS__   // whose leak check has to read its own process
    prctl(PR_SET_DUMPABLE, 0); // tokens pass through this memory
#endif
    struct process process = {.config = mem_zalloc(sizeof *process.config)};
    int status = read_arguments(argc, argv, &process.arguments);
    if (status == EXIT_DONE) status = run(&process);
    config_release(&server_config_table, process.config);
    mem_free(process.config);
    return status;
}
