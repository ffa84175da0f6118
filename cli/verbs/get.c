// get: lists, and single objects by name.
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/filter_options.h"
#include "cli/print/printer.h"
#include "cli/query.h"
#include "cli/row.h"
#include "cli/target.h"

enum { WATCH_INTERVAL_MS = 2000 };

// clang-format off
const struct option_spec get_options[] = {
    {"all", 'A', NULL, "all runtimes and namespaces, whatever the context's defaults are"},
    {"selector", 'l', "KEY[=VALUE]", "objects with this label"},
    {"field-selector", 0, "FILTER=VALUE,...", "several filters at once"},
    {"chunk-size", 0, "NUMBER", "rows of one request; 500 by default"},
    {"limit", 0, "NUMBER", "rows in all"},
    {"no-headers", 0, NULL, "leave the titles of columns out"},
    {"watch", 'w', NULL, "print objects again when they change, until the command is interrupted"},
    {"interval", 0, "DURATION", "of -w; 2s by default"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

static enum error_code set_sizes(const struct invocation *invocation, struct query *query, struct error *err)
{
    uint64_t chunk, limit;
    enum error_code code = command_number(invocation, "chunk-size", QUERY_CHUNK_MAX, 0, &chunk, err);
    if (code == ERROR_NONE) code = command_number(invocation, "limit", 100 * 1000 * 1000, 0, &limit, err);
    if (code != ERROR_NONE) return code;
    query->chunk = chunk;
    query->limit = limit;
    return ERROR_NONE;
}

// What -w has shown of an object: rows that are equal to it are not printed again.
struct seen {
    json_t *rows; // by reference: the row as text
};

// The rows that are new or changed since the last time; remembers them.
static json_t *changed_rows(struct seen *seen, const struct noun *noun, const json_t *rows)
{
    json_t *changed = json_array(), *row;
    size_t i;
    struct strbuf name;
    strbuf_init(&name, 64 * 1024);
    json_array_foreach(rows, i, row)
    {
        strbuf_clear(&name);
        row_reference(noun, row, &name);
        const char *key = name.len ? name.at : "";
        if (json_equal(json_object_get(seen->rows, key), row)) continue;
        json_object_set(seen->rows, key, row);
        json_array_append(changed, row);
    }
    strbuf_finish(&name);
    return changed;
}

static enum error_code list_once(const struct invocation *invocation, const struct noun *noun, struct printer *printer,
                                 const char *selection, struct seen *seen, size_t *count, struct error *err)
{
    struct query query;
    query_init(&query, noun, selection);
    enum error_code code = filter_options_apply(invocation->arguments, &invocation->context, &query, err);
    if (code == ERROR_NONE) code = set_sizes(invocation, &query, err);
    bool is_over = false;
    while (code == ERROR_NONE && !is_over) {
        json_t *rows = NULL;
        code = query_next(&query, invocation->client, &rows, err);
        if (code != ERROR_NONE) break;
        is_over = json_array_size(rows) == 0 || query.is_over;
        if (seen) {
            json_t *changed = changed_rows(seen, noun, rows);
            json_decref(rows);
            rows = changed;
        }
        if (json_array_size(rows)) code = printer_add(printer, rows, err);
        json_decref(rows);
    }
    *count = query.count;
    query_finish(&query);
    return code;
}

// Ends by an interrupt, or by an error that asking again does not mend.
static enum error_code watch(const struct invocation *invocation, const struct noun *noun, struct printer *printer,
                             const char *selection, struct error *err)
{
    uint64_t interval_ms;
    enum error_code code = command_duration(invocation, "interval", WATCH_INTERVAL_MS, &interval_ms, err);
    struct seen seen = {.rows = json_object()};
    size_t count;
    while (code == ERROR_NONE) {
        code = list_once(invocation, noun, printer, selection, &seen, &count, err);
        fflush(stdout);
        if (code == ERROR_UNAVAILABLE) {
            fprintf(stderr, "warning: %s; trying again\n", err->text);
            code = ERROR_NONE;
        }
        target_sleep(interval_ms);
    }
    json_decref(seen.rows);
    return code;
}

static enum error_code list(const struct invocation *invocation, const struct noun *noun, struct printer *printer,
                            const char *selection, struct error *err)
{
    if (arguments_has(invocation->arguments, "watch")) {
        bool is_table =
            printer->format == PRINTER_TABLE || printer->format == PRINTER_WIDE || printer->format == PRINTER_NAME;
        if (!is_table) return error_set(err, ERROR_INVALID, "-w prints tables or names; leave -o out");
        return watch(invocation, noun, printer, selection, err);
    }
    size_t count = 0;
    enum error_code code = list_once(invocation, noun, printer, selection, NULL, &count, err);
    if (code == ERROR_NONE) code = printer_end(printer, err);
    bool is_table = printer->format == PRINTER_TABLE || printer->format == PRINTER_WIDE;
    if (code == ERROR_NONE && !count && is_table)
        fprintf(stderr, "No %s found.\n", noun->others[0] ? noun->others[0] : noun->name);
    return code;
}

// All that are there are printed; the first that is missing decides the status.
static enum error_code show(const struct invocation *invocation, struct printer *printer, const char *selection,
                            struct reference *references, size_t count, struct error *err)
{
    printer->is_single = count == 1;
    enum error_code result = ERROR_NONE;
    for (size_t i = 0; i < count; i++) {
        target_set_defaults(invocation, &references[i]);
        json_t *row = NULL;
        struct error problem;
        enum error_code code = reference_read(&references[i], invocation->client, selection, &row, &problem);
        if (code == ERROR_NONE) {
            json_t *rows = json_pack("[o]", row);
            code = printer_add(printer, rows, &problem);
            json_decref(rows);
        }
        if (code == ERROR_NONE) continue;
        if (result != ERROR_NONE) fprintf(stderr, "error: %s\n", err->text);
        *err = problem;
        result = code;
        if (code != ERROR_NOT_FOUND) return result;
    }
    struct error problem;
    bool has_none = printer->is_single && result != ERROR_NONE;
    if (!has_none && printer_end(printer, &problem) != ERROR_NONE) {
        *err = problem;
        return problem.code;
    }
    return result;
}

int verb_get(struct invocation *invocation)
{
    static struct reference references[TARGETS_MAX];
    const struct noun *noun;
    size_t count;
    struct error err;
    enum error_code code =
        reference_words(invocation->words, invocation->word_count, &noun, references, TARGETS_MAX, &count, &err);
    if (code != ERROR_NONE) return command_fail(&err);
    struct printer printer;
    bool has_headers = !arguments_has(invocation->arguments, "no-headers");
    code = printer_init(&printer, noun, arguments_get(invocation->arguments, "output"), has_headers, &err);
    struct strbuf selection;
    strbuf_init(&selection, SELECTION_BYTES_MAX);
    if (code == ERROR_NONE) printer_select(&printer, &selection);
    if (code == ERROR_NONE && !count) code = list(invocation, noun, &printer, selection.at, &err);
    if (code == ERROR_NONE && count) code = show(invocation, &printer, selection.at, references, count, &err);
    strbuf_finish(&selection);
    printer_finish(&printer);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
