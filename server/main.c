// culvertd: the platform's process. Settings first, then either a command or the server until it is told to end.
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/json/json_region.h"
#include "base/log/log.h"
#include "base/loop/loop.h"
#include "base/loop/service_manager.h"
#include "base/mem.h"
#include "server/admin/commands.h"
#include "server/config/config.h"
#include "server/process_settings.h"
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
    struct server_config_table table;
    struct config *config;
    struct arguments arguments;
    struct loop *loop;
    struct server *server;
    struct service_manager manager;
};

static int usage_error(const char *text, const char *word)
{
    fprintf(stderr, "culvertd: %s%s\nculvertd --help lists all options\n", text, word);
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
            if (++i == argc) return usage_error("--config requires a file", "");
            out->file = argv[i];
        } else if (strncmp(argv[i], "--config=", 9) == 0) {
            out->file = argv[i] + 9;
        } else if (out->setting_count == WORDS_MAX) {
            return usage_error("too many arguments: ", argv[i]);
        } else {
            out->settings[out->setting_count++] = argv[i];
        }
    }
    return EXIT_DONE;
}

static void print_table(const struct process *process, void (*print)(const struct config_table *, struct strbuf *))
{
    struct strbuf text;
    strbuf_init(&text, PROBLEMS_BYTES_MAX);
    print(&process->table.table, &text);
    fwrite(text.at, 1, text.len, stdout);
    strbuf_finish(&text);
}

static int print_help(const struct process *process)
{
    commands_print_usage();
    print_table(process, config_print_help);
    return EXIT_DONE;
}

// Takes words that are no settings for problems, too; `problems` holds all at once.
static enum error_code load(struct process *process, struct config **out, struct strbuf *problems)
{
    const char *words[WORDS_MAX];
    int word_count = 0;
    struct arguments *arguments = &process->arguments;
    enum error_code code = config_load(&process->table.table, arguments->file, arguments->setting_count,
                                       arguments->settings, out, problems, words, &word_count);
    for (int i = 0; i < word_count; i++)
        strbuf_addf(problems, "%s: is neither a setting nor a command\n", words[i]);
    if (problems->at &&
        (strstr(problems->at, "database.migrate_url") || strstr(problems->at, "CULVERT_DATABASE_MIGRATE_URL")))
        strbuf_add_c(problems, "database.migrate_url: " SERVER_CONFIG_NO_OWNER "\n");
    if (!word_count) return code;
    config_destroy(*out);
    *out = NULL;
    return ERROR_INVALID;
}

static bool load_or_say_why(struct process *process)
{
    struct strbuf problems;
    strbuf_init(&problems, PROBLEMS_BYTES_MAX);
    bool fine = load(process, &process->config, &problems) == ERROR_NONE;
    if (!fine) fprintf(stderr, "culvertd: the configuration is refused:\n%s", problems.at ? problems.at : "");
    strbuf_finish(&problems);
    return fine;
}

static int print_config(const struct process *process)
{
    struct strbuf text;
    strbuf_init(&text, PROBLEMS_BYTES_MAX);
    config_print(process->config, &text);
    fwrite(text.at, 1, text.len, stdout);
    strbuf_finish(&text);
    return EXIT_DONE;
}

static void on_terminate(void *arg)
{
    struct process *process = arg;
    loop_stop(process->loop);
}

// The settings as they are now; the one that may change while serving, the log level, is taken over. Names of settings
// never hold secrets, so that the complaints can be logged.
static enum error_code reload_settings(struct process *process, struct error *err)
{
    struct config *config = NULL;
    struct strbuf problems;
    enum log_level level;
    strbuf_init(&problems, PROBLEMS_BYTES_MAX);
    enum error_code code = load(process, &config, &problems);
    if (code != ERROR_NONE)
        (void)error_set(err, code, "%s", problems.at ? problems.at : "the configuration is refused");
    else if ((code = log_parse_level(str_c(process_settings_of(config)->log_level), &level, err)) == ERROR_NONE)
        log_set_level(level);
    strbuf_finish(&problems);
    config_destroy(config);
    return code;
}

static void reload(struct process *process)
{
    struct error err;
    if (reload_settings(process, &err) != ERROR_NONE) {
        log_error("main", "reload_refused", log_err(&err));
        return;
    }
    if (server_reload(process->server, &err) != ERROR_NONE)
        log_error("main", "reload_refused", log_err(&err));
    else
        log_info("main", "reloaded");
}

static void on_reload(void *arg)
{
    struct process *process = arg;
    service_manager_reloading(&process->manager);
    reload(process);
    service_manager_ready(&process->manager);
}

static int serve(struct process *process)
{
    struct error err;
    process->loop = loop_create("main", SERVER_WORKERS_MAX);
    struct signals *signals = signals_create(process->loop, on_terminate, on_reload, process);
    service_manager_init(&process->manager, loop_uv(process->loop));
    process->server = server_create(process->config, &err);
    if (process->server) {
        service_manager_ready(&process->manager);
        log_info("main", "serving", log_c("version", CULVERT_VERSION),
                 log_c("node", process_settings_of(process->config)->node_name),
                 log_uint("loops", process->server->worker_count));
        loop_run(process->loop);
        log_info("main", "draining");
        service_manager_stopping(&process->manager);
        server_drain(process->server);
        server_destroy(process->server);
        log_info("main", "stopped");
    } else {
        log_error("main", "start_failed", log_err(&err));
    }
    service_manager_finish(&process->manager);
    signals_destroy(signals);
    loop_destroy(process->loop);
    return process->server ? EXIT_DONE : EXIT_FAILED;
}

static int run(struct process *process)
{
    const struct arguments *arguments = &process->arguments;
    if (arguments->help) return print_help(process);
    if (arguments->version) return puts("culvertd " CULVERT_VERSION) < 0;
    if (arguments->example) return print_table(process, config_print_example), EXIT_DONE;
    int status;
    if (arguments->command && commands_run_without_settings(arguments->command_count, arguments->command, &status))
        return status;
    if (!load_or_say_why(process)) return EXIT_USAGE;
    enum log_level level;
    if (log_parse_level(str_c(process_settings_of(process->config)->log_level), &level, NULL) == ERROR_NONE)
        log_set_level(level);
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
    signal(SIGPIPE, SIG_IGN); // a peer that went away is seen by who writes to it, in commands, too
    json_region_install();
    struct process process = {.config = NULL};
    server_config_table_init(&process.table);
    int status = read_arguments(argc, argv, &process.arguments);
    if (status == EXIT_DONE) status = run(&process);
    config_destroy(process.config);
    return status;
}
