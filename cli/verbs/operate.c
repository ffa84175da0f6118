// operate: the verbs that change an object through the agent of its cluster; each is one operation
// of the platform, which runs once or ends with the reason.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"
#include "cli/target.h"

enum { OPERATE_TIMEOUT_MS = 5 * 60 * 1000 };

// clang-format off
const struct option_spec operate_options[] = {
    {"no-wait", 0, NULL, "return when the platform has taken the operation"},
    {"expires", 0, "DURATION", "an agent that is away for longer does not run it; 1h by default"},
    {"idempotency-key", 0, "KEY", "a second call with the same key gets the first one's operation"},
    {"hard", 0, NULL, "refresh: render the manifests again"},
    {"prune", 0, NULL, "sync, rollback: delete what is no longer in Git"},
    {"force", 0, NULL, "sync: delete and create what cannot be changed"},
    {"replace", 0, NULL, "sync: replace in place of apply"},
    {"dry-run", 0, NULL, "sync, rollback: change nothing"},
    {"to-revision", 0, "REVISION", "sync: to this revision, not the application's own"},
    {"resource", 0, "GROUP:KIND:[NAMESPACE/]NAME", "sync: this resource alone; may be repeated"},
    {"to", 0, "ID", "rollback: the ARGOID of culvert history -o wide"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

static const char fields[] =
    " id action state code message runtime group kind namespace name attempts createdAt acceptedAt startedAt"
    " finishedAt expiresAt requestedBy { id name }";

static enum error_code refuse_options(const struct invocation *invocation, struct error *err)
{
    static const struct {
        const char *option, *verbs;
    } owned[] = {{"hard", "refresh"},          {"prune", "sync rollback"}, {"force", "sync"},    {"replace", "sync"},
                 {"dry-run", "sync rollback"}, {"to-revision", "sync"},    {"resource", "sync"}, {"to", "rollback"}};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        if (arguments_has(invocation->arguments, owned[i].option) &&
            !strstr(owned[i].verbs, invocation->operation->name))
            return error_set(err, ERROR_INVALID, "--%s is an option of %s, not of %s", owned[i].option, owned[i].verbs,
                             invocation->operation->name);
    }
    return ERROR_NONE;
}

static void set_flag(const struct invocation *invocation, json_t *object, const char *option, const char *member)
{
    if (arguments_has(invocation->arguments, option)) json_object_set_new(object, member, json_true());
}

// "GROUP:KIND:[NAMESPACE/]NAME", as argocd's --resource.
static enum error_code add_resource(const char *text, json_t *resources, struct error *err)
{
    struct str rest = str_c(text), group, kind, namespace = {0};
    bool has_parts = str_cut(&rest, ':', &group) && str_cut(&rest, ':', &kind);
    struct str name = rest;
    if (has_parts && str_has_byte(rest, '/')) {
        str_cut(&rest, '/', &namespace);
        name = rest;
    }
    if (!has_parts || !kind.len || !name.len)
        return error_set(err, ERROR_INVALID, "--resource: \"%.100s\" must be GROUP:KIND:[NAMESPACE/]NAME", text);
    json_t *resource = json_pack("{s:s%, s:s%, s:s%}", "group", group.at, group.len, "kind", kind.at, kind.len, "name",
                                 name.at, name.len);
    if (!resource) return error_set(err, ERROR_INVALID, "--resource: no valid UTF-8");
    if (namespace.len) json_object_set_new(resource, "namespace", json_stringn(namespace.at, namespace.len));
    json_array_append_new(resources, resource);
    return ERROR_NONE;
}

static enum error_code set_sync(const struct invocation *invocation, json_t *operation, struct error *err)
{
    const struct arguments *arguments = invocation->arguments;
    json_t *sync = json_object(), *resources = json_array();
    json_object_set_new(operation, "sync", sync);
    set_flag(invocation, sync, "prune", "prune");
    set_flag(invocation, sync, "force", "force");
    set_flag(invocation, sync, "replace", "replace");
    set_flag(invocation, sync, "dry-run", "dryRun");
    if (arguments_get(arguments, "to-revision"))
        json_object_set_new(sync, "revision", json_string(arguments_get(arguments, "to-revision")));
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; code == ERROR_NONE && i < arguments->option_count; i++) {
        if (strcmp(arguments->options[i].name, "resource") == 0)
            code = add_resource(arguments->options[i].value, resources, err);
    }
    if (json_array_size(resources)) json_object_set(sync, "resources", resources);
    json_decref(resources);
    return code;
}

