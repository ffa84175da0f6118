// auth: as whom the platform sees the caller, and what that user may do.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"
#include "cli/target.h"

// clang-format off
const struct option_spec auth_options[] = {
    {"as", 0, "USER", "auth can-i, explain: another user's, by name or id; for admins"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

static const char whoami_document[] = "{ me { id name email isAdmin status runtimeName activeAccount { id name } } }";

static void print_user(const struct invocation *invocation, const json_t *me)
{
    struct strbuf line;
    strbuf_init(&line, 64 * 1024);
    static const char *const rows[][2] = {{"User", "name"},
                                          {"ID", "id"},
                                          {"Email", "email"},
                                          {"Administrator", "isAdmin"},
                                          {"Runtime", "runtimeName"},
                                          {"Account", "activeAccount.name"},
                                          {"Account ID", "activeAccount.id"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!row_at(me, rows[i][1])) continue;
        strbuf_clear(&line);
        row_write(row_at(me, rows[i][1]), &line);
        printf("%-15s%s\n", rows[i][0], line.len ? line.at : "");
    }
    printf("%-15s%s\n", "Platform", invocation->context.url);
    if (invocation->context.name) printf("%-15s%s\n", "Context", invocation->context.name);
    strbuf_finish(&line);
}

static int whoami(struct invocation *invocation)
{
    struct error err;
    json_t *data = NULL;
    const char *output = arguments_get(invocation->arguments, "output");
    enum error_code code = ERROR_NONE;
    if (output && strcmp(output, "json") != 0 && strcmp(output, "yaml") != 0)
        code = error_set(&err, ERROR_INVALID, "invalid output format \"%.60s\": must be json or yaml", output);
    if (code == ERROR_NONE) code = client_query(invocation->client, whoami_document, NULL, "me", &data, &err);
    const json_t *me = json_object_get(data, "me");
    if (code == ERROR_NONE && !json_is_object(me))
        code = error_set(&err, ERROR_UNAUTHENTICATED, "the platform does not know the caller");
    if (code == ERROR_NONE && !output) print_user(invocation, me);
    if (code == ERROR_NONE && output && *output == 'j') printer_write_json(me, 0), putchar('\n');
    if (code == ERROR_NONE && output && *output == 'y') printer_write_yaml(me, 0, false);
    json_decref(data);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}

// ---- can-i, explain -----------------------------------------------------------------------------

// What is asked of an application where no verb is given; an operation's verb stands for its action.
static const char *const explained[] = {"view", "logs", "exec", "delete", "restart"};

// "rollback" -> "APP_ROLLBACK"; others as the platform spells them. The caller frees it.
static char *action_of(const char *verb)
{
    static const char *const others[][2] = {{"get", "VIEW"},
                                            {"view", "VIEW"},
                                            {"logs", "VIEW_POD_LOGS"},
                                            {"exec", "EXEC_TO_POD"},
                                            {"delete", "DELETE_RESOURCE"}};
    const struct operation_verb *operation = command_find_operation(verb);
    const char *action = operation ? operation->action : verb;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i][0], verb) == 0) action = others[i][1];
    char *text = mem_strdup(action);
    for (char *at = text; *at; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return text;
}

static void add_action(json_t *actions, const char *verb)
{
    char *action = action_of(verb);
    json_array_append_new(actions, json_string(action));
    mem_free(action);
}

static json_t *actions_of(const char *const *verbs, size_t count)
{
    json_t *actions = json_array();
    for (size_t i = 0; i < count; i++)
        add_action(actions, verbs[i]);
    for (size_t i = 0; !count && i < sizeof explained / sizeof *explained; i++)
        add_action(actions, explained[i]);
    for (const struct operation_verb *verb = operation_verbs; !count && verb->name; verb++)
        if (strcmp(verb->action, "RESTART") != 0) add_action(actions, verb->name);
    return actions;
}

