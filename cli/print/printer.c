#include "cli/print/printer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print/jsonpath.h"
#include "cli/print/yaml.h"
#include "cli/row.h"

enum { TEXT_BYTES_MAX = 64 * 1024 * 1024 };

static const struct {
    const char *name;
    enum printer_format format;
    bool has_expression;
} formats[] = {
    {"wide", PRINTER_WIDE, false},        {"name", PRINTER_NAME, false},
    {"json", PRINTER_JSON, false},        {"yaml", PRINTER_YAML, false},
    {"jsonpath", PRINTER_JSONPATH, true}, {"custom-columns", PRINTER_CUSTOM_COLUMNS, true},
    {"table", PRINTER_TABLE, false},
};

enum error_code printer_init(struct printer *printer, const struct noun *noun, const char *output, bool has_headers,
                             struct error *err)
{
    *printer = (struct printer){.noun = noun, .format = PRINTER_TABLE, .has_headers = has_headers};
    if (!output) return ERROR_NONE;
    const char *equals = strchr(output, '=');
    struct str name = equals ? str_of(output, (size_t)(equals - output)) : str_c(output);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!str_eq(name, str_c(formats[i].name))) continue;
        if (formats[i].has_expression != (equals && equals[1]))
            return error_set(err, ERROR_INVALID,
                             formats[i].has_expression ? "-o %s needs an expression: -o %s=EXPRESSION"
                                                       : "-o %s takes no expression",
                             formats[i].name, formats[i].name);
        printer->format = formats[i].format;
        printer->expression = equals ? equals + 1 : NULL;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID,
                     "invalid output format \"%.60s\": must be table, wide, name, json, yaml, jsonpath=TEMPLATE or "
                     "custom-columns=SPEC",
                     output);
}

void printer_finish(struct printer *printer)
{
    if (printer->is_table_open) table_finish(&printer->table);
    json_decref(printer->items);
}

// The paths of "NAME:.metadata.name,SYNC:.syncStatus" as members; an index or a filter has none.
static void select_custom(const struct printer *printer, struct strbuf *out)
{
    // Any member may be asked for, also those behind indexes: the whole row is read.
    strbuf_add_byte(out, ' ');
    strbuf_add_c(out, printer->noun->fields);
}

void printer_select(const struct printer *printer, struct strbuf *out)
{
    switch (printer->format) {
    case PRINTER_TABLE:
    case PRINTER_NAME: noun_select_columns(printer->noun, false, out); break;
    case PRINTER_WIDE: noun_select_columns(printer->noun, true, out); break;
    default: select_custom(printer, out); break;
    }
}

static size_t shown_columns(const struct printer *printer)
{
    size_t count = 0;
    for (const struct noun_column *column = printer->noun->columns; column->title; column++)
        count += !column->is_wide || printer->format == PRINTER_WIDE;
    return count;
}

static void add_table_rows(struct printer *printer, const json_t *rows)
{
    bool is_wide = printer->format == PRINTER_WIDE;
    const struct noun_column *column;
    if (!printer->is_table_open) {
        table_init(&printer->table, shown_columns(printer));
        printer->is_table_open = true;
        for (column = printer->noun->columns; column->title && printer->has_headers; column++)
            if (is_wide || !column->is_wide) table_add(&printer->table, str_c(column->title));
    }
    size_t i;
    json_t *row;
    int64_t now_ms = clock_wall_ms();
    struct strbuf cell;
    strbuf_init(&cell, 64 * 1024);
    json_array_foreach(rows, i, row)
    {
        for (column = printer->noun->columns; column->title; column++) {
            if (column->is_wide && !is_wide) continue;
            strbuf_clear(&cell);
            row_cell(row, column->path, column->kind, now_ms, &cell);
            table_add(&printer->table, strbuf_str(&cell));
        }
    }
    strbuf_finish(&cell);
    table_print(&printer->table, stdout);
}

// "TITLE:PATH": views into the specification. False: malformed.
static bool next_custom(struct str *rest, struct str *title, struct str *path)
{
    struct str item;
    str_cut(rest, ',', &item);
    *path = item;
    return str_cut(path, ':', title) && title->len && path->len;
}

static enum error_code add_custom_row(struct printer *printer, const json_t *row, struct strbuf *cell,
                                      struct error *err)
{
    struct str rest = str_c(printer->expression), title, path;
    for (size_t i = 0; i < printer->table.column_count; i++) {
        json_t *values = NULL;
        if (!next_custom(&rest, &title, &path)) return error_set(err, ERROR_INTERNAL, "custom-columns changed");
        enum error_code code = jsonpath_find(path, row, &values, err);
        if (code != ERROR_NONE) return code;
        strbuf_clear(cell);
        const json_t *only = json_array_size(values) == 1 ? json_array_get(values, 0) : values;
        row_write(only, cell);
        if (!cell->len) strbuf_add_c(cell, "<none>");
        table_add(&printer->table, strbuf_str(cell));
        json_decref(values);
    }
    return ERROR_NONE;
}