static enum error_code set_rollback(const struct invocation *invocation, json_t *operation, struct error *err)
{
    uint64_t id;
    if (!arguments_has(invocation->arguments, "to"))
        return error_set(err, ERROR_INVALID, "rollback needs --to ID, the ARGOID of: culvert history NAME -o wide");
    if (command_number(invocation, "to", INT32_MAX, 0, &id, err) != ERROR_NONE) return ERROR_INVALID;
    json_t *rollback = json_pack("{s:I}", "historyId", (json_int_t)id);
    set_flag(invocation, rollback, "prune", "prune");
    set_flag(invocation, rollback, "dry-run", "dryRun");
    json_object_set_new(operation, "rollback", rollback);
    return ERROR_NONE;
}

// What is the same for all objects of the command line.
static enum error_code set_options(const struct invocation *invocation, json_t *operation, struct error *err)
{
    const char *action = invocation->operation->action, *key = arguments_get(invocation->arguments, "idempotency-key");
    uint64_t expires_ms;
    if (refuse_options(invocation, err) != ERROR_NONE ||
        command_duration(invocation, "expires", 0, &expires_ms, err) != ERROR_NONE)
        return ERROR_INVALID;
    if (expires_ms)
        json_object_set_new(operation, "expiresInSeconds", json_integer((json_int_t)((expires_ms + 999) / 1000)));
    if (key) json_object_set_new(operation, "idempotencyKey", json_string(key));
    if (arguments_has(invocation->arguments, "hard")) action = "HARD_REFRESH";
    json_object_set_new(operation, "action", json_string(action));
    if (strcmp(action, "SYNC") == 0) return set_sync(invocation, operation, err);
    if (strcmp(action, "APP_ROLLBACK") == 0) return set_rollback(invocation, operation, err);
    return ERROR_NONE;
}

static enum error_code start(const struct invocation *invocation, const char *word, json_t **out, struct error *err)
{
    json_t *operation = NULL, *options = json_object(), *data = NULL;
    enum error_code code = set_options(invocation, options, err);
    if (code == ERROR_NONE)
        code =
            target_object(invocation, invocation->operation->name, invocation->operation->nouns, word, &operation, err);
    if (code == ERROR_NONE) {
        json_object_update(operation, options);
        char *document = mem_printf(
            "mutation($operation: RuntimeOperationArgs!) { runOperation(operation: $operation) {%s } }", fields);
        code = client_query(invocation->client, document, json_pack("{s:O}", "operation", operation), "runOperation",
                            &data, err);
        mem_free(document);
    }
    if (code == ERROR_NONE) *out = json_incref(json_object_get(data, "runOperation"));
    json_decref(data);
    json_decref(operation);
    json_decref(options);
    return code;
}

static bool is_over(const json_t *operation)
{
    static const char *const open[] = {"WAITING", "QUEUED", "DELIVERED", "ACCEPTED", "RUNNING"};
    const char *state = row_text(operation, "state");
    for (size_t i = 0; state && i < sizeof open / sizeof *open; i++) {
        if (strcmp(open[i], state) == 0) return false;
    }
    return true;
}

static void print_progress(const json_t *operation)
{
    struct strbuf line;
    strbuf_init(&line, 64 * 1024);
    row_write_safe(str_c(row_text(operation, "name")), false, &line);
    strbuf_add_c(&line, ": ");
    row_write_safe(str_c(row_text(operation, "state")), false, &line);
    const char *members[] = {"code", "message"};
    for (size_t i = 0; i < 2; i++) {
        const char *text = row_text(operation, members[i]);
        if (text) strbuf_add_byte(&line, ' ');
        if (text) row_write_safe(str_c(text), false, &line);
    }
    fprintf(stderr, "%s\n", line.at);
    strbuf_finish(&line);
}

