// culvert-agent: reads its configuration, runs one loop, ends cleanly on SIGTERM.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <uv.h>

#include "agent/agent.h"
#include "agent/agent_process_settings.h"
#include "agent/config.h"
#include "agent/explain.h"
#include "agent/operations/agent_operation_settings.h"
#include "agent/rbac.h"
#include "agent/reports/reporter_settings.h"
#include "agent/tunnel/platform_settings.h"
#include "agent/tunnel/runtime_settings.h"
#include "base/log/log.h"
#include "base/loop/loop.h"
#include "base/loop/service_manager.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { TEXT_BYTES_MAX = 256 * 1024, EXIT_USAGE = 2 };

struct process {
    struct loop *loop;
    struct agent *agent;
    uv_signal_t term, interrupt, hangup;
    struct service_manager manager;
    bool stopping;
};

// What main itself understands, taken out of argv before the configuration reads the rest.
struct command {
    const char *file, *rbac; // rbac: the preset to print
    const char *manifest;    // to explain what of it would leave
    bool help, version, print, print_example, check;
};

static bool take_word(const char *arg, struct command *command)
{
    const struct {
        const char *word;
        bool *flag;
    } words[] = {{"--help", &command->help},
                 {"--version", &command->version},
                 {"--print-config", &command->print},
                 {"--print-example", &command->print_example},
                 {"--check-config", &command->check}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(arg, words[i].word) != 0) continue;
        *words[i].flag = true;
        return true;
    }
    return false;
}

static void take_command(int *argc, char **argv, struct command *command)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (take_word(argv[i], command)) continue;
        if (strncmp(argv[i], "--config=", 9) == 0)
            command->file = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < *argc)
            command->file = argv[++i];
        else if (strncmp(argv[i], "--explain-redaction=", 20) == 0)
            command->manifest = argv[i] + 20;
        else if (strcmp(argv[i], "--explain-redaction") == 0 && i + 1 < *argc)
            command->manifest = argv[++i];
        else if (strncmp(argv[i], "--print-rbac=", 13) == 0)
            command->rbac = argv[i] + 13;
        else if (strcmp(argv[i], "--print-rbac") == 0)
            command->rbac = i + 1 < *argc && argv[i + 1][0] != '-' ? argv[++i] : RBAC_DEFAULT;
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
}

static int print_and_free(struct strbuf *text)
{
    fwrite(text->at, 1, text->len, stdout);
    strbuf_finish(text);
    return 0;
}

static int print_help(void)
{
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    strbuf_add_c(&text, "culvert-agent: connects this cluster to the platform.\n\n"
                        "  --config FILE     read settings from this file\n"
                        "  --check-config    check the settings, report every problem and end\n"
                        "  --print-config    print the settings in use and end\n"
                        "  --print-example   print an example file and end\n"
                        "  --explain-redaction FILE\n"
                        "                    show which values of a manifest (JSON or YAML, - for standard input)\n"
                        "                    leave the cluster with the settings of --config, and end\n"
                        "  --print-rbac PRESET\n"
                        "                    print the Kubernetes manifests that give the agent its rights, with\n"
                        "                    --config also those that operations.allowed needs, and end:\n"
                        "                    " RBAC_PRESETS ", default " RBAC_DEFAULT "\n"
                        "  --version, --help\n\n");
    config_print_help(&agent_config_table, &text);
    return print_and_free(&text);
}

static int print_rbac(const char *preset, const struct operation_rights *rights, bool kubernetes_events)
{
    struct strbuf text;
    strbuf_init(&text, RBAC_BYTES_MAX);
    if (rbac_print(str_c(preset), rights, kubernetes_events, &text)) return print_and_free(&text);
    fprintf(stderr, "culvert-agent: --print-rbac: invalid preset \"%s\", expected one of " RBAC_PRESETS "\n", preset);
    strbuf_finish(&text);
    return EXIT_USAGE;
}

static enum error_code load(const struct command *command, int argc, char **argv, struct config **out)
{
    struct strbuf problems;
    const char **words = mem_array((size_t)argc + 1, sizeof(*words));
    int count = 0;
    strbuf_init(&problems, TEXT_BYTES_MAX);
    enum error_code code = config_load(&agent_config_table, command->file, argc, argv, out, &problems, words, &count);
    if (!code && count) {
        strbuf_addf(&problems, "\"%s\" is not an option\n", words[0]);
        code = ERROR_INVALID;
        config_destroy(*out);
        *out = NULL;
    }
    if (code) fprintf(stderr, "culvert-agent: the configuration cannot be used:\n%s", problems.len ? problems.at : "");
    strbuf_finish(&problems);
    mem_free(words);
    return code;
}