static enum error_code open_custom(struct printer *printer, struct error *err)
{
    struct str rest = str_c(printer->expression), title, path;
    size_t count = 1;
    for (const char *at = printer->expression; *at; at++)
        count += *at == ',';
    if (count > TABLE_COLUMNS_MAX)
        return error_set(err, ERROR_INVALID, "custom-columns: more than %d columns", TABLE_COLUMNS_MAX);
    table_init(&printer->table, count);
    printer->is_table_open = true;
    for (size_t i = 0; i < count; i++) {
        if (!next_custom(&rest, &title, &path))
            return error_set(err, ERROR_INVALID,
                             "custom-columns: column %zu must be TITLE:PATH, as NAME:.metadata.name", i + 1);
        if (printer->has_headers) table_add(&printer->table, title);
    }
    return ERROR_NONE;
}

static enum error_code add_custom_rows(struct printer *printer, const json_t *rows, struct error *err)
{
    enum error_code code = printer->is_table_open ? ERROR_NONE : open_custom(printer, err);
    struct strbuf cell;
    strbuf_init(&cell, 64 * 1024);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (code == ERROR_NONE) code = add_custom_row(printer, row, &cell, err);
    }
    strbuf_finish(&cell);
    if (code == ERROR_NONE) table_print(&printer->table, stdout);
    return code;
}

static void add_names(const struct printer *printer, const json_t *rows)
{
    struct strbuf name;
    strbuf_init(&name, 64 * 1024);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        strbuf_clear(&name);
        row_reference(printer->noun, row, &name);
        printf("%s/%s\n", printer->noun->name, name.len ? name.at : "");
    }
    strbuf_finish(&name);
}

void printer_write_json(const json_t *value, int indent)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
    for (const char *at = text; at && *at; at++) {
        putchar(*at);
        if (*at == '\n') printf("%*s", indent, "");
    }
    free(text);
}

void printer_write_yaml(const json_t *value, int indent, bool is_brief)
{
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    yaml_write(value, indent, is_brief, &text);
    fwrite(text.len ? text.at : "", 1, text.len, stdout);
    if (text.overflow) fprintf(stderr, "warning: an object is left out: longer than %d bytes\n", TEXT_BYTES_MAX);
    strbuf_finish(&text);
}

// Lists are written item by item, so that their length does not matter.
static void add_documents(struct printer *printer, const json_t *rows)
{
    size_t i;
    json_t *row;
    bool is_json = printer->format == PRINTER_JSON;
    json_array_foreach(rows, i, row)
    {
        if (printer->is_single) {
            if (is_json) printer_write_json(row, 0);
            if (is_json) putchar('\n');
            if (!is_json) printer_write_yaml(row, 0, false);
            printer->has_begun = true;
            continue;
        }
        if (is_json) {
            fputs(printer->has_begun ? ",\n    " : "{\n  \"kind\": \"List\",\n  \"items\": [\n    ", stdout);
            printer_write_json(row, 4);
        } else {
            if (!printer->has_begun) fputs("kind: List\nitems:\n", stdout);
            json_t *item = json_pack("[O]", row);
            printer_write_yaml(item, 2, false);
            json_decref(item);
        }
        printer->has_begun = true;
    }
}

enum error_code printer_add(struct printer *printer, const json_t *rows, struct error *err)
{
    switch (printer->format) {
    case PRINTER_TABLE:
    case PRINTER_WIDE: add_table_rows(printer, rows); return ERROR_NONE;
    case PRINTER_NAME: add_names(printer, rows); return ERROR_NONE;
    case PRINTER_CUSTOM_COLUMNS: return add_custom_rows(printer, rows, err);
    case PRINTER_JSONPATH:
        if (!printer->items) printer->items = json_array();
        json_array_extend(printer->items, (json_t *)rows);
        return ERROR_NONE;
    default: add_documents(printer, rows); return ERROR_NONE;
    }
}

static enum error_code write_jsonpath(struct printer *printer, struct error *err)
{
    json_t *items = printer->items ? printer->items : (printer->items = json_array());
    json_t *document = printer->is_single ? json_incref(json_array_get(items, 0))
                                          : json_pack("{s:s, s:O}", "kind", "List", "items", items);
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    enum error_code code = jsonpath_write(str_c(printer->expression), document, &text, err);
    if (code == ERROR_NONE) printf("%s\n", text.len ? text.at : "");
    strbuf_finish(&text);
    json_decref(document);
    return code;
}

enum error_code printer_end(struct printer *printer, struct error *err)
{
    if (printer->format == PRINTER_JSONPATH) return write_jsonpath(printer, err);
    if (printer->is_single) return ERROR_NONE;
    if (printer->format == PRINTER_JSON)
        fputs(printer->has_begun ? "\n  ]\n}\n" : "{\n  \"kind\": \"List\",\n  \"items\": []\n}\n", stdout);
    if (printer->format == PRINTER_YAML && !printer->has_begun) fputs("kind: List\nitems: []\n", stdout);
    return ERROR_NONE;
}
