// logs: of the containers of pods, as they are written, through the tunnel and the agent
// (docs/agent.md, "Logs of pods").
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/row.h"
#include "cli/target.h"

#define LOG_TYPES "pod,deployment,statefulset,daemonset,replicaset,job,rollout,application"

// clang-format off
const struct option_spec logs_options[] = {
    {"follow", 'f', NULL, "logs: new lines as they are written, until the command is interrupted"},
    {"container", 'c', "NAME", "logs: this container alone; may be repeated"},
    {"previous", 'p', NULL, "logs: of the instance before the last restart"},
    {"tail", 0, "NUMBER", "logs: the last lines of each container"},
    {"newer-than", 0, "DURATION", "logs: lines that are not older"},
    {"timestamps", 0, NULL, "logs: the time in front of each line"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

struct printing {
    bool has_prefix, has_times, is_whole;
    struct strbuf line;
};

static void add_parameter(struct strbuf *path, const char *name, const char *value)
{
    if (!value) return;
    strbuf_addf(path, "%s%s=", strchr(path->at, '?') ? "&" : "?", name);
    client_escape(str_c(value), path);
}

static void add_flag(const struct invocation *invocation, struct strbuf *path, const char *option)
{
    if (arguments_has(invocation->arguments, option)) add_parameter(path, option, "true");
}

static enum error_code write_path(const struct invocation *invocation, const json_t *place, struct strbuf *path,
                                  struct error *err)
{
    const struct arguments *arguments = invocation->arguments;
    const char *kind = row_text(place, "kind"), *word = invocation->words[0];
    bool is_rollout = !kind && str_starts_nocase(str_c(word), STR("ro"));
    uint64_t tail, newer_ms;
    strbuf_add_c(path, "/runtimes/");
    client_escape(str_c(row_text(place, "runtime")), path);
    strbuf_add_c(path, "/proxy/app-proxy/api/applications/logs");
    add_parameter(path, "namespace", row_text(place, "namespace"));
    add_parameter(path, "name", row_text(place, "name"));
    add_parameter(path, "kind", kind ? kind : is_rollout ? "Rollout" : "Application");
    add_parameter(path, "group", kind ? row_text(place, "group") : "argoproj.io");
    for (size_t i = 0; i < arguments->option_count; i++) {
        if (strcmp(arguments->options[i].name, "container") == 0)
            add_parameter(path, "container", arguments->options[i].value);
    }
    add_flag(invocation, path, "follow");
    add_flag(invocation, path, "previous");
    enum error_code code = command_number(invocation, "tail", 1000000, 0, &tail, err);
    if (code == ERROR_NONE) code = command_duration(invocation, "newer-than", 0, &newer_ms, err);
    if (code != ERROR_NONE) return code;
    add_parameter(path, "tailLines", arguments_get(arguments, "tail"));
    if (newer_ms) strbuf_addf(path, "&sinceSeconds=%llu", (unsigned long long)((newer_ms + 999) / 1000));
    return path->overflow ? error_set(err, ERROR_INVALID, "the names are too long") : ERROR_NONE;
}

static void print_notice(const json_t *event)
{
    const char *code = row_text(event, "code"), *message = row_text(event, "message");
    struct strbuf text;
    strbuf_init(&text, 64 * 1024);
    row_write_safe(str_c(message ? message : code), false, &text);
    fprintf(stderr, "%s: %s\n", code ? code : "notice", text.len ? text.at : "");
    strbuf_finish(&text);
}

static void print_line(struct printing *printing, const json_t *line)
{
    struct strbuf *text = &printing->line;
    const json_t *content = json_object_get(line, "line");
    strbuf_clear(text);
    if (printing->has_prefix) {
        strbuf_add_c(text, "[");
        row_write_safe(str_c(row_text(line, "pod")), false, text);
        strbuf_add_byte(text, '/');
        row_write_safe(str_c(row_text(line, "container")), false, text);
        strbuf_add_c(text, "] ");
    }
    if (printing->has_times && row_text(line, "time")) strbuf_addf(text, "%s ", row_text(line, "time"));
    // What a program writes is for the terminal as it is: colours, too, as with kubectl logs.
    strbuf_add(text, json_string_value(content), json_string_length(content));
    strbuf_add_byte(text, '\n');
    fwrite(text->at, 1, text->len, stdout);
    fflush(stdout);
}

static enum error_code on_line(void *arg, struct str text, struct error *err)
{
    struct printing *printing = arg;
    json_t *line = NULL;
    enum error_code code = json_decode(text, NULL, &line, err);
    if (code != ERROR_NONE) return error_set(err, ERROR_PROTOCOL, "a line of the answer is no JSON object");
    const char *event = row_text(line, "event");
    if (!event) {
        print_line(printing, line);
    } else if (strcmp(event, "end") == 0) {
        printing->is_whole = true;
    } else if (strcmp(event, "notice") == 0) {
        print_notice(line);
    }
    json_decref(line);
    return ERROR_NONE;
}

int verb_logs(struct invocation *invocation)
{
    struct error err;
    json_t *place = NULL;
    struct strbuf path;
    struct printing printing = {.has_times = arguments_has(invocation->arguments, "timestamps")};
    strbuf_init(&path, 8 * 1024);
    strbuf_init(&printing.line, 512 * 1024);
    enum error_code code = invocation->word_count == 1
                               ? ERROR_NONE
                               : error_set(&err, ERROR_INVALID, "usage: culvert logs POD | TYPE/NAME");
    if (code == ERROR_NONE) code = target_object(invocation, "logs", LOG_TYPES, invocation->words[0], &place, &err);
    if (code == ERROR_NONE) code = write_path(invocation, place, &path, &err);
    const char *kind = row_text(place, "kind");
    printing.has_prefix = !kind || strcmp(kind, "Pod") != 0;
    if (code == ERROR_NONE) code = client_lines(invocation->client, path.at, on_line, &printing, &err);
    if (code == ERROR_NONE && !printing.is_whole)
        code = error_set(&err, ERROR_UNAVAILABLE, "the answer ended early: the connection to the runtime was lost");
    strbuf_finish(&printing.line);
    strbuf_finish(&path);
    json_decref(place);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