// *operation is replaced by its newest state, which is printed whenever it changes.
static enum error_code follow(const struct invocation *invocation, json_t **operation, uint64_t until_ms,
                              struct error *err)
{
    char *document = mem_printf("query($id: ID!) { operation(id: $id) {%s } }", fields);
    enum error_code code = ERROR_NONE;
    print_progress(*operation);
    while (code == ERROR_NONE && !is_over(*operation)) {
        if (clock_mono_ms() >= until_ms) {
            code = error_set(err, ERROR_TIMEOUT, "operation %s is still %s; it goes on: culvert get operation/%s",
                             row_text(*operation, "id"), row_text(*operation, "state"), row_text(*operation, "id"));
            break;
        }
        target_sleep(POLL_MS);
        json_t *data = NULL;
        code = client_query(invocation->client, document, json_pack("{s:s}", "id", row_text(*operation, "id")),
                            "operation", &data, err);
        if (code == ERROR_UNAVAILABLE) code = ERROR_NONE; // it goes on unwatched
        json_t *now = json_object_get(data, "operation");
        if (json_is_object(now)) {
            bool is_changed = strcmp(row_text(now, "state"), row_text(*operation, "state")) != 0;
            json_incref(now);
            json_decref(*operation);
            *operation = now;
            if (is_changed) print_progress(now);
        }
        json_decref(data);
    }
    mem_free(document);
    return code;
}

static enum error_code start_all(const struct invocation *invocation, json_t *operations, struct error *err)
{
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; code == ERROR_NONE && i < invocation->word_count; i++) {
        json_t *operation = NULL;
        code = start(invocation, invocation->words[i], &operation, err);
        if (code == ERROR_NONE) json_array_append_new(operations, operation);
    }
    return code;
}

static enum error_code follow_all(const struct invocation *invocation, json_t *operations, struct error *err)
{
    uint64_t timeout_ms;
    enum error_code code = command_duration(invocation, "timeout", OPERATE_TIMEOUT_MS, &timeout_ms, err);
    uint64_t until_ms = clock_mono_ms() + timeout_ms;
    bool is_quiet = arguments_has(invocation->arguments, "no-wait");
    for (size_t i = 0; code == ERROR_NONE && !is_quiet && i < json_array_size(operations); i++) {
        json_t *operation = json_incref(json_array_get(operations, i));
        code = follow(invocation, &operation, until_ms, err);
        const char *state = row_text(operation, "state");
        if (code == ERROR_NONE && strcmp(state, "DONE") != 0)
            code = error_set(err, ERROR_INTERNAL, "%s of %s ended as %s", invocation->operation->name,
                             row_text(operation, "name"), state);
        json_array_set_new(operations, i, operation);
    }
    return code;
}

int verb_operate(struct invocation *invocation)
{
    struct error err, problem;
    struct printer printer;
    if (!invocation->operation) {
        error_set(&err, ERROR_INVALID, "unknown command \"operate\"; see: culvert help");
        return command_fail(&err);
    }
    const char *output = arguments_get(invocation->arguments, "output");
    enum error_code code = printer_init(&printer, noun_find("operation"), output, true, &err);
    if (code == ERROR_NONE && !invocation->word_count)
        code = error_set(&err, ERROR_INVALID, "%s needs the name of an object: %s", invocation->operation->name,
                         invocation->operation->nouns);
    json_t *operations = json_array();
    if (code == ERROR_NONE) code = start_all(invocation, operations, &err);
    if (code == ERROR_NONE) code = follow_all(invocation, operations, &err);
    printer.is_single = invocation->word_count == 1;
    if (json_array_size(operations) && printer_add(&printer, operations, &problem) == ERROR_NONE &&
        printer_end(&printer, &problem) != ERROR_NONE && code == ERROR_NONE) {
        err = problem;
        code = problem.code;
    }
    printer_finish(&printer);
    json_decref(operations);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
