// rule: what a change of the rules of applications would do. It changes nothing.
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"

enum { DIFFERENCES_DEF = 50, DIFFERENCES_MAX = 500 };

// clang-format off
const struct option_spec rule_options[] = {
    {"for-user", 0, "USER", "rule simulate: of this user alone, by name or id"},
    {"for-team", 0, "TEAM", "rule simulate: of the users of this team, by name or id"},
    {"first", 0, "NUMBER", "rule simulate: differences to list, at most 500; 50 by default"},
    {NULL, 0, NULL, NULL},
};

static const char document[] =
    "query($change: AccessRuleChange!, $subject: AccessSubject, $first: Int) { simulateAccessRules(change: $change, "
    "subject: $subject, first: $first) { gained lost examined isComplete total differences { users userCount teams "
    "runtime namespace name gained lost } } }";
// clang-format on

static const char *const usage =
    "usage: culvert rule simulate create|update FILE | remove ID | default ALLOW|DENY [--for-user USER] "
    "[--for-team TEAM]";

// A rule as JSON: what createAbacRule and updateAbacRule take.
static enum error_code read_rule(const char *path, json_t **out, struct error *err)
{
    json_error_t bad;
    bool is_stdin = strcmp(path, "-") == 0;
    json_t *rule =
        is_stdin ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &bad) : json_load_file(path, JSON_REJECT_DUPLICATES, &bad);
    if (json_is_object(rule)) {
        *out = rule;
        return ERROR_NONE;
    }
    const char *why = rule ? "it is another value" : bad.text;
    json_decref(rule);
    return error_set(err, ERROR_INVALID, "%.200s: cannot be read as a JSON object: %.200s", path, why);
}

static enum error_code take_change(const struct invocation *invocation, json_t **out, struct error *err)
{
    const char *kind = invocation->words[1], *value = invocation->words[2];
    json_t *rule = NULL;
    if (strcmp(kind, "remove") == 0) {
        *out = json_pack("{s:s}", "remove", value);
    } else if (strcmp(kind, "default") == 0) {
        *out = json_pack("{s:s}", "defaultAccess", value);
    } else if (strcmp(kind, "create") == 0 || strcmp(kind, "update") == 0) {
        enum error_code code = read_rule(value, &rule, err);
        if (code != ERROR_NONE) return code;
        *out = json_pack("{s:o}", kind, rule);
    } else {
        return error_set(err, ERROR_INVALID, "%s", usage);
    }
    return *out ? ERROR_NONE : error_set(err, ERROR_INVALID, "\"%.60s\" is no valid UTF-8", value);
}

// Adds the id of what is named by id or by name. list: users or teams.
static enum error_code add_subject(const struct invocation *invocation, const char *list, const char *option,
                                   const char *member, json_t *subject, struct error *err)
{
    const char *named = arguments_get(invocation->arguments, option);
    json_t *data = NULL, *each;
    size_t i;
    if (!named) return ERROR_NONE;
    enum error_code code =
        client_query(invocation->client, "{ users { id name } teams { id name } }", NULL, list, &data, err);
    json_array_foreach(json_object_get(data, list), i, each)
    {
        const char *id = row_text(each, "id"), *name = row_text(each, "name");
        bool is_it = id && (strcmp(id, named) == 0 || (name && strcmp(name, named) == 0));
        if (is_it) json_object_set(subject, member, json_object_get(each, "id"));
    }
    json_decref(data);
    if (code == ERROR_NONE && !json_object_get(subject, member))
        code = error_set(err, ERROR_NOT_FOUND, "--%s: \"%.100s\" does not exist", option, named);
    return code;
}

static enum error_code print(const struct invocation *invocation, const json_t *simulation, struct error *err)
{
    static const struct noun_column columns[] = {
        {"RUNTIME", "runtime", COLUMN_TEXT, false}, {"NAMESPACE", "namespace", COLUMN_TEXT, false},
        {"NAME", "name", COLUMN_TEXT, false},       {"USERS", "users", COLUMN_TEXT, false},
        {"TEAMS", "teams", COLUMN_TEXT, true},      {"GAINED", "gained", COLUMN_TEXT, false},
        {"LOST", "lost", COLUMN_TEXT, false},       {0}};
    static const struct noun difference = {
        .name = "difference", .name_path = "name", .columns = columns, .fields = "name"};
    const json_t *differences = json_get_array(simulation, "differences");
    struct printer printer;
    enum error_code code =
        printer_init(&printer, &difference, arguments_get(invocation->arguments, "output"), true, err);
    if (code == ERROR_NONE) code = printer_add(&printer, differences, err);
    if (code == ERROR_NONE) code = printer_end(&printer, err);
    printer_finish(&printer);
    if (code != ERROR_NONE) return code;
    fprintf(stderr, "gained: %lld, lost: %lld (users and applications); %zu of %lld differences are listed\n",
            (long long)json_get_int(simulation, "gained", 0), (long long)json_get_int(simulation, "lost", 0),
            json_array_size(differences), (long long)json_get_int(simulation, "total", 0));
    if (!json_get_bool(simulation, "isComplete", false))
        fprintf(stderr, "not complete: the account has more applications than the %lld that were examined\n",
                (long long)json_get_int(simulation, "examined", 0));
    return ERROR_NONE;
}

static enum error_code simulate(const struct invocation *invocation, struct error *err)
{
    json_t *change = NULL, *subject = json_object(), *data = NULL;
    uint64_t first;
    enum error_code code = command_number(invocation, "first", DIFFERENCES_MAX, DIFFERENCES_DEF, &first, err);
    if (code == ERROR_NONE) code = take_change(invocation, &change, err);
    if (code == ERROR_NONE) code = add_subject(invocation, "users", "for-user", "userId", subject, err);
    if (code == ERROR_NONE) code = add_subject(invocation, "teams", "for-team", "teamId", subject, err);
    if (code == ERROR_NONE)
        code =
            client_query(invocation->client, document,
                         json_pack("{s:O, s:O, s:I}", "change", change, "subject", subject, "first", (json_int_t)first),
                         "simulateAccessRules", &data, err);
    if (code == ERROR_NONE) code = print(invocation, json_object_get(data, "simulateAccessRules"), err);
    json_decref(data);
    json_decref(subject);
    json_decref(change);
    return code;
}

int verb_rule(struct invocation *invocation)
{
    struct error err;
    bool is_simulate = invocation->word_count == 3 && strcmp(invocation->words[0], "simulate") == 0;
    enum error_code code = is_simulate ? simulate(invocation, &err) : error_set(&err, ERROR_INVALID, "%s", usage);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
