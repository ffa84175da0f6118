// describe: all fields of objects, without those that have no value.
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/reference.h"
#include "cli/target.h"

int verb_describe(struct invocation *invocation)
{
    static struct reference references[TARGETS_MAX];
    const struct noun *noun;
    size_t count;
    struct error err;
    enum error_code code =
        reference_words(invocation->words, invocation->word_count, &noun, references, TARGETS_MAX, &count, &err);
    if (code == ERROR_NONE && !count)
        code = error_set(&err, ERROR_INVALID, "describe needs the name of an object, as %s/NAME", noun->name);
    for (size_t i = 0; code == ERROR_NONE && i < count; i++) {
        target_set_defaults(invocation, &references[i]);
        char *selection = mem_printf(" %s", noun->fields);
        json_t *row = NULL;
        code = reference_read(&references[i], invocation->client, selection, &row, &err);
        mem_free(selection);
        if (code != ERROR_NONE) break;
        if (i) puts("---");
        printer_write_yaml(row, 0, true);
        json_decref(row);
    }
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
