// history: the releases of an application.
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/query.h"
#include "cli/row.h"
#include "cli/target.h"

enum { HISTORY_ROWS = 20 };

static enum error_code set_filters(struct query *query, const json_t *place, struct error *err)
{
    query_name(query, json_string_value(json_object_get(place, "name")));
    enum error_code code = query_filter(query, "runtime", json_string_value(json_object_get(place, "runtime")), err);
    if (code == ERROR_NONE)
        code = query_filter(query, "namespace", json_string_value(json_object_get(place, "namespace")), err);
    return code;
}

static enum error_code print(const struct invocation *invocation, struct printer *printer, const json_t *place,
                             struct error *err)
{
    struct strbuf selection;
    struct query query;
    uint64_t limit = HISTORY_ROWS;
    strbuf_init(&selection, SELECTION_BYTES_MAX);
    printer_select(printer, &selection);
    query_init(&query, printer->noun, selection.at);
    enum error_code code = command_number(invocation, "limit", 100000, HISTORY_ROWS, &limit, err);
    query.limit = limit;
    if (code == ERROR_NONE) code = set_filters(&query, place, err);
    bool is_over = false;
    while (code == ERROR_NONE && !is_over) {
        json_t *rows = NULL;
        code = query_next(&query, invocation->client, &rows, err);
        if (code == ERROR_NONE) code = printer_add(printer, rows, err);
        is_over = query.is_over || json_array_size(rows) == 0;
        json_decref(rows);
    }
    if (code == ERROR_NONE) code = printer_end(printer, err);
    query_finish(&query);
    strbuf_finish(&selection);
    return code;
}

int verb_history(struct invocation *invocation)
{
    struct reference reference;
    struct printer printer;
    struct error err;
    json_t *place = NULL;
    const char *output = arguments_get(invocation->arguments, "output");
    enum error_code code = printer_init(&printer, noun_find("release"), output ? output : "wide", true, &err);
    if (code == ERROR_NONE) code = target_one(invocation, "application", &reference, &err);
    if (code == ERROR_NONE) code = target_place(invocation, &reference, &place, &err);
    if (code == ERROR_NONE) code = print(invocation, &printer, place, &err);
    printer_finish(&printer);
    json_decref(place);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
