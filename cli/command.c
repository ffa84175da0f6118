#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

// clang-format off
const struct command commands[] = {
    {"get", "get TYPE [NAME...] | TYPE/NAME...", "List objects, or show some of them", get_options, true, verb_get},
    {"describe", "describe TYPE NAME... | TYPE/NAME...", "Show all that is known of objects", NULL, true, verb_describe},
    {"wait", "wait TYPE/NAME --for CONDITION", "Wait until objects are in a state", wait_options, true, verb_wait},
    {"tree", "tree APPLICATION", "Show the resources of an application and their health", NULL, true, verb_tree},
    {"history", "history APPLICATION", "List the releases of an application, newest first", NULL, true, verb_history},
    {"operate", "VERB TYPE/NAME | VERB NAME", "Change an object through its cluster's agent", operate_options, true, verb_operate},
    {"logs", "logs POD | TYPE/NAME", "Print the logs of pods, through the tunnel", logs_options, true, verb_logs},
    {"runtime", "runtime create|delete NAME | runtime token list|create|rotate|revoke RUNTIME [ID]", "Register runtimes and their tokens", runtime_options, true, verb_runtime},
    {"enrollment", "enrollment create NAME | enrollment revoke ID", "Make and revoke tokens with which agents create their own runtimes", enrollment_options, true, verb_enrollment},
    {"tunnel", "tunnel list", "List runtimes with the state of their tunnels", get_options, true, verb_tunnel},
    {"port-forward", "port-forward [RUNTIME/]SERVICE [LOCAL_PORT]", "Lead a local port to a TCP service of a runtime", port_forward_options, true, verb_port_forward},
    {"auth", "auth whoami | auth can-i VERB APPLICATION | auth explain APPLICATION [VERB...]", "Show as whom requests are made, and what they may do", auth_options, true, verb_auth},
    {"rule", "rule simulate create|update FILE | rule simulate remove ID | rule simulate default ALLOW|DENY", "Show what users would gain and lose by a change of rules", rule_options, true, verb_rule},
    {"support-bundle", "support-bundle FILE", "Write what support needs to know to a file, without secrets", support_bundle_options, true, verb_support_bundle},
    {"login", "login URL [--api-key-file FILE]", "Sign in in a browser, or with an API key, and save it as a context", login_options, false, verb_login},
    {"logout", "logout [CONTEXT]", "End the key of a login in a browser, and forget it", logout_options, false, verb_logout},
    {"context", "context list|use|show|set|delete [NAME]", "Choose between platforms, and set defaults", NULL, false, verb_context},
    {"completion", "completion bash|zsh|fish", "Print the completion script of a shell", NULL, false, verb_completion},
    {"__complete", NULL, NULL, NULL, false, verb_complete},
    {"help", "help [COMMAND]", "Show what a command takes", NULL, false, verb_help},
    {"version", "version", "Show the version of this program", NULL, false, verb_version},
    {NULL, NULL, NULL, NULL, false, NULL},
};

const struct option_spec common_options[] = {
    {"context", 0, "NAME", "context to use; the default is the current one"},
    {"request-timeout", 0, "DURATION", "of one request; 30s by default"},
    {"output", 'o', "FORMAT", "table, wide, name, json, yaml, jsonpath=TEMPLATE, custom-columns=TITLE:PATH,..."},
    {"help", 'h', NULL, "show what the command takes"},
    {"version", 0, NULL, "show the version"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) return command;
    }
    return NULL;
}

const struct operation_verb *command_find_operation(const char *name)
{
    for (const struct operation_verb *verb = operation_verbs; verb->name; verb++) {
        if (strcmp(verb->name, name) == 0) return verb;
    }
    return NULL;
}

int command_fail(const struct error *err)
{
    fflush(stdout);
    fprintf(stderr, "error: %s\n", err->text);
    return (int)exit_status_of(err->code);
}

enum error_code command_duration(const struct invocation *invocation, const char *option, uint64_t def_ms,
                                 uint64_t *out_ms, struct error *err)
{
    const char *text = arguments_get(invocation->arguments, option);
    *out_ms = def_ms;
    if (!text) return ERROR_NONE;
    enum error_code code = parse_duration_ms(str_c(text), out_ms, err);
    if (code == ERROR_NONE && (*out_ms == 0 || *out_ms > 7ull * 86400 * 1000))
        code = error_set(err, ERROR_INVALID, "must be between 1ms and 7d");
    if (code == ERROR_NONE) return code;
    error_prefix(err, text);
    return error_prefix(err, option);
}

enum error_code command_number(const struct invocation *invocation, const char *option, uint64_t max, uint64_t def,
                               uint64_t *out, struct error *err)
{
    const char *text = arguments_get(invocation->arguments, option);
    *out = def;
    if (!text) return ERROR_NONE;
    return parse_u64(str_c(text), 0, max, out, err) == ERROR_NONE ? ERROR_NONE : error_prefix(err, option);
}
