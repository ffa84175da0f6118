// auth: as whom the platform sees the caller.
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"

static const char document[] = "{ me { id name email isAdmin status runtimeName activeAccount { id name } } }";

static void print(const struct invocation *invocation, const json_t *me)
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

int verb_auth(struct invocation *invocation)
{
    struct error err;
    json_t *data = NULL;
    const char *output = arguments_get(invocation->arguments, "output");
    enum error_code code = ERROR_NONE;
    if (invocation->word_count != 1 || strcmp(invocation->words[0], "whoami") != 0)
        code = error_set(&err, ERROR_INVALID, "usage: culvert auth whoami");
    if (code == ERROR_NONE && output && strcmp(output, "json") != 0 && strcmp(output, "yaml") != 0)
        code = error_set(&err, ERROR_INVALID, "invalid output format \"%.60s\": must be json or yaml", output);
    if (code == ERROR_NONE) code = client_query(invocation->client, document, NULL, "me", &data, &err);
    const json_t *me = json_object_get(data, "me");
    if (code == ERROR_NONE && !json_is_object(me))
        code = error_set(&err, ERROR_UNAUTHENTICATED, "the platform does not know the caller");
    if (code == ERROR_NONE && !output) print(invocation, me);
    if (code == ERROR_NONE && output && *output == 'j') printer_write_json(me, 0), putchar('\n');
    if (code == ERROR_NONE && output && *output == 'y') printer_write_yaml(me, 0, false);
    json_decref(data);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
