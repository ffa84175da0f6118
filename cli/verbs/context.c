// context: which platforms are known, which one is used, and its defaults.
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/command.h"
#include "cli/row.h"

static json_t *contexts_of(const struct invocation *invocation)
{
    return json_object_get(invocation->file.tree, "contexts");
}

static const char *current_of(const struct invocation *invocation)
{
    const char *name = json_string_value(json_object_get(invocation->file.tree, "current"));
    return name ? name : "";
}

static enum error_code list(const struct invocation *invocation)
{
    const char *name;
    json_t *context;
    json_object_foreach(contexts_of(invocation), name, context)
    {
        const char *url = row_text(context, "url");
        printf("%s %-24s %s\n", strcmp(name, current_of(invocation)) == 0 ? "*" : " ", name, url ? url : "");
    }
    return ERROR_NONE;
}

static enum error_code need(const struct invocation *invocation, const char *name, json_t **out, struct error *err)
{
    *out = json_object_get(contexts_of(invocation), name);
    return *out ? ERROR_NONE
                : error_set(err, ERROR_NOT_FOUND, "there is no context \"%.100s\"; see: culvert context list", name);
}

static enum error_code use(const struct invocation *invocation, const char *name, struct error *err)
{
    json_t *context;
    enum error_code code = need(invocation, name, &context, err);
    if (code != ERROR_NONE) return code;
    json_object_set_new(invocation->file.tree, "current", json_string(name));
    return context_file_write(&invocation->file, err);
}

static enum error_code delete_context(const struct invocation *invocation, const char *name, struct error *err)
{
    json_t *context;
    enum error_code code = need(invocation, name, &context, err);
    if (code != ERROR_NONE) return code;
    if (strcmp(name, current_of(invocation)) == 0) json_object_del(invocation->file.tree, "current");
    json_object_del(contexts_of(invocation), name);
    return context_file_write(&invocation->file, err);
}

// Without the key.
static enum error_code show(const struct invocation *invocation, const char *name, struct error *err)
{
    json_t *context;
    enum error_code code = need(invocation, name, &context, err);
    if (code != ERROR_NONE) return code;
    static const char *const members[] = {"url", "caFile", "tokenFile", "runtime", "namespace", "ingressUrl"};
    printf("%-12s%s\n", "name", name);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (row_text(context, members[i])) printf("%-12s%s\n", members[i], row_text(context, members[i]));
    if (row_text(context, "token")) printf("%-12s%s\n", "token", "(kept in the file)");
    return ERROR_NONE;
}

// "runtime=prod", "namespace=": the last takes the default away.
static enum error_code set(const struct invocation *invocation, struct error *err)
{
    json_t *context;
    enum error_code code = need(invocation, current_of(invocation), &context, err);
    for (size_t i = 1; code == ERROR_NONE && i < invocation->word_count; i++) {
        struct str value = str_c(invocation->words[i]), name;
        bool has_value = str_cut(&value, '=', &name);
        const char *member = str_eq(name, STR("runtime"))       ? "runtime"
                             : str_eq(name, STR("namespace"))   ? "namespace"
                             : str_eq(name, STR("ingress-url")) ? "ingressUrl"
                                                                : NULL;
        if (!has_value || !member)
            return error_set(err, ERROR_INVALID, "\"%.100s\": must be runtime=NAME, namespace=NAME or ingress-url=URL",
                             invocation->words[i]);
        if (value.len) {
            json_object_set_new(context, member, json_stringn(value.at, value.len));
        } else {
            json_object_del(context, member);
        }
    }
    return code == ERROR_NONE ? context_file_write(&invocation->file, err) : code;
}

int verb_context(struct invocation *invocation)
{
    struct error err;
    size_t count = invocation->word_count;
    const char *verb = count ? invocation->words[0] : "list", *name = count == 2 ? invocation->words[1] : NULL;
    enum error_code code;
    if (strcmp(verb, "list") == 0 && count < 2) {
        code = list(invocation);
    } else if (strcmp(verb, "use") == 0 && name) {
        code = use(invocation, name, &err);
    } else if (strcmp(verb, "delete") == 0 && name) {
        code = delete_context(invocation, name, &err);
    } else if (strcmp(verb, "show") == 0 && count < 3) {
        code = show(invocation, name ? name : current_of(invocation), &err);
    } else if (strcmp(verb, "set") == 0 && count > 1) {
        code = set(invocation, &err);
    } else {
        code = error_set(&err, ERROR_INVALID,
                         "usage: culvert context list | use NAME | show [NAME] | set "
                         "runtime=NAME|namespace=NAME|ingress-url=URL | delete NAME");
    }
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