// With the rights that operations.allowed needs, where settings are given.
static int print_rbac_of(const struct command *command, int argc, char **argv)
{
    struct config *config = NULL;
    struct operation_rights *rights = NULL;
    struct error err;
    if (!command->file && argc == 1) return print_rbac(command->rbac, NULL, false);
    if (load(command, argc, argv, &config)) return EXIT_USAGE;
    int status = EXIT_USAGE;
    if (operation_rights_create(str_c(agent_operation_settings_of(config)->allowed), &rights, &err) == ERROR_NONE)
        status = print_rbac(command->rbac, rights, reporter_settings_of(config)->kubernetes_events);
    operation_rights_destroy(rights);
    config_destroy(config);
    return status;
}

static int explain(const struct command *command, const struct reporter_settings *reporter)
{
    const struct redaction_options options = {.open_paths = str_c(reporter->open_paths),
                                              .open_labels = str_c(reporter->open_labels),
                                              .open_annotations = str_c(reporter->open_annotations)};
    struct strbuf text;
    struct error err;
    strbuf_init(&text, EXPLAIN_BYTES_MAX);
    if (explain_redaction_file(command->manifest, &options, &text, &err) == ERROR_NONE) return print_and_free(&text);
    strbuf_finish(&text);
    fprintf(stderr, "culvert-agent: %s\n", err.text);
    return 1;
}

// ---- signals ------------------------------------------------------------------------------------

static void on_drained(void *arg)
{
    struct process *process = arg;
    loop_stop(process->loop);
}

static void on_stop_signal(uv_signal_t *handle, int signal)
{
    struct process *process = handle->data;
    log_info("agent", process->stopping ? "second_signal_received" : "stopping", log_int("signal", signal));
    if (process->stopping) {
        loop_stop(process->loop);
        return;
    }
    process->stopping = true;
    service_manager_stopping(&process->manager);
    agent_drain(process->agent, on_drained, process);
}

static void on_hangup(uv_signal_t *handle, int signal)
{
    struct process *process = handle->data;
    (void)signal;
    service_manager_reloading(&process->manager);
    agent_reload(process->agent);
    service_manager_ready(&process->manager);
}

static void watch(struct process *process, uv_signal_t *handle, int signal, uv_signal_cb callback)
{
    uv_signal_init(loop_uv(process->loop), handle);
    handle->data = process;
    uv_signal_start(handle, callback, signal);
}

static int run(const struct config *config)
{
    const struct platform_settings *platform = platform_settings_of(config);
    const struct runtime_settings *runtime = runtime_settings_of(config);
    struct process process = {.loop = loop_create("agent", 0)};
    struct error err = {0};
    int status = 1;
    process.agent = agent_create(process.loop, config, &err);
    if (!process.agent) {
        log_error("agent", "cannot_start", log_err(&err));
    } else {
        watch(&process, &process.term, SIGTERM, on_stop_signal);
        watch(&process, &process.interrupt, SIGINT, on_stop_signal);
        watch(&process, &process.hangup, SIGHUP, on_hangup);
        log_info("agent", "started", log_c("version", CULVERT_VERSION), log_c("runtime", runtime->name),
                 log_c("platform", platform->url));
        service_manager_init(&process.manager, loop_uv(process.loop));
        agent_start(process.agent);
        service_manager_ready(&process.manager);
        loop_run(process.loop);
        agent_destroy(process.agent);
        service_manager_finish(&process.manager);
        uv_close((uv_handle_t *)&process.term, NULL);
        uv_close((uv_handle_t *)&process.interrupt, NULL);
        uv_close((uv_handle_t *)&process.hangup, NULL);
        status = 0;
        log_info("agent", "stopped");
    }
    loop_destroy(process.loop);
    return status;
}

int main(int argc, char **argv)
{
    struct command command = {.file = NULL};
    struct config *config = NULL;
    struct error err = {0};
    enum log_level level = LOG_INFO;
    prctl(PR_SET_DUMPABLE, 0); // no core dump and no ptrace: the token is in memory
    signal(SIGPIPE, SIG_IGN);
    take_command(&argc, argv, &command);
    if (command.help) return print_help();
    if (command.version) return printf("culvert-agent %s\n", CULVERT_VERSION) < 0;
    if (command.rbac) return print_rbac_of(&command, argc, argv);
    if (command.print_example) {
        struct strbuf text;
        strbuf_init(&text, TEXT_BYTES_MAX);
        config_print_example(&agent_config_table, &text);
        return print_and_free(&text);
    }
    // Who only wants to know what the table says needs no settings.
    if (command.manifest && !command.file && argc == 1)
        return explain(&command, &(struct reporter_settings){.enabled = true});
    if (load(&command, argc, argv, &config)) return EXIT_USAGE;
    int status = 0;
    if (command.manifest) {
        status = explain(&command, reporter_settings_of(config));
    } else if (command.print) {
        struct strbuf text;
        strbuf_init(&text, TEXT_BYTES_MAX);
        config_print(config, &text);
        print_and_free(&text);
    } else if (!command.check) {
        if (log_parse_level(str_c(agent_process_settings_of(config)->log_level), &level, &err) == ERROR_NONE)
            log_set_level(level);
        status = run(config);
    }
    config_destroy(config);
    return status;
}