// The id of a user who is named by id or by name. The caller frees it.
static enum error_code user_id_of(const struct invocation *invocation, const char *user, char **out, struct error *err)
{
    json_t *data = NULL, *each;
    size_t i;
    enum error_code code = client_query(invocation->client, "{ users { id name } }", NULL, "users", &data, err);
    *out = NULL;
    json_array_foreach(json_object_get(data, "users"), i, each)
    {
        const char *id = row_text(each, "id"), *name = row_text(each, "name");
        if (id && (strcmp(id, user) == 0 || (name && strcmp(name, user) == 0))) *out = mem_strdup(id);
        if (*out) break;
    }
    json_decref(data);
    if (code == ERROR_NONE && !*out) code = error_set(err, ERROR_NOT_FOUND, "--as: there is no user \"%.100s\"", user);
    return code;
}

// The platform's answers for one application, which the caller has to see.
static enum error_code ask(const struct invocation *invocation, const char *word, json_t *actions, json_t **out,
                           struct error *err)
{
    const char *user = arguments_get(invocation->arguments, "as"), *field = user ? "explainPermissions" : "permissions";
    json_t *place = NULL, *data = NULL;
    char *user_id = NULL;
    enum error_code code = target_object(invocation, "auth", "application", word, &place, err);
    if (code == ERROR_NONE && user) code = user_id_of(invocation, user, &user_id, err);
    if (code == ERROR_NONE) {
        char *document = mem_printf(
            "query($objects: [PermissionObject!]!, $actions: [AbacActionNames!]!%s) { %s(%sobjects: $objects, "
            "actions: $actions) { action allowed reason rule } }",
            user ? ", $user: String!" : "", field, user ? "userId: $user, " : "");
        json_t *variables = json_pack("{s:[O], s:O, s:s*}", "objects", place, "actions", actions, "user", user_id);
        code = client_query(invocation->client, document, variables, field, &data, err);
        mem_free(document);
    }
    if (code == ERROR_NONE) *out = json_incref(json_object_get(data, field));
    json_decref(data);
    json_decref(place);
    mem_free(user_id);
    return code;
}

static int can_i(struct invocation *invocation)
{
    struct error err;
    json_t *actions = actions_of(invocation->words + 1, 1), *permits = NULL;
    enum error_code code = ask(invocation, invocation->words[2], actions, &permits, &err);
    json_decref(actions);
    if (code != ERROR_NONE) return command_fail(&err);
    const json_t *permit = json_array_get(permits, 0);
    bool is_allowed = json_is_true(json_object_get(permit, "allowed"));
    const char *reason = row_text(permit, "reason"), *rule = row_text(permit, "rule");
    printf("%s (%s%s%s)\n", is_allowed ? "yes" : "no", reason ? reason : "?", rule ? " " : "", rule ? rule : "");
    json_decref(permits);
    return is_allowed ? EXIT_DONE : EXIT_FAILED;
}

static int explain(struct invocation *invocation)
{
    static const struct noun_column columns[] = {{"ACTION", "action", COLUMN_TEXT, false},
                                                 {"ALLOWED", "allowed", COLUMN_TEXT, false},
                                                 {"REASON", "reason", COLUMN_TEXT, false},
                                                 {"RULE", "rule", COLUMN_TEXT, false},
                                                 {0}};
    static const struct noun permit = {
        .name = "permit", .name_path = "action", .columns = columns, .fields = "action allowed reason rule"};
    struct error err;
    struct printer printer;
    json_t *actions = actions_of(invocation->words + 2, invocation->word_count - 2), *permits = NULL;
    enum error_code code = printer_init(&printer, &permit, arguments_get(invocation->arguments, "output"), true, &err);
    if (code == ERROR_NONE) code = ask(invocation, invocation->words[1], actions, &permits, &err);
    if (code == ERROR_NONE) code = printer_add(&printer, permits, &err);
    if (code == ERROR_NONE) code = printer_end(&printer, &err);
    printer_finish(&printer);
    json_decref(permits);
    json_decref(actions);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}

int verb_auth(struct invocation *invocation)
{
    struct error err;
    size_t count = invocation->word_count;
    const char *verb = count ? invocation->words[0] : "";
    if (count == 1 && strcmp(verb, "whoami") == 0) return whoami(invocation);
    if (count == 3 && strcmp(verb, "can-i") == 0) return can_i(invocation);
    if (count >= 2 && strcmp(verb, "explain") == 0) return explain(invocation);
    error_set(&err, ERROR_INVALID,
              "usage: culvert auth whoami | can-i VERB APPLICATION [--as USER] | explain APPLICATION [VERB...]");
    return command_fail(&err);
}
